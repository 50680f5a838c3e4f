"""What to do about an open transaction, as far as its coordinator knows better than the partition alone.

A transaction that its coordinator will end must not be aborted in one of its partitions: what was written there would
be lost, or end otherwise than the rest. ``FindHangingTransactionsCommand`` does not list it either.

The transactional id stands in commands alone, where it is quoted: whoever chose it must not choose what is to be done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from kforensics.forensics.coordinators.awaited_markers import is_awaited, is_illegible
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NONE, TRANSACTION_STATE, State
from kforensics.forensics.coordinators.deadlines import NO_TIMEOUT, is_overdue, is_stuck
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.record_types import NO_TIME, Ending, Records
from kforensics.forensics.core.reporting import moment
from kforensics.parsers.log.log_rows import Place

__all__ = ["REMEDIES", "Advice"]

TOOL = "kafka-transactions.sh --bootstrap-server <host:port>"
FIND = f"{TOOL} find-hanging --topic {{topic}} --partition {{partition}}"
ABORT = f"{TOOL} abort --topic {{topic}} --partition {{partition}} --start-offset {{first_offset}}"
DESCRIBE = f"{TOOL} describe --transactional-id {{transactional_id}}"
TERMINATE = f"{TOOL} forceTerminateTransaction --transactionalId {{transactional_id}}"
ENDS = f"a new producer with the same id ends it everywhere, and so does, since 4.1, {TERMINATE}"
# What to do, by what is known; {until} is a time and {state} that of the coordinator.
REMEDIES = {
    "going on": f"Wait until {{until}}: then its coordinator aborts it, if its application has not ended it before. Do "
    f"not abort it in this partition alone. Ask with {DESCRIBE}; if it must end now, {ENDS}.",
    "without timeout": "Do not abort it in this partition alone: its coordinator has it as Ongoing, without a timeout, "
    "as it is with a two-phase commit, and its application has to commit or abort it. Ask with "
    f"{DESCRIBE}; if nobody will, {ENDS}.",
    "overdue": "Its coordinator should have aborted it at {until}: see whether the leader of {coordinator} is well, "
    f"and ask with {DESCRIBE}. If it stays so, {ENDS}. Only where nothing else is of use, {ABORT} ends it in this "
    "partition alone.",
    "prepared": "Do not abort it: its coordinator has it as {state}, and will send the marker. If none comes, ask with "
    f"{DESCRIBE}, and move the leadership of {{coordinator}}: the new coordinator sends all markers again.",
    "ended": "Do not abort it: a replica that reaches further has the {state} of it at offset {offset}. Let this one "
    "catch up.",
    "hanging": f"No coordinator waits for it, so nobody will end it. Confirm with {FIND}; if it is listed, end it with "
    f"{ABORT}.",
}
# Findings about open transactions, and what is to be added for each.
ADVISED = {
    "lso-stuck": "Look at compaction too: the cleaner cannot pass this offset.",
    "txn-late": "",
    "txn-head-deleted": "A broker that restarts before may forget it and show its data.",
    "eos-offsets-pending": "",
}


class _Known(NamedTuple):
    """What is known of a transaction: a key of REMEDIES, a phrase, the figures in the words, whose it is, how bad.

    What is in order, or no more than a replica that is behind, is not as bad as it would be.
    """

    what: str
    phrase: str
    figures: dict[str, str]
    transactional_id: str | None = None
    is_in_order: bool = False


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Advice:
    """Gives findings about open transactions what their coordinators know.

    Attributes:
        cluster: the cluster.
    """

    cluster: Cluster

    def given(self, place: Place, finding: Finding) -> Finding:
        """Return a finding with the remedy that its coordinator's knowledge asks for; as it is if nobody knows better.

        Args:
            place: the partition.
            finding: what was found in it.
        """
        known = self._known(place, finding) if finding.code.name in ADVISED else None
        if known is None:
            return finding
        remedy = REMEDIES[known.what]
        for name, value in known.figures.items():
            remedy = remedy.replace(f"{{{name}}}", value)
        told = {} if known.transactional_id is None else {"transactional_id": known.transactional_id}
        others = (phrase for phrase in finding.benign if "coordinator log" not in phrase)
        return replace(
            finding,
            severity=min(finding.severity, Severity.WARNING) if known.is_in_order else finding.severity,
            evidence={**finding.evidence, **told},
            benign=(*others, f"in order, as its coordinator knows: {known.phrase}"),
            remedy=f"{remedy} {ADVISED[finding.code.name]}".rstrip(),
        )

    def _known(self, place: Place, finding: Finding) -> _Known | None:
        name = place.topic or "", NONE if place.partition is None else place.partition
        partition = self.cluster.supplied.get(name)
        if partition is None or not self.cluster.coordinators.histories:
            return None
        marks = self.cluster.joined.marks
        ended = marks[(marks["partition"] == partition) & (marks["first_offset"] == finding.first_offset)]
        if len(ended):
            figures = {"state": _marker(ended[0]), "offset": str(int(ended[0]["marker_offset"]))}
            return _Known("ended", "another replica has its end", figures, is_in_order=True)
        found = self.cluster.joined.markers[partition].still_open
        found = found[found["first_offset"] == finding.first_offset]
        return self._known_of(partition, found) if len(found) == 1 else None

    def _known_of(self, partition: int, opened: Records) -> _Known | None:
        """Return what is known of the one open transaction."""
        cluster = self.cluster
        ids = cluster.coordinators.id_of(opened["producer_id"])
        silent = int(opened["silence"][0])
        if ids[0] == NONE:
            hangs = cluster.has_all_coordinators and silent > cluster.rules.late_ms
            return _Known("hanging", "no, none knows its producer", {}) if hangs else None
        if is_awaited(cluster, partition, opened, ids)[0]:
            return self._awaited(int(ids[0]))
        hangs = silent > cluster.rules.max_txn_timeout_ms and not is_illegible(cluster, ids)[0]
        name = cluster.coordinators.name(int(ids[0]))
        return _Known("hanging", "no, it waits for nothing here", {}, name) if hangs else None

    def _awaited(self, number: int) -> _Known:
        """Return what is known of the transaction of an id that will be ended, or should have been."""
        coordinators = self.cluster.coordinators
        last, name = coordinators.ids[number], coordinators.name(number)
        state, until = State(int(last["status"])), moment(int(last["start"]) + int(last["timeout_ms"]))
        partition = coordinators.histories[int(last["coordinator"])].place.partition
        figures = {"state": str(state), "until": until, "coordinator": f"{TRANSACTION_STATE}-{partition}"}
        if state is not State.ONGOING:
            stuck = bool(self._stuck[number])
            phrase = f"no, it has been {state} for long" if stuck else f"{state}, the marker is on its way"
            return _Known("prepared", phrase, figures, name, is_in_order=not stuck)
        if last["timeout_ms"] == NO_TIMEOUT or last["start"] == NO_TIME:
            return _Known("without timeout", "Ongoing, without a timeout", figures, name, is_in_order=True)
        if self._overdue[number]:
            return _Known("overdue", f"no, Ongoing beyond its timeout at {until}", figures, name)
        return _Known("going on", f"Ongoing, its timeout is at {until}", figures, name, is_in_order=True)

    @cached_property
    def _overdue(self) -> Records:
        return is_overdue(self.cluster)

    @cached_property
    def _stuck(self) -> Records:
        return is_stuck(self.cluster)


def _marker(mark: Records) -> str:
    return "ABORT" if mark["ending"] == Ending.ABORTED else "COMMIT"
