"""Writes results as text, or as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, TypeVar

from kforensics.parsers.tables.schemas import Table
from kforensics.render.formats import Format
from kforensics.render.output import open_output, unguarded
from kforensics.render.streams import TextSink

if TYPE_CHECKING:
    from kforensics.cli.common_options import CommonOptions
    from kforensics.forensics.audit.partition_result import PartitionResult
    from kforensics.render.screen import Screen

T = TypeVar("T")
# Lines that are written at once.
BATCH = 1 << 10


def write_results(
    results: Iterable[T],
    output_format: Format,
    options: CommonOptions,
    *,
    text: Callable[[T], Iterable[str]],
    table: Table,
    rows: Callable[[T], Any],
) -> None:
    """Write results, each as soon as it is there.

    Args:
        results: the results.
        output_format: text, or a format of rows.
        options: the options of the command, with the output and how text is shown.
        text: returns the lines of a result.
        table: the table of the rows.
        rows: returns the rows of a result; as ``Rows`` or ``RowStream`` if they are columns.

    Raises:
        UsageError: the output cannot be written.
    """
    with open_output(options.output) as out:
        if output_format is Format.TEXT:
            write_lines(chain.from_iterable(map(text, results)), out, options.screen())
        else:
            _write_table(map(rows, results), output_format, table, out)


def write_lines(lines: Iterable[str], out: IO[bytes], screen: Screen | None = None) -> None:
    """Write lines of text.

    Args:
        lines: the lines.
        out: binary stream to write to.
        screen: where they are shown; None leaves them as they are.
    """
    shown = iter(lines if screen is None else screen.lines(lines))
    sink = TextSink(out if screen is None or not screen.is_coloured else unguarded(out))
    while batch := list(islice(shown, BATCH)):
        sink.write("\n".join((*batch, "")))
    sink.flush()


def write_parts(parts: Iterable[bytes], out: IO[bytes]) -> None:
    """Write text that fits the screen already, its control characters escaped."""
    out.flush()
    out = unguarded(out)
    for part in parts:
        out.write(part)
    out.flush()


def _write_table(parts: Iterable[Any], output_format: Format, table: Table, out: IO[bytes]) -> None:
    from kforensics.render.writers import ColumnWriter, open_writer  # text does not need them

    writer = open_writer(output_format, out)
    if isinstance(writer, ColumnWriter):
        writer.write_parts(table, chain.from_iterable(map(_columns, parts)))
    else:
        writer.write(table, chain.from_iterable(parts))
    writer.close()


def _columns(rows: Any) -> Iterable[Any]:
    """Return rows as record batches if they are columns, and as one part of rows otherwise."""
    return rows.record_batches() if hasattr(rows, "record_batches") else (rows,)


def write_tables(names: Iterable[str], results: list[PartitionResult], output_format: Format, out: IO[bytes]) -> None:
    """Write tables of the results of partitions."""
    from kforensics.forensics.core.tables import RESULTS
    from kforensics.render.writers import open_writer

    writer = open_writer(output_format, out)
    for name in names:
        writer.write(RESULTS[name], chain.from_iterable(result.rows[name] for result in results if name in result.rows))
    writer.close()
