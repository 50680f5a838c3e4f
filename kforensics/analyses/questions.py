"""The questions that are asked of one partition at a time, and their answers: in rows, and in lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kforensics.errors import UsageError
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.cross_partition_duplicates import across_in, judged_across, searched_topics
from kforensics.forensics.audit.partition_result import findings_of
from kforensics.forensics.checks.partition import marker_batches
from kforensics.forensics.checks.partition_checks import GROUPS
from kforensics.forensics.core.external_sort import Sorting
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.record_types import NO_TIME, TRANSACTION, Ending, Records
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.cross_partition import AcrossCase
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.duplicates.partition_duplicates import MEMORY, duplicate_rows, duplicates_of
from kforensics.forensics.duplicates.topic_search import Searched
from kforensics.forensics.partition.examine import producers_below
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import lso_rows, producer_rows
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.snapshot_records import snapshot_records
from kforensics.forensics.partition.stable_offset import stable_offset
from kforensics.forensics.partition.transaction_tables import TransactionTables, durations
from kforensics.render.stories import (
    duplicate_across_lines,
    duplicate_lines,
    history_lines,
    lso_lines,
    producer_lines,
    transaction_lines,
)

__all__ = [
    "SORTS",
    "Answer",
    "DuplicatesQuestion",
    "LsoQuestion",
    "ProducersQuestion",
    "Question",
    "TransactionsQuestion",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of a partition.

    Attributes:
        rows: rows of the question's table.
        lines: the same for people; made when they are asked for.
        findings: what weighs on the exit code.
    """

    rows: Rows | RowStream
    lines: Callable[[], Iterator[str]]
    findings: tuple[Finding, ...] = ()


class Question:
    """What is asked.

    Attributes:
        table: name of the table of verdicts that answers it.
        noters: what wants to note something as batches go by.
    """

    table: str
    noters: ClassVar[tuple[Noter, ...]] = ()

    def answer(self, case: Case) -> Answer:
        """Return the answer for a partition.

        Raises:
            InputError: a file of the partition cannot be read.
        """
        raise NotImplementedError

    def note(self, _case: Case) -> Any:
        """Return what to keep of a partition to answer for several of them together, None for nothing."""
        return None

    def together(self, _noted: Sequence[Any], _clusters: Clusters) -> Iterator[Answer]:
        """Yield answers for several partitions together, from what was kept of all that could be read."""
        yield from ()


@dataclass(frozen=True, slots=True)
class LsoQuestion(Question):
    """Where is the last stable offset?

    Attributes:
        at: for which high watermark; None for the end of the log.
        history: every step of it instead.
    """

    at: int | None = None
    history: bool = False
    # Emptied markers may tell why a transaction never ends.
    noters: ClassVar[tuple[Noter, ...]] = (marker_batches.NOTER,)

    @property
    def table(self) -> str:  # type: ignore[override]  # which table depends on what is asked
        """Name of the table."""
        return "lso_history" if self.history else "lso"

    def answer(self, case: Case) -> Answer:
        """Return the last stable offset, or its steps."""
        if self.history:
            steps = TransactionTables.of(case).history()
            return Answer(steps, lambda: history_lines(case, steps))
        stable = stable_offset(case, self.at)
        findings = findings_of(case, GROUPS["holders"]) if self.at is None else ()
        return Answer(lso_rows(case, stable), lambda: lso_lines(case, stable, findings), findings)


# By what transactions are sorted: key, largest first where that is of interest.
SORTS: dict[str, Callable[[Rules, Records], Any]] = {
    "offset": lambda _, found: found["first_offset"],
    "marker": lambda _, found: np.where(found["marker_offset"] < 0, np.iinfo("i8").max, found["marker_offset"]),
    "duration": lambda rules, found: -durations(rules, found),
    "records": lambda _, found: -found["records"],
    "bytes": lambda _, found: -found["bytes"],
    "begun": lambda _, found: found["first_timestamp"],
    "producer": lambda _, found: found["producer_id"],
}
STATES = {"open": Ending.OPEN, "aborted": Ending.ABORTED, "committed": Ending.COMMITTED}


