"""Replays the metadata log of a KRaft cluster, with a snapshot, into the image of the cluster at an offset or a time.

Rules: ``MetadataLoader`` and ``MetadataBatchLoader``. The records of a transaction take effect when it ends; those of
an aborted or open one do not. A broker honors an abort only if it is the last record of its batch; otherwise it keeps
the records. Kafka applies only committed records, and no file has the high watermark of this log: the image at its end
includes what a leader may not have committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kforensics.forensics.metadata.cluster_image import ClusterImage
from kforensics.forensics.metadata.cluster_metadata import LogRecord, log_records, replay_start
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import open_source
from kforensics.parsers.state.json_state import QuorumState, read_quorum_state

__all__ = ["ImageReplay"]

NO_OP, REMOVE_TOPIC, QUORUM_STATE = "NoOpRecord", "RemoveTopicRecord", "quorum-state"


@dataclass(slots=True)
class ImageReplay:
    """The image of a cluster while its metadata log is replayed.

    Attributes:
        metadata: a copy of the metadata log.
        at: replay the records below this offset; None for all.
        at_ms: replay the records up to this time in ms; None for all.
        snapshot: the snapshot that the image begins with; None for the log alone.
        start: offset that the replayed part of the log begins at.
        offset: offset after the last record that was replayed.
        epoch: leader epoch of that record.
        timestamp: its time in ms; None if unknown.
        leader: the leader of the controllers; None if it is unknown.
        leader_ms: when it was elected; None if it is unknown.
        kraft_version: level of ``kraft.version``.
        voters: fields of the voters; without a dynamic quorum only their ids.
        versions: the highest version of the records of each type, in the order in which they are first read.
        removed: when topics were deleted, in ms by topic id; those of before the snapshot are not known.
        skipped: records that cannot be read, by type.
        gaps: ranges of offsets, the last one inclusive, without a record.
        is_complete: whether the replay began with the first record or a whole snapshot.
        path: the file that is being read.
    """

    metadata: Partition
    at: int | None = None
    at_ms: int | None = None
    snapshot: str | None = None
    start: int = 0
    offset: int = 0
    epoch: int = -1
    timestamp: int | None = None
    leader: int | None = None
    leader_ms: int | None = None
    kraft_version: int = 0
    voters: tuple[Mapping[str, Any], ...] = ()
    versions: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    is_complete: bool = True
    path: str = ""
    _image: ClusterImage = field(default_factory=ClusterImage)
    _before: ClusterImage | None = None  # the image before the open transaction
    _transaction_offset: int | None = None
    _aborted_in: tuple[str, int] | None = None  # file and position of the batch that ends with an abort so far

    @property
    def image(self) -> ClusterImage:
        """The image, without the records of an open transaction."""
        return self._image if self._before is None else self._before

    @property
    def open_transaction(self) -> int | None:
        """Offset at which the open transaction begins, None if none is open."""
        return None if self._before is None or self._aborted_in else self._transaction_offset

    @property
    def faults(self) -> int:
        """How many records so far could not be applied, with those of an open transaction."""
        return self._image.not_applied.total()

    def begin(self) -> ImageReplay:
        """Load the snapshot that the log continues, if there is one; return the replay.

        Raises:
            InputError: the snapshot cannot be read.
        """
        return self.begin_at(*replay_start(self.metadata, self.at))

    def begin_at(self, start: int, snapshot: str | None) -> ImageReplay:
        """Load a snapshot that the log continues; return the replay.

        Args:
            start: offset that the replay of the log begins at.
            snapshot: the snapshot at this offset, None for the log alone.

        Raises:
            InputError: the snapshot cannot be read.
        """
        self.start = self.offset = start
        self.snapshot = snapshot
        self.is_complete = self.snapshot is not None or self.start == 0
        if self.snapshot is not None:
            for record in log_records(self.snapshot, 0):
                self._apply_value(record, None)
                self.epoch = record.epoch
        return self

    def run(self) -> ImageReplay:
        """Replay the log; return the replay.

        Raises:
            InputError: the snapshot or the log cannot be read.
        """
        for record in self.begin().records():
            self.apply(record)
        self.name_leader()
        return self

    def name_leader(self) -> None:
        """Take the leader from ``quorum-state`` if the log names none for the epoch that it ends with."""
        for file in self.metadata.others if self.leader is None else ():
            if file.kind == QUORUM_STATE:
                with open_source(file.path) as source:
                    states = [row for row in read_quorum_state(source) if isinstance(row, QuorumState)]
                self.leader = next((one.leader_id for one in states if one.leader_epoch == self.epoch), None)

    def records(self) -> Iterator[LogRecord]:
        """Yield the records of the log, in log order; each is to be applied by the caller.

        Raises:
            InputError: the log cannot be read.
        """
        expected = self.start
        for segment in self.metadata.segments:
            self.path = segment.path
            for record in log_records(segment.path, self.start):
                if self.at is not None and record.offset >= self.at:
                    return
                if self.at_ms is not None and record.timestamp > self.at_ms:
                    return
                if record.offset > expected:
                    self.gaps.append((expected, record.offset - 1))
                expected = record.offset + 1
                yield record

    def apply(self, record: LogRecord) -> None:
        """Apply a record of the log."""
        if self._aborted_in is not None:
            self._abort(is_last=self._aborted_in != (self.path, record.position))
        self.offset, self.epoch, self.timestamp = record.offset + 1, record.epoch, record.timestamp
        self._apply_value(record, record.timestamp)

    def _apply_value(self, record: LogRecord, timestamp: int | None) -> None:
        _, _, _, kind, value, _, is_control, version = record
        if version is not None and not is_control and version > self.versions.get(kind, -1):
            self.versions[kind] = version
        if value is not None and kind == REMOVE_TOPIC:
            self.removed[value["topicId"]] = record.timestamp
        if value is None:
            self.skipped[kind] += 1
        elif is_control:
            self._apply_control(kind, value, timestamp)
        elif not self._image.apply(kind, value, timestamp) and kind != NO_OP:
            self._change_transaction(record)

    def _change_transaction(self, record: LogRecord) -> None:
        """Begin or end a transaction; one that does not fit changes nothing and is counted, as Kafka's loader does."""
        kind, is_open = record.kind, self._before is not None
        if kind == "BeginTransactionRecord" and not is_open:
            self._before, self._transaction_offset = self._image.copy(), record.offset
        elif kind == "EndTransactionRecord" and is_open:
            self._before = None
        elif kind == "AbortTransactionRecord" and is_open:
            self._aborted_in = self.path, record.position
        elif kind.endswith("TransactionRecord"):
            self._image.not_applied[kind] += 1
        else:
            self.skipped[kind] += 1

    def _abort(self, *, is_last: bool) -> None:
        if is_last and self._before is not None:
            self._image = self._before
        self._before = self._aborted_in = None

    def _apply_control(self, kind: str, value: Mapping[str, Any], timestamp: int | None) -> None:
        if kind == "LEADER_CHANGE":
            self.leader, self.leader_ms = value["leaderId"], timestamp
            if not self.kraft_version:
                self.voters = tuple(value["voters"])
        elif kind == "SNAPSHOT_HEADER":
            self.timestamp = value["lastContainedLogTimestamp"]
        elif kind == "KRAFT_VERSION":
            self.kraft_version = value["kRaftVersion"]
        elif kind == "KRAFT_VOTERS":
            self.voters = tuple(value["voters"])
