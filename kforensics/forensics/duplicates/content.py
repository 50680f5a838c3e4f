"""Records of a partition that were written before with the same key, value and headers, in bounded memory.

The log is read once for the hashes of its records alone: eight bytes each, in buckets by their first bits, in memory or
in a temporary file. Sorted, they tell which occur twice. Where none does, that is all. Else the log is read once more,
and what is known of those records (and of some whose hashes begin alike) goes into buckets in the same way, where those
whose whole hashes are equal find each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from kforensics.forensics.core.hash_buckets import Spill
from kforensics.forensics.core.record_arrays import joined_records
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content_entries import ENTRY, Reading, Report, entries
from kforensics.forensics.duplicates.content_pairs import (
    PAIR,
    RUN,
    Window,
    pairs_of,
    reasons_within,
    repeated,
    rows_of_runs,
    runs_of,
    together,
)

__all__ = [
    "BUCKET_BITS",
    "MEMORY",
    "SHARES",
    "content_duplicates",
    "first_bits",
    "mark",
    "marked",
    "pair_buckets",
    "paired",
    "part_of",
    "runs_in",
    "table_for",
]

MEMORY = 256 << 20
HASH_BITS = 64
# Sorting and copying take a few times the memory of the rows.
SHARES = 4
BUCKET_BITS = 10
MOST_BUCKETS = 1 << 12
# Places in the table of hashes that occur twice, for each record, as a power of two.
TABLE_BITS_PER_RECORD = 3


def content_duplicates(
    reading: Reading, report: Report, *, memory: int = MEMORY, window: Window | None = None
) -> Iterator[Records]:
    """Yield DUPLICATE rows of the levels CONTENT_RETRY and CONTENT, about in the order of the second writings.

    A record is paired with the nearest earlier one of equal key, value and headers; consecutive pairs make one row.
    Whole batches that were written again under their own sequences are left to :mod:`.batch_duplicates`. Tombstones,
    empty values and records with nothing in them count only in a row with others, or (but for the last) where the
    producer's timestamp is the same too.

    Args:
        reading: the partition, and what a read_committed consumer gets of it.
        report: told of the number of a segment and damage in it, in the order of the log.
        memory: bytes to work in, about; what takes more goes into temporary files.
        window: how soon a retry comes; None for Kafka's defaults.
    """
    table, batches = _repeated_table(reading, report, memory)
    if table is None:
        return
    found = _entries(reading, table)
    del table  # the entries have it, as long as they come
    yield from paired(found, lambda: batches, memory=memory, window=window)


def _entries(reading: Reading, table: Records) -> Iterator[Records]:
    for chunk in reading.chunks(_say_nothing):
        yield entries(chunk, marked(table, chunk.columns.low), reading)


def paired(
    found: Iterable[Records], batches: Callable[[], int], *, memory: int = MEMORY, window: Window | None = None
) -> Iterator[Records]:
    """Yield the rows of :func:`content_duplicates` of the records that may be there twice.

    Args:
        found: ENTRY rows, in the order of the log; all that occur twice are among them.
        batches: says how many batches there are, once all entries were taken.
        memory: bytes to work in, about.
        window: how soon a retry comes; None for Kafka's defaults.
    """
    window, room = window or Window(), memory // SHARES
    with Spill(ENTRY, room, 1 << BUCKET_BITS, lambda rows: first_bits(rows["low"], BUCKET_BITS)) as kept:
        for rows in found:
            kept.add(rows)
        buckets, many = pair_buckets(kept.rows, room), batches()
        with Spill(PAIR, room, buckets, lambda rows: part_of(rows["second"]["batch"], many, buckets)) as pairs:
            for bucket in kept.buckets():
                for some in pairs_of(bucket, window):
                    pairs.add(some)
            for runs in runs_in(pairs.buckets(), lambda some: runs_of(some, window, reasons_within)):
                yield rows_of_runs(runs)


def pair_buckets(records: int, room: int) -> int:
    """Return into how many buckets the pairs of so many records go, so that each fits into so many bytes."""
    return min(max(2 * records * PAIR.itemsize // room, 1), MOST_BUCKETS)


def _repeated_table(reading: Reading, report: Report, memory: int) -> tuple[Records | None, int]:
    """Return a table of the first bits of the hashes that occur twice, None if there are none, and the batches read."""
    batches = 0
    with Spill("u8", memory // SHARES, 1 << BUCKET_BITS, lambda hashes: first_bits(hashes, BUCKET_BITS)) as hashes:
        for chunk in reading.chunks(report):
            hashes.add(chunk.columns.low.copy())
            batches = chunk.batches_before + len(chunk.columns.position)
        table = table_for(hashes.rows, memory)
        for bucket in hashes.buckets():
            for twice in repeated(bucket):
                mark(table, twice)
    return (table if table.any() else None), batches


def table_for(records: int, memory: int) -> Records:
    """Return a table by the first bits of hashes that suits so many records, or so many bytes of memory, all False."""
    most = max((memory // SHARES).bit_length() - 1, 1)
    return np.zeros(1 << min(max(records, 1).bit_length() + TABLE_BITS_PER_RECORD, most), bool)


def marked(table: Records, hashes: Records) -> Records:
    """Return which hashes a table may hold: all it holds, and some whose first bits are the same."""
    found: Records = table[first_bits(hashes, len(table).bit_length() - 1)]
    return found


def mark(table: Records, hashes: Records) -> None:
    """Have a table hold hashes."""
    table[first_bits(hashes, len(table).bit_length() - 1)] = True


def first_bits(hashes: Records, bits: int) -> Records:
    """Return the first so many bits of hashes, as numbers."""
    first: Records = hashes >> np.uint64(HASH_BITS - bits)
    return first


def part_of(batch: Records, batches: int, parts: int) -> Records:
    """Return in which of so many equal parts of the log a batch lies; a log may have grown in the meantime."""
    part: Records = np.minimum((batch * (parts / max(batches, 1))).astype("i8"), parts - 1)
    return part


def _say_nothing(_segment: int, _damage: object) -> None:
    """The damage has been told of."""


def runs_in(
    buckets: Iterable[Iterable[Records]], made: Callable[[Records], Records], gap: int = 0
) -> Iterator[Records]:
    """Yield the RUN rows that tell something, of all pairs, about in the order of the second writings.

    Args:
        buckets: PAIR rows, those of one bucket after those of another.
        made: returns the RUN rows of pairs.
        gap: as for ``content_pairs.together``.
    """
    runs = np.empty(0, RUN)
    for bucket in buckets:
        parts = list(bucket)
        if parts:
            # The last ones of each view may go on in this bucket.
            is_last = np.append(runs["view"][1:] != runs["view"][:-1], True)[: len(runs)]
            yield from _telling(runs[~is_last])
            runs = together(joined_records([runs[is_last], made(joined_records(parts))]), gap)
    yield from _telling(runs)


def _telling(runs: Records) -> Iterator[Records]:
    telling = runs[runs["tells"]]
    if len(telling):
        yield telling[np.argsort(telling["second"], kind="stable")]
