"""From the words of the command line to a question about partitions, and from the answers to an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Any

from kforensics.analyses.filters import moment_ms
from kforensics.analyses.partitions import Investigation, investigate
from kforensics.analyses.questions import Answer, Question
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.format.printable import printable
from kforensics.render.formats import Format
from kforensics.render.output import check_beside, open_output
from kforensics.render.streams import TextSink
from kforensics.render.writers import ColumnWriter, open_writer

__all__ = ["Tally", "ask", "format_of", "run_question", "say", "severity_of"]

CLEAN, FINDINGS, UNREADABLE = 0, 1, 3
NEVER = "never"
# Lines that are written at once.
LINES = 1 << 10
BINARY = (Format.PARQUET, Format.ARROW)


@dataclass(slots=True)
class Tally:
    """What decides the exit code.

    Attributes:
        unreadable: inputs that could not be read.
        worst: the worst finding.
    """

    unreadable: int = 0
    worst: Severity | None = None

    def add(self, judgement: Judgement) -> None:
        """Count what is said of a partition; that it cannot be read is said, always: its rows are missing."""
        if judgement.why is not None:
            say(f"{judgement.why}; the other partitions are looked at all the same")
            self.unreadable += 1
        self.found(judgement.findings)

    def found(self, findings: Iterable[Finding]) -> None:
        """Take findings into account."""
        severities = [finding.severity for finding in findings]
        self.worst = max([*severities, *([] if self.worst is None else [self.worst])], default=None)

    def code(self, fail_on: Severity | None) -> int:
        """Return the exit code; None never fails for a finding."""
        if self.unreadable:
            return UNREADABLE
        failed = fail_on is not None and self.worst is not None and self.worst >= fail_on
        return FINDINGS if failed else CLEAN


def run_question(words: Mapping[str, Any], question: Question) -> int:
    """Ask a question of every partition under the paths, write the answers and return the exit code.

    Args:
        words: the command's options and arguments by name.
        question: what is asked.

    Raises:
        UsageError: the words do not go together, or there is no log.
    """
    wanted, fail_on, found = format_of(words), severity_of(words["fail_on"]), ask(words)
    tally = Tally(found.unreadable)
    with open_output(words["output"]) as out:
        _write(_answers(found, question, tally), question.table, wanted, out)
    return tally.code(fail_on)


def ask(words: Mapping[str, Any]) -> Investigation:
    """Return the partitions that the words name.

    Raises:
        UsageError: they name none, there is no log, or the output would stand beside it.
    """
    paths = tuple(words["paths"] or ())
    if not paths:
        raise UsageError("nothing to look at; name partition folders or log directories, such as /var/lib/kafka/data")
    check_beside(words["output"], paths)
    as_of = None if words["as_of"] is None else moment_ms(words["as_of"], "--as-of")
    note = _silent if words["quiet"] else say
    return investigate(paths, as_of, say, note, topics=tuple(words["topic"] or ()))


def say(sentence: str) -> None:
    """Write a sentence for people to standard error."""
    sys.stderr.write(f"{printable(sentence)}\n")


def _silent(_sentence: str) -> None:
    """Say nothing."""


def format_of(words: Mapping[str, Any]) -> Format:
    """Return the format that is asked for.

    Raises:
        UsageError: there is no such format, or it is not for a terminal.
    """
    try:
        wanted = Format(words["output_format"].lower())
    except ValueError:
        raise UsageError(f"--format {words['output_format']!r} is none of {', '.join(Format)}") from None
    if wanted in BINARY and words["output"] is None and sys.stdout.isatty():
        raise UsageError(f"{wanted} is not for a terminal; name a file with --output")
    return wanted


def severity_of(word: str) -> Severity | None:
    """Return the severity that a word names, None for ``never``.

    Raises:
        UsageError: there is no such severity.
    """
    if word.lower() == NEVER:
        return None
    try:
        return Severity[word.upper()]
    except KeyError:
        raise UsageError(f"--fail-on {word!r} is none of {', '.join(map(str, Severity))}, {NEVER}") from None


def _answers(found: Investigation, question: Question, tally: Tally) -> Iterator[Answer]:
    """Yield the answers; a partition that cannot be read is said, always: its rows are missing."""
    noted: list[Any] = []
    for examined in found.examined(question.noters):
        if examined.case is None:
            say(f"{examined.why}; the other partitions are looked at all the same")
            tally.unreadable += 1
            continue
        try:
            answer = question.answer(examined.case)
        except InputError as error:
            say(f"{error}; the other partitions are looked at all the same")
            tally.unreadable += 1
            continue
        tally.found(answer.findings)
        yield answer
        noted.append(question.note(examined.case))
    for answer in question.together(noted, found.clusters):
        tally.found(answer.findings)
        yield answer


def _write(answers: Iterator[Answer], name: str, wanted: Format, out: IO[bytes]) -> None:
    if wanted is Format.TEXT:
        sink = TextSink(out)
        for answer in answers:
            lines = answer.lines()
            while some := list(islice(lines, LINES)):
                sink.write("\n".join((*some, "")))
        sink.flush()
        return
    writer, table = open_writer(wanted, out), RESULTS[name]
    if isinstance(writer, ColumnWriter):
        writer.write_parts(table, (batch for answer in answers for batch in answer.rows.record_batches()))
    else:
        rows: Iterable[Any] = chain.from_iterable(answer.rows for answer in answers)
        writer.write(table, rows)
    writer.close()
