"""Checks the options of ``dump``, runs the dump, and determines the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kforensics.analyses.dump import DumpOutcome, DumpRequest, dump_rows, dump_text, imitate
from kforensics.analyses.filters import Isolation
from kforensics.cli.messages import CLEAN, FINDINGS, UNREADABLE, notify, notify_unreadable
from kforensics.errors import UsageError
from kforensics.kafka_dump.styles import STYLES
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.parsers.log.selection import Selection
from kforensics.render.formats import BytesFormat, Format
from kforensics.render.output import check_output, guard_stream, open_output

if TYPE_CHECKING:
    from kforensics.render.payloads import Redactor

# Options of Kafka's tool that change its text, and not rows.
TEXT_ONLY = (
    "skip_record_metadata",
    "verify_index_only",
    "index_sanity_check",
    "key_decoder_class",
    "value_decoder_class",
)
# Options that Kafka's tool does not have, by the attribute of the request.
NOT_WITH_STYLE = ("aborted", "redact", "limit", "key_format", "value_format", "topics", "numbers")
# Options that are not named like the attribute of the request.
OPTION_OF = {"topics": "topic", "numbers": "partition"}
# Options that change how keys and values are shown, by the attribute of the request.
CHANGE_CONTENTS = ("redact", "key_format", "value_format")
# Formats that a terminal cannot show.
BINARY = (Format.PARQUET, Format.ARROW)
MAX_REDACT_KEY = 64
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)


class DumpFailOn(StrEnum):
    """The damage at which the exit code is 1."""

    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


def run_dump(request: DumpRequest, output: Path | None, fail_on: DumpFailOn) -> int:
    """Dump files, and return the exit code.

    Args:
        request: what to dump, and how.
        output: the file to write, None for standard output.
        fail_on: the damage at which the exit code is 1.

    Raises:
        UsageError: the options do not go together.
        InputError: an input cannot be read at all.
    """
    if request.formatter is None:
        _check_style(request)
    else:
        _check_formatter(request)
    _check_rows(request, output)
    check_output(output, request.paths)
    with open_output(output) as out:
        if request.formatter is not None:
            from kforensics.analyses.formatted_records import dump_formatted  # few dumps need it

            return _exit_code(dump_formatted(request, out, notify, notify_unreadable), fail_on)
        if request.style:
            sys.stdout.flush()
            return imitate(request, out, guard_stream(sys.stderr))
        if request.table == "damage" and request.output_format is Format.TEXT:
            from kforensics.analyses.damage_text import damage_lines  # few dumps need it
            from kforensics.cli.writing import write_lines
            from kforensics.render.screen import Screen

            lines, outcome = damage_lines(request, notify, notify_unreadable)
            write_lines(lines, out, Screen.of(is_file=output is not None))
            return _exit_code(outcome, fail_on)
        run = dump_text if request.output_format is Format.TEXT else dump_rows
        return _exit_code(run(request, out, notify, notify_unreadable), fail_on)


def _exit_code(outcome: DumpOutcome, fail_on: DumpFailOn) -> int:
    if outcome.unreadable:
        return UNREADABLE
    failures = outcome.damaged if fail_on is DumpFailOn.ERROR else outcome.damaged + outcome.tails
    return FINDINGS if failures and fail_on is not DumpFailOn.NEVER else CLEAN


def dump_paths(files: str, paths: Sequence[str] | None) -> tuple[str, ...]:
    """Return the paths to dump.

    Args:
        files: files, separated by commas; empty names at the end are ignored, as by Java's ``String.split``.
        paths: other paths.

    Raises:
        UsageError: there is no path.
    """
    listed = tuple(files.rstrip(",").split(",")) if files.strip(",") else ()
    if not (listed or paths):
        raise UsageError("there is no input; name files or folders, as in: kforensics dump topic-0/*.log")
    return (*listed, *(paths or ()))


def partition_ranges(partitions: Sequence[str] | None) -> tuple[range, ...]:
    """Return the ranges of the numbers of partitions that the user wants, none for all.

    Raises:
        UsageError: one is neither a number nor a range.
    """
    if not partitions:
        return ()
    from kforensics.analyses.topics import partition_numbers  # few dumps select by them

    return tuple(map(partition_numbers, partitions))


def choice(choices: type[ChoiceT], name: str, option: str) -> ChoiceT:
    """Return the choice of a name.

    Raises:
        UsageError: there is no such choice.
    """
    try:
        return choices(name.lower())
    except ValueError:
        raise UsageError(f"{option} {name!r} is not one of {', '.join(choices)}") from None


def payload_format(name: str | None, option: str) -> BytesFormat | None:
    """Return how to show keys or values, None for the default.

    Raises:
        UsageError: there is no such format.
    """
    return choice(BytesFormat, name, option) if name else None


def dump_table(output_format: Format, tool: ToolOptions, *, batches: bool, records: bool, damage: bool) -> str | None:
    """Return the table to write, None for each file's own table.

    Args:
        output_format: text, or a format of rows.
        tool: the options of Kafka's tool; those that print records select their table.
        batches: whether ``--batches`` is given.
        records: whether ``--records`` is given.
        damage: whether ``--damage`` is given.

    Raises:
        UsageError: more than one table is given.
    """
    given = {"batches": batches, "records": records, "damage": damage}
    tables = [name for name, is_given in given.items() if is_given]
    if len(tables) > 1:
        raise UsageError(f"choose one of {_options(tables)}")
    if tables or output_format is Format.TEXT:
        return tables[0] if tables else None
    return "records" if tool.prints_records else None


def redactor(key_file: Path | None, *, is_wanted: bool) -> Redactor | None:
    """Return what redacts payloads, None if nothing does.

    Args:
        key_file: file with the secret; on the command line, other users could see it. None for a random secret.
        is_wanted: whether ``--redact`` is given.

    Raises:
        UsageError: the file cannot be read or is empty.
    """
    if not is_wanted:
        if key_file:
            raise UsageError("--redact-key-file is for --redact; add --redact")
        return None
    import hashlib  # few dumps are redacted
    import secrets

    from kforensics.render.payloads import Redactor

    if key_file is None:
        return Redactor(secrets.token_bytes(MAX_REDACT_KEY))
    try:
        secret = key_file.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"cannot read {key_file}: {os.strerror(error.errno or 0)}") from error
    if not secret:
        raise UsageError(f"{key_file} is empty; put a secret into it, such as 32 random bytes")
    return Redactor(secret if len(secret) <= MAX_REDACT_KEY else hashlib.sha512(secret).digest())


def _check_style(request: DumpRequest) -> None:
    """Refuse releases that cannot be imitated, and with ``--style`` every option that Kafka's tool does not have."""
    if request.style is None:
        return
    if request.style not in STYLES:
        raise UsageError(f"--style {request.style!r} is not one of {', '.join(STYLES)}")
    given = [name for name in NOT_WITH_STYLE if getattr(request, name) not in (None, False, ())]
    given += [request.table] if request.table else []
    given += [] if request.isolation is Isolation.READ_UNCOMMITTED else ["isolation"]
    if given or request.output_format is not Format.TEXT or request.selection != Selection():
        raise UsageError(f"--style prints what Kafka's tool prints and nothing else; leave out {_options(given)}")


