"""The evidence on a cluster's transactions that its checks use, and the placing of their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE, StateRecord, TopicPartition
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers, TransactionMarkerArray
from kforensics.forensics.coordinators.transactions.history import Coordinators, History
from kforensics.forensics.coordinators.transactions.marker_join import MarkerJoin, join_markers
from kforensics.forensics.core.broker_settings import OFFSETS_PARTITIONS, STATE_PARTITIONS
from kforensics.forensics.core.election import Election, losses_of_leader
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.reporting import APPENDED, MOST, Row, dated
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.lost_watermarks import Watermark
from kforensics.forensics.partition.replica_ranks import best_ranked
from kforensics.parsers.format.array_types import Column, StructArray
from kforensics.parsers.log.log_rows import Place

__all__ = ["Cluster", "Join", "PlacedFinding", "first_n_placed", "marker_row", "partition_name", "row_dicts"]


# Returns the coordinators with transactions, and the join of these with the markers of partitions.
Join: TypeAlias = Callable[[Coordinators, Iterable[PartitionMarkers], Rules], tuple[Coordinators, MarkerJoin]]


class PlacedFinding(NamedTuple):
    """A finding and the partition it concerns.

    Attributes:
        place: a coordinator's partition or a data partition.
        finding: the finding; its path, position and offsets refer to that partition.
    """

    place: Place
    finding: Finding


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class Cluster:
    """What the coordinators decided, and what the partitions have of it.

    Attributes:
        rules: limits and the time of evaluation.
        coordinators: the histories of the transaction coordinators.
        marker_join: their transactions joined with the markers of the partitions.
        commits: the committed offsets in each partition of ``__consumer_offsets``.
        partition_count: number of partitions of ``__transaction_state``, None if unknown.
        offsets_partition_count: number of partitions of ``__consumer_offsets``, None if unknown.
        elections: leader elections by topic id and partition; None without the metadata log.
        elected: of each partition with elections, the replica with the newest leader epoch; that of each partition
            without the metadata log.
        watermarks: the high watermarks of all replicas, by partition and topic id.
        log_dirs: the log directories of all replicas.
        removed_topics: when topics were deleted, by name and by topic id, as far as the metadata log shows it.
    """

    rules: Rules
    coordinators: Coordinators
    marker_join: MarkerJoin
    commits: tuple[Commits, ...] = ()
    partition_count: int | None = None
    offsets_partition_count: int | None = None
    elections: Mapping[tuple[str, int], tuple[Election, ...]] | None = None
    elected: tuple[PartitionMarkers, ...] = ()
    watermarks: Mapping[tuple[TopicPartition, str | None], tuple[Watermark, ...]] = field(default_factory=dict)
    log_dirs: frozenset[str] = frozenset()
    removed_topics: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(  # noqa: PLR0913  # what a cluster consists of
        cls,
        histories: Iterable[History],
        markers: Iterable[PartitionMarkers],
        rules: Rules,
        *,
        commits: Iterable[Commits] = (),
        partition_count: int | None = None,
        offsets_partition_count: int | None = None,
        join: Join | None = None,
    ) -> Cluster:
        """Return a cluster; each of its partitions is given once.

        Args:
            histories: histories of the coordinator partitions.
            markers: markers of the data partitions, those of ``__consumer_offsets`` included.
            rules: limits and the time of evaluation.
            commits: committed offsets in the partitions of ``__consumer_offsets``.
            partition_count: number of partitions of ``__transaction_state``, None if unknown.
            offsets_partition_count: number of partitions of ``__consumer_offsets``, None if unknown.
                What the user gives as setting comes before both.
            join: joins transactions with markers, None to join those of the histories.
        """
        given = rules.given(STATE_PARTITIONS), rules.given(OFFSETS_PARTITIONS)
        partition_count = partition_count if given[0] is None else given[0]
        offsets_partition_count = offsets_partition_count if given[1] is None else given[1]
        coordinators = Coordinators.of(histories)
        if join is None:
            marker_join = join_markers(coordinators, markers, rules)
        else:
            coordinators, marker_join = join(coordinators, markers, rules)
        rules = rules.tolerating(marker_join.totals.tolerated_ms(rules.clock_skew_ms))
        return cls(rules, coordinators, marker_join, tuple(commits), partition_count, offsets_partition_count)

    def with_elections(
        self, elections: Mapping[tuple[str, int], tuple[Election, ...]] | None, replicas: Iterable[PartitionMarkers]
    ) -> Cluster:
        """Return the cluster with the elections of its partitions, and the replicas that know the newest of them.

        Args:
            elections: leader elections by topic id and partition; None without the metadata log.
            replicas: the markers of all replicas.
        """
        every = list(replicas)
        known = (
            replica
            for replica in every
            if replica.epoch_starts and (elections is None or (replica.topic_id, replica.name[1]) in elections)
        )
        newest = best_ranked(known, attrgetter("name"), attrgetter("rank"), lambda replica: (replica.log_end_offset,))
        log_dirs = frozenset(replica.place.log_dir for replica in every if replica.place.log_dir is not None)
        watermarks: dict[tuple[TopicPartition, str | None], tuple[Watermark, ...]] = {}
        for replica in every:
            key, own = (replica.name, replica.topic_id), (replica.watermark,) if replica.watermark else ()
            watermarks[key] = (*watermarks.get(key, ()), *own)
        return replace(self, elections=elections, elected=tuple(newest), watermarks=watermarks, log_dirs=log_dirs)

    def watermarks_of(self, replica: PartitionMarkers) -> tuple[Watermark, ...]:
        """Return the high watermarks of all replicas of a partition."""
        return self.watermarks.get((replica.name, replica.topic_id), ())

    def elections_of(self, replica: PartitionMarkers) -> tuple[Election, ...]:
        """Return the leader elections of a partition, in their order."""
        return self._elections(replica.topic_id, replica.name[1])

    def _elections(self, topic_id: str | None, partition: int) -> tuple[Election, ...]:
        return (self.elections or {}).get((topic_id or "", partition), ())

    def coordinator_elections(self, coordinator: int, since: int, until: int) -> list[Election]:
        """Return the leader elections of a coordinator's partition between two times, in ms; clocks may differ.

        Args:
            coordinator: number of the coordinator.
            since: earliest time.
            until: latest time.
        """
        history, skew = self.coordinators.histories[coordinator], self.rules.clock_skew_ms
        elections = self._elections(history.topic_id, history.place.partition or 0)
        return [one for one in elections if since - skew <= one.timestamp <= until + skew]

    def leaderless(self, replica: PartitionMarkers, time: int, skew: int) -> tuple[Election, Election | None] | None:
        """Return the loss of the leader and the next election of a partition that may have had no leader at a time.

        The next election is None if there was none since; the result is None if the partition had a leader.

        Args:
            replica: a replica of the partition.
            time: in ms.
            skew: by how much clocks may differ, in ms.
        """
        for lost, elected in losses_of_leader(self.elections_of(replica)):
            ends = NEVER if elected is None else elected.timestamp + skew
            if lost.timestamp - skew <= time <= ends:
                return lost, elected
        return None

    def deleted_since(self, replica: PartitionMarkers, time: int) -> int | None:
        """Return when the topic of a partition was last deleted, if that was not before a time, in ms."""
        deleted = (
            each for each in self.removed_topics.get(replica.name[0], ()) if each >= time - self.rules.clock_skew_ms
        )
        return max(deleted, default=None)

    @cached_property
    def supplied_partitions(self) -> Mapping[TopicPartition, int]:
        """The numbers of the data partitions that have a replica among the files."""
        return {markers.name: number for number, markers in self.marker_join.by_partition.items()}

    @property
    def has_all_coordinators(self) -> bool:
        """Whether every partition of ``__transaction_state`` is available; False if their number is unknown."""
        count = self.partition_count
        available = {history.place.partition for history in self.coordinators.histories}
        return count is not None and available >= {*range(count)}

    def at_record(self, coordinator: int, record: StateRecord, code: Code, message: str, **more: Any) -> PlacedFinding:
        """Return a finding about a record of a transaction coordinator.

        Args:
            coordinator: number of the coordinator's partition.
            record: the record.
            code: code of the finding.
            message: message of the finding.
            more: other attributes of the finding.
        """
        row = {
            "coordinator": coordinator,
            **{name: getattr(record, name) for name in ("segment", "position", "offset")},
        }
        producer = record.producer_id, record.producer_epoch
        if record.transactional_id is not None:
            more["evidence"] = {**more.get("evidence", {}), "transactional_id": record.transactional_id}
        at, finding = self.at_coordinator(row, code, message, producer=producer, **more)
        return PlacedFinding(at, dated(finding, {"timestamp": record.timestamp}, APPENDED))

    def at_coordinator(
        self, row: Row, code: Code, message: str, *, producer: tuple[int, int] | None = None, **more: Any
    ) -> PlacedFinding:
        """Return a finding about a row with the fields ``coordinator``, ``segment``, ``position`` and ``offset``.

        Args:
            row: a transaction, a transactional id or the use of a producer id.
            code: code of the finding.
            message: message of the finding.
            producer: producer id and epoch; an id that is NONE, as of an expired transactional id, is left out.
            more: other attributes of the finding.
        """
        history = self.coordinators.histories[row["coordinator"]]
        location: dict[str, Any] = {
            "path": history.paths[row["segment"]],
            "position": row["position"],
            "first_offset": row["offset"],
            "last_offset": row["offset"],
        }
        return PlacedFinding(history.place, _finding(code, message, producer, **location, **more))

    def at_partition(  # noqa: PLR0913  # what a finding has
        self,
        partition: int,
        code: Code,
        message: str,
        *,
        offsets: tuple[int, int] | None = None,
        producer: tuple[int, int] | None = None,
        at: tuple[int, int] | None = None,
        **more: Any,
    ) -> PlacedFinding:
        """Return a finding in a supplied data partition.

        Args:
            partition: number of the partition.
            code: code of the finding.
            message: message of the finding.
            offsets: first and last offset.
            producer: producer id and epoch.
            at: number of the segment and position of the evidence.
            more: other attributes of the finding.
        """
        markers = self.marker_join.by_partition[partition]
        first, last = offsets or (None, None)
        segment, position = at or (NONE, None)
        location: dict[str, Any] = {
            "path": markers.path(segment),
            "position": position,
            "first_offset": first,
            "last_offset": last,
        }
        return PlacedFinding(markers.place, _finding(code, message, producer, **location, **more))

    def at_marker(self, row: Row, code: Code, message: str, **more: Any) -> PlacedFinding:
        """Return a finding about a marker.

        Args:
            row: a TRANSACTION_MARKER record.
            code: code of the finding.
            message: message of the finding.
            more: other attributes of the finding.
        """
        return self.at_partition(
            row["partition"],
            code,
            message,
            offsets=(row["marker_offset"], row["marker_offset"]),
            producer=(row["producer_id"], row["marker_epoch"]),
            at=(row["segment"], row["position"]),
            **more,
        )

    def at_commit(
        self,
        commits: Commits,
        at: tuple[int, int, int],
        code: Code,
        message: str,
        *,
        producer: tuple[int, int] | None = None,
        **more: Any,
    ) -> PlacedFinding:
        """Return a finding about a record of a group.

        Args:
            commits: the commits of its partition.
            at: number of the segment, position of the batch and offset of the record.
            code: code of the finding.
            message: message of the finding.
            producer: producer id and epoch.
            more: other attributes of the finding.
        """
        segment, position, offset = at
        location: dict[str, Any] = {
            "path": commits.paths[segment],
            "position": position,
            "first_offset": offset,
            "last_offset": offset,
        }
        return PlacedFinding(commits.place, _finding(code, message, producer, **location, **more))

    def id_name(self, row: Row) -> str:
        """Return the transactional id of a row, from its number in the field ``id``."""
        return self.coordinators.names[row["id"]]

    def name(self, partition: int) -> str:
        """Return a partition by its number, as Kafka's tools write it."""
        return partition_name(self.marker_join.partitions[partition])


