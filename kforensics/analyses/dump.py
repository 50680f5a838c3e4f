"""``dump``: what is in these files, as Kafka prints it, as lines that go on behind damage, or as rows of tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from kforensics.analyses.read_files import (
    Convert,
    FilesReader,
    Isolation,
    drained,
    judge_of,
    kind_to_read,
    opened,
    served,
)
from kforensics.errors import InputError, UsageError
from kforensics.kafka_dump.options import ToolOptions
from kforensics.parsers.files.discover import FoundFile, Unreadable, as_named, discover
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.log.selection import Selection
from kforensics.parsers.tables.file_rows import LOG_KINDS, Reading, damage_rows, table_of
from kforensics.render.formats import ONE_TABLE, BytesFormat, Format
from kforensics.render.streams import TextSink, metered

if TYPE_CHECKING:
    from kforensics.forensics.sidecar.isolation import Judge
    from kforensics.parsers.tables.schemas import Table
    from kforensics.render.values import Redactor

__all__ = ["DumpRequest", "Outcome", "dump_rows", "dump_text", "find_files", "imitate"]

Row = tuple[Any, ...]
Say = Callable[[str], None]
# Formats that hold several tables, and so the damage too.
WITH_DAMAGE = (Format.JSON, Format.NDJSON, Format.TABLE)
# Bytes that were read although something about them is wrong.
DOUBTS = ("crc", "magic")
# What a crash or a live copy leaves at the end of a file, and no alarm by itself.
TAILS = ("truncated", "zero-tail", "ragged", "shrunk")


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """What to dump, and how.

    Attributes:
        paths: files, folders, globs and URIs.
        tool: the options of Kafka's own tool.
        style: release to imitate, None for the plain style.
        output_format: text, or a format of rows.
        table: ``batches`` or ``records`` of logs, ``damage`` of all files, None for every file's own table.
        selection: which batches and records.
        isolation: what a consumer receives of them.
        aborted: records of aborted transactions, and nothing else.
        limit: most rows, or record lines, or batch lines where no records are printed.
        key_format: how keys are shown, None for the format's default.
        value_format: how values are shown, likewise.
        redact: replaces keys, values and header values.
        budget: most bytes to decompress per batch.
        progress: whether to show progress, None for where a person looks.
        quiet: say nothing of damage.
    """

    paths: tuple[str, ...]
    tool: ToolOptions = field(default_factory=ToolOptions)
    style: str | None = None
    output_format: Format = Format.TEXT
    table: str | None = None
    selection: Selection = field(default_factory=Selection)
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    aborted: bool = False
    limit: int | None = None
    key_format: BytesFormat | None = None
    value_format: BytesFormat | None = None
    redact: Redactor | None = None
    budget: int = DEFAULT_BUDGET
    progress: bool | None = None
    quiet: bool = False

    @property
    def takes_columns(self) -> bool:
        """Whether every row is wanted, and as it is."""
        changes = self.key_format or self.value_format or self.redact or self.tool.topic_decoder
        return not changes and self.limit is None


@dataclass(slots=True)
class Outcome:
    """What went wrong on the way.

    Attributes:
        unreadable: inputs that could not be read.
        damaged: damage that is more than a torn or unused tail.
        tails: torn and unused tails.
        quiet: damage is counted, but nothing is said of it.
    """

    unreadable: int = 0
    damaged: int = 0
    tails: int = 0
    quiet: bool = False

    def note(self, path: str, damage: Damage, say: Say) -> None:
        """Count a piece of damage and say what it is."""
        if not self.quiet:
            say(damage_sentence(path, damage))
        if damage.reason in TAILS and damage.next_good_position is None and damage.inside_batch is None:
            self.tails += 1
        else:
            self.damaged += 1


def imitate(request: DumpRequest, out: IO[bytes], err: IO[bytes]) -> int:
    """Print what Kafka's tool prints, and return its exit code."""
    from kforensics.kafka_dump.run import run_tool  # other formats do not need it
    from kforensics.kafka_dump.styles import STYLES

    text, errors = TextSink(out), TextSink(err)
    style = STYLES[request.style or "4.3"]
    directory = os.getcwd()  # noqa: PTH109  # Java's user.dir, as text
    # What the tool does not say is not said: kernels are compiled in silence.
    budget, kernels = request.budget, kernels_for
    code = run_tool(request.tool, style, text.write, errors.write, directory, budget=budget, kernels=kernels)
    text.flush()
    errors.flush()
    return code


