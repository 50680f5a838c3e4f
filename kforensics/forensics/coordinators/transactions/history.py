"""The history of a transaction coordinator's partition: its transactional ids and their transactions.

:mod:`.history_replay` reads it from the log. A history grows with the number of ids and transactions, not with that of
records. A transactional id belongs to one partition of ``__transaction_state``, so the histories of several partitions
can be made in any process; :class:`Coordinators` combines them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NEVER, NONE, TopicPartition
from kforensics.forensics.coordinators.record_issues import StateIssue, StateIssueKind
from kforensics.forensics.core.packed_rows import StructRows
from kforensics.forensics.core.record_arrays import concat_rows, copy_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.lost_end import MissingEnd
from kforensics.forensics.partition.replica_ranks import NO_RANK, ReplicaRank
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "COORDINATOR_TRANSACTION",
    "PRODUCER_ID_USE",
    "TRANSACTIONAL_ID",
    "UNKNOWN_SET",
    "CoordinatorTransactionArray",
    "Coordinators",
    "History",
    "LackingSpan",
    "PartitionSets",
    "ProducerIdUseArray",
    "TransactionalIdArray",
]

# Number of a set of partitions when no record that lists them is available.
UNKNOWN_SET = -1

TRANSACTIONAL_ID = np.dtype(
    [
        ("coordinator", "i4"),  # number of the coordinator's partition
        ("status", "i1"),  # of its last record; -1 for a tombstone or a broken record
        ("is_removed", "?"),  # whether its last record is a tombstone
        ("history_complete", "?"),  # whether its first available record is the first one ever written
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("transaction_version", "i2"),
        ("timeout_ms", "i4"),
        ("start", "i8"),
        ("first_time", "i8"),  # of its first available record
        ("last_time", "i8"),
        ("partitions", "i4"),  # number of the set that its last record lists; -1 if none
        ("inits", "i8"),  # Empty records
        ("transactions", "i8"),
        ("committed", "i8"),
        ("aborted", "i8"),
        ("producers", "i4"),  # number of producer ids it has had
        ("leader_epoch", "i4"),
        ("segment", "i4"),  # of its last record
        ("position", "i8"),
        ("offset", "i8"),
    ]
)
# A transaction as its coordinator recorded it, from its first partition to the acknowledgement of its last marker.
COORDINATOR_TRANSACTION = np.dtype(
    [
        ("coordinator", "i4"),  # number of the coordinator's partition
        ("id", "i4"),  # number of the transactional id
        ("producer_id", "i8"),
        ("data_epoch", "i2"),  # -1 if no Ongoing record is available
        ("marker_epoch", "i2"),  # -1 until the outcome is decided
        ("status", "i1"),  # of its last record
        ("is_superseded", "?"),  # the coordinator decided again, so this decision may have no markers
        ("transaction_version", "i2"),  # of the request that ended it
        ("partitions", "i4"),  # number of their set
        ("timeout_ms", "i4"),
        ("start", "i8"),  # as in the records; this and the next two are NO_TIME if unknown
        ("decided", "i8"),  # time of the first Prepare record
        ("completed", "i8"),  # time of the last Complete record
        ("prepare_leader_epoch", "i4"),  # -1 if there is none
        ("complete_leader_epoch", "i4"),
        ("segment", "i4"),  # of the record that decided it, else of its last one
        ("position", "i8"),
        ("offset", "i8"),
    ]
)
# The first record of an id that names a producer id, in whatever field.
PRODUCER_ID_USE = np.dtype(
    [
        ("producer_id", "i8"),
        ("coordinator", "i4"),
        ("id", "i4"),
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
    ]
)
TransactionalIdArray: TypeAlias = StructArray
CoordinatorTransactionArray: TypeAlias = StructArray
ProducerIdUseArray: TypeAlias = StructArray


class PartitionSets:
    """Numbers sets of partitions; most transactions of an application have the same set."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[TopicPartition, ...], int] = {}

    def number(self, partitions: tuple[TopicPartition, ...] | None) -> int:
        """Return the number of a set, a new one if the set is new; UNKNOWN_SET for None."""
        return UNKNOWN_SET if partitions is None else self._numbers.setdefault(partitions, len(self._numbers))

    def __iter__(self) -> Iterator[tuple[TopicPartition, ...]]:
        """Iterate over the sets in the order of their numbers."""
        return iter(self._numbers)


