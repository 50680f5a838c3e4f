"""The state of every producer, as a broker rebuilds it from the log: the answer of ``producers``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kforensics.analyses.context import Context
from kforensics.analyses.lso import BLOCKING_COLLECTORS, Blockage
from kforensics.analyses.questions import PartitionAnswer, Question
from kforensics.analyses.times import Since
from kforensics.forensics.checks.partition import missing_logs
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.partition.forgotten_transactions import producers_below
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_rows import ProducerTable
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import StableOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersAnswer(PartitionAnswer):
    """The producers of a partition.

    Attributes:
        rows: rows of the table.
        context: what the coordinators of its cluster know.
        is_at_end: whether they are the producers at the end of the log.
    """

    rows: Rows
    context: Context
    is_at_end: bool = True

    def in_document(self) -> tuple[tuple[Finding, ...], StableOffset | None]:
        """Return the findings of ``lso`` on the partition, which do not decide the exit code."""
        if not self.is_at_end:
            return self.findings, None
        blockage = Blockage.of(self.state, self.context)
        return blockage.findings, blockage.stable


@dataclass(frozen=True, slots=True)
class ProducersQuestion(Question[ProducersAnswer]):
    """What does a broker know of the producers of a partition?

    Attributes:
        at: after all batches below this offset; None for the end of the log.
        since: only producers that wrote since then; None for all.
    """

    at: int | None = None
    since: Since | None = None
    table: str = field(default="producers", init=False)
    collectors: ClassVar[tuple[Collector, ...]] = BLOCKING_COLLECTORS

    @property
    def has_findings(self) -> bool:  # type: ignore[override]  # findings are those of the end of the log
        """Whether the partitions have findings."""
        return self.at is None

    def answer(self, state: PartitionState, context: Context) -> ProducersAnswer:
        """Return the producers of a partition, compared with the snapshot at the same offset if there is one."""
        offset = state.log_end_offset if self.at is None else self.at
        producers = state.producers if self.at is None else producers_below(state, self.at)
        if self.since is not None:
            is_recent = producers["last_timestamp"] >= self.since.ms(state.rules.latest_ms)
            producers = ProducerStates(producers[is_recent])
        rows = ProducerTable.of(state, producers, offset).rows()
        missing = tuple(missing_logs.findings(state))
        return ProducersAnswer(rows=rows, findings=missing, state=state, context=context, is_at_end=self.at is None)