def find_files(paths: tuple[str, ...], say: Say, outcome: Outcome) -> list[FoundFile]:
    """Return the files under the paths; what cannot be looked into is said and counted."""
    found = []
    for row in discover(paths):
        if isinstance(row, Unreadable):
            say(f"cannot read {row.path}: {row.why}")
            outcome.unreadable += 1
        else:
            found.append(as_named(row) if row.path in paths else row)
    return found


def _wanted_files(request: DumpRequest, judge: Judge | None, say: Say, outcome: Outcome) -> list[FoundFile]:
    """Return the files to dump; filters choose batches and records, so with one only files that hold such."""
    found = find_files(request.paths, say, outcome)
    if not found and not outcome.unreadable:
        say(f"there is no file under {', '.join(request.paths)}")
        outcome.unreadable += 1
    if request.selection == Selection() and judge is None:
        return found
    logs = [each for each in found if each.kind in (*LOG_KINDS, "unknown")]
    if found and not logs:
        raise UsageError("filters choose batches and records, and none of these files holds any; leave the filters out")
    return served(logs, request.paths, say) if judge else logs


def dump_text(request: DumpRequest, out: IO[bytes], say: Say) -> Outcome:
    """Print files in plain style: the lines of Kafka's tool, on past all damage, which is said of each file.

    Args:
        request: what to dump.
        out: standard output.
        say: takes sentences for standard error.
    """
    from kforensics.kafka_dump.plain_run import PlainRun  # rows do not need it

    outcome, sink = Outcome(quiet=request.quiet), TextSink(out)
    judge = judge_of(request.isolation, say, aborted=request.aborted)
    files = _wanted_files(request, judge, say, outcome)
    directory = os.getcwd()  # noqa: PTH109  # Java's user.dir, as text
    kernels = partial(kernels_for, say=None if request.quiet else say)
    selection = judge.over(request.selection) if judge else request.selection
    run = PlainRun(request.tool, selection, request.budget, _texts(request), request.limit, directory, kernels)
    with metered(sum(found.size for found in files), wanted=request.progress) as meter:
        for known, source, start in opened(files, selection, partial(_unread, say, outcome), meter, judge):
            if run.finished:
                break
            try:
                _write_text(run.text(known, source, start), sink, partial(outcome.note, known.path, say=say))
            except InputError as error:
                _unread(say, outcome, error)
    sink.flush()
    for line in run.summary():
        say(line)
    return outcome


def _write_text(rows: Iterator[str | memoryview | Damage], sink: TextSink, note: Callable[[Damage], None]) -> None:
    for row in rows:
        if isinstance(row, Damage):
            sink.flush()  # on a terminal, damage stands where it is
            note(row)
        else:
            sink.write(row)


def _texts(request: DumpRequest) -> tuple[Callable[[bytes], str], Callable[[bytes], str]] | None:
    """Return what makes text of keys and of values, None to leave that to the decoders."""
    if not (request.key_format or request.value_format or request.redact):
        return None
    from kforensics.render.values import text_of  # the decoders do without

    formats = (request.key_format or BytesFormat.UTF8, request.value_format or BytesFormat.UTF8)
    key, value = (text_of(wanted, request.redact) for wanted in formats)
    return key, value


