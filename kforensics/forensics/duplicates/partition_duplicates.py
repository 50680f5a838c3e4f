"""Finds the duplicates within a partition: batches with repeated sequences, and records of equal content.

A broker should have rejected a batch with the producer id, epoch and sequences of an earlier one. A producer can only
have written it if its sequences or its epoch regressed. The anomalies of the replay show where that happened, so only
batches in the affected sequence ranges are compared, and memory grows with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_types import Anomaly, AnomalyArray, TransactionOutcome
from kforensics.forensics.core.result_rows import Rows, RowStream, Words
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.content_duplicates import DEFAULT_MEMORY, content_duplicates
from kforensics.forensics.duplicates.duplicate_rows import (
    DUPLICATE,
    LEVEL_NAMES,
    REASON_NAMES,
    VIEW_NAMES,
    DuplicateArray,
    DuplicateLevel,
    DuplicateReason,
    DuplicateView,
    merge_runs,
    run_starts,
)
from kforensics.forensics.duplicates.record_reader import RecordReader, hidden_transactions
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.forensics.replay.neighbor_anomalies import SEQUENCE_COUNT
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.columns.content_hash import mix_bits
from kforensics.parsers.columns.hash_columns import HashColumns, hash_chunks
from kforensics.parsers.files.discover import open_found
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.log_rows import Place

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "DEFAULT_MEMORY",
    "duplicate_table_rows",
    "find_batch_duplicates",
    "find_duplicates",
    "partition_duplicate_rows",
    "partition_reader",
    "sequence_duplicates",
]

# Columns of the table that DUPLICATE has for both copies.
SIDE_COLUMNS = ("offset", "timestamp", "producer_id", "producer_epoch", "position")
# Rows of the table to make at once.
ROWS_AT_ONCE = 1 << 14


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
    bases = [segment.base_offset or 0 for segment in state.partition.segments]
    first_uncompacted = sum(base <= state.first_uncompacted_offset for base in bases[1:])
    return RecordReader(paths, hidden, int(offsets[0]), kernels, workers, first_uncompacted)


def find_batch_duplicates(state: PartitionState, reader: RecordReader) -> Iterator[DuplicateArray]:
    """Yield the duplicate batches of a partition; its log is read again only if the replay produced anomalies.

    Raises:
        InputError: a segment cannot be read.
    """
    if state.checks_sequences and len(state.anomalies):
        yield sequence_duplicates(state.anomalies, lambda: _batches(state, reader.kernels, reader.workers), reader)


def _batches(state: PartitionState, kernels: KernelPolicy, workers: int | None) -> Iterator[BatchColumns]:
    for number, segment in enumerate(state.partition.segments):
        with open_found(segment) as source:
            yield from batch_chunks(source, number, ignore_damage, kernels, workers=workers)


def partition_duplicate_rows(state: PartitionState, duplicates: SpilledRows) -> RowStream:
    """Return the duplicates of a partition as rows of the table ``duplicates``."""
    paths = [segment.path for segment in state.partition.segments]
    return RowStream(RESULTS["duplicates"], partial(_table_parts, state.partition.place, paths, duplicates))


def _table_parts(place: Place, paths: Sequence[str], duplicates: SpilledRows) -> Iterator[Rows]:
    for part in duplicates:
        for first in range(0, len(part), ROWS_AT_ONCE):
            rows = part[first : first + ROWS_AT_ONCE]
            columns = {f"{side}_path": Words(rows[f"{side}_segment"], paths) for side in ("first", "second")}
            yield duplicate_table_rows(place, rows, {**columns, "first_partition": None})


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


ComparedBatchArray: TypeAlias = "npt.NDArray[np.void]"
RepeatedRangeArray: TypeAlias = "npt.NDArray[np.void]"
DigestArray: TypeAlias = "npt.NDArray[np.void]"
ReadBatches: TypeAlias = Callable[[], Iterable[BatchColumns]]

SEQUENCE_BITS, EPOCH_BITS = 31, 16
SEQUENCE_REGRESSIONS = (Anomaly.SEQ_OVERLAP, Anomaly.SEQ_DUPLICATE_BATCH)
# After these, repeated batches need not show as anomalies, because sequences start at 0 again.
EPOCH_REGRESSIONS = (Anomaly.EPOCH_REGRESSED, Anomaly.MARKER_EPOCH_REGRESSED)
_BATCH_COLUMNS = [
    ("producer_id", "i8"),
    ("producer_epoch", "i2"),
    ("base_sequence", "i4"),
    ("last_sequence", "i4"),
    ("base_offset", "i8"),
    ("last_offset", "i8"),
    ("count", "i4"),
    ("segment", "i4"),
    ("position", "i8"),
    ("size", "i8"),
    ("max_timestamp", "i8"),
]
# ``rank`` is the position of the batch in the order of producer, epoch and offset.
COMPARED_BATCH = np.dtype([*_BATCH_COLUMNS, ("is_hidden", "?"), ("rank", "i8")])
IDENTITY = ("producer_id", "producer_epoch", "base_sequence", "last_sequence")
# Sequences that a producer may have written again, ``end`` excluded; ranges do not wrap.
REPEATED_RANGE = np.dtype([("producer_id", "i8"), ("producer_epoch", "i2"), ("begin", "i8"), ("end", "i8")])
# 128 bits over the contents of all records of a batch.
DIGEST = np.dtype([("low", "u8"), ("high", "u8"), ("records", "i8")])
# A smaller gap between two batches is read along with them, in one range.
READ_THROUGH = 1 << 20


def sequence_duplicates(anomalies: AnomalyArray, batches: ReadBatches, reader: RecordReader) -> DuplicateArray:
    """Return the duplicates of level SEQUENCE, ordered by the offset of the later copy.

    Each batch is paired with the nearest earlier batch of the same producer id, epoch, first and last sequence, unless
    the two are so many offsets apart that the sequences have wrapped around.

    Args:
        anomalies: all anomalies of the partition.
        batches: reads the batches of the partition in log order; called twice.
        reader: reads the records, to compare contents, and knows which batches are hidden.
    """
    regressions = anomalies[np.isin(anomalies["kind"], SEQUENCE_REGRESSIONS)]
    epoch_regressed = np.unique(anomalies["producer_id"][np.isin(anomalies["kind"], EPOCH_REGRESSIONS)])
    if not len(regressions) and not len(epoch_regressed):
        return np.empty(0, DUPLICATE)
    ranges = _sequence_ranges(batches(), regressions, reader)
    candidates = [_candidates(chunk, ranges, epoch_regressed, reader) for chunk in batches()]
    first, second = _pairs(np.concatenate([np.empty(0, COMPARED_BATCH), *candidates]))
    return _duplicates(first, second, _reasons(first, second, reader))


def _data_batches(chunk: BatchColumns, selected: BoolArray, reader: RecordReader) -> ComparedBatchArray:
    """Return those of the selected batches that are valid data batches with sequences."""
    selected = selected & (chunk.control == NO_CONTROL) & (chunk.producer_id >= 0) & (chunk.base_sequence >= 0)
    selected &= chunk.crc_valid
    rows = np.empty(int(np.count_nonzero(selected)), COMPARED_BATCH)
    for name, _ in _BATCH_COLUMNS:
        rows[name] = getattr(chunk, name)[selected]
    rows["is_hidden"] = reader.hides(chunk)[selected]
    return rows


def _sequence_ranges(
    chunks: Iterable[BatchColumns], regressions: AnomalyArray, reader: RecordReader
) -> RepeatedRangeArray:
    """Return the sequences that producers may have written again: from a regressed batch to the end of the previous."""
    ranges = [np.empty(0, REPEATED_RANGE)]
    last = np.empty(0, COMPARED_BATCH)
    producers, offsets = np.unique(regressions["producer_id"]), np.unique(regressions["first_offset"])
    for chunk in chunks:
        rows = np.concatenate([last, _data_batches(chunk, np.isin(chunk.producer_id, producers), reader)])
        rows = rows[np.argsort(rows["producer_id"], kind="stable")]
        changes = rows["producer_id"][1:] != rows["producer_id"][:-1]
        previous, current = rows[:-1][~changes], rows[1:][~changes]
        regressed = np.isin(current["base_offset"], offsets)
        ranges.append(_without_wrap(_regressed_range(previous[regressed], current[regressed])))
        last = rows[np.append(changes, True)[: len(rows)]]
    return np.concatenate(ranges)


def _regressed_range(previous: ComparedBatchArray, current: ComparedBatchArray) -> RepeatedRangeArray:
    """Return, for consecutive batches of one producer, the range from the current to the previous; it may wrap."""
    ranges = np.empty(len(current), REPEATED_RANGE)
    for name in ("producer_id", "producer_epoch"):
        ranges[name] = current[name]
    ranges["begin"] = current["base_sequence"]
    length = (previous["last_sequence"].astype("i8") + 1 - current["base_sequence"]) % SEQUENCE_COUNT
    is_same_epoch = previous["producer_epoch"] == current["producer_epoch"]
    ranges["end"] = ranges["begin"] + np.where(is_same_epoch, length, SEQUENCE_COUNT // 2)
    return ranges


def _without_wrap(ranges: RepeatedRangeArray) -> RepeatedRangeArray:
    wrapped = ranges[ranges["end"] > SEQUENCE_COUNT]
    wrapped["begin"], wrapped["end"] = 0, wrapped["end"] - SEQUENCE_COUNT
    cut = ranges.copy()
    cut["end"] = np.minimum(cut["end"], SEQUENCE_COUNT)
    return np.concatenate([cut, wrapped])


def _candidates(
    chunk: BatchColumns, ranges: RepeatedRangeArray, epoch_regressed: IntArray, reader: RecordReader
) -> ComparedBatchArray:
    """Return the batches of a chunk that may have a duplicate."""
    rows = _data_batches(
        chunk, np.isin(chunk.producer_id, np.concatenate([ranges["producer_id"], epoch_regressed])), reader
    )
    return rows[np.isin(rows["producer_id"], epoch_regressed) | _are_in_ranges(rows, ranges)]


def _are_in_ranges(rows: ComparedBatchArray, ranges: RepeatedRangeArray) -> BoolArray:
    """Return which batches start in a range of their producer and epoch."""
    if not len(ranges):
        return np.zeros(len(rows), bool)
    producers = np.unique(ranges["producer_id"])
    begins, ends = (np.sort(_sequence_keys(ranges, ranges[name], producers)) for name in ("begin", "end"))
    keys = _sequence_keys(rows, rows["base_sequence"].astype("i8"), producers)
    # Inside a range, more ranges have begun than ended. A range ends at most where the keys of the next epoch begin.
    begun = np.searchsorted(begins, keys, side="right")
    inside: BoolArray = begun > np.searchsorted(ends, keys, side="right")
    return inside & np.isin(rows["producer_id"], producers)


def _sequence_keys(rows: StructArray, sequences: IntArray, producers: IntArray) -> IntArray:
    """Return integers that sort by producer, epoch and sequence."""
    producer = np.searchsorted(producers, rows["producer_id"])
    keys: IntArray = ((producer << EPOCH_BITS) + rows["producer_epoch"].astype("i8") << SEQUENCE_BITS) + sequences
    return keys


def _pairs(rows: ComparedBatchArray) -> tuple[ComparedBatchArray, ComparedBatchArray]:
    """Return the earlier and the later batch of each pair: nearest neighbors of the same identity.

    If a read_committed consumer receives the later batch but not the earlier one, the later batch is also paired with
    the nearest earlier one that the consumer receives.
    """
    rows = rows[np.lexsort([rows["producer_epoch"], rows["producer_id"]])]
    rows["rank"] = np.arange(len(rows))
    rows = rows[np.lexsort([rows[name] for name in reversed(IDENTITY)])]
    first, second = _neighbors(rows)
    visible_first, visible_second = _neighbors(rows[~rows["is_hidden"]])
    # The others are neighbors among all batches, too.
    is_new = ~np.isin(visible_second["base_offset"], second["base_offset"][~first["is_hidden"]])
    return np.concatenate([first, visible_first[is_new]]), np.concatenate([second, visible_second[is_new]])


def _neighbors(rows: ComparedBatchArray) -> tuple[ComparedBatchArray, ComparedBatchArray]:
    first, second = rows[:-1], rows[1:]
    same = second["base_offset"] - first["base_offset"] < SEQUENCE_COUNT
    for name in IDENTITY:
        same &= first[name] == second[name]
    return first[same], second[same]


def _reasons(first: ComparedBatchArray, second: ComparedBatchArray, reader: RecordReader) -> IntArray:
    """Return a DuplicateReason for each pair, from a comparison of the contents."""
    first_digests, second_digests = _digests(first, reader), _digests(second, reader)
    readable = (first_digests["records"] > 0) & (second_digests["records"] > 0)
    equal = readable & (first_digests == second_digests)
    complete = readable
    for rows in (first, second):
        complete = complete & (rows["count"] == rows["last_offset"] - rows["base_offset"] + 1)
    return np.select(
        [equal, complete],
        [DuplicateReason.SEQUENCE_AND_CONTENT, DuplicateReason.SEQUENCE_NOT_CONTENT],
        DuplicateReason.SEQUENCE_ALONE,
    )


def _duplicates(first: ComparedBatchArray, second: ComparedBatchArray, reasons: IntArray) -> DuplicateArray:
    """Return one row per run of pairs that follow one another in the producer's sequences, on both sides."""
    rows = np.empty(len(first), DUPLICATE)
    rows["level"], rows["why"], rows["records"] = DuplicateLevel.SEQUENCE, reasons, second["count"]
    for side, batch in (("first", first), ("second", second)):
        for name in ("segment", "position", "last_offset", "producer_id", "producer_epoch"):
            rows[f"{side}_{name}"] = batch[name]
        rows[f"{side}_offset"], rows[f"{side}_timestamp"] = batch["base_offset"], batch["max_timestamp"]
    rows["view"] = np.where(first["is_hidden"] | second["is_hidden"], DuplicateView.RAW, DuplicateView.COMMITTED)
    if not len(rows):
        return rows
    order = np.lexsort([second["base_offset"], second["producer_epoch"], second["producer_id"], rows["view"]])
    rows, first, second = rows[order], first[order], second[order]
    continues = (second["last_sequence"][:-1].astype("i8") + 1) % SEQUENCE_COUNT == second["base_sequence"][1:]
    for batch in (first, second):
        continues &= batch["rank"][1:] == batch["rank"][:-1] + 1
    runs = merge_runs(rows, run_starts(rows, continues))
    return runs[np.argsort(runs["second_offset"], kind="stable")]


