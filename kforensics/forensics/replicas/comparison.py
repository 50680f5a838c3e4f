"""Compares the replicas of one partition; the result contains everything that the checks of replicas evaluate.

Its differences, lost records and leader epoch lineage are also rows of tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from kforensics.forensics.core.election import STOPS_TO_FETCH_MS, Election, SyncChange
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.replica_tables import REPLICA_RESULTS
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.partition.creation_order import is_one_older
from kforensics.forensics.partition.lost_watermarks import LostWatermark, Watermark, lost_watermarks_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.replicas.batch_windows import ReplicaBatches, batch_windows
from kforensics.forensics.replicas.differences import Difference, DifferenceFinder, DifferenceKind, SideSummary
from kforensics.forensics.replicas.key_differences import KeyDifference, key_differences
from kforensics.forensics.replicas.lineage import overruled_replica
from kforensics.forensics.replicas.lost_records import Branch, LostRecord, lost_records, overruled_branches
from kforensics.forensics.replicas.record_differences import RecordComparer, RecordDifference
from kforensics.forensics.replicas.replica import Replica, replicas_of
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "Comparison",
    "RecordDifferences",
    "compare_states",
    "difference_rows",
    "lineage_rows",
    "lost_rows",
]


@dataclass(frozen=True, slots=True)
class RecordDifferences:
    """Offsets at which two replicas have different records.

    Attributes:
        first: the first differences.
        count: number of all differences.
    """

    first: tuple[RecordDifference, ...] = ()
    count: int = 0


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class Comparison:
    """The replicas of a partition, and where they differ.

    Attributes:
        replicas: all replicas by number.
        differences: the ranges that differ, pair by pair, in log order.
        common: for each pair, the number of batches that are the same on both sides.
        branches: where a later leader has overruled a replica.
        lost: the first records of each branch.
        differing_records: different records at the same offset, in the compacted part of the log.
        differing_keys: keys whose newest record differs after compaction.
        elections: leader elections of the partition, as far as the cluster metadata is available.
        sync_changes: when replicas came into sync or fell out of it for the last time, as far as that is available.
    """

    replicas: tuple[Replica, ...]
    differences: tuple[Difference, ...] = ()
    common: Mapping[tuple[int, int], int] = field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    lost: tuple[LostRecord, ...] = ()
    differing_records: RecordDifferences = RecordDifferences()
    differing_keys: tuple[KeyDifference, ...] = ()
    elections: tuple[Election, ...] = ()
    sync_changes: tuple[SyncChange, ...] = ()

    @property
    def place(self) -> Place:
        """Topic and partition, without broker and log directory."""
        first = self.replicas[0].partition.place
        return Place(None, None, first.topic, first.partition)

    @cached_property
    def live(self) -> tuple[Replica, ...]:
        """The replicas that brokers serve."""
        return tuple(replica for replica in self.replicas if replica.is_live)

    def pairs(self) -> Iterator[tuple[Replica, Replica]]:
        """Yield each pair of replicas once."""
        yield from combinations(self.replicas, 2)

    def differences_between(self, first: Replica, second: Replica, *kinds: DifferenceKind) -> list[Difference]:
        """Return the differences of some kinds between two replicas; of all kinds if none is given."""
        pair = first.number, second.number
        return [
            difference
            for difference in self.differences
            if (difference.first, difference.second) == pair and difference.kind in (kinds or DifferenceKind)
        ]

    def is_created_again(self, difference: Difference) -> bool:
        """Return whether one side is all of an earlier topic with the same name.

        Up to 2.7 topics have no ids, and later a broker may have written ``partition.metadata`` only after the copy.
        """
        pair = self.replicas[difference.first], self.replicas[difference.second]
        times = [side.timestamps for side in difference.sides if side.timestamps is not None]
        if difference.first_offset or len(times) < len(pair) or all(each.partition.topic_id for each in pair):
            return False
        epochs = [side.leader_epochs for side in difference.sides]
        return is_one_older(times) and all(each is not None and each[0] == 0 for each in epochs)

    def is_of_one_topic(self, first: Replica, second: Replica) -> bool:
        """Return whether two replicas are not known to be of topics that only have the same name."""
        first, second = sorted((first, second), key=lambda replica: replica.number)
        return not any(map(self.is_created_again, self.differences_between(first, second, DifferenceKind.DIVERGED)))

    def common_history_end(self, first: Replica, second: Replica) -> int:
        """Return the offset up to which two replicas have the same history: where they diverge, or where one ends."""
        diverged = self.differences_between(first, second, DifferenceKind.DIVERGED)
        return min(first.end, second.end, *(difference.first_offset for difference in diverged))

    def loser(self, difference: Difference) -> Replica | None:
        """Return the replica that a later leader has overruled in a range, None if neither was."""
        number = overruled_replica(difference, self.replicas)
        return None if number is None else self.replicas[number]

    def out_of_sync(self, replica: Replica, other: Replica) -> SyncChange | None:
        """Return the change by which a replica need not have all that is committed on another one, None without one.

        It fell out of sync before the first record that it lacks was written, or at most STOPS_TO_FETCH_MS later unless
        its broker was shut down cleanly, which fetches until then. Or it came into sync only after its files had been
        written. One that is younger than the change may lack what is older than itself: a reassignment has added it, or
        its disk was replaced.
        """
        broker_id, newest = replica.partition.place.broker_id, replica.partition.newest_mtime_ms
        change = next((change for change in self.sync_changes if change.broker_id == broker_id), None)
        if change is None:
            return None
        if change.is_in_sync:
            return change if newest is not None and newest < change.timestamp else None
        created = replica.partition.created_ms
        if change.is_added and (created is None or created + replica.state.rules.clock_skew_ms >= change.timestamp):
            return change
        # A folder that is younger than all records may have the time of the copy.
        newest = max(side.state.log.newest_timestamp for side in (replica, other))
        if created is not None and change.timestamp < created <= newest:
            return change
        lacking_since = self.lacking_since(replica, other)
        tolerance = 0 if replica.partition.log_dir.clean_shutdown else STOPS_TO_FETCH_MS
        is_earlier = lacking_since is not None and lacking_since + tolerance < change.timestamp
        return None if is_earlier else change

    def lacking_since(self, replica: Replica, other: Replica) -> int | None:
        """Return the smallest timestamp of what only one of two replicas has at its end, in ms; None without one."""
        first, second = sorted((replica, other), key=lambda side: side.number)
        behind = self.differences_between(first, second, DifferenceKind.BEHIND)
        times = (side.timestamps[0] for difference in behind for side in difference.sides if side.timestamps)
        return min(times, default=None)

    def unclean_election(self, above: int, upto: int) -> Election | None:
        """Return the first unclean election whose leader epoch is above one epoch and not above another."""
        return next(
            (election for election in self.elections if election.is_unclean and above < election.leader_epoch <= upto),
            None,
        )

    def lost_watermark(self, replica: Replica) -> LostWatermark | None:
        """Return the high watermark of a replica, if an unclean election has truncated records below it."""
        return next((lost for lost in self._lost_watermarks if lost.replica.place == replica.partition.place), None)

    @cached_property
    def _lost_watermarks(self) -> list[LostWatermark]:
        if not any(election.is_unclean for election in self.elections):
            return []
        skew = max((replica.state.rules.clock_skew_ms for replica in self.live), default=0)
        watermarks = [Watermark.of(replica.state, replica.epoch_starts) for replica in self.live]
        return lost_watermarks_of(watermarks, self.elections, skew)

    def finding(  # noqa: PLR0913  # the fields of a finding
        self,
        replica: Replica,
        code: Code,
        message: str,
        *,
        severity: Severity | None = None,
        at: tuple[int, int] | None = None,
        offsets: tuple[int, int] | None = None,
        producer: tuple[int, int] | None = None,
        evidence: dict[str, object] | None = None,
        exactness: Exactness = Exactness.EXACT,
        benign: tuple[str, ...] = (),
        cause: str | None = None,
        remedy: str | None = None,
    ) -> Finding:
        """Return a finding about one replica, with its folder as evidence; arguments as ``PartitionState.finding``.

        A remedy replaces that of the code.
        """
        finding = replica.state.finding(
            code,
            message,
            severity=severity,
            at=at,
            offsets=offsets,
            producer=producer,
            evidence={"replica": replica.partition.folder, **(evidence or {})},
            exactness=exactness,
            benign=benign,
            cause=cause,
        )
        return replace(finding, remedy=remedy)


def compare_states(
    states: Sequence[PartitionState],
    elections: Sequence[Election] = (),
    kernels: KernelPolicy = kernels_for,
    workers: int | None = None,
) -> Comparison:
    """Return where examined replicas of one partition differ; reads their logs once more.

    Decodes records only where replicas differ, and for keys whose records compaction may have left different.

    Args:
        states: two or more examined copies of one partition.
        elections: its leader elections, if the cluster metadata is available.
        kernels: returns the compiled kernels if they pay off.
        workers: number of reading threads, 0 to read in the calling thread, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    replicas = replicas_of(states)
    pairs = [_Pair.of(first, second, kernels, workers) for first, second in combinations(replicas, 2)]
    for window in batch_windows([state.partition for state in states], kernels, workers):
        for pair in pairs:
            pair.add(window)
    differences = tuple(difference for pair in pairs for difference in pair.differences.finish())
    comparison = Comparison(
        replicas,
        differences,
        common={pair.numbers: pair.differences.common for pair in pairs},
        branches=tuple(overruled_branches(replicas, differences)),
        differing_records=RecordDifferences(
            tuple(difference for pair in pairs for difference in pair.records.differences),
            sum(pair.records.count for pair in pairs),
        ),
        elections=tuple(elections),
    )
    return replace(
        comparison,
        lost=lost_records(comparison.branches, kernels, workers),
        differing_keys=tuple(_differing_keys(comparison, kernels)),
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two replicas while they are read.

    Attributes:
        numbers: their numbers.
        differences: ranges in which their batches differ.
        records: differences between records of partially compacted batches.
    """

    numbers: tuple[int, int]
    differences: DifferenceFinder
    records: RecordComparer

    @classmethod
    def of(cls, first: Replica, second: Replica, kernels: KernelPolicy, workers: int | None) -> _Pair:
        """Return two replicas before their first window."""
        records = RecordComparer(first, second, kernels, workers)
        return cls((first.number, second.number), DifferenceFinder(first, second), records)

    def add(self, window: Sequence[ReplicaBatches]) -> None:
        """Add a window of all replicas."""
        first, second = self.differences.add(*(window[number] for number in self.numbers))
        self.records.add(first, second)


def _differing_keys(comparison: Comparison, kernels: KernelPolicy) -> Iterator[KeyDifference]:
    for first, second in comparison.pairs():
        end = comparison.common_history_end(first, second)
        others = [replica for replica in comparison.replicas if replica is not first and replica is not second]
        for cleaned in comparison.differences_between(first, second, DifferenceKind.CLEANED):
            if cleaned.first_offset < end:
                yield from key_differences(first, second, cleaned, end, others, kernels)


def difference_rows(comparison: Comparison) -> Rows:
    """Return one row for each range in which two replicas differ."""
    return _rows("replica_differences", [_difference(comparison, row) for row in comparison.differences])


def lost_rows(comparison: Comparison) -> Rows:
    """Return one row for each record that a later leader did not have or has overwritten."""
    return _rows("lost_records", [_lost(record) for record in comparison.lost])


def lineage_rows(comparison: Comparison) -> Rows:
    """Return one row for each leader epoch of each replica, with the election that began it if it is known."""
    elections = {election.leader_epoch: election for election in comparison.elections}
    rows = [
        {
            **replica.partition.place._asdict(),
            "folder": replica.partition.folder,
            "leader_epoch": epoch,
            "start_offset": start,
            "shared": all((epoch, start) in other.epoch_starts for other in comparison.replicas),
            **_batches_of(replica, epoch),
            "noted": epoch in replica.checkpointed_epochs,
            **_election(elections.get(epoch)),
        }
        for replica in comparison.replicas
        for epoch, start in replica.epoch_starts
    ]
    return _rows("leader_epoch_lineage", rows)


def _batches_of(replica: Replica, epoch: int) -> dict[str, int | None]:
    runs = replica.state.log.epochs
    runs = runs[runs["leader_epoch"] == epoch]
    if not len(runs):
        return {"first_offset": None, "last_offset": None}
    return {"first_offset": int(runs["first_offset"].min()), "last_offset": int(runs["last_offset"].max())}


def _election(election: Election | None) -> dict[str, Any]:
    if election is None:
        return dict.fromkeys(("leader", "elected_at", "in_sync", "unclean"))
    return {
        "leader": election.leader,
        "elected_at": election.timestamp,
        "in_sync": " ".join(map(str, election.in_sync)),
        "unclean": election.is_unclean,
    }


def _rows(name: str, rows: list[dict[str, Any]]) -> Rows:
    table = REPLICA_RESULTS[name]
    return Rows(table, len(rows), {name: [row[name] for row in rows] for name in table.names})


def _lost(record: LostRecord) -> dict[str, Any]:
    loser, winner = record.branch.loser, record.branch.winner
    names = ("path", "offset", "timestamp", "producer_id", "producer_epoch", "sequence", "outcome", "key", "key_size")
    return {
        **loser.partition.place._asdict(),
        "folder": loser.partition.folder,
        "other_broker_id": winner.partition.place.broker_id,
        "other_folder": winner.partition.folder,
        "batch_position": record.position,
        **{name: getattr(record, name) for name in (*names, "value_size", "again_at")},
        "known_committed": (loser.high_watermark or 0) > record.offset,
    }


def _difference(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    first, second = comparison.replicas[difference.first], comparison.replicas[difference.second]
    loser = comparison.loser(difference)
    place = second.partition.place
    return {
        **first.partition.place._asdict(),
        "folder": first.partition.folder,
        "other_broker_id": place.broker_id,
        "other_log_dir": place.log_dir,
        "other_folder": second.partition.folder,
        "kind": str(difference.kind),
        "loser": None if loser is None else loser.partition.folder,
        "first_offset": difference.first_offset,
        "last_offset": difference.last_offset,
        "left_out": difference.left_out,
        **_side(first, difference.sides[0], ""),
        **_side(second, difference.sides[1], "other_"),
    }


def _side(replica: Replica, side: SideSummary, prefix: str) -> dict[str, Any]:
    segment, position = side.at or (-1, None)
    epochs, timestamps = side.leader_epochs or (None, None), side.timestamps or (None, None)
    values = {
        "batches": side.batches,
        "records": side.records,
        "markers": side.markers,
        "bytes": side.bytes,
        "producer_ids": " ".join(map(str, side.producer_ids)),
        "lowest_leader_epoch": epochs[0],
        "highest_leader_epoch": epochs[1],
        "first_timestamp": timestamps[0],
        "last_timestamp": timestamps[1],
        "path": replica.state.path(segment),
        "position": position,
    }
    return {f"{prefix}{name}": value for name, value in values.items()}
