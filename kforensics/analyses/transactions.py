"""Which transactions a partition has: the answer of ``transactions``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from kforensics.analyses.context import Context
from kforensics.analyses.questions import PartitionAnswer, Question
from kforensics.analyses.times import Since
from kforensics.errors import UsageError
from kforensics.forensics.checks.partition import missing_logs
from kforensics.forensics.core.external_sort import ExternalSort
from kforensics.forensics.core.record_types import TRANSACTION, TransactionArray, TransactionOutcome
from kforensics.forensics.core.result_rows import RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_rows import TransactionTables, durations, has_duration
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import BoolArray, IntArray

# The sort keys; the largest first where the largest are of interest.
SORTS: dict[str, Callable[[Rules, TransactionArray], IntArray]] = {
    "offset": lambda _, rows: rows["first_offset"],
    "marker": lambda _, rows: np.where(rows["marker_offset"] < 0, np.iinfo("i8").max, rows["marker_offset"]),
    "duration": lambda rules, rows: -durations(rules, rows),
    "records": lambda _, rows: -rows["records"],
    "bytes": lambda _, rows: -rows["bytes"],
    "begun": lambda _, rows: rows["first_timestamp"],
    "producer": lambda _, rows: rows["producer_id"],
}
STATES = {
    "open": TransactionOutcome.OPEN,
    "aborted": TransactionOutcome.ABORTED,
    "committed": TransactionOutcome.COMMITTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsAnswer(PartitionAnswer):
    """Transactions of a partition.

    Attributes:
        rows: rows of the table.
        still_open: the rows of open transactions.
        count: how many transactions the rows are.
        context: what the coordinators of its cluster know.
    """

    rows: RowStream
    still_open: RowStream
    count: int
    context: Context


@dataclass(frozen=True, slots=True)
class TransactionsQuestion(Question[TransactionsAnswer]):
    """Which transactions does a partition have?

    Attributes:
        states: only transactions that are ``open``, ``aborted`` or ``committed``; all if it is empty.
        producer_id: only transactions of this producer.
        min_duration_ms: only transactions that lasted at least this long.
        sort: a key of SORTS.
        since: only open transactions, and those that ended since then; None for all.

    Raises:
        UsageError: there is no such state or sort key.
    """

    states: tuple[str, ...] = ()
    producer_id: int | None = None
    min_duration_ms: int | None = None
    sort: str = "offset"
    since: Since | None = None
    table: str = field(default="transactions", init=False)
    needs_settings: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for state in self.states:
            if state not in STATES:
                raise UsageError(f"--state {state!r} is not one of {', '.join(STATES)}")
        if self.sort not in SORTS:
            raise UsageError(f"--sort {self.sort!r} is not one of {', '.join(SORTS)}")

    def answer(self, state: PartitionState, context: Context) -> TransactionsAnswer:
        """Return the selected transactions of a partition."""
        key = partial(SORTS[self.sort], state.rules)
        selected = ExternalSort(TRANSACTION, key)
        for page in state.transaction_store:
            selected.add(page[self._is_selected(state.rules, page)])
        transactions = selected.finish()
        opened = state.open_transactions[self._is_selected(state.rules, state.open_transactions)]
        opened = opened[np.argsort(key(opened), kind="stable")]
        tables = TransactionTables.of(state)
        return TransactionsAnswer(
            rows=tables.transactions(transactions),
            still_open=tables.transactions([opened]),
            findings=tuple(missing_logs.findings(state)),
            state=state,
            count=len(transactions),
            context=context,
        )

    def _is_selected(self, rules: Rules, page: TransactionArray) -> BoolArray:
        selected: BoolArray = np.ones(len(page), bool)
        if self.states:
            selected &= np.isin(page["outcome"], [STATES[state] for state in self.states])
        if self.since is not None:
            is_open = page["outcome"] == TransactionOutcome.OPEN
            selected &= is_open | (page["marker_timestamp"] >= self.since.ms(rules.as_of_ms))
        if self.producer_id is not None:
            selected &= page["producer_id"] == self.producer_id
        if self.min_duration_ms is not None:
            selected &= (durations(rules, page) >= self.min_duration_ms) & has_duration(page)
        return selected
