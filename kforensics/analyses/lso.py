"""The question of ``lso``: where is the last stable offset, and which transaction blocks it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kforensics.analyses.context import Context, begins_in
from kforensics.analyses.questions import PartitionAnswer, Question
from kforensics.forensics.checks.blocking_checks import BLOCKING_CHECKS
from kforensics.forensics.checks.check import findings_of
from kforensics.forensics.checks.partition import marker_batches, missing_logs
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_rows import TransactionTables, lso_rows
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import StableOffset, stable_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LsoAnswer(PartitionAnswer):
    """The last stable offset of a partition, or its history.

    Attributes:
        stable: the last stable offset; None if the rows are its history.
        transactional_id: of the transaction that blocks it, None if unknown.
        cluster: name of its cluster, if a transaction blocks it.
    """

    stable: StableOffset | None
    transactional_id: str | None = None
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class LsoQuestion(Question[LsoAnswer]):
    """Where is the last stable offset?

    Attributes:
        at: the high watermark; None for the end of the log.
        history: every value of the last stable offset as the high watermark advances.
    """

    at: int | None = None
    history: bool = False
    has_findings: ClassVar[bool] = True
    # An empty marker batch may be the reason why a transaction stays open.
    collectors: ClassVar[tuple[Collector, ...]] = (marker_batches.COLLECTOR,)
    needs_settings: ClassVar[bool] = False  # only if a transaction is open

    @property
    def table(self) -> str:  # type: ignore[override]  # the table depends on the question
        """The name of the table."""
        return "lso_history" if self.history else "lso"

    def answer(self, state: PartitionState, context: Context) -> LsoAnswer:
        """Return the last stable offset of a partition, or its history."""
        missing = tuple(missing_logs.findings(state))
        if self.history:
            return LsoAnswer(rows=TransactionTables.of(state).history(), findings=missing, state=state, stable=None)
        state = context.with_settings(state) if len(state.open_transactions) else state
        stable = stable_offset(state, self.at)
        rows = lso_rows(state, stable)  # as an audit has them, whose partitions are evaluated without coordinators
        revised = context.revised(state, findings_of(state, BLOCKING_CHECKS))
        findings = revised if self.at is None else missing
        blocking = stable.blocking_transaction
        transactional_id = None if blocking is None else context.transactional_id(state, int(blocking["producer_id"]))
        if transactional_id is not None:
            stable = stable.begun_at(state, begins_in(revised).get(int(blocking["first_offset"])))
        return LsoAnswer(
            rows=rows,
            findings=findings,
            state=state,
            stable=stable,
            transactional_id=transactional_id,
            cluster="" if blocking is None else context.investigation.clusters.name_of(state.partition),
        )
