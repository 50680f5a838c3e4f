"""Remedies for open transactions, from what the coordinator knows beyond the partition alone.

A transaction that its coordinator will end must not be aborted in one of its partitions: the data there would be lost,
or would end differently from the rest. ``FindHangingTransactionsCommand`` does not list such a transaction either.

The transactional id appears only in commands, where it is quoted: whoever chose the id must not choose the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE, TRANSACTION_STATE, State
from kforensics.forensics.coordinators.deadlines import (
    NO_TIMEOUT,
    copied_at,
    has_unreadable_state,
    is_awaited,
    is_misplaced,
    is_overdue,
    is_stuck,
    transaction_deadlines,
)
from kforensics.forensics.coordinators.hanging_transactions import (
    ends_before,
    first_step,
    follow_copy,
    hanging_transactions,
    longest_timeouts,
    may_lack_markers,
    surely_idle_times,
)
from kforensics.forensics.coordinators.partition_markers import OpenTransactionArray
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.commands import ABORT, DESCRIBE, FIND_HANGING, TERMINATE
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_duration, format_time
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.log.log_rows import Place

__all__ = ["ADDITIONS", "REMEDIES", "CoordinatorRemedies"]

END_EVERYWHERE = (
    f"end it in all partitions: start a new producer with the same transactional id or, since 4.1, use {TERMINATE}"
)
TWO_PHASE = "two-phase commit"
# Remedies by situation. {until} is a time, {state} the state of the coordinator or the outcome of a marker.
REMEDIES = {
    "ongoing": (
        "Its coordinator aborts it soon after {until}, unless the application ends it first. Do not abort it in "
        f"this partition alone. Check its state with {DESCRIBE}; if it must end now, {END_EVERYWHERE}."
    ),
    "misplaced": (
        "Its coordinator aborts it soon after {until}, unless it was restarted since __transaction_state was given "
        "more partitions, for the id belongs to another one now. If it is open after that time, confirm with "
        f"{FIND_HANGING}, and end it with {ABORT}."
    ),
    "no timeout": (
        "Do not abort it in this partition alone: its coordinator has it as Ongoing without a timeout, as in a "
        "two-phase commit, and its application has to commit or abort it. Check its state with "
        f"{DESCRIBE}; if the application never will, {END_EVERYWHERE}."
    ),
    TWO_PHASE: (
        "Ask its transaction manager whether it commits or aborts: nothing else ends a transaction of a two-phase "
        "commit, which has no timeout. Do not abort it in this partition alone. Check its state with "
        f"{DESCRIBE}; if the manager never will, {END_EVERYWHERE}. That aborts it, also if the manager has decided to "
        "commit."
    ),
    "overdue": (
        "Its coordinator should have aborted it at {until}: check the leader of {coordinator}, and the state of the "
        f"transaction with {DESCRIBE}. If it stays Ongoing, {END_EVERYWHERE}. As a last resort, {ABORT} ends it "
        "in this partition alone."
    ),
    "stopped": (
        "Do not abort it in this partition alone: its coordinator was stopped before {until}, when the transaction "
        f"times out, and aborts it soon after the next start. Check its state then with {DESCRIBE}."
    ),
    "within timeout": (
        "Wait until it has been open for {timeout}, the longest timeout that it can have: its coordinator's log was "
        f"copied before it began, or ends too early to show its state. Ask for it with {DESCRIBE}."
    ),
    "unseen": (
        f"The files do not show what followed. Ask for the state of the transaction with {DESCRIBE}. Where it lists "
        f"this partition, its coordinator ends it; otherwise confirm with {FIND_HANGING}, and if it is listed, end it "
        f"with {ABORT}."
    ),
    "too early": (
        "The logs of the coordinators may end before it began, and lack its producer: audit newer copies of "
        f"__transaction_state, too. Only if {FIND_HANGING} lists it, end it with {ABORT}."
    ),
    "outdated": (
        "The copy of its coordinator's log may end before this data: audit a newer copy of {coordinator}, too, or ask "
        f"for the state of the transaction with {DESCRIBE}. Only if {FIND_HANGING} lists it, end it with {ABORT}."
    ),
    "prepared": (
        "Do not abort it: its coordinator has it as {state} and will send the marker. If no marker arrives, check its "
        f"state with {DESCRIBE}, and move the leadership of {{coordinator}}: the new coordinator sends all markers "
        "again."
    ),
    "ended": (
        "Do not abort it: a replica with more of the log has its {state} marker at offset {offset}. Let this replica "
        "catch up."
    ),
    "passed": (
        "Do not abort it: it is not open in a replica with more of the log, stable up to offset {offset}. Let this "
        "replica catch up."
    ),
    "lagging": (
        "Do not abort it because of this replica, which is out of sync: its leader may have the marker. Let this "
        f"replica catch up. Ask the leader with {FIND_HANGING}; only if it is listed, end it with {ABORT}."
    ),
    "skipped": (
        "Its coordinator has committed it in its other partitions and sends no marker again. Save its data before "
        f"anything else, as atomicity-marker-missing says. Then confirm with {FIND_HANGING}; if it is listed, end it "
        f"with {ABORT}."
    ),
    "hanging": (
        f"No coordinator waits for it, so it will never end. {{first}}Confirm with {FIND_HANGING}; if it is listed, "
        f"end it with {ABORT}."
    ),
}
# Codes of findings about open transactions, with a sentence to append to the remedy.
ADDITIONS = {
    "lso-stuck": "Check compaction, too: the cleaner cannot pass this offset.",
    "txn-late": "",
    "txn-open-at-end": "",
    "txn-head-deleted": "A broker that restarts before then may forget it and expose its data.",
    "eos-offsets-pending": "",
}


# The same of a broker that was stopped.
FORGOTTEN_AT_START = "The next start of the broker may forget it and expose its data before that."


class _Situation(NamedTuple):
    """The situation of an open transaction.

    Attributes:
        remedy: key of REMEDIES.
        phrase: whether the transaction is in order, for the list of benign causes.
        values: values of the placeholders in the remedy.
        transactional_id: its transactional id, None if unknown.
        limit: the highest severity of a finding about it. If all is well, it is information; if no more is wrong
            than that this replica lags, a warning.
        began: when it began by its coordinator, in ms, if its records have older timestamps: Kafka Streams and
            MirrorMaker write with the timestamps of what they read. None otherwise.
    """

    remedy: str
    phrase: str
    values: dict[str, str]
    transactional_id: str | None = None
    limit: Severity = Severity.CRITICAL
    began: int | None = None


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class CoordinatorRemedies:
    """Adds to findings about open transactions what their coordinators know.

    Attributes:
        cluster: the cluster.
    """

    cluster: Cluster

    def applied(self, place: Place, finding: Finding) -> Finding:
        """Return a finding with the remedy for its situation; unchanged if no coordinator knows more.

        Args:
            place: the partition.
            finding: a finding in it.
        """
        situation = self._situation(place, finding) if finding.code.name in ADDITIONS else None
        if situation is None:
            return finding
        if finding.code.name == "txn-open-at-end":
            return _open_at_end(finding, situation)
        remedy = REMEDIES[situation.remedy]
        for name, value in situation.values.items():
            remedy = remedy.replace(f"{{{name}}}", value)
        known: dict[str, Any] = {"transactional_id": situation.transactional_id, "began_ms": situation.began}
        known["two_phase_commit"] = True if situation.remedy == TWO_PHASE else None
        added = {name: value for name, value in known.items() if value is not None}
        doubts = ("coordinator log", "idle by times of the broker: unknown")
        other_causes = (phrase for phrase in finding.benign if not any(doubt in phrase for doubt in doubts))
        return replace(
            finding,
            message=_dated(finding, situation),
            severity=min(finding.code.severity, _limit(finding, situation)),
            cause="txn-hanging" if finding.cause and situation.remedy == "hanging" else finding.cause,
            evidence={**finding.evidence, **added},
            benign=(*other_causes, f"in order according to its coordinator: {situation.phrase}"),
            remedy=f"{remedy} {_addition(finding, situation)}".rstrip(),
        )

    def _situation(self, place: Place, finding: Finding) -> _Situation | None:
        name = place.topic or "", NONE if place.partition is None else place.partition
        partition = self.cluster.supplied_partitions.get(name)
        if partition is None or not self.cluster.coordinators.histories:
            return None
        markers = self.cluster.marker_join.markers
        ended = markers[(markers["partition"] == partition) & (markers["first_offset"] == finding.first_offset)]
        if len(ended):
            outcome = "ABORT" if ended["outcome"][0] == TransactionOutcome.ABORTED else "COMMIT"
            values = {"state": outcome, "offset": str(int(ended[0]["marker_offset"]))}
            return _Situation("ended", "another replica has its marker", values, self._name(finding), Severity.WARNING)
        replica = self.cluster.marker_join.by_partition[partition]
        transactions = replica.open_transactions[replica.open_transactions["first_offset"] == finding.first_offset]
        if len(transactions) == 1:
            return self._situation_of(partition, transactions)
        if finding.first_offset is None or not replica.has_passed(np.array([finding.first_offset]))[0]:
            return None
        values = {"offset": str(replica.last_stable_offset)}
        return _Situation("passed", "it is not open in another replica", values, self._name(finding), Severity.WARNING)

    def _name(self, finding: Finding) -> str | None:
        """Return the transactional id of the producer of a finding, None if no available coordinator has it."""
        if finding.producer_id is None:
            return None
        number = int(self.cluster.coordinators.id_of(np.array([finding.producer_id], "i8"))[0])
        return None if number == NONE else self.cluster.coordinators.name(number)

    def _situation_of(self, partition: int, transaction: OpenTransactionArray) -> _Situation | None:
        """Return the situation of one open transaction."""
        cluster = self.cluster
        ids = cluster.coordinators.id_of(transaction["producer_id"])
        idle_ms = int(transaction["idle_ms"][0])
        lags = bool(may_lack_markers(cluster, partition, ids)[0])
        if ids[0] == NONE:
            is_late = surely_idle_times(cluster, partition, transaction)[0] > cluster.rules.late_ms
            if idle_ms > cluster.rules.late_ms and ends_before(cluster, partition, transaction)[0] != NONE:
                phrase = "unknown, the coordinators' logs may end before it"
                return _Situation("too early", phrase, {}, limit=Severity.WARNING)
            hangs = cluster.has_all_coordinators and is_late and not lags
            return _Situation("hanging", "no, no coordinator knows its producer", {"first": ""}) if hangs else None
        name = cluster.coordinators.name(int(ids[0]))
        if is_awaited(cluster, partition, transaction, ids)[0]:
            began = self._later_begin(int(ids[0]), int(transaction["last_time"][0]))
            if not (lags and began):  # a replica that lags does not have the data of this transaction yet
                return self._awaited(int(ids[0]))._replace(began=began)
        elif hanging_transactions(cluster, partition, transaction, ids).hangs[0]:
            first = {"first": first_step(cluster, partition, transaction)}
            return _Situation("hanging", "no, its coordinator does not wait for this partition", first, name)
        if self._was_committed_elsewhere(partition, int(ids[0]), transaction):
            phrase = "no, its coordinator has committed it without this partition"
            return _Situation("skipped", phrase, {}, name, limit=Severity.WARNING)
        if lags:
            return _Situation("lagging", "unknown, this replica is out of sync", {}, name, limit=Severity.WARNING)
        if has_unreadable_state(cluster, ids)[0]:
            return None
        longest = int(longest_timeouts(cluster, ids)[0])
        unseen = self._unseen(partition, idle_ms, longest, name)
        return unseen or self._outdated(partition, transaction, ids)

    def _was_committed_elsewhere(self, partition: int, number: int, transaction: OpenTransactionArray) -> bool:
        """Return whether the marker of a committed transaction of an id is missing after the data of an open one."""
        listed = self.cluster.marker_join.transaction_partitions
        missing = (listed["partition"] == partition) & (listed["marker_status"] == MarkerStatus.MISSING)
        ended = self.cluster.coordinators.transactions[listed["transaction"][missing]]
        is_own = (ended["id"] == number) & (ended["producer_id"] == transaction["producer_id"][0])
        is_own &= ended["marker_epoch"] >= transaction["lowest_epoch"][0]
        return bool((is_own & (ended["status"] == State.COMPLETE_COMMIT)).any())

    def _unseen(self, partition: int, idle_ms: int, longest: int, name: str) -> _Situation | None:
        """Return the situation of a transaction whose end the files would not show.

        Args:
            partition: number of its partition.
            idle_ms: time since its last batch.
            longest: the longest timeout that it can have, in ms.
            name: its transactional id.
        """
        cluster = self.cluster
        if idle_ms > longest + cluster.rules.late_buffer_ms:
            is_stopped = cluster.marker_join.by_partition[partition].coverage.copied_at == NEVER
            phrase = "unknown, the files do not show what followed"
            return None if is_stopped else _Situation("unseen", phrase, {}, name, limit=Severity.WARNING)
        if longest == NEVER:
            return _Situation("unseen", "unknown, and it has no timeout", {}, name, limit=Severity.INFO)
        timeout = format_duration(longest)
        phrase = f"unknown, but its timeout may be {timeout}"
        return _Situation("within timeout", phrase, {"timeout": timeout}, name, limit=Severity.INFO)

    def _outdated(self, partition: int, transaction: OpenTransactionArray, ids: IntArray) -> _Situation | None:
        """Return the situation of a transaction that may have begun after the copy of its coordinator's log."""
        if not follow_copy(self.cluster, partition, transaction, ids)[0]:
            return None
        phrase = "unknown, the copy of the coordinator's log may end before it"
        number = int(ids[0])
        values, name = {"coordinator": self._coordinator(number)}, self.cluster.coordinators.name(number)
        return _Situation("outdated", phrase, values, name, limit=Severity.WARNING)

    def _awaited(self, number: int) -> _Situation:
        """Return the situation of the transaction of an id that its coordinator will end, or should have ended."""
        coordinators = self.cluster.coordinators
        last, name = coordinators.ids[number], coordinators.name(number)
        state, until = State(int(last["status"])), format_time(int(last["start"]) + int(last["timeout_ms"]))
        values = {"state": str(state), "until": until, "coordinator": self._coordinator(number)}
        if state is not State.ONGOING:
            stuck = bool(self._stuck[number])
            phrase = f"no, {state} for too long" if stuck else f"{state}, its marker is being sent"
            was_seen = int(last["last_time"]) < self._copied_at(number) - self.cluster.rules.max_txn_timeout_ms
            worst = Severity.CRITICAL if was_seen else Severity.WARNING
            return _Situation("prepared", phrase, values, name, worst if stuck else Severity.INFO)
        if last["timeout_ms"] == NO_TIMEOUT and last["start"] != NO_TIME:
            is_late = self.cluster.rules.as_of_ms - int(last["start"]) > self.cluster.rules.late_ms
            phrase = f"Ongoing since {format_time(int(last['start']))}, in a two-phase commit, which has no timeout"
            return _Situation(TWO_PHASE, phrase, {}, name, Severity.WARNING if is_late else Severity.INFO)
        if last["start"] == NO_TIME:
            return _Situation("no timeout", "Ongoing, without a timeout", values, name, Severity.INFO)
        if is_misplaced(self.cluster, np.array([number]))[0]:
            phrase = f"Ongoing, times out at {until}, but its id belongs to another coordinator"
            return _Situation("misplaced", phrase, values, name, Severity.WARNING)
        if self._overdue[number] or self._is_given_after_deadline(number):
            if self._copied_at(number) > transaction_deadlines(self.cluster)[number]:
                return _Situation("overdue", f"no, Ongoing beyond its timeout at {until}", values, name)
            phrase = f"Ongoing until its timeout at {until}; the files do not show what followed"
            return _Situation("overdue", phrase, values, name, Severity.WARNING)
        is_stopped = coordinators.histories[int(last["coordinator"])].is_stopped
        if is_stopped and transaction_deadlines(self.cluster)[number] < self.cluster.rules.as_of_ms:
            phrase = f"Ongoing, its coordinator was stopped before its timeout at {until}"
            return _Situation("stopped", phrase, values, name, Severity.INFO)
        return _Situation("ongoing", f"Ongoing, times out at {until}", values, name, Severity.INFO)

    def _coordinator(self, number: int) -> str:
        """Return the name of the coordinator's partition of an id."""
        coordinators = self.cluster.coordinators
        partition = coordinators.histories[int(coordinators.ids["coordinator"][number])].place.partition
        return f"{TRANSACTION_STATE}-{partition}"

    def _is_given_after_deadline(self, number: int) -> bool:
        """Return whether the caller gives a time of evaluation after the timeout, whatever happened since the copy."""
        rules = self.cluster.rules
        return not rules.is_assumed and bool(transaction_deadlines(self.cluster)[number] < rules.as_of_ms)

    def _later_begin(self, number: int, last_time: int) -> int | None:
        """Return when the transaction of an id began, if that is after the timestamp of its last batch."""
        start, rules = int(self.cluster.coordinators.ids[number]["start"]), self.cluster.rules
        is_later = start != NO_TIME and start - rules.clock_skew_ms > last_time
        return start if is_later else None

    def _copied_at(self, number: int) -> int:
        """Return when the log of the coordinator of an id was copied."""
        return int(self._coordinators_copied_at[self.cluster.coordinators.ids["coordinator"][number]])

    @cached_property
    def _coordinators_copied_at(self) -> IntArray:
        return copied_at(self.cluster)

    @cached_property
    def _overdue(self) -> BoolArray:
        return is_overdue(self.cluster)

    @cached_property
    def _stuck(self) -> BoolArray:
        return is_stuck(self.cluster)


