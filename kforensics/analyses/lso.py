"""The question of ``lso``: where is the last stable offset, and which transaction blocks it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kforensics.analyses.context import Context, begins_in
from kforensics.analyses.questions import PartitionAnswer, Question
from kforensics.errors import UsageError
from kforensics.forensics.checks.check import findings_of
from kforensics.forensics.checks.partition import marker_batches, missing_logs
from kforensics.forensics.checks.partition.last_stable_offset import BLOCKING_CHECKS
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.partition.log_summary import DAMAGE, Collector
from kforensics.forensics.partition.partition_rows import TransactionTables, lso_rows
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import StableOffset, stable_offset

# An empty marker batch may be the reason why a transaction stays open.
BLOCKING_COLLECTORS: tuple[Collector, ...] = (marker_batches.COLLECTOR, DAMAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockage:
    """What blocks the last stable offset of a partition, as its coordinators see it.

    Attributes:
        state: the partition, with the limits that follow from all settings that are known.
        stable_in_log: the last stable offset, as the log alone shows it.
        stable: the same, with the time at which the blocking transaction began by its coordinator.
        findings: the findings on open transactions at the end of the log, on those that the broker has forgotten, and
            that the log is missing.
        transactional_id: of the blocking transaction, None if unknown.
    """

    state: PartitionState
    stable_in_log: StableOffset
    stable: StableOffset
    findings: tuple[Finding, ...]
    transactional_id: str | None

    @classmethod
    def of(cls, state: PartitionState, context: Context, at: int | None = None) -> Blockage:
        """Return what blocks the last stable offset.

        Args:
            state: the partition, read with BLOCKING_COLLECTORS.
            context: what the coordinators of its cluster know.
            at: the high watermark; None for the end of the log.
        """
        has_findings = len(state.open_transactions) > 0 or state.transaction_store.lacking is not None
        state = context.with_settings(state) if has_findings else state
        in_log = stable = stable_offset(state, at)
        findings = context.revised(state, (*findings_of(state, BLOCKING_CHECKS), *_on_forgotten(state)))
        blocking = stable.blocking_transaction
        transactional_id = None if blocking is None else context.transactional_id(state, int(blocking["producer_id"]))
        if transactional_id is not None:
            stable = stable.begun_at(state, begins_in(findings).get(int(blocking["first_offset"])))
        return cls(
            state=state,
            stable_in_log=in_log,
            stable=stable,
            findings=findings,
            transactional_id=transactional_id,
        )


def _on_forgotten(state: PartitionState) -> Iterator[Finding]:
    """Yield the findings on the snapshot without the open transactions that the broker has forgotten."""
    store = state.transaction_store
    if store.lacking is not None:
        from kforensics.forensics.checks.partition import snapshots  # few logs have one

        for finding in snapshots.findings(state):
            if finding.first_offset == store.lacking and finding.code.name == "snapshot-open-txn-mismatch":
                yield finding


@dataclass(frozen=True, slots=True, kw_only=True)
class LsoAnswer(PartitionAnswer):
    """The last stable offset of a partition, or its history.

    Attributes:
        stable: the last stable offset.
        transactional_id: of the transaction that blocks it, None if unknown.
        cluster: name of its cluster, if a transaction blocks it.
    """

    stable: StableOffset
    transactional_id: str | None
    cluster: str

    def in_document(self) -> tuple[tuple[Finding, ...], StableOffset | None]:
        """Return the findings, and the last stable offset."""
        return self.findings, self.stable


@dataclass(frozen=True, slots=True)
class LsoQuestion(Question[LsoAnswer]):
    """Where is the last stable offset?

    Attributes:
        at: the high watermark; None for the end of the log.
        history: every value of the last stable offset as the high watermark advances.

    Raises:
        UsageError: both are asked for.
    """

    at: int | None = None
    history: bool = False
    has_findings: ClassVar[bool] = True
    collectors: ClassVar[tuple[Collector, ...]] = BLOCKING_COLLECTORS
    needs_settings: ClassVar[bool] = False  # only if a transaction is open or forgotten

    def __post_init__(self) -> None:
        if self.history and self.at is not None:
            raise UsageError("--at asks for one value of the last stable offset, and --history for all; leave one out")

    @property
    def table(self) -> str:  # type: ignore[override]  # the table depends on the question
        """The name of the table."""
        return "lso_history" if self.history else "lso"

    def answer(self, state: PartitionState, context: Context) -> LsoAnswer:
        """Return the last stable offset of a partition, or its history."""
        blockage = Blockage.of(state, context, self.at)
        findings = blockage.findings if self.at is None else tuple(missing_logs.findings(state))
        is_blocked, state = blockage.stable.blocking_transaction is not None, blockage.state
        return LsoAnswer(
            # As an audit has them, whose partitions are evaluated without coordinators.
            rows=TransactionTables.of(state).history() if self.history else lso_rows(state, blockage.stable_in_log),
            findings=findings,
            state=state,
            stable=blockage.stable,
            transactional_id=blockage.transactional_id,
            cluster=context.investigation.clusters.name_of(state.partition) if is_blocked else "",
        )
