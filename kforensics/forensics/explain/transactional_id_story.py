"""Tells the story of a transactional id from what its coordinator wrote and what the partitions have of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster, rows_of
from kforensics.forensics.coordinators.coordinator_records import NONE, State, TopicPartition
from kforensics.forensics.coordinators.partition_of import DEFAULT_PARTITIONS, java_hashes
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.transactions.transaction_partitions import Verdict
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "UNDECIDED",
    "WORDS",
    "Part",
    "Stray",
    "TransactionOfId",
    "TransactionalIdStory",
    "coordinator_partition",
    "partitions_of_id",
    "transactional_id_story",
]

Row = Mapping[str, Any]
# What a partition says of a transaction, in words.
WORDS = {
    Verdict.GOOD: "marked",
    Verdict.EMPTY: "marked-without-data",
    Verdict.PENDING: "awaited",
    Verdict.UNSENT: "not-sent",
    Verdict.MISSING: "missing",
    Verdict.SPLIT: "contrary",
    Verdict.UNCLEAR: "unclear",
    Verdict.UNCOVERED: "not-covered",
    Verdict.UNSUPPLIED: "not-on-hand",
}
UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Part:
    """A partition of a transaction.

    Attributes:
        partition: topic and partition.
        place: where it lies, None if it is not on hand.
        verdict: what it says of the transaction, a word of WORDS; ``undecided`` while there is no end.
        marker: MARK record by name: the marker, None if there is none.
        path: segment that holds the marker.
        open_from: first offset of data of the producer that is still open there, None if none is.
    """

    partition: TopicPartition
    place: Place | None
    verdict: str
    marker: Row | None = None
    path: str | None = None
    open_from: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionOfId:
    """A transaction of a transactional id.

    Attributes:
        facts: INSTANCE record by name.
        path: segment of the record that decided it, or of its last one.
        parts: its partitions.
    """

    facts: Row
    path: str
    parts: tuple[Part, ...]

    @property
    def state(self) -> str:
        """Its last state, by Kafka's name."""
        return str(State(self.facts["status"]))

    def partitions(self, *verdicts: str) -> list[str]:
        """Return its partitions of some verdicts, as Kafka's tools write them."""
        return [f"{part.partition[0]}-{part.partition[1]}" for part in self.parts if part.verdict in verdicts]


@dataclass(frozen=True, slots=True)
class Stray:
    """Data of an id's producer that is open where the coordinator knows of no transaction that goes on.

    Attributes:
        partition: topic and partition.
        place: where it lies.
        producer_id: whose it is.
        first_offset: the first of it.
    """

    partition: TopicPartition
    place: Place
    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class TransactionalIdStory:
    """The story of a transactional id.

    Attributes:
        transactional_id: the id.
        place: the coordinator's partition.
        facts: TRANSACTIONAL_ID record by name.
        path: segment of its last record.
        producer_ids: all it has had, as far as records on hand tell.
        transactions: its transactions, in the order in which they were ended or left.
        strays: what hangs of it in its partitions.
    """

    transactional_id: str
    place: Place
    facts: Row
    path: str
    producer_ids: tuple[int, ...]
    transactions: tuple[TransactionOfId, ...]
    strays: tuple[Stray, ...] = ()

    @property
    def state(self) -> str | None:
        """Its last state, None if it was removed or cannot be read."""
        return None if self.facts["status"] == NONE else str(State(self.facts["status"]))


def coordinator_partition(transactional_id: str, partition_count: int = DEFAULT_PARTITIONS) -> int:
    """Return which partition of ``__transaction_state`` holds an id.

    >>> coordinator_partition("id-a")
    47
    """
    return int(java_hashes([transactional_id])[0]) % partition_count


def partitions_of_id(history: History, transactional_id: str) -> set[TopicPartition]:
    """Return all partitions that transactions of an id have listed; none if the history does not know it."""
    if transactional_id not in history.names:
        return set()
    number = list(history.names).index(transactional_id)
    numbers = np.unique(history.instances["partitions"][history.instances["id"] == number]).tolist()
    return {name for one in numbers if one >= 0 for name in history.sets[one]}


def transactional_id_story(cluster: Cluster, transactional_id: str) -> TransactionalIdStory | None:
    """Return the story of a transactional id, None if no coordinator on hand knows it.

    Args:
        cluster: the coordinators and the partitions on hand.
        transactional_id: the id.
    """
    coordinators = cluster.coordinators
    if transactional_id not in coordinators.names:
        return None
    number = list(coordinators.names).index(transactional_id)
    (facts,) = rows_of(coordinators.ids[number : number + 1])
    history = coordinators.histories[facts["coordinator"]]
    mine = np.flatnonzero(coordinators.instances["id"] == number)
    producer_ids = tuple(coordinators.uses["producer_id"][coordinators.uses["id"] == number].tolist())
    transactions = tuple(_transaction(cluster, int(index), history) for index in mine)
    return TransactionalIdStory(
        transactional_id,
        history.place,
        facts,
        history.paths[facts["segment"]],
        producer_ids,
        transactions,
        tuple(_strays(cluster, producer_ids, transactions)),
    )


def _strays(cluster: Cluster, producer_ids: Sequence[int], transactions: Sequence[TransactionOfId]) -> Iterator[Stray]:
    known = {
        (part.partition, part.open_from)
        for one in transactions
        for part in one.parts
        if part.verdict in (UNDECIDED, WORDS[Verdict.PENDING])
    }
    for markers in cluster.joined.markers.values():
        still_open = markers.still_open[np.isin(markers.still_open["producer_id"], producer_ids)]
        for row in rows_of(still_open):
            if (markers.name, row["first_offset"]) not in known:
                yield Stray(markers.name, markers.place, row["producer_id"], row["first_offset"])


def _transaction(cluster: Cluster, index: int, history: History) -> TransactionOfId:
    (facts,) = rows_of(cluster.coordinators.instances[index : index + 1])
    decided = facts["marker_epoch"] != NONE
    parts = _decided(cluster, index) if decided else _undecided(cluster, facts)
    return TransactionOfId(facts, history.paths[facts["segment"]], tuple(parts))


def _decided(cluster: Cluster, index: int) -> Iterator[Part]:
    found = cluster.joined
    (producer_id,) = cluster.coordinators.instances["producer_id"][index : index + 1].tolist()
    for part in rows_of(found.parts[found.parts["instance"] == index]):
        number, verdict = part["partition"], WORDS[Verdict(part["verdict"])]
        markers = found.markers.get(number)
        if markers is None or part["mark"] == NONE:
            yield _without_marker(cluster, number, verdict, producer_id)
            continue
        (mark,) = rows_of(found.marks[part["mark"] : part["mark"] + 1])
        yield Part(found.partitions[number], markers.place, verdict, mark, markers.path(mark["segment"]))


def _undecided(cluster: Cluster, facts: Row) -> Iterator[Part]:
    names: Sequence[TopicPartition] = cluster.joined.partitions
    for name in cluster.coordinators.listed(facts["partitions"]):
        yield _without_marker(cluster, names.index(name), UNDECIDED, facts["producer_id"])


def _without_marker(cluster: Cluster, number: int, verdict: str, producer_id: int) -> Part:
    markers, name = cluster.joined.markers.get(number), cluster.joined.partitions[number]
    if markers is None:
        return Part(name, None, verdict)
    still_open = markers.still_open
    firsts = still_open["first_offset"][still_open["producer_id"] == producer_id].tolist()
    return Part(name, markers.place, verdict, open_from=firsts[0] if firsts else None)
