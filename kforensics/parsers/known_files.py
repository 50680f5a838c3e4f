"""What a file is whose name does not tell: by its suffix where somebody named it, or by what it begins with."""

from __future__ import annotations

from dataclasses import replace

from kforensics.parsers.batches import walk
from kforensics.parsers.discover import FoundFile
from kforensics.parsers.rows import Batch
from kforensics.parsers.source import Source

__all__ = ["as_named", "recognised"]

UNKNOWN = "unknown"
SEGMENT_SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint")


def as_named(found: FoundFile) -> FoundFile:
    """Return a file that the user named himself as what its suffix says, whatever stands before the suffix.

    Under a folder the whole name must be one of Kafka's: ``server.log`` is no segment.
    """
    suffix = found.path.rpartition(".")[2]
    return replace(found, kind=suffix) if found.kind == UNKNOWN and suffix in SEGMENT_SUFFIXES else found


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
