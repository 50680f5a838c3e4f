"""The commands that judge partitions: ``audit``, ``scan`` and ``verify``, from words to an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from kforensics.analyses.audit import AuditRequest, Stages, audited, judged, size_of, without_secrets
from kforensics.cli.question_command import Tally, ask, format_of, say, severity_of
from kforensics.errors import UsageError
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.files.source import is_uri
from kforensics.render.formats import ONE_TABLE, Format
from kforensics.render.formatting import amount
from kforensics.render.output import open_output
from kforensics.render.report import Report, cards
from kforensics.render.stories import finding_lines
from kforensics.render.streams import TextSink, metered
from kforensics.render.writers import open_writer

__all__ = ["run_audit", "run_scan", "run_verify"]

Lines = Callable[[list[Judgement]], Iterator[str]]


def run_audit(words: Mapping[str, Any]) -> int:
    """Judge partitions, write the evidence store and the report, and return the exit code.

    Raises:
        UsageError: the words do not go together, or the store cannot be written.
    """
    output = _folder_of(words["output"])
    fail_on, wanted = severity_of(words["fail_on"]), format_of({**words, "output": None})
    if wanted in ONE_TABLE:
        raise UsageError(f"--format {wanted} holds one table, an audit has many; name a folder with --output instead")
    found = ask({**words, "output": output})
    request = AuditRequest(
        output,
        words["processes"],
        records=words["records"],
        copies=True,
        checksums=words["checksums"],
        command=without_secrets(sys.argv[1:]),
    )
    report, tally = Report(found.rules.as_of_ms, places=found.unreadable), Tally(found.unreadable)
    kept: list[Judgement] = []
    with metered(size_of(found, request), wanted=False if words["quiet"] else words["progress"]) as meter:
        advance = meter.advance if meter else _nothing
        # Closed even where an interrupt comes between two judgements: the store must not stay half written.
        with closing(audited(found, request, advance, Stages())) as run:
            for judgement in run:
                report.add(judgement)
                tally.add(judgement)
                if wanted is not Format.TEXT:
                    kept.append(judgement)
    with open_output(None) as out:
        _write_all(wanted, out, kept, report.lines())
    if output and not words["quiet"]:
        say(f"the evidence of {amount(report.partitions, 'partition')} is in {output}")
    return tally.code(fail_on)


def _folder_of(output: str | None) -> Path | None:
    """Return the folder of a store.

    Raises:
        UsageError: it is a URI.
    """
    if output is not None and is_uri(output):
        raise UsageError(f"--output {output} is for --engine spark; name a local folder, or add that")
    return None if output is None else Path(output)


def run_scan(words: Mapping[str, Any]) -> int:
    """Judge partitions, write a card for each, the worst first, and return the exit code.

    Raises:
        UsageError: the words do not go together.
    """
    return _run(words, "all", "partitions", cards)


def run_verify(words: Mapping[str, Any]) -> int:
    """Compare what lies beside the logs with them, write what does not agree, and return the exit code.

    Raises:
        UsageError: the words do not go together.
    """
    return _run(words, "evidence", "findings", _verified)


def _run(words: Mapping[str, Any], families: str, table: str, lines: Lines) -> int:
    fail_on, wanted, found = severity_of(words["fail_on"]), format_of(words), ask(words)
    tally, kept = Tally(found.unreadable), list[Judgement]()
    request = AuditRequest(None, words["processes"], families)
    with metered(size_of(found, request), wanted=False if words["quiet"] else words["progress"]) as meter:
        advance = meter.advance if meter else _nothing
        for judgement in judged(found, request, advance):
            tally.add(judgement)
            if judgement.is_counted:
                kept.append(judgement.only(table))
    with open_output(words["output"]) as out:
        if wanted is Format.TEXT:
            _write_lines(out, lines(kept))
        else:
            _write_tables(wanted, out, [table], kept)
    return tally.code(fail_on)


def _nothing(_size: int) -> None:
    """Show no progress."""


def _verified(kept: list[Judgement]) -> Iterator[str]:
    """Yield the findings partition by partition, and how many partitions agree with all that lies beside them."""
    agreeing = 0
    for judgement in kept:
        if judgement.why is not None:
            yield f"not read: {judgement.why}"
        elif judgement.findings:
            yield from finding_lines(judgement.place, judgement.folder, judgement.findings)
        else:
            agreeing += 1
    yield f"{amount(agreeing, 'partition')} of {len(kept)}: everything beside the log agrees with it"


def _write_all(wanted: Format, out: IO[bytes], kept: list[Judgement], lines: Iterable[str]) -> None:
    if wanted is Format.TEXT:
        _write_lines(out, lines)
    else:
        _write_tables(wanted, out, [*RESULTS], kept)


def _write_lines(out: IO[bytes], lines: Iterable[str]) -> None:
    sink = TextSink(out)
    for line in lines:
        sink.write(f"{line}\n")
    sink.flush()


def _write_tables(wanted: Format, out: IO[bytes], names: list[str], kept: list[Judgement]) -> None:
    writer = open_writer(wanted, out)
    for name in names:
        writer.write(RESULTS[name], (row for one in kept if name in one.rows for row in one.rows[name]))
    writer.close()
