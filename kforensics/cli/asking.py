"""Asks a question of all partitions, and writes the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from kforensics.analyses.questions import AnswerT, Question
from kforensics.cli.common_options import CommonOptions, ExitStatus, severities_of
from kforensics.cli.writing import write_results
from kforensics.forensics.core.tables import RESULTS


def ask(options: CommonOptions, question: Question[AnswerT], text: Callable[[AnswerT], Iterator[str]]) -> int:
    """Ask a question of all partitions, write the answers, and return the exit code.

    Args:
        options: the options of the command.
        question: the question.
        text: returns the lines of an answer.

    Raises:
        UsageError: the options do not go together, or there is no log.
    """
    output_format, fail_on, investigation = options.format(), options.severity(), options.investigation()
    status = ExitStatus(investigation.unreadable)
    answers = status.watch(question.answers(investigation, status.add_unreadable), severities_of)
    table = RESULTS[question.table]
    write_results(answers, output_format, options.output, text=text, table=table, rows=attrgetter("rows"))
    return status.code(fail_on)
