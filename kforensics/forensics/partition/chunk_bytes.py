"""Log chunks as bytes, for an evidence store: numbers and arrays of known types, so that reading them runs no code.

A stored chunk does not depend on the number of its segment in the partition, which retention changes, nor on damage
after its last batch, which is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np

from kforensics.forensics.core.observations import OBSERVATION
from kforensics.forensics.core.record_types import ANOMALY, EMPTY_MARKER, TRANSACTION
from kforensics.forensics.partition.batch_histogram import BATCH_HISTOGRAM
from kforensics.forensics.partition.index_evidence import IndexEvidence, SegmentEvidence
from kforensics.forensics.partition.log_chunk import LogChunk
from kforensics.forensics.partition.log_summary import CHUNK_START, EPOCH_RUN, SEGMENT_SUMMARY, LogSummary
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replay.replay_rows import ReplayRows
from kforensics.forensics.replay.summary import PRODUCER_SUMMARY, UNRESOLVED, ReplaySummary
from kforensics.parsers.columns.batch_columns import batches_from
from kforensics.parsers.format.array_types import StructArray
from kforensics.version import __version__

__all__ = ["CHUNK_FORMAT", "chunk_bytes", "chunk_from", "is_intact"]

FLAGS = np.dtype("u1")
# The arrays and numbers of a stored chunk, in their order.
BATCHES = ("first", "last", "first_marker", "last_marker")
LOG_ARRAYS = {
    "segments": SEGMENT_SUMMARY,
    "epochs": EPOCH_RUN,
    "chunk_starts": CHUNK_START,
    "observations": OBSERVATION,
    "histogram": BATCH_HISTOGRAM,
}
REPLAY_ARRAYS = {"producers": PRODUCER_SUMMARY, "unresolved": UNRESOLVED}
ROW_ARRAYS = {"transactions": TRANSACTION, "empty_markers": EMPTY_MARKER, "anomalies": ANOMALY}
FLAG_ARRAYS = {"offset_flags": FLAGS, "time_flags": FLAGS}
LOG_NUMBERS = (
    "batches",
    "records",
    "bytes",
    "control_batches",
    "control_bytes",
    "offset_gaps",
    "newest_timestamp",
    "newest_offset",
    "timestamp_types",
    "cleaned_to",
    "gaps_between_segments",
    "ends_in_old_format",
)
REPLAY_NUMBERS = ("first_offset", "last_offset", "batches", "offset_gaps", "sequences")
EVIDENCE_NUMBERS = ("covered", "end", "largest")
FLAG_NUMBERS = ("ends_in_old_format", "sequences")
ARRAYS = [*LOG_ARRAYS.values(), *REPLAY_ARRAYS.values(), *ROW_ARRAYS.values(), *FLAG_ARRAYS.values()]
NUMBERS = (*LOG_NUMBERS, *REPLAY_NUMBERS, *EVIDENCE_NUMBERS)
# Lengths of all parts, then the numbers.
HEAD = np.dtype(("<i8", len(BATCHES) + len(ARRAYS) + len(NUMBERS)))
NO_NUMBER = int(np.iinfo("i8").min) + 1
DIGEST_SIZE = 16
# A chunk of another release or layout is not read.
CHUNK_FORMAT = f"{__version__}/{blake2b(repr((BATCHES, ARRAYS, NUMBERS)).encode(), digest_size=8).hexdigest()}"
# Fields with the number of a segment.
SEGMENT_FIELDS = ("segment", "marker_segment")
# Parts of a producer's summary that have a segment, each with the field that shows whether the part is there.
PRODUCER_PARTS = {"first_batch": "has_data", "first_marker": "has_marker", "first_span": None, "last_span": None}


def chunk_bytes(log_chunk: LogChunk) -> bytes:
    """Return a chunk as bytes, without its cuts and its damage.

    Args:
        log_chunk: a chunk of one segment, as it is read.
    """
    log, replay, (evidence,) = log_chunk.log, log_chunk.producers, log_chunk.evidence.segments
    arrays = [getattr(log, name) for name in LOG_ARRAYS]
    arrays += [getattr(replay, name) for name in REPLAY_ARRAYS]
    arrays += [getattr(log_chunk.rows, name) for name in ROW_ARRAYS]
    arrays += [getattr(evidence, name) for name in FLAG_ARRAYS]
    parts = [getattr(log, name).tobytes() for name in BATCHES]
    parts += [array.astype(kind, copy=False).tobytes() for array, kind in zip(arrays, ARRAYS, strict=True)]
    numbers = [getattr(log, name) for name in LOG_NUMBERS]
    numbers += [getattr(replay, name) for name in REPLAY_NUMBERS]
    numbers += [getattr(evidence, name) for name in EVIDENCE_NUMBERS]
    values = (NO_NUMBER if number is None else int(number) for number in numbers)
    data = b"".join([np.array([*map(len, parts), *values], HEAD.base).tobytes(), *parts])
    return blake2b(data, digest_size=DIGEST_SIZE).digest() + data


def is_intact(data: bytes) -> bool:
    """Return whether the bytes of a chunk are as they were written."""
    return blake2b(memoryview(data)[DIGEST_SIZE:], digest_size=DIGEST_SIZE).digest() == data[:DIGEST_SIZE]


def chunk_from(data: bytes, cuts: tuple[int, ...], partition: Partition, number: int) -> LogChunk:
    """Return a chunk from its bytes.

    Args:
        data: the bytes.
        cuts: offsets at which the log is cut before the chunk.
        partition: the files of its partition.
        number: number of its segment there.

    Raises:
        ValueError: the bytes are not of this format.
    """
    body = memoryview(data)[DIGEST_SIZE:]
    head = np.frombuffer(body, HEAD.base, HEAD.shape[0]).tolist()
    lengths, values = head[: -len(NUMBERS)], head[-len(NUMBERS) :]
    if min(lengths) < 0 or HEAD.itemsize + sum(lengths) != len(body):
        raise ValueError("the bytes of a chunk are cut off")
    ends = accumulate(lengths, initial=HEAD.itemsize)
    parts = [body[start : start + length] for start, length in zip(ends, lengths, strict=False)]
    batches: dict[str, Any] = {name: batches_from(part) for name, part in zip(BATCHES, parts, strict=False)}
    arrays = [
        np.frombuffer(bytearray(part), kind) if part else np.empty(0, kind)
        for part, kind in zip(parts[len(BATCHES) :], ARRAYS, strict=True)
    ]
    for columns in batches.values():
        columns.segment[:] = number
    for array in arrays:
        _set_segment(array, number)
    of_arrays: Iterator[Any] = iter(arrays)
    of_numbers = map(_number, NUMBERS, values)
    log = LogSummary(**batches, **_named(LOG_ARRAYS, of_arrays), **_named(LOG_NUMBERS, of_numbers))
    replay = ReplaySummary(**_named(REPLAY_ARRAYS, of_arrays), **_named(REPLAY_NUMBERS, of_numbers))
    rows = ReplayRows(**_named(ROW_ARRAYS, of_arrays))
    evidence = SegmentEvidence.of(partition, number).with_flags(*of_arrays, *of_numbers)
    return LogChunk(cuts, log, replay, rows, IndexEvidence((evidence,)))


def _named(names: Iterable[str], values: Iterator[Any]) -> dict[str, Any]:
    return {name: next(values) for name in names}


def _number(name: str, value: int) -> Any:
    if name in FLAG_NUMBERS:
        return bool(value)
    return None if value == NO_NUMBER else value


def _set_segment(array: StructArray, number: int) -> None:
    """Set the number of the segment in all rows; in a producer's summary, missing parts stay zero."""
    for name in SEGMENT_FIELDS:
        if name in (array.dtype.names or ()):
            array[name] = number
    if array.dtype == UNRESOLVED:
        array["anomaly"]["segment"] = number
    if array.dtype == PRODUCER_SUMMARY:
        for part, is_there in PRODUCER_PARTS.items():
            mask = array[part]["has_transaction"] if is_there is None else array[is_there]
            array[part]["segment"][mask] = number
