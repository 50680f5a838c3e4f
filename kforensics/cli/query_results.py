"""Writes the result of a query in every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforensics.cli.writing import write_lines
from kforensics.errors import UsageError
from kforensics.render.formats import Format
from kforensics.render.output import open_output
from kforensics.render.query_text import result_lines
from kforensics.render.writers import ColumnWriter, open_writer
from kforensics.sql.result_rows import first_rows, result_table, values_of

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.sql.session import Session


def write_result(session: Session, sql: str, options: PartitionOptions, limit: int | None) -> None:
    """Evaluate SQL and write its result, each row as soon as it is there.

    Args:
        session: the tables.
        sql: the statements; the result of the last one counts.
        options: format and output.
        limit: how many rows at most, None for all.

    Raises:
        UsageError: the SQL is wrong or has no result, or the output cannot be written.
        EngineError: there is not enough memory or disk.
    """
    output_format = options.format()
    result = session.run(sql)
    if result is None:
        raise UsageError("there is no SQL with a result; give a SELECT after the store, or on standard input")
    table, batches = result_table(result.schema), first_rows(result.batches(), limit)
    with open_output(options.output) as out:
        if output_format is Format.TEXT:
            screen = options.screen()
            write_lines(result_lines(table, values_of(batches), screen), out, screen)
            return
        writer = open_writer(output_format, out)
        if isinstance(writer, ColumnWriter):
            writer.write_parts(table, batches)
        else:
            writer.write(table, values_of(batches))
        writer.close()
