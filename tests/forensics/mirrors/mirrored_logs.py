"""Forged partitions and mirrors of them: all records have the same timestamp, so that their content decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.forensics.forge import forge

TIME = 1_700_000_000_000
SYNCS = "mm2-offset-syncs.us.internal"


def at_once(batches: str) -> str:
    """Return batches in the notation of ``batch_notation`` with the same timestamp."""
    return "; ".join(f"{batch.strip()} ts {TIME}" for batch in batches.split(";"))


def forge_source(folder: Path, segments: str | Mapping[int, str], **options: Any) -> Path:
    """Write the topic ``t`` to the folder ``source``, and return that."""
    batches = {0: segments} if isinstance(segments, str) else segments
    texts = {base: at_once(text) for base, text in batches.items()}
    forge(folder / "source", texts, topic="t", **options)
    return folder / "source"


def forge_mirror(folder: Path, copies: Mapping[int, int | str], *, topic: str = "eu.t", **options: Any) -> Path:
    """Write a mirror of ``t`` to the folder ``target``, and return that.

    Args:
        folder: where to write it.
        copies: by offset in the mirror, the offset of the record in the source, or another content.
        topic: its name.
        options: as for ``forge``.
    """
    contents = {offset: [(f"k{original}".encode(), f"v{original}".encode())] for offset, original in copies.items()}
    batches = "; ".join(f"plain @{offset}" for offset in copies)
    forge(folder / "target", {min(copies): at_once(batches)}, topic=topic, records=contents, **options)
    return folder / "target"


def forge_syncs(folder: Path, syncs: Mapping[int, int]) -> None:
    """Write offset syncs of ``t-0`` to the folder ``source``: by offset in the source, the offset in the mirror."""
    key = (1).to_bytes(2, "big") + b"t" + (0).to_bytes(4, "big")
    values = [original.to_bytes(8, "big") + copy.to_bytes(8, "big") for original, copy in syncs.items()]
    batches = at_once("; ".join(f"plain @{offset}" for offset in range(len(values))))
    contents = {offset: [(key, value)] for offset, value in enumerate(values)}
    forge(folder / "source", batches, topic=SYNCS, records=contents)


def every(count: int) -> dict[int, int]:
    """Return a mirror that has so many records at the offsets of the source."""
    return {offset: offset for offset in range(count)}
