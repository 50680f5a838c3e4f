"""Whether a copy has kept the times of the files of a partition, and what they show then.

A checkout makes files new, and an archive from another time zone, or one with a fixed time, makes them old. The file
time is a bound on what was written only where neither shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.marker_times import newest_marker_time
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition
from kforensics.parsers.files.log_names import METADATA_TOPIC, TRANSACTION_STATE
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = [
    "kept_until",
    "may_precede",
    "newest_batch_time",
    "newest_time_in",
    "newest_written_ms",
    "precede_data",
    "predated_by",
]

# Topics in which brokers set the timestamps.
DATED_BY_BROKERS = (CONSUMER_OFFSETS, METADATA_TOPIC, TRANSACTION_STATE)
WHOLE_SECOND = 1000


def precede_data(state: PartitionState) -> bool:
    """Return whether the files of a partition have times from before what their broker wrote.

    Then no file of its log directory shows until when it was written. Markers and append times show it, and so do the
    logs of the metadata and of the coordinators in the same log directory. The timestamps of clients do not, which may
    be ahead.
    """
    if state.partition.place.log_dir in state.rules.predated:
        return True
    newest = state.partition.newest_mtime_ms
    return newest is not None and newest + state.rules.clock_skew_ms < _written_by_broker(state)


def newest_written_ms(state: PartitionState) -> int | None:
    """Return the newest time of its segments as an upper bound on what was written; None if they do not show it.

    A broker writes snapshots and transaction indexes also when it stops or starts, long after the last batch. Segments
    that a copy has made older than what brokers wrote into them show nothing, even if the other files are newer.
    """
    appended = state.partition.appended_ms
    if appended is None or state.has_predated_files:
        return None
    return None if appended + state.rules.clock_skew_ms < _written_by_broker(state) else appended


def kept_until(state: PartitionState, newest_ms: int = NO_TIME) -> int:
    """Return the newest time of its files and of the checkpoints beside it, if the copy has kept file times.

    A checkout makes all files new: then the last segment is much younger than the newest timestamp. NO_TIME then, and
    if they are older than what they contain. The partition may also look younger than its broker was, which created
    none after it had stopped or had lost its controllers.

    Args:
        state: the partition.
        newest_ms: newest time that is known of its markers.
    """
    partition, rules = state.partition, state.rules
    written = partition.segments[-1].mtime_ms if partition.segments else None
    gone_from = rules.gone_from.get(partition.place.log_dir)
    if gone_from is not None and (partition.created_ms or 0) > gone_from + rules.clock_skew_ms:
        return NO_TIME
    if written is None or written > max(state.log.newest_timestamp, newest_ms) + rules.late_buffer_ms:
        return NO_TIME
    return NO_TIME if state.has_predated_files else partition.copied_ms or NO_TIME


def may_precede(time_ms: int, other_ms: int) -> bool:
    """Return whether a file may have been written before another one, by the times of both.

    Archives keep whole seconds, zip files only even ones: what was written one after the other has the same time there.
    """
    are_whole = time_ms % WHOLE_SECOND == other_ms % WHOLE_SECOND == 0
    return time_ms <= other_ms if are_whole else time_ms < other_ms


def predated_by(partition: Partition, newest_ms: int | None) -> int:
    """Return by how many ms the files of a log are older than what is in it, by a time that a broker set.

    Args:
        partition: a partition whose timestamps brokers set.
        newest_ms: the newest timestamp in it, None if there is none.
    """
    written = partition.newest_mtime_ms
    return 0 if written is None or newest_ms is None else max(0, newest_ms - written)


def newest_batch_time(partition: Partition) -> int | None:
    """Return the newest timestamp in the last segment of a log, None if it has none.

    Raises:
        InputError: the segment cannot be read.
    """
    return newest_time_in(partition.segments[-1].path) if partition.segments else None


def newest_time_in(segment: str) -> int | None:
    """Return the newest timestamp in a segment, None if it has none.

    Args:
        segment: path of the segment.

    Raises:
        InputError: it cannot be read.
    """
    with open_source(segment) as source:
        batches = (batch for batch in walk(source) if isinstance(batch, Batch) and batch.crc_valid)
        return max(filter(None, (batch.max_timestamp for batch in batches)), default=None)


def _written_by_broker(state: PartitionState) -> int:
    """Return the newest time that brokers set in the log of a partition, NO_TIME if there is none."""
    is_dated = state.log.has_append_times or state.partition.place.topic in DATED_BY_BROKERS
    return max(newest_marker_time(state), state.log.newest_timestamp if is_dated else NO_TIME)
