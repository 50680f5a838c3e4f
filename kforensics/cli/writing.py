"""Writes results as text, or as rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from kforensics.parsers.tables.schemas import Table
from kforensics.render.formats import Format
from kforensics.render.output import open_output
from kforensics.render.streams import TextSink

if TYPE_CHECKING:
    from kforensics.forensics.audit.partition_result import PartitionResult

T = TypeVar("T")
# Lines that are written at once.
BATCH = 1 << 10


def write_results(
    results: Iterable[T],
    output_format: Format,
    output: Path | None,
    *,
    text: Callable[[T], Iterable[str]],
    table: Table,
    rows: Callable[[T], Any],
) -> None:
    """Write results, each as soon as it is there.

    Args:
        results: the results.
        output_format: text, or a format of rows.
        output: the file, None for standard output.
        text: returns the lines of a result.
        table: the table of the rows.
        rows: returns the rows of a result; as ``Rows`` or ``RowStream`` if they are columns.

    Raises:
        UsageError: the output cannot be written.
    """
    with open_output(output) as out:
        if output_format is Format.TEXT:
            write_lines(chain.from_iterable(map(text, results)), out)
        else:
            _write_table(map(rows, results), output_format, table, out)


def write_lines(lines: Iterable[str], out: IO[bytes]) -> None:
    """Write lines of text."""
    sink, remaining = TextSink(out), iter(lines)
    while batch := list(islice(remaining, BATCH)):
        sink.write("\n".join((*batch, "")))
    sink.flush()


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
