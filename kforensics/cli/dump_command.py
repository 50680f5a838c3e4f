"""From the words of the command line to a dump, and from its outcome to an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kforensics.analyses.dump import DumpRequest, Outcome, dump_rows, dump_text, imitate
from kforensics.analyses.filters import isolation_level, offset_range, pattern, time_range
from kforensics.analyses.read_files import Isolation
from kforensics.errors import UsageError
from kforensics.kafka_dump.options import ToolOptions
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.format.printable import printable
from kforensics.parsers.log.selection import Selection
from kforensics.render.formats import BytesFormat, Format
from kforensics.render.output import check_beside, guarded, open_output

if TYPE_CHECKING:
    from kforensics.render.values import Redactor

__all__ = ["run_dump"]

CLEAN, FINDINGS, UNREADABLE = 0, 1, 3
TABLES = ("batches", "records", "damage")
TEXT_ONLY = (
    "skip_record_metadata",
    "verify_index_only",
    "index_sanity_check",
    "key_decoder_class",
    "value_decoder_class",
)
BINARY = (Format.PARQUET, Format.ARROW)
LONGEST_KEY = 64
NOT_WITH_STYLE = ("aborted", "redact", "limit", "key_format", "value_format", *TABLES)


class FailOn(StrEnum):
    """Severity of damage from which on the exit code is 1."""

    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


def run_dump(words: Mapping[str, Any]) -> int:
    """Run ``dump`` and return its exit code.

    Args:
        words: the command's options and arguments by name.

    Raises:
        UsageError: the words do not go together; the message says what to write instead.
        InputError: an input cannot be read at all.
    """
    fail_on = _choice(FailOn, words["fail_on"], "--fail-on")
    request = _request(words)
    _check_rows(words, request)
    check_beside(words["output"], request.paths)
    with open_output(words["output"]) as out:
        if request.style:
            sys.stdout.flush()
            return imitate(request, out, guarded(sys.stderr))
        run = dump_text if request.output_format is Format.TEXT else dump_rows
        outcome = run(request, out, _say)
    return _exit_code(outcome, fail_on)


def _say(sentence: str) -> None:
    sys.stderr.write(f"{printable(sentence)}\n")


def _exit_code(outcome: Outcome, fail_on: FailOn) -> int:
    if outcome.unreadable:
        return UNREADABLE
    failed = outcome.damaged if fail_on is FailOn.ERROR else outcome.damaged + outcome.tails
    return FINDINGS if failed and fail_on is not FailOn.NEVER else CLEAN


def _request(words: Mapping[str, Any]) -> DumpRequest:
    # As in Java's String.split, empty names at the end do not count.
    files = tuple(words["files"].rstrip(",").split(",")) if words["files"].strip(",") else ()
    paths = (*files, *(words["paths"] or ()))
    if not paths:
        raise UsageError("nothing to dump; name files or folders, as in: kforensics dump topic-0/*.log")
    tool = ToolOptions(files=paths, **{option.name: words[option.name] for option in fields(ToolOptions)[1:]})
    style = _style(words)
    return DumpRequest(
        paths=paths,
        tool=tool,
        style=style,
        output_format=_choice(Format, words["output_format"], "--format"),
        table=_table(words, tool),
        selection=_selection(words),
        isolation=isolation_level(words["isolation"], aborted=words["aborted"]),
        aborted=words["aborted"],
        limit=words["limit"],
        key_format=_choice(BytesFormat, words["key_format"], "--key-format") if words["key_format"] else None,
        value_format=_choice(BytesFormat, words["value_format"], "--value-format") if words["value_format"] else None,
        redact=_redactor(words),
        budget=words["max_decompressed_bytes"],
        progress=False if words["quiet"] else words["progress"],
        quiet=words["quiet"],
    )


Choice = TypeVar("Choice", bound=StrEnum)


def _choice(kind: type[Choice], word: str, option: str) -> Choice:
    try:
        return kind(word.lower())
    except ValueError:
        raise UsageError(f"{option} {word!r} is none of {', '.join(kind)}") from None


def _style(words: Mapping[str, Any]) -> str | None:
    style: str | None = words["style"]
    if style is None:
        return None
    if style not in STYLES:
        raise UsageError(f"--style {style!r} is none of {', '.join(STYLES)}")
    given = [name for name in NOT_WITH_STYLE if words[name] not in (None, False)]
    if isolation_level(words["isolation"]) is not Isolation.READ_UNCOMMITTED:
        given.append("isolation")
    if given or words["output_format"] != Format.TEXT or _selection(words) != Selection():
        raise UsageError(f"--style prints what Kafka's tool prints and nothing else; leave out {_options(given)}")
    return style


def _check_rows(words: Mapping[str, Any], request: DumpRequest) -> None:
    """Refuse what would have no effect, and bytes on a terminal."""
    text_only = [name for name in TEXT_ONLY if words[name] not in (None, False)]
    if text_only and request.output_format is not Format.TEXT:
        raise UsageError(f"{_options(text_only)} changes text, not rows; leave it or --format out")
    if request.output_format is Format.TEXT and request.table and not request.style:
        more = ", or --print-data-log for records as text" if request.table == "records" else ""
        raise UsageError(f"--{request.table} gives rows; say which with --format {'|'.join([*Format][1:])}{more}")
    if request.selection.key and not _shows_records(request):
        more = "--print-data-log" if request.output_format is Format.TEXT else "--records"
        raise UsageError(f"--key looks into records; add {more} to see them")
    if request.output_format in BINARY and words["output"] is None and sys.stdout.isatty():
        raise UsageError(f"{request.output_format} is not for a terminal; name a file with --output")


def _shows_records(request: DumpRequest) -> bool:
    if request.output_format is not Format.TEXT:
        return request.table == "records"
    return request.tool.prints_records or bool(request.key_format or request.value_format or request.redact)


def _options(names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names) or "filters and --format"


def _table(words: Mapping[str, Any], tool: ToolOptions) -> str | None:
    """Return the table that is wanted; options of Kafka's tool that ask for records ask for their table too."""
    chosen = [name for name in TABLES if words[name]]
    if len(chosen) > 1:
        raise UsageError(f"choose one of {_options(chosen)}")
    if chosen or words["output_format"].lower() == Format.TEXT:
        return chosen[0] if chosen else None
    return "records" if tool.prints_records else None


def _selection(words: Mapping[str, Any]) -> Selection:
    return Selection(
        offsets=offset_range(words["offset"]),
        times=time_range(words["time"]),
        producer_id=words["producer_id"],
        producer_epoch=words["producer_epoch"],
        leader_epoch=words["leader_epoch"],
        transactional=words["transactional"],
        control=words["control"],
        key=pattern(words["key"]),
    )


def _redactor(words: Mapping[str, Any]) -> Redactor | None:
    """Return what hides payloads; its secret comes from a file, so that it never stands on a command line."""
    path: Path | None = words["redact_key_file"]
    if not words["redact"]:
        if path:
            raise UsageError("--redact-key-file goes with --redact")
        return None
    import hashlib  # few dumps are redacted
    import secrets

    from kforensics.render.values import Redactor

    if path is None:
        return Redactor(secrets.token_bytes(LONGEST_KEY))
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {os.strerror(error.errno or 0)}") from error
    if not secret:
        raise UsageError(f"{path} is empty; put a secret into it, such as 32 random bytes")
    return Redactor(secret if len(secret) <= LONGEST_KEY else hashlib.sha512(secret).digest())
