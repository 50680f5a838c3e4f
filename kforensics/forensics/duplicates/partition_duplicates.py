"""What a partition holds twice: batches by their sequences, records by their contents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import Ending, Records
from kforensics.forensics.core.result_rows import Rows, Words
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.batch_duplicates import sequence_duplicates
from kforensics.forensics.duplicates.content import content_duplicates
from kforensics.forensics.duplicates.content_entries import Reading, hidden_intervals
from kforensics.forensics.duplicates.duplicate_rows import LEVELS, REASONS, VIEWS, Level, View, Why
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.log.log_rows import Place

__all__ = ["MEMORY", "batch_duplicates_of", "duplicate_rows", "duplicates_of", "reading_of", "table_rows"]

# Bytes that the search for records may take before it goes to temporary files.
MEMORY = 256 << 20
SAME = ("offset", "timestamp", "producer_id", "producer_epoch", "position")


def duplicates_of(
    case: Case, *, memory: int = MEMORY, kernels: Choice = kernels_for, workers: int | None = None
) -> Iterator[Records]:
    """Yield DUPLICATE records: batches with the same sequences, then records with the same contents.

    Args:
        case: the partition; its log is read once or twice more.
        memory: bytes that may be held before temporary files are used.
        kernels: gives the compiled kernels.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    reading = reading_of(case, kernels, workers)
    yield from batch_duplicates_of(case, reading)
    yield from content_duplicates(reading, _ignored, memory=memory)


def reading_of(case: Case, kernels: Choice = kernels_for, workers: int | None = None) -> Reading:
    """Return how to read the records of a partition.

    Args:
        case: the partition.
        kernels: gives the compiled kernels.
        workers: as for :func:`duplicates_of`.
    """
    offsets, _ = last_stable_offsets(case.ledger, case.log_start_offset, np.array([case.log_end_offset]))
    uncommitted = (hidden_intervals(rows[rows["ending"] != Ending.COMMITTED]) for rows in case.ledger)
    hidden = np.concatenate([hidden_intervals(None), *uncommitted])
    paths = [segment.path for segment in case.partition.segments]
    return Reading(paths, hidden, int(offsets[0]), kernels, workers)


def batch_duplicates_of(case: Case, reading: Reading) -> Iterator[Records]:
    """Yield DUPLICATE records of batches with the same sequences; the log is read for them only if the replay met any.

    Raises:
        InputError: a segment cannot be read.
    """
    if case.judges_sequences and len(case.anomalies):
        yield sequence_duplicates(case.anomalies, lambda: _batches(case, reading.kernels, reading.workers), reading)


def _batches(case: Case, kernels: Choice, workers: int | None) -> Iterator[BatchColumns]:
    for number, segment in enumerate(case.partition.segments):
        with open_source(segment.path) as source:
            yield from batch_chunks(source, number, _unheard, kernels, workers=workers)


def _ignored(_segment: int, _damage: object) -> None:
    """Damage was told of when the log was read for the first time."""


def _unheard(_damage: object) -> None:
    """As above."""


def duplicate_rows(case: Case, found: Records) -> Rows:
    """Return DUPLICATE records as rows of the table."""
    paths = [segment.path for segment in case.partition.segments]
    words = {f"{side}_path": Words(found[f"{side}_segment"], paths) for side in ("first", "second")}
    return table_rows(case.partition.place, found, {**words, "first_partition": None})


def table_rows(place: Place, found: Records, others: Mapping[str, Any]) -> Rows:
    """Return DUPLICATE records as rows of the table.

    Args:
        place: the partition with the second writings.
        found: records that have at least the fields of DUPLICATE.
        others: the columns that are not in them.
    """
    columns = {
        **place._asdict(),
        "level": Words(found["level"], [LEVELS[level] for level in Level]),
        "view": Words(found["view"], [VIEWS[view] for view in View]),
        "why": Words(found["why"], [REASONS[why] for why in Why]),
        "records": found["records"],
        **others,
    }
    for side in ("first", "second"):
        columns |= {f"{side}_{name}": found[f"{side}_{name}"] for name in SAME}
    return Rows(RESULTS["duplicates"], len(found), columns)