def dump_rows(request: DumpRequest, out: IO[bytes], say: Say) -> Outcome:
    """Write files as rows of tables; see :func:`dump_text`."""
    from kforensics.parsers.tables.schemas import TABLES  # text does not need it
    from kforensics.render.writers import ColumnWriter, open_writer

    outcome = Outcome(quiet=request.quiet)
    judge = judge_of(request.isolation, say, aborted=request.aborted)
    by_table = _by_table(request, _wanted_files(request, judge, say, outcome))
    writer = open_writer(request.output_format, out)
    damage: list[tuple[FoundFile, Damage]] = []

    def report(found: FoundFile, row: Damage) -> None:
        damage.append((found, row))
        outcome.note(found.path, row, say)

    records = request.table in ("records", "damage")
    reading = Reading(records, request.selection, request.budget, stop=request.tool.log_end)
    kernels = partial(kernels_for, say=None if request.quiet else say)
    with metered(sum(found.size for group in by_table.values() for found in group), wanted=request.progress) as meter:
        for name, group in by_table.items():
            reader = FilesReader(reading, report, partial(_unread, say, outcome), meter, judge)
            table, convert = _outgoing(request, name)
            if request.table == "damage":
                drained(reader.parts(group, convert, kernels))
            elif isinstance(writer, ColumnWriter) and request.takes_columns:
                writer.write_parts(table, reader.parts(group, convert, kernels))
            else:
                writer.write(table, map(convert, islice(reader.rows(group), request.limit)))
    if request.table == "damage" or (damage and request.output_format in WITH_DAMAGE):
        rows = (row for found, item in damage for row in damage_rows(found, [item]))
        writer.write(TABLES["damage"], islice(rows, request.limit))
    writer.close()
    return outcome


def _outgoing(request: DumpRequest, name: str) -> tuple[Table, Convert]:
    """Return a table as it goes out and what makes its rows so: decoded, formatted or redacted."""
    from kforensics.kafka_dump.topic_rows import topic_decoded  # text does not need it
    from kforensics.parsers.tables.schemas import TABLES
    from kforensics.render.values import shape

    decoded = None if request.redact else topic_decoded(name, request.tool.topic_decoder)
    if decoded:
        return decoded.table, decoded
    shaped = shape(TABLES[name], *_row_formats(request), request.redact)
    return shaped.table, shaped


def _by_table(request: DumpRequest, files: list[FoundFile]) -> dict[str, list[FoundFile]]:
    """Return the files by the table they fill, without those that fill none or one that is not wanted."""
    by_table: dict[str, list[FoundFile]] = {}
    for found in files:
        name = table_of(kind_to_read(found), records=request.table in ("records", "damage"))
        if name and request.table in (None, name, "damage"):
            by_table.setdefault(name, []).append(found)
    if len(by_table) > 1 and request.output_format in ONE_TABLE and request.table is None:
        raise UsageError(
            f"these files fill several tables ({', '.join(by_table)}) and {request.output_format} holds one; "
            "add --batches or --records, or name files of one kind"
        )
    # Without a file for it, a table that was asked for is still written, with its columns and no row.
    return by_table or {"batches" if request.table in (None, "damage") else request.table: []}


def _unread(say: Say, outcome: Outcome, error: InputError) -> None:
    say(str(error))
    outcome.unreadable += 1


def _row_formats(request: DumpRequest) -> tuple[BytesFormat | None, BytesFormat | None]:
    """Return key and value format: formats that have bytes of their own keep them unless told otherwise."""
    default = None if request.output_format in (Format.PARQUET, Format.ARROW) else BytesFormat.UTF8
    return request.key_format or default, request.value_format or default


def damage_sentence(path: str, damage: Damage) -> str:
    """Return what to say of damage."""
    where = f"bytes {damage.start:#x} to {damage.end:#x} ({damage.end - damage.start} bytes)"
    inside = f" of the batch at {damage.inside_batch:#x}" if damage.inside_batch is not None else ""
    verdict = "are doubtful" if inside and damage.reason in DOUBTS else "could not be read"
    if damage.reason == "zero-tail":
        verdict = "hold nothing"
    on = f"; goes on at {damage.next_good_position:#x}" if damage.next_good_position is not None else ""
    return f"{path}: {where}{inside} {verdict}, {damage.reason}: {damage.detail}{on}"
