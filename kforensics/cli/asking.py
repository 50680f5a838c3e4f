"""Asks a question of all partitions, and writes the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeVar

from kforensics.analyses.questions import AnswerT, Question
from kforensics.cli.partition_options import ExitStatus, PartitionOptions, severities_of
from kforensics.cli.writing import write_parts, write_results
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.partition_rows import finding_rows
from kforensics.render.formats import Format
from kforensics.render.output import open_output

if TYPE_CHECKING:
    from kforensics.analyses.partitions import Investigation
    from kforensics.forensics.audit.partition_result import PartitionResult
    from kforensics.forensics.core.findings import Finding, FindingSelection
    from kforensics.forensics.partition.stable_offset import StableOffset
    from kforensics.parsers.log.log_rows import Place


class CollectedText(Protocol):
    """Text that is collected partition by partition."""

    def parts(self) -> Iterable[bytes]:
        """Yield the text."""

    def close(self) -> None:
        """Forget the text."""


TextT = TypeVar("TextT", bound=CollectedText)


def ask(
    options: PartitionOptions, question: Question[AnswerT], text: TextT, add: Callable[[TextT, AnswerT], None]
) -> int:
    """Ask a question of all partitions, write the answers, and return the exit code.

    Args:
        options: the options of the command.
        question: the question.
        text: collects the answers as text.
        add: adds an answer to the text.

    Raises:
        UsageError: the options do not go together, or there is no log.
    """
    if not question.has_findings:
        options.refuse("this command shows none", "min_severity", "codes")
    if not hasattr(question, "since"):
        options.refuse("this command shows nothing that has", "since")
    selection = options.selected_findings()
    output_format, fail_on, investigation = options.format(), options.severity(), options.investigation()
    status = ExitStatus(investigation.unreadable)
    with options.stage("partitions read, evaluated and written"), options.watched(investigation) as watched:
        document = DocumentFindings(investigation, options.brokers()) if output_format is Format.JSON else None
        every = question.answers(watched, status.add_unreadable)
        answers = status.watch(_selected(every, selection, document), severities_of)
        if output_format is Format.TEXT:
            with open_output(options.output) as out, closing(text):
                for answer in answers:
                    add(text, answer)
                write_parts(text.parts(), out)
        else:
            table = RESULTS[question.table]
            write_results(
                answers,
                output_format,
                options,
                text=str,
                table=table,
                rows=attrgetter("rows"),
                beside=document.tables if document else {},
            )
    return status.code(fail_on)


class DocumentFindings:
    """The findings on what was asked about, and their incidents: what a JSON document has beside the rows.

    Args:
        investigation: the partitions that were asked about.
        brokers: addresses of brokers for the remedies, None if they are not known.
        results: results with findings, which are created when they are looked at.
    """

    def __init__(
        self, investigation: Investigation, brokers: str | None, results: Iterable[PartitionResult] = ()
    ) -> None:
        self._investigation, self._brokers, self._results = investigation, brokers, results
        self._found: list[PartitionResult] = []

    def add(self, place: Place, findings: tuple[Finding, ...], stable: StableOffset | None = None) -> None:
        """Add findings.

        Args:
            place: where they are.
            findings: the findings.
            stable: the last stable offset there, if it is known.
        """
        from kforensics.forensics.audit.partition_result import PartitionResult  # only a document needs it

        rows = {"findings": finding_rows(place, findings)}
        self._found.append(PartitionResult(place, "", 0, rows, findings, stable=stable))

    @property
    def tables(self) -> Mapping[str, Iterable[Rows | RowStream]]:
        """The rows by table, which are created when they are looked at."""
        return {name: self._rows(name) for name in ("findings", "incidents")}

    def _rows(self, table: str) -> Iterator[Rows | RowStream]:
        from kforensics.analyses.audit import incidents_of  # only a document needs it

        self._found += self._results
        self._results = ()
        for result in self._found if table == "findings" else [incidents_of(self._investigation, self._found)]:
            yield result.for_brokers(self._brokers).rows[table]


def _selected(
    answers: Iterable[AnswerT], selection: FindingSelection, document: DocumentFindings | None
) -> Iterator[AnswerT]:
    """Yield the answers for partitions that have selected findings, with these findings only.

    Args:
        answers: all answers.
        selection: which findings to show.
        document: takes the findings that a document has beside the rows; None for other formats.
    """
    is_all = selection.minimum is None
    for answer in answers:
        if is_all and document is None:
            yield answer
            continue
        findings, stable = answer.in_document()
        selected = selection.of(findings)
        if document is not None and selected:
            document.add(answer.place, selected, stable)
        if is_all or selected:
            yield answer if is_all else replace(answer, findings=selection.of(answer.findings))
