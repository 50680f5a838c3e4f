"""Finds the duplicates within a partition: batches with repeated sequences, and records of equal content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.result_rows import Rows, Words
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.batch_duplicates import sequence_duplicates
from kforensics.forensics.duplicates.content_duplicates import DEFAULT_MEMORY, content_duplicates
from kforensics.forensics.duplicates.duplicate_rows import (
    LEVEL_NAMES,
    REASON_NAMES,
    VIEW_NAMES,
    DuplicateArray,
    DuplicateLevel,
    DuplicateReason,
    DuplicateView,
)
from kforensics.forensics.duplicates.record_reader import RecordReader, hidden_transactions
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "DEFAULT_MEMORY",
    "duplicate_table_rows",
    "find_batch_duplicates",
    "find_duplicates",
    "partition_duplicate_rows",
    "partition_reader",
]

# Columns of the table that DUPLICATE has for both copies.
SIDE_COLUMNS = ("offset", "timestamp", "producer_id", "producer_epoch", "position")


def find_duplicates(
    state: PartitionState,
    *,
    memory: int = DEFAULT_MEMORY,
    kernels: KernelPolicy = kernels_for,
    workers: int | None = None,
) -> Iterator[DuplicateArray]:
    """Yield the duplicates of a partition: batches with repeated sequences, then records of equal content.

    Args:
        state: the partition, whose log is read once or twice more.
        memory: bytes of memory before temporary files are used.
        kernels: loads the compiled kernels.
        workers: threads that read ahead, 0 for none, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    reader = partition_reader(state, kernels, workers)
    yield from find_batch_duplicates(state, reader)
    yield from content_duplicates(reader, ignore_damage, memory=memory)


def partition_reader(
    state: PartitionState, kernels: KernelPolicy = kernels_for, workers: int | None = None
) -> RecordReader:
    """Return a reader for the records of a partition.

    Args:
        state: the partition.
        kernels: loads the compiled kernels.
        workers: threads that read ahead, 0 for none, None for one per processor.
    """
    offsets, _ = last_stable_offsets(
        state.transaction_store, state.local_log_start_offset, np.array([state.log_end_offset])
    )
    uncommitted = (
        hidden_transactions(rows[rows["outcome"] != TransactionOutcome.COMMITTED]) for rows in state.transaction_store
    )
    hidden = np.concatenate([hidden_transactions(None), *uncommitted])
    paths = [segment.path for segment in state.partition.segments]
    return RecordReader(paths, hidden, int(offsets[0]), kernels, workers)


def find_batch_duplicates(state: PartitionState, reader: RecordReader) -> Iterator[DuplicateArray]:
    """Yield the duplicate batches of a partition; its log is read again only if the replay produced anomalies.

    Raises:
        InputError: a segment cannot be read.
    """
    if state.checks_sequences and len(state.anomalies):
        yield sequence_duplicates(state.anomalies, lambda: _batches(state, reader.kernels, reader.workers), reader)


def _batches(state: PartitionState, kernels: KernelPolicy, workers: int | None) -> Iterator[BatchColumns]:
    for number, segment in enumerate(state.partition.segments):
        with open_source(segment.path) as source:
            yield from batch_chunks(source, number, ignore_damage, kernels, workers=workers)


def partition_duplicate_rows(state: PartitionState, duplicates: DuplicateArray) -> Rows:
    """Return the duplicates of a partition as rows of the table ``duplicates``."""
    paths = [segment.path for segment in state.partition.segments]
    columns = {f"{side}_path": Words(duplicates[f"{side}_segment"], paths) for side in ("first", "second")}
    return duplicate_table_rows(state.partition.place, duplicates, {**columns, "first_partition": None})


def duplicate_table_rows(place: Place, duplicates: StructArray, other_columns: Mapping[str, Any]) -> Rows:
    """Return duplicates as rows of the table ``duplicates``.

    Args:
        place: the partition with the later copies.
        duplicates: rows with at least the fields of DUPLICATE.
        other_columns: the columns that are not among these fields.
    """
    columns = {
        **place._asdict(),
        "level": Words(duplicates["level"], [LEVEL_NAMES[level] for level in DuplicateLevel]),
        "view": Words(duplicates["view"], [VIEW_NAMES[view] for view in DuplicateView]),
        "why": Words(duplicates["why"], [REASON_NAMES[reason] for reason in DuplicateReason]),
        "records": duplicates["records"],
        **other_columns,
    }
    for side in ("first", "second"):
        columns |= {f"{side}_{name}": duplicates[f"{side}_{name}"] for name in SIDE_COLUMNS}
    return Rows(RESULTS["duplicates"], len(duplicates), columns)