def _check_formatter(request: DumpRequest) -> None:
    """Refuse what a formatter of kafka-console-consumer has no use for, and what is no formatter."""
    from kforensics.kafka_dump.decoders.formatters import formatter  # few dumps need them

    formatter(request.formatter or "", request.style)
    given = [name for name in CHANGE_CONTENTS if getattr(request, name) not in (None, False)]
    usual, ours = ToolOptions(), ("files", "max_bytes")
    tool = (each.name for each in fields(ToolOptions) if each.name not in ours)
    given += [name for name in tool if getattr(request.tool, name) != getattr(usual, name)]
    given += [request.table] if request.table else []
    given += ["format"] if request.output_format is not Format.TEXT else []
    if given:
        raise UsageError(f"--formatter prints records in a form of their own; leave out {_options(given)}")


def _check_rows(request: DumpRequest, output: Path | None) -> None:
    """Refuse options without effect, and binary formats on a terminal."""
    text_only = [name for name in TEXT_ONLY if getattr(request.tool, name) not in (None, False)]
    if text_only and request.output_format is not Format.TEXT:
        raise UsageError(f"{_options(text_only)} changes text and not rows; leave out that or --format")
    if request.output_format is Format.TEXT and request.table in ("batches", "records") and not request.style:
        more = ", or add --print-data-log for records as text" if request.table == "records" else ""
        raise UsageError(f"--{request.table} writes rows; add --format {'|'.join([*Format][1:])}{more}")
    if request.selection.key and not _shows_records(request):
        more = "--print-data-log" if request.output_format is Format.TEXT else "--records"
        raise UsageError(f"--key selects records; add {more} to show records")
    if request.output_format in BINARY and output is None and sys.stdout.isatty():
        raise UsageError(f"{request.output_format} is not for a terminal; name a file with --output")


def _shows_records(request: DumpRequest) -> bool:
    if request.formatter is not None:
        return True
    if request.output_format is not Format.TEXT:
        return request.table == "records"
    return request.tool.prints_records or bool(request.key_format or request.value_format or request.redact)


def _options(names: Sequence[str]) -> str:
    return ", ".join(f"--{OPTION_OF.get(name, name).replace('_', '-')}" for name in names) or "filters and --format"
