"""What a file is whose name does not tell."""

from __future__ import annotations

from dataclasses import replace

from kforensics.parsers.files.discover import UNKNOWN, FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk

__all__ = ["recognised"]


def recognised(found: FoundFile, source: Source) -> FoundFile:
    """Return a file under a strange name as the log it is, if it begins with a batch that checks out.

    Args:
        found: the file.
        source: its bytes.
    """
    if found.kind != UNKNOWN:
        return found
    first = next(iter(walk(source)), None)
    return replace(found, kind="log") if isinstance(first, Batch) and first.crc_valid else found