def _addition(finding: Finding, situation: _Situation) -> str:
    is_head = finding.code.name == "txn-head-deleted"
    if is_head and finding.last_offset is not None and finding.last_offset < finding.evidence["log_start_offset"]:
        return ""  # no data is left that could be exposed
    is_forgotten = is_head and situation.remedy == "stopped"
    return FORGOTTEN_AT_START if is_forgotten else ADDITIONS[finding.code.name]


def _limit(finding: Finding, situation: _Situation) -> Severity:
    """Return the highest severity of a finding; a deleted head is a risk however well the transaction is."""
    return max(situation.limit, Severity.WARNING) if finding.code.name == "txn-head-deleted" else situation.limit


def _open_at_end(finding: Finding, situation: _Situation) -> Finding:
    """Return the finding that a transaction is open, without the excuse that it is in flight if it hangs."""
    if situation.began is not None:
        return replace(finding, evidence={**finding.evidence, "began_ms": situation.began})
    if situation.remedy != "hanging":
        return finding
    return replace(finding, benign=(f"in flight when the files were copied: {situation.phrase}",))


def _dated(finding: Finding, situation: _Situation) -> str:
    """Return the message of a finding; if the transaction is younger than its records, with the time of its begin."""
    since = finding.evidence.get("since_ms")
    if situation.began is None:
        return finding.message
    if isinstance(since, int):
        message = finding.message.replace(f"since {format_time(since)}", f"since {format_time(situation.began)}")
        return f"{message} That is by its coordinator: its records have older timestamps."
    begun = f"Its coordinator has it as begun at {format_time(situation.began)}"
    return f"{finding.message} {begun}: its records have older timestamps."
