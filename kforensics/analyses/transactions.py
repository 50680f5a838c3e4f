"""Which transactions a partition has: the answer of ``transactions``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kforensics.analyses.context import Context
from kforensics.analyses.lso import BLOCKING_COLLECTORS, Blockage
from kforensics.analyses.partitions import Investigation, OnUnreadable
from kforensics.analyses.questions import PartitionAnswer, Question
from kforensics.analyses.times import Since
from kforensics.analyses.topics import is_numbered, is_selected
from kforensics.errors import UsageError
from kforensics.forensics.checks.partition import missing_logs
from kforensics.forensics.core.external_sort import ExternalSort
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.record_types import TRANSACTION, UNENDED, TransactionArray, TransactionOutcome
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.partition.blocking_transactions import copy_time
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_rows import TransactionTables, durations, has_duration
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import StableOffset
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.log.log_rows import Place

if TYPE_CHECKING:
    from kforensics.analyses.explain import PartitionReader
    from kforensics.forensics.coordinators.transactions.history import History

# The sort keys; the largest first where the largest are of interest.
SORTS: dict[str, Callable[[int, TransactionArray], IntArray]] = {
    "offset": lambda _, rows: rows["first_offset"],
    "marker": lambda _, rows: np.where(rows["marker_offset"] < 0, np.iinfo("i8").max, rows["marker_offset"]),
    "duration": lambda evaluated_ms, rows: -durations(evaluated_ms, rows),
    "records": lambda _, rows: -rows["records"],
    "bytes": lambda _, rows: -rows["bytes"],
    "begun": lambda _, rows: rows["first_timestamp"],
    "producer": lambda _, rows: rows["producer_id"],
}
STATES = {
    "open": TransactionOutcome.OPEN,
    "aborted": TransactionOutcome.ABORTED,
    "committed": TransactionOutcome.COMMITTED,
    "forgotten": TransactionOutcome.FORGOTTEN,
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

    def in_document(self) -> tuple[tuple[Finding, ...], StableOffset | None]:
        """Return the findings of ``lso`` on the partition, which do not decide the exit code."""
        blockage = Blockage.of(self.state, self.context)
        return blockage.findings, blockage.stable


@dataclass(frozen=True, slots=True)
class TransactionsQuestion(Question[TransactionsAnswer]):
    """Which transactions does a partition have?

    Attributes:
        states: only transactions that are ``open``, ``aborted``, ``committed`` or ``forgotten``; all if it is empty.
        producer_id: only transactions of this producer.
        min_duration_ms: only transactions that lasted at least this long.
        sort: a key of SORTS.
        since: only transactions without a marker, and those that ended since then; None for all.

    Raises:
        UsageError: there is no such state or sort key.
    """

    states: tuple[str, ...] = ()
    producer_id: int | None = None
    min_duration_ms: int | None = None
    sort: str = "offset"
    since: Since | None = None
    table: str = field(default="transactions", init=False)
    has_findings: ClassVar[bool] = True
    needs_settings: ClassVar[bool] = False
    collectors: ClassVar[tuple[Collector, ...]] = BLOCKING_COLLECTORS

    def __post_init__(self) -> None:
        for state in self.states:
            if state not in STATES:
                raise UsageError(f"--state {state!r} is not one of {', '.join(STATES)}")
        if self.sort not in SORTS:
            raise UsageError(f"--sort {self.sort!r} is not one of {', '.join(SORTS)}")

    def answer(self, state: PartitionState, context: Context) -> TransactionsAnswer:
        """Return the selected transactions of a partition."""
        key = partial(SORTS[self.sort], copy_time(state))
        selected = ExternalSort(TRANSACTION, key)
        for page in state.transaction_store.with_forgotten():
            selected.add(page[self._is_selected(state, page)])
        transactions = selected.finish()
        opened = state.open_transactions[self._is_selected(state, state.open_transactions)]
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

    def _is_selected(self, state: PartitionState, page: TransactionArray) -> BoolArray:
        selected: BoolArray = np.ones(len(page), bool)
        if self.states:
            selected &= np.isin(page["outcome"], [STATES[state] for state in self.states])
        if self.since is not None:
            is_unended = np.isin(page["outcome"], UNENDED)
            selected &= is_unended | (page["marker_timestamp"] >= self.since.ms(state.rules.latest_ms))
        if self.producer_id is not None:
            selected &= page["producer_id"] == self.producer_id
        if self.min_duration_ms is not None:
            selected &= (durations(copy_time(state), page) >= self.min_duration_ms) & has_duration(page)
        return selected


@dataclass(frozen=True, slots=True)
class CostsRequest:
    """What do the transactions of each cluster cost?

    Attributes:
        topics: only transactions with a partition of these topics; all if it is empty.
        numbers: only transactions with a partition of these numbers; all if it is empty.
    """

    topics: tuple[str, ...] = ()
    numbers: tuple[range, ...] = ()

    def selects(self, topic: str, partition: int) -> bool:
        """Return whether transactions with this partition are wanted."""
        return is_selected(topic, self.topics) and is_numbered(partition, self.numbers)


def refuse_filters(question: TransactionsQuestion) -> None:
    """Refuse what selects or sorts transactions one by one.

    Raises:
        UsageError: it is given.
    """
    given = {
        "--state": question.states,
        "--producer-id": question.producer_id is not None,
        "--min-duration": question.min_duration_ms is not None,
        "--sort": question.sort != "offset",
        "--since": question.since is not None,
    }
    for option in (option for option, is_given in given.items() if is_given):
        raise UsageError(f"--cost sums transactions up, and {option} is for the list of them; leave it out")


def answer_costs(investigation: Investigation, request: CostsRequest, on_unreadable: OnUnreadable) -> Iterator[Rows]:
    """Yield what the transactions of each cluster cost: rows of the table ``transaction_costs``.

    Args:
        investigation: all partitions under the paths.
        request: which transactions.
        on_unreadable: takes the error of a partition that cannot be read; the next partition follows.

    Raises:
        UsageError: no coordinator's log is under the paths.
    """
    from kforensics.analyses.explain import PartitionReader, coordinators_among  # the list needs no cluster
    from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE

    reader = PartitionReader(investigation, on_unreadable, needs_settings=False)
    if not coordinators_among(investigation) and reader.is_complete:
        raise UsageError(
            f"no partition of {TRANSACTION_STATE} is under the paths, and only coordinators know when a transaction "
            "began and ended; add its log directory"
        )
    for name, histories in reader.histories().items():
        yield _costs_of(reader, request, name, histories)


def _costs_of(reader: PartitionReader, request: CostsRequest, name: str, histories: Sequence[History]) -> Rows:
    """Return what the transactions of a cluster cost."""
    from kforensics.forensics.audit.cluster_result import best_histories, best_replicas
    from kforensics.forensics.coordinators.cluster_evidence import Cluster
    from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
    from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
    from kforensics.forensics.coordinators.transactions.transaction_costs import Costs, MarkedData, cost_rows

    investigation = reader.investigation
    of_cluster = [one for one in investigation.partitions if investigation.clusters.name_of(one) == name]
    data = [one for one in of_cluster if one.has_log and one.place.topic != TRANSACTION_STATE]
    sizes, markers = dict[Place, MarkedData](), list[PartitionMarkers]()
    for state in reader.states(data):
        sizes[state.partition.place] = MarkedData.of(state)
        markers.append(PartitionMarkers.of(state))
    rules = investigation.known_rules.across({one.place.log_dir for one in of_cluster})
    cluster = Cluster.of(best_histories(histories), best_replicas(markers), rules)
    wanted = [
        any(request.selects(*partition) for partition in partitions)
        for partitions in cluster.coordinators.partition_sets
    ]
    selected = np.array([*wanted, False], bool)[cluster.coordinators.transactions["partitions"]]
    return cost_rows(name, Costs.of(cluster, sizes, selected))
