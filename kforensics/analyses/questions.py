"""What all questions about partitions have in common: a table, and an answer for each partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from kforensics.analyses.context import Context
from kforensics.analyses.partitions import Investigation, OnUnreadable
from kforensics.errors import InputError
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.log.log_rows import Place

if TYPE_CHECKING:
    from kforensics.forensics.partition.stable_offset import StableOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a question for one partition.

    Attributes:
        rows: rows of the question's table.
        findings: findings that decide the exit code.
    """

    rows: Rows | RowStream
    findings: tuple[Finding, ...] = ()

    @property
    def place(self) -> Place:
        """Where the findings are."""
        raise NotImplementedError

    def in_document(self) -> tuple[tuple[Finding, ...], StableOffset | None]:
        """Return the findings that a JSON document has beside the rows, and the last stable offset if it is known."""
        return self.findings, None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswer(Answer):
    """The answer from the log of one partition.

    Attributes:
        state: the partition.
    """

    state: PartitionState

    @property
    def place(self) -> Place:
        """Where the findings are."""
        return self.state.partition.place


AnswerT = TypeVar("AnswerT", bound=Answer)


class Question(Generic[AnswerT]):
    """A question about partitions.

    Attributes:
        table: the name of the result table with the answers.
        collectors: what the question's checks observe while batches are read.
        needs_settings: whether each answer needs the limits that follow from the files.
        has_findings: whether the partitions have findings, by which their answers can be selected.
    """

    table: str
    has_findings: ClassVar[bool] = False
    needs_settings: ClassVar[bool] = True
    collectors: ClassVar[tuple[Collector, ...]] = ()

    def answer(self, state: PartitionState, context: Context) -> AnswerT:
        """Return the answer for a partition.

        Args:
            state: the partition.
            context: what the coordinators of its cluster know.

        Raises:
            InputError: a file of the partition cannot be read.
        """
        raise NotImplementedError

    def answers(self, investigation: Investigation, on_unreadable: OnUnreadable) -> Iterator[AnswerT]:
        """Yield the answers for all partitions.

        Args:
            investigation: the partitions.
            on_unreadable: takes the error of a partition that cannot be read; the next partition follows.
        """
        context = Context(investigation, on_unreadable)
        for state in investigation.states(on_unreadable, self.collectors, needs_settings=self.needs_settings):
            try:
                yield self.answer(state, context)
            except InputError as error:
                on_unreadable(error)
