"""What the coordinators of a cluster know about the transactions of a partition, read when it is first needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kforensics.analyses.partitions import Investigation, OnUnreadable
from kforensics.errors import InputError
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.log_names import TRANSACTION_STATE

if TYPE_CHECKING:
    from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
    from kforensics.forensics.coordinators.transactions.history import Coordinators, History

__all__ = ["Context", "begins_in"]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the logs of a cluster show.

    Attributes:
        members: its partitions, neighbors included.
        coordinators: the histories of its transaction coordinators.
        rules: the limits in all its log directories.
        partition_count: number of partitions of ``__transaction_state``, None if unknown.
    """

    members: list[Partition]
    coordinators: Coordinators
    rules: Rules
    partition_count: int | None


@dataclass(frozen=True, slots=True)
class Context:
    """The coordinators' logs under the paths and around them.

    Most partitions have no open transaction, and then nothing is read.

    Attributes:
        investigation: the partitions and their neighbors.
        on_unreadable: takes the error of a log that cannot be read; it is left out.
    """

    investigation: Investigation
    on_unreadable: OnUnreadable
    _known: dict[str, _Known] = field(default_factory=dict)

    def transactional_id(self, state: PartitionState, producer_id: int) -> str | None:
        """Return the transactional id of a producer, None if no coordinator's log has it."""
        return self.transactional_ids(state, [producer_id]).get(producer_id)

    def transactional_ids(self, state: PartitionState, producer_ids: Iterable[int]) -> dict[int, str]:
        """Return the transactional ids of producers of a partition, as far as they are known."""
        import numpy as np

        coordinators, ids = self._known_of(state.partition).coordinators, list(producer_ids)
        numbers = coordinators.id_of(np.array(ids, "i8")).tolist()
        return {one: coordinators.name(number) for one, number in zip(ids, numbers, strict=True) if number >= 0}

    def two_phase_producers(self, state: PartitionState, producer_ids: Iterable[int]) -> frozenset[int]:
        """Return which producers of a partition have an ongoing transaction of a two-phase commit."""
        import numpy as np

        from kforensics.forensics.coordinators.coordinator_records import NO_TIMEOUT, State

        coordinators, ids = self._known_of(state.partition).coordinators, np.array(list(producer_ids), "i8")
        numbers = coordinators.id_of(ids)
        last = coordinators.ids[numbers]
        has_no_timeout = (last["timeout_ms"] == NO_TIMEOUT) & (last["status"] == State.ONGOING) & (numbers >= 0)
        return frozenset(ids[has_no_timeout & (last["producer_id"] == ids)].tolist())

    def producer_names(self, state: PartitionState) -> dict[int, str]:
        """Return the transactional ids of all producers of a partition that are known."""
        return self.transactional_ids(state, state.producers["producer_id"].tolist())

    def with_settings(self, state: PartitionState) -> PartitionState:
        """Return the state of a partition with the limits that follow from all settings that are known."""
        place = state.partition.place
        rules = self.investigation.known_rules.at(place.log_dir, place.topic)
        return replace(state, rules=replace(rules, copied_ms=state.rules.copied_ms))

    def revised(self, state: PartitionState, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return the findings on the open transactions of a partition as its coordinators see them.

        Args:
            state: the partition.
            findings: its findings alone.
        """
        if not len(state.open_transactions) or not state.partition.is_named:
            return findings
        known = self._known_of(state.partition)
        if not known.coordinators.histories:
            return findings
        from kforensics.forensics.audit.cluster_result import evaluate_cluster
        from kforensics.forensics.audit.deferred_verdicts import revised_findings
        from kforensics.forensics.audit.other_replicas import replica_findings
        from kforensics.forensics.checks.cluster import hanging
        from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
        from kforensics.forensics.coordinators.remedies import CoordinatorRemedies

        markers = PartitionMarkers.of(self.with_settings(state))
        result = evaluate_cluster(
            known.coordinators.histories,
            [markers, *self._other_replicas(state, known)],
            known.rules,
            partition_count=known.partition_count,
            checks=(hanging.CHECK,),
        )
        place, codes = state.partition.place, {*hanging.CODES, "txn-hanging"}
        added = [finding for at, finding in result.findings if at == place and finding.code.name in codes]
        added += replica_findings(result.cluster, markers)
        return revised_findings(place, findings, CoordinatorRemedies(result.cluster), added)

    def later_begins(self, state: PartitionState) -> dict[int, int]:
        """Return when open transactions of a partition began by their coordinators, in ms, by first offset.

        Only those whose records have older timestamps are included.
        """
        if not len(state.open_transactions):
            return {}
        from kforensics.forensics.checks.check import findings_of
        from kforensics.forensics.checks.partition import open_transactions

        return begins_in(self.revised(state, findings_of(state, (open_transactions.CHECK,))))

    def _other_replicas(self, state: PartitionState, known: _Known) -> Iterator[PartitionMarkers]:
        """Yield the markers of the other replicas of a partition, which may have more of the log."""
        from kforensics.forensics.coordinators.partition_markers import PartitionMarkers

        partition = state.partition
        for other in known.members:
            if other.folder != partition.folder and _are_copies(partition, other):
                replica = self.investigation.of([other])
                yield from map(PartitionMarkers.of, replica.states(self.on_unreadable))

    def _known_of(self, partition: Partition) -> _Known:
        investigation = self.investigation
        cluster = investigation.clusters.name_of(partition)
        if cluster not in self._known:
            everything = (*investigation.partitions, *investigation.neighbors)
            self._known[cluster] = self._read(
                [
                    member
                    for member in everything
                    if member.has_log and investigation.clusters.name_of(member) == cluster
                ]
            )
        return self._known[cluster]

    def _read(self, members: list[Partition]) -> _Known:
        from kforensics.forensics.audit.cluster_result import best_histories
        from kforensics.forensics.coordinators.transactions.history import Coordinators
        from kforensics.forensics.metadata.topic_metadata import partition_counts_in

        logs = [member for member in members if member.place.topic == TRANSACTION_STATE]
        counts: dict[str, int] = {}
        if logs:
            try:
                counts = partition_counts_in(members)
            except InputError as error:
                self.on_unreadable(error)
        coordinators = Coordinators.of(best_histories(self._histories(logs)))
        rules = self.investigation.known_rules.across({member.place.log_dir for member in members})
        return _Known(members, coordinators, rules, counts.get(TRANSACTION_STATE))

    def _histories(self, logs: list[Partition]) -> Iterator[History]:
        from kforensics.forensics.audit.cluster_result import coordinator_history

        for state in self.investigation.of(logs).states(self.on_unreadable):
            try:
                yield coordinator_history(state)
            except InputError as error:
                self.on_unreadable(error)


def begins_in(findings: Iterable[Finding]) -> dict[int, int]:
    """Return when open transactions began by their coordinators, in ms, by first offset.

    Args:
        findings: revised findings; those on transactions whose records are no older have no such time.
    """
    begins = ((finding.first_offset, finding.evidence.get("began_ms")) for finding in findings)
    return {offset: began for offset, began in begins if offset is not None and isinstance(began, int)}


def _name(partition: Partition) -> tuple[str | None, int | None]:
    return partition.place.topic, partition.place.partition


def _are_copies(one: Partition, other: Partition) -> bool:
    """Return whether two folders are of one partition, by name or, if one of them was renamed, by topic id."""
    is_of_topic = one.topic_id is not None and one.topic_id == other.topic_id
    return _name(one) == _name(other) or (is_of_topic and one.place.partition == other.place.partition)
