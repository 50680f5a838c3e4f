"""Explain a transactional id: what its coordinator wrote, and which markers and open data its partitions have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster, row_dicts
from kforensics.forensics.coordinators.coordinator_records import NONE, State, TopicPartition
from kforensics.forensics.coordinators.hanging_transactions import follow_copy
from kforensics.forensics.coordinators.partition_of import DEFAULT_PARTITIONS, java_hashes
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.parsers.log.log_rows import Place

# A structured record as Python values by field name.
RecordFields: TypeAlias = Mapping[str, Any]
MARKER_VERDICTS = {
    MarkerStatus.MATCHED: "marked",
    MarkerStatus.EMPTY: "marked-without-data",
    MarkerStatus.PENDING: "awaited",
    MarkerStatus.UNSENT: "not-sent",
    MarkerStatus.MISSING: "missing",
    MarkerStatus.SPLIT: "contrary",
    MarkerStatus.AMBIGUOUS: "unclear",
    MarkerStatus.NOT_COVERED: "not-covered",
    MarkerStatus.NOT_SUPPLIED: "not-on-hand",
}
# The verdict while the coordinator has not decided the outcome.
UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class PartitionOfTransaction:
    """A partition that a transaction lists.

    Attributes:
        partition: topic and partition.
        place: the replica, None if none is available.
        verdict: whether it has the marker, a value of MARKER_VERDICTS; ``undecided`` without a decision.
        marker: fields of its TRANSACTION_MARKER record, None if there is none.
        path: path of the segment that contains the marker.
        open_from: first offset of open data of the producer, None if there is none.
    """

    partition: TopicPartition
    place: Place | None
    verdict: str
    marker: RecordFields | None = None
    path: str | None = None
    open_from: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionOfId:
    """A transaction of a transactional id.

    Attributes:
        facts: fields of its COORDINATOR_TRANSACTION record.
        path: path of the segment with the record of the decision, or with its last record.
        partitions: the partitions that it lists.
    """

    facts: RecordFields
    path: str
    partitions: tuple[PartitionOfTransaction, ...]

    @property
    def state(self) -> str:
        """Its last state, by Kafka's name."""
        return str(State(self.facts["status"]))

    def partition_names(self, *verdicts: str) -> list[str]:
        """Return the partitions with one of the verdicts, as ``topic-number``."""
        names = (listed.partition for listed in self.partitions if listed.verdict in verdicts)
        return [f"{topic}-{number}" for topic, number in names]


@dataclass(frozen=True, slots=True)
class OrphanedTransaction:
    """Open data of the producer of a transactional id, for which the coordinator has no ongoing transaction.

    Attributes:
        partition: topic and partition.
        place: the replica.
        producer_id: the producer that wrote the data.
        first_offset: first offset of the data.
        follows_copy: whether the copy of the coordinator's log may end before the data, and lack the transaction.
    """

    partition: TopicPartition
    place: Place
    producer_id: int
    first_offset: int
    follows_copy: bool = False


@dataclass(frozen=True, slots=True)
class TransactionalIdStory:
    """The explanation of a transactional id.

    Attributes:
        transactional_id: the transactional id.
        place: the coordinator's partition.
        facts: fields of its TRANSACTIONAL_ID record.
        path: path of the segment that contains its last record.
        producer_ids: all its producer ids in the available records.
        transactions: its transactions, in the order in which they were ended or abandoned.
        orphaned: its open data without an ongoing transaction.
    """

    transactional_id: str
    place: Place
    facts: RecordFields
    path: str
    producer_ids: tuple[int, ...]
    transactions: tuple[TransactionOfId, ...]
    orphaned: tuple[OrphanedTransaction, ...] = ()

    @property
    def state(self) -> str | None:
        """Its last state, None if it was removed or cannot be read."""
        return None if self.facts["status"] == NONE else str(State(self.facts["status"]))


def coordinator_partition(transactional_id: str, partition_count: int = DEFAULT_PARTITIONS) -> int:
    """Return the partition of ``__transaction_state`` that a transactional id belongs to.

    >>> coordinator_partition("id-a")
    47
    """
    return int(java_hashes([transactional_id])[0]) % partition_count


