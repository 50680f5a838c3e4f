"""Writes results as text, or as rows of a table, and states the command that shows the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import chain, islice
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, TypeVar, get_args

from kforensics.parsers.tables.schemas import Table
from kforensics.render.formats import Format
from kforensics.render.output import open_output, unguarded
from kforensics.render.streams import TextSink

if TYPE_CHECKING:
    from inspect import Parameter

    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.forensics.audit.partition_result import PartitionResult
    from kforensics.forensics.core.result_rows import Rows, RowStream
    from kforensics.render.incident_lines import IncidentView
    from kforensics.render.screen import CommandWords, Screen

T = TypeVar("T")
# What a command that shows the rest leaves out: it must not replace a file or a store, and the rest is text.
NOT_REPEATED = ("output", "checksums", "output_format", "table", "redact_key_file")
# For results without findings.
NO_TABLES: Mapping[str, Iterable[Rows | RowStream]] = MappingProxyType({})
# Lines that are written at once.
BATCH = 1 << 10


def write_results(
    results: Iterable[T],
    output_format: Format,
    options: PartitionOptions,
    *,
    text: Callable[[T], Iterable[str]],
    table: Table,
    rows: Callable[[T], Any],
    beside: Mapping[str, Iterable[Rows | RowStream]] = NO_TABLES,
) -> None:
    """Write results, each as soon as it is there.

    Args:
        results: the results.
        output_format: text, or a format of rows.
        options: the options of the command, with the output and how text is shown.
        text: returns the lines of a result.
        table: the table of the rows.
        rows: returns the rows of a result; as ``Rows`` or ``RowStream`` if they are columns.
        beside: rows of other tables by their names, which a JSON document has after these; they are looked at last.

    Raises:
        UsageError: the output cannot be written.
    """
    with open_output(options.output) as out:
        if output_format is Format.TEXT:
            write_lines(chain.from_iterable(map(text, results)), out, options.screen())
        else:
            _write_table(map(rows, results), output_format, table, out, beside)


def write_lines(lines: Iterable[str], out: IO[bytes], screen: Screen | None = None) -> None:
    """Write lines of text.

    Args:
        lines: the lines.
        out: binary stream to write to.
        screen: where they are shown; None leaves them as they are.
    """
    shown = iter(lines if screen is None else screen.lines(lines))
    sink = TextSink(out if screen is None or not screen.is_colored else unguarded(out))
    while batch := list(islice(shown, BATCH)):
        sink.write("\n".join((*batch, "")))
    sink.flush()


def write_report_lines(lines: Iterable[str], out: IO[bytes], view: IncidentView) -> None:
    """Write the lines of a report, whose times are in the zone of the screen already."""
    write_lines(lines, out, replace(view.screen, zone=None))


def write_parts(parts: Iterable[bytes], out: IO[bytes]) -> None:
    """Write text that fits the screen already, its control characters escaped."""
    out.flush()
    out = unguarded(out)
    for part in parts:
        out.write(part)
    out.flush()


def _write_table(
    parts: Iterable[Any],
    output_format: Format,
    table: Table,
    out: IO[bytes],
    beside: Mapping[str, Iterable[Rows | RowStream]],
) -> None:
    from kforensics.render.writers import ColumnWriter, open_writer  # text does not need them

    writer = open_writer(output_format, out)
    if isinstance(writer, ColumnWriter):
        writer.write_parts(table, chain.from_iterable(map(_columns, parts)))
    else:
        writer.write(table, chain.from_iterable(parts))
    if output_format is Format.JSON:
        from kforensics.forensics.core.tables import RESULTS

        for name, rows in beside.items():
            writer.write(RESULTS[name], chain.from_iterable(rows))
    writer.close()


def _columns(rows: Any) -> Iterable[Any]:
    """Return rows as record batches if they are columns, and as one part of rows otherwise."""
    return rows.record_batches() if hasattr(rows, "record_batches") else (rows,)


def write_tables(
    names: Collection[str],
    results: list[PartitionResult],
    output_format: Format,
    out: IO[bytes],
    finding_results: list[PartitionResult] | None = None,
) -> None:
    """Write tables of the results of partitions.

    Args:
        names: the tables.
        results: the results.
        output_format: a format of rows.
        out: binary stream to write to.
        finding_results: results with the findings and incidents that a JSON document has beside the tables.
    """
    from kforensics.forensics.core.tables import RESULTS
    from kforensics.render.writers import open_writer

    tables = [(name, results) for name in names]
    if output_format is Format.JSON and finding_results is not None:
        tables += [(name, finding_results) for name in ("findings", "incidents") if name not in names]
    writer = open_writer(output_format, out)
    for name, having in tables:
        writer.write(RESULTS[name], chain.from_iterable(result.rows[name] for result in having if name in result.rows))
    writer.close()


def repeatable(command: str, given: Mapping[str, Any], parameters: Iterable[Parameter]) -> CommandWords:
    """Return the words of a command that shows the same: its name, each option with its value, and the paths.

    Args:
        command: its name.
        given: the values of its parameters, by name.
        parameters: its parameters; what has its default is left out.
    """
    by_name = {parameter.name: parameter for parameter in parameters}
    words: list[tuple[str, ...]] = [(command,)]
    for name, value in given.items():
        if name not in ("paths", *NOT_REPEATED) and value != by_name[name].default:
            _, declared = get_args(by_name[name].annotation)
            names = [word for word in (declared.default, *(declared.param_decls or ())) if str(word).startswith("--")]
            words += _option_words([*names, f"--{name.replace('_', '-')}"][0], value, is_count=bool(declared.count))
    paths = tuple(given.get("paths") or ())
    return (*words, ("--", *paths) if any(path.startswith("-") for path in paths) else paths)


def _option_words(option: str, value: Any, *, is_count: bool) -> list[tuple[str, ...]]:
    if isinstance(value, bool):
        return [(option if value else option.replace("--", "--no-", 1),)]
    if is_count:
        return [(option,)] * int(value)
    return [(option, str(each)) for each in (value if isinstance(value, list | tuple) else [value])]
