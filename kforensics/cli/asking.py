"""Asks a question of all partitions, and writes the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from operator import attrgetter
from typing import Protocol, TypeVar

from kforensics.analyses.questions import AnswerT, Question
from kforensics.cli.common_options import CommonOptions, ExitStatus, FindingSelection, severities_of
from kforensics.cli.writing import write_parts, write_results
from kforensics.forensics.core.commands import for_brokers
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.partition_rows import finding_rows
from kforensics.render.formats import Format
from kforensics.render.output import open_output


class CollectedText(Protocol):
    """Text that is collected partition by partition."""

    def parts(self) -> Iterable[bytes]:
        """Yield the text."""

    def close(self) -> None:
        """Forget the text."""


TextT = TypeVar("TextT", bound=CollectedText)


def ask(options: CommonOptions, question: Question[AnswerT], text: TextT, add: Callable[[TextT, AnswerT], None]) -> int:
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
        every = question.answers(watched, status.add_unreadable)
        answers = status.watch(every if selection.minimum is None else _selected(every, selection), severities_of)
        if output_format is Format.TEXT:
            with open_output(options.output) as out, closing(text):
                for answer in answers:
                    add(text, answer)
                write_parts(text.parts(), out)
        else:
            table = RESULTS[question.table]
            found: list[Rows] = []
            kept = _with_findings(answers, found, options.brokers())
            write_results(kept, output_format, options, text=str, table=table, rows=attrgetter("rows"), findings=found)
    return status.code(fail_on)


def _with_findings(answers: Iterable[AnswerT], found: list[Rows], brokers: str | None) -> Iterator[AnswerT]:
    """Yield answers, and keep their findings as rows."""
    for answer in answers:
        if answer.findings:
            rows = finding_rows(answer.place, answer.findings)
            remedies = rows.columns["remedy"]
            if brokers is not None:
                remedies = [text and for_brokers(text, brokers) for text in remedies]
            found.append(replace(rows, columns={**rows.columns, "remedy": remedies}))
        yield answer


def _selected(answers: Iterable[AnswerT], selection: FindingSelection) -> Iterator[AnswerT]:
    """Yield the answers that have selected findings, with these findings only."""
    for answer in answers:
        findings = selection.of(answer.findings)
        if findings:
            yield replace(answer, findings=findings)