def _digests(rows: ComparedBatchArray, reader: RecordReader) -> DigestArray:
    """Return the digest of each batch, with 0 records if the batch cannot be read."""
    digests = np.zeros(len(rows), DIGEST)
    for segment in np.unique(rows["segment"]):
        selected = rows["segment"] == segment
        batches = rows[selected]
        digests[selected] = _segment_digests(reader, segment, batches["position"], batches["size"])
    return digests


def _segment_digests(reader: RecordReader, segment: int, positions: IntArray, sizes: IntArray) -> DigestArray:
    """Return the digest of each of some batches of a segment, given in any order."""
    begins, indexes = np.unique(positions, return_inverse=True)
    digests = np.zeros(len(begins), DIGEST)
    ends = np.zeros(len(begins), "i8")
    ends[indexes] = positions + sizes
    with open_source(reader.paths[segment]) as source:
        for start, stop in _byte_ranges(begins, ends):
            chunks = hash_chunks(source, ignore_damage, reader.kernels, start=start, stop=stop, workers=reader.workers)
            for columns in chunks:
                nearest = np.minimum(np.searchsorted(begins, columns.position), len(begins) - 1)
                wanted = begins[nearest] == columns.position
                parts = _content_digests(columns)[wanted]
                for name in DIGEST.names or ():
                    # A large batch is spread over several chunks; its sums are taken modulo 2 ** 64.
                    digests[name][nearest[wanted]] += parts[name]
    return digests[indexes]


def _byte_ranges(begins: IntArray, ends: IntArray) -> Iterator[tuple[int, int]]:
    """Yield byte ranges that contain all batches; batches close together share a range."""
    gaps = np.flatnonzero(begins[1:] - ends[:-1] >= READ_THROUGH)
    starts, stops = begins[np.append(0, gaps + 1)], ends[np.append(gaps, len(ends) - 1)]
    yield from zip(starts.tolist(), stops.tolist(), strict=True)


def _content_digests(columns: HashColumns) -> DigestArray:
    """Return the sum of the record hashes of each batch, each hash mixed with the record's index in the batch."""
    starts = np.cumsum(columns.records) - columns.records
    index = np.arange(len(columns)) - np.repeat(starts - columns.first_index, columns.records)
    digests = np.empty(len(starts), DIGEST)
    for name in ("low", "high"):
        digests[name] = np.add.reduceat(mix_bits(getattr(columns, name) + mix_bits(index.astype("u8"))), starts)
    digests["records"] = columns.records
    return digests