class LackingSpan(NamedTuple):
    """Records that the copy of a coordinator's log likely lacks.

    They are lost or damaged, the copy was broken off before them, or its cleaner merged segments while they were
    copied: then the segment before them is as it was written, and so was what followed. A follower that fetched from a
    leader whose cleaner was faster may have such a gap, too.

    Attributes:
        offset: offset of the last record before them.
        begin: time of that record, in ms; 0 if they are lost or damaged.
        end: time of the first record after them; NEVER if they are lost or damaged, or at the end of the log.
    """

    offset: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class History:
    """The history of a coordinator's partition.

    Attributes:
        place: the partition.
        paths: paths of its segments.
        names: transactional ids, by number.
        ids: TRANSACTIONAL_ID records, by number.
        transactions: COORDINATOR_TRANSACTION records, in the order in which they ended or were abandoned; packed if
            they are very many.
        partition_sets: sets of partitions, by number.
        producer_ids: PRODUCER_ID_USE records.
        issues: issues with records, at most MOST of each kind.
        issue_counts: number of issues of each kind.
        coverage_start: time from which no record is missing: ALWAYS if none is missing at all, NEVER if one may be
            missing at any time.
        last_record_time: time of the last record, NO_TIME if there is none.
        records: number of records.
        is_stopped: whether its broker was shut down cleanly, and was in sync, so that nothing followed, and nothing is
            missing at the end.
        kept_until: newest time of its files, if the copy has kept file times: :func:`.kept_times.kept_until`.
        topic_id: topic id of ``__transaction_state``, None if unknown.
        lagging_since: since when its leader may have later records, in ms, NO_TIME if it may always have; None if it
            was in sync at last, or nothing is known.
        lacking: records that the copy likely lacks, between those that it has or after them.
        missing_end: what shows that it lacks those after its end; None if nothing does.
        rank: its rank among the replicas of the partition.
    """

    place: Place
    paths: tuple[str, ...]
    names: Sequence[str]
    ids: TransactionalIdArray
    transactions: StructRows
    partition_sets: tuple[tuple[TopicPartition, ...], ...]
    producer_ids: ProducerIdUseArray
    issues: tuple[StateIssue, ...] = ()
    issue_counts: Mapping[StateIssueKind, int] = field(default_factory=dict)
    coverage_start: int = ALWAYS
    last_record_time: int = NO_TIME
    records: int = 0
    is_stopped: bool = False
    kept_until: int = NO_TIME
    topic_id: str | None = None
    lagging_since: int | None = None
    lacking: tuple[LackingSpan, ...] = ()
    missing_end: MissingEnd | None = None
    rank: ReplicaRank = NO_RANK

    @property
    def known_until(self) -> int:
        """Until when it has all that its leader has, NEVER if it was in sync at last; a later record shows more."""
        if self.missing_end is not None:
            return self.last_record_time
        return NEVER if self.lagging_since is None else max(self.lagging_since, self.last_record_time)


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class Coordinators:
    """The histories of several coordinator partitions, with ids and sets of partitions renumbered across all of them.

    Attributes:
        histories: histories, by number of the coordinator.
        names: transactional ids, by number.
        ids: TRANSACTIONAL_ID records, by number.
        transactions: COORDINATOR_TRANSACTION records. Those of an id keep the order in which they ended or were
            abandoned.
        partition_sets: sets of partitions, by number.
        producer_ids: PRODUCER_ID_USE records, sorted by producer id.
    """

    histories: tuple[History, ...]
    names: Sequence[str]
    ids: TransactionalIdArray
    transactions: StructRows
    partition_sets: tuple[tuple[TopicPartition, ...], ...]
    producer_ids: ProducerIdUseArray

    @classmethod
    def of(cls, histories: Iterable[History]) -> Coordinators:
        """Return the combination of some histories."""
        histories = tuple(histories)
        names: list[str] = []
        partition_sets: list[tuple[TopicPartition, ...]] = []
        columns: dict[str, list[StructArray]] = {name: [] for name in ("ids", "transactions", "producer_ids")}
        for coordinator, history in enumerate(histories):
            shifts = {"id": len(names), "partitions": len(partition_sets)}
            for name, parts in columns.items():
                parts.append(_renumbered(getattr(history, name), coordinator, shifts))
            names += history.names
            partition_sets += history.partition_sets
        uses = concat_rows([np.empty(0, PRODUCER_ID_USE), *columns["producer_ids"]])
        return cls(
            histories=histories,
            names=names,
            ids=concat_rows([np.empty(0, TRANSACTIONAL_ID), *columns["ids"]]),
            transactions=concat_rows([np.empty(0, COORDINATOR_TRANSACTION), *columns["transactions"]]),
            partition_sets=tuple(partition_sets),
            producer_ids=uses[np.lexsort((uses["id"], uses["producer_id"]))],
        )

    @cached_property
    def coverage_start(self) -> IntArray:
        """The time from which no record is missing, for each coordinator partition."""
        return np.array([history.coverage_start for history in self.histories], "i8")

    @cached_property
    def last_record_time(self) -> IntArray:
        """The time of the last record of each coordinator partition."""
        return np.array([history.last_record_time for history in self.histories], "i8")

    @cached_property
    def may_be_outdated(self) -> BoolArray:
        """Whether the copy likely lacks records after the last one of each id, which may be of that id."""
        outdated = np.zeros(len(self.ids), bool)
        for number, history in enumerate(self.histories):
            last = max((span.offset for span in history.lacking), default=NONE)
            outdated |= (self.ids["coordinator"] == number) & (self.ids["offset"] <= last)
        return outdated

    def id_of(self, producer_ids: IntArray) -> IntArray:
        """Return for each producer id the number of its transactional id, -1 if no available coordinator knows one.

        If two ids have it, which should not happen, the first one is returned.
        """
        known = self.producer_ids["producer_id"]
        if not len(known):
            return np.full(len(producer_ids), NONE, "i8")
        rows = np.minimum(np.searchsorted(known, producer_ids), len(known) - 1)
        return np.where(known[rows] == producer_ids, self.producer_ids["id"][rows], NONE).astype("i8")

    def name(self, number: int) -> str:
        """Return a transactional id by its number."""
        return self.names[number]

    def listed(self, number: int) -> tuple[TopicPartition, ...]:
        """Return a set of partitions by its number; empty for UNKNOWN_SET."""
        return () if number == UNKNOWN_SET else self.partition_sets[number]


def _renumbered(rows: StructRows, coordinator: int, shifts: Mapping[str, int]) -> StructArray:
    """Return a copy of rows with their numbers shifted and the number of their coordinator."""
    renumbered = copy_rows(rows)
    fields = renumbered.dtype.names or ()
    for name, shift in shifts.items():
        if name in fields:
            renumbered[name] += np.where(renumbered[name] >= 0, shift, 0).astype(renumbered[name].dtype)
    if "coordinator" in fields:
        renumbered["coordinator"] = coordinator
    return renumbered
