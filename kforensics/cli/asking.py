"""Asks a question of all partitions, and writes the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from operator import attrgetter
from typing import Protocol, TypeVar

from kforensics.analyses.questions import AnswerT, Question
from kforensics.cli.common_options import CommonOptions, ExitStatus, severities_of
from kforensics.cli.writing import write_parts, write_results
from kforensics.forensics.core.tables import RESULTS
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
    output_format, fail_on, investigation = options.format(), options.severity(), options.investigation()
    status = ExitStatus(investigation.unreadable)
    answers = status.watch(question.answers(investigation, status.add_unreadable), severities_of)
    if output_format is Format.TEXT:
        with open_output(options.output) as out, closing(text):
            for answer in answers:
                add(text, answer)
            write_parts(text.parts(), out)
    else:
        table = RESULTS[question.table]
        write_results(answers, output_format, options, text=str, table=table, rows=attrgetter("rows"))
    return status.code(fail_on)
