"""What the records of a batch say, all of them together, as one number of 128 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.parsers.columns.content_hash import mixed
from kforensics.parsers.columns.hash_columns import HashColumns, hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice

__all__ = ["DIGEST", "batch_digests"]

DIGEST = np.dtype([("low", "u8"), ("high", "u8"), ("records", "i8")])
# Less than this is read over between two batches rather than begun anew behind.
NEAR = 1 << 20


def batch_digests(
    path: str, positions: Records, sizes: Records, kernels: Choice, workers: int | None = None
) -> Records:
    """Return DIGEST rows of batches; ``records`` is 0 for those whose records cannot be read.

    Args:
        path: a segment.
        positions: where the batches begin in it, in any order.
        sizes: bytes of the batches.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        workers: threads that read, as in ``hash_chunks``.
    """
    places, where = np.unique(positions, return_inverse=True)
    found = np.zeros(len(places), DIGEST)
    ends = np.zeros(len(places), "i8")
    ends[where] = positions + sizes
    with open_source(path) as source:
        for start, stop in _ranges(places, ends):
            for columns in hash_chunks(source, _say_nothing, kernels, start=start, stop=stop, workers=workers):
                at = np.minimum(np.searchsorted(places, columns.position), len(places) - 1)
                wanted = places[at] == columns.position
                found[at[wanted]] = _digests(columns)[wanted]
    return found[where]


def _ranges(begins: Records, ends: Records) -> Iterator[tuple[int, int]]:
    """Yield ranges of bytes that hold all batches, those close together in one range."""
    gaps = np.flatnonzero(begins[1:] - ends[:-1] >= NEAR)
    starts, stops = begins[np.append(0, gaps + 1)], ends[np.append(gaps, len(ends) - 1)]
    yield from zip(starts.tolist(), stops.tolist(), strict=True)


def _digests(columns: HashColumns) -> Records:
    """Return the sums of the hashes of each batch, each mixed with its place in it."""
    starts = np.cumsum(columns.records) - columns.records
    index = np.arange(len(columns)) - np.repeat(starts, columns.records)
    digests = np.empty(len(starts), DIGEST)
    for name in ("low", "high"):
        digests[name] = np.add.reduceat(mixed(getattr(columns, name) + mixed(index.astype("u8"))), starts)
    digests["records"] = columns.records
    return digests


def _say_nothing(_damage: object) -> None:
    """Damage was told of when the batches were read."""