@dataclass(frozen=True, slots=True)
class TransactionsQuestion(Question):
    """Which transactions are there?

    Attributes:
        states: only those that are ``open``, ``aborted`` or ``committed``; all if none is named.
        producer_id: only those of this producer.
        min_duration_ms: only those that lasted at least so long.
        sort: a key of SORTS.
    """

    states: tuple[str, ...] = ()
    producer_id: int | None = None
    min_duration_ms: int | None = None
    sort: str = "offset"
    table: str = field(default="transactions", init=False)

    def __post_init__(self) -> None:
        for state in self.states:
            if state not in STATES:
                raise UsageError(f"--state {state!r} is none of {', '.join(STATES)}")
        if self.sort not in SORTS:
            raise UsageError(f"--sort {self.sort!r} is none of {', '.join(SORTS)}")

    def answer(self, case: Case) -> Answer:
        """Return the transactions that are asked for."""
        chosen = Sorting(TRANSACTION, partial(SORTS[self.sort], case.rules))
        for part in case.ledger:
            chosen.add(part[self._wanted(case.rules, part)])
        found = chosen.finish()
        rows = TransactionTables.of(case).transactions(found)
        return Answer(rows, lambda: transaction_lines(case, rows, len(found)))

    def _wanted(self, rules: Rules, found: Records) -> Records:
        keep: Records = np.ones(len(found), bool)
        if self.states:
            keep &= np.isin(found["ending"], [STATES[state] for state in self.states])
        if self.producer_id is not None:
            keep &= found["producer_id"] == self.producer_id
        if self.min_duration_ms is not None:
            keep &= (durations(rules, found) >= self.min_duration_ms) & (found["first_timestamp"] != NO_TIME)
        return keep


@dataclass(frozen=True, slots=True)
class ProducersQuestion(Question):
    """What does a broker know of producers?

    Attributes:
        at: after all batches below this offset; None for the end of the log.
    """

    at: int | None = None
    table: str = field(default="producers", init=False)

    def answer(self, case: Case) -> Answer:
        """Return the producers."""
        at = case.log_end_offset if self.at is None else self.at
        found = case.producers if self.at is None else producers_below(case, self.at)
        snapshot = case.partition.snapshots.get(at)
        rows = producer_rows(case, found, snapshot_records(snapshot.path) if snapshot else None)
        return Answer(rows, lambda: producer_lines(case, rows))


LEVELS = ("sequence", "content-retry", "content")
VIEWS = ("raw", "committed")


@dataclass(frozen=True, slots=True)
class DuplicatesQuestion(Question):
    """What was written twice?

    Attributes:
        levels: only pairs of these levels; all if none is named.
        committed: only what a read_committed consumer gets twice.
        memory: bytes that the search may hold before it goes to temporary files.
    """

    levels: tuple[str, ...] = ()
    committed: bool = False
    memory: int = MEMORY
    table: str = field(default="duplicates", init=False)

    def __post_init__(self) -> None:
        for level in self.levels:
            if level not in LEVELS:
                raise UsageError(f"--level {level!r} is none of {', '.join(LEVELS)}")

    def answer(self, case: Case) -> Answer:
        """Return what is there twice, and what is to be thought of it."""
        parts = [*duplicates_of(case, memory=self.memory)]
        found = self._wanted(np.concatenate(parts) if parts else np.empty(0, DUPLICATE))
        rows = duplicate_rows(case, found)
        findings = findings_of(replace(case, duplicates=found), GROUPS["duplicates"])
        return Answer(rows, lambda: duplicate_lines(case, rows), findings)

    def note(self, case: Case) -> tuple[Partition, Searched]:
        """Return what it takes to search the partition once more, together with others of its topic."""
        return case.partition, Searched.of(case)

    def together(self, noted: Sequence[tuple[Partition, Searched]], clusters: Clusters) -> Iterator[Answer]:
        """Yield what partitions have that was written to others of their topic before."""
        if self.levels == ("sequence",):
            return  # sequences are of one partition
        by_folder = {partition.folder: searched for partition, searched in noted}
        for some in searched_topics([partition for partition, _ in noted], clusters):
            for case in across_in(some, lambda partition: by_folder[partition.folder], memory=self.memory):
                found = replace(case, runs=self._wanted(case.runs))
                if len(found.runs):
                    yield _answer_across(found)

    def _wanted(self, found: Records) -> Records:
        if self.levels:
            found = found[np.isin(found["level"], [LEVELS.index(level) for level in self.levels])]
        return found[found["view"] == VIEWS.index("committed")] if self.committed else found


def _answer_across(case: AcrossCase) -> Answer:
    rows, findings = case.rows(), judged_across(case).findings
    return Answer(rows, lambda: duplicate_across_lines(case.place, case.folder, rows), findings)