def partition_name(partition: TopicPartition) -> str:
    """Return a partition as Kafka's tools write it.

    >>> partition_name(("payments", 3))
    'payments-3'
    """
    return f"{partition[0]}-{partition[1]}"


def _finding(  # noqa: PLR0913  # what a finding has
    code: Code,
    message: str,
    producer: tuple[int, int] | None,
    *,
    severity: Severity | None = None,
    evidence: dict[str, object] | None = None,
    exactness: Exactness = Exactness.EXACT,
    benign: tuple[str, ...] = (),
    **more: Any,
) -> Finding:
    producer_id, producer_epoch = (None, None) if producer is None or producer[0] == NONE else producer
    return Finding(
        code=code,
        message=message,
        severity=code.severity if severity is None else severity,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        evidence=evidence or {},
        exactness=exactness,
        benign=benign,
        **more,
    )


def marker_row(marker: TransactionMarkerArray) -> dict[str, int]:
    """Return one TRANSACTION_MARKER record as Python values by name."""
    return {name: int(marker[name]) for name in marker.dtype.names or ()}


def row_dicts(rows: StructArray, **more: Column) -> Iterator[dict[str, Any]]:
    """Yield rows as Python values by name.

    Args:
        rows: the rows.
        more: further columns, with a value for each row.
    """
    names = (*(rows.dtype.names or ()), *more)
    columns = [
        *(rows[name].tolist() for name in rows.dtype.names or ()),
        *(column.tolist() for column in more.values()),
    ]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def first_n_placed(rows: StructArray, make: Callable[[Row], PlacedFinding], **more: Column) -> Iterator[PlacedFinding]:
    """Yield a finding for each of the first rows; the evidence of the last one has the number of rows ``left_out``.

    Args:
        rows: rows in reporting order.
        make: makes a finding of a row as Python values by name.
        more: further columns, with a value for each row.
    """
    left_out = len(rows) - MOST
    first = row_dicts(rows[:MOST], **{name: column[:MOST] for name, column in more.items()})
    for count, row in enumerate(first, 1):
        place, finding = make(row)
        finding = dated(finding, row, APPENDED)
        if left_out > 0 and count == MOST:
            finding = replace(finding, evidence={**finding.evidence, "left_out": left_out})
        yield PlacedFinding(place, finding)