def partitions_of_id(history: History, transactional_id: str) -> set[TopicPartition]:
    """Return all partitions that the transactions of an id list; none if the history does not have the id."""
    if transactional_id not in history.names:
        return set()
    number = list(history.names).index(transactional_id)
    sets = np.unique(history.transactions["partitions"][history.transactions["id"] == number]).tolist()
    return {partition for set_number in sets if set_number >= 0 for partition in history.partition_sets[set_number]}


def transactional_id_story(cluster: Cluster, transactional_id: str) -> TransactionalIdStory | None:
    """Return the explanation of a transactional id, None if no available coordinator has it.

    Args:
        cluster: the available coordinators and partitions.
        transactional_id: the transactional id.
    """
    coordinators = cluster.coordinators
    if transactional_id not in coordinators.names:
        return None
    number = list(coordinators.names).index(transactional_id)
    (facts,) = row_dicts(coordinators.ids[number : number + 1])
    history = coordinators.histories[facts["coordinator"]]
    indexes = np.flatnonzero(coordinators.transactions["id"] == number)
    producer_ids = tuple(coordinators.producer_ids["producer_id"][coordinators.producer_ids["id"] == number].tolist())
    transactions = tuple(_transaction(cluster, int(index), history) for index in indexes)
    return TransactionalIdStory(
        transactional_id,
        history.place,
        facts,
        history.paths[facts["segment"]],
        producer_ids,
        transactions,
        tuple(_orphaned(cluster, number, producer_ids, transactions)),
    )


def _orphaned(
    cluster: Cluster, id_number: int, producer_ids: Sequence[int], transactions: Sequence[TransactionOfId]
) -> Iterator[OrphanedTransaction]:
    ongoing = {
        (listed.partition, listed.open_from)
        for transaction in transactions
        for listed in transaction.partitions
        if listed.verdict in (UNDECIDED, MARKER_VERDICTS[MarkerStatus.PENDING])
    }
    for partition, markers in cluster.marker_join.by_partition.items():
        still_open = markers.open_transactions[np.isin(markers.open_transactions["producer_id"], producer_ids)]
        follow = follow_copy(cluster, partition, still_open, np.full(len(still_open), id_number)).tolist()
        for row, follows in zip(row_dicts(still_open), follow, strict=True):
            data = row["producer_id"], row["first_offset"]
            if (markers.name, row["first_offset"]) not in ongoing:
                yield OrphanedTransaction(markers.name, markers.place, *data, follows_copy=follows)


def _transaction(cluster: Cluster, index: int, history: History) -> TransactionOfId:
    (facts,) = row_dicts(take_rows(cluster.coordinators.transactions, [index]))
    is_decided = facts["marker_epoch"] != NONE
    partitions = _decided(cluster, index) if is_decided else _undecided(cluster, facts)
    return TransactionOfId(facts, history.paths[facts["segment"]], tuple(partitions))


def _decided(cluster: Cluster, index: int) -> Iterator[PartitionOfTransaction]:
    join = cluster.marker_join
    (producer_id,) = cluster.coordinators.transactions["producer_id"][index : index + 1].tolist()
    for row in row_dicts(join.transaction_partitions[join.transaction_partitions["transaction"] == index]):
        number, verdict = row["partition"], MARKER_VERDICTS[MarkerStatus(row["marker_status"])]
        replica = join.by_partition.get(number)
        if replica is None or row["marker"] == NONE:
            yield _without_marker(cluster, number, verdict, producer_id)
            continue
        (marker,) = row_dicts(take_rows(join.markers, [row["marker"]]))
        path = replica.path(marker["segment"])
        yield PartitionOfTransaction(join.partitions[number], replica.place, verdict, marker, path)


def _undecided(cluster: Cluster, facts: RecordFields) -> Iterator[PartitionOfTransaction]:
    partitions: Sequence[TopicPartition] = cluster.marker_join.partitions
    for partition in cluster.coordinators.listed(facts["partitions"]):
        yield _without_marker(cluster, partitions.index(partition), UNDECIDED, facts["producer_id"])


def _without_marker(cluster: Cluster, number: int, verdict: str, producer_id: int) -> PartitionOfTransaction:
    join = cluster.marker_join
    replica, partition = join.by_partition.get(number), join.partitions[number]
    if replica is None:
        return PartitionOfTransaction(partition, None, verdict)
    still_open = replica.open_transactions
    offsets = still_open["first_offset"][still_open["producer_id"] == producer_id].tolist()
    return PartitionOfTransaction(partition, replica.place, verdict, open_from=offsets[0] if offsets else None)
