"""A session of DuckDB in memory, which reads the tables it is given and no file, and writes none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa

from kforensics.errors import EngineError, UsageError
from kforensics.sql.scanned_table import Failures, ScannedTable, Source
from kforensics.sql.sentences import sql_sentence

__all__ = ["Result", "Session"]

BATCH_ROWS = 1 << 13
# In this order: the last one keeps SQL from changing the others.
LOCKED = {
    "python_enable_replacements": "false",  # variables of this program are no tables
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}


class Result:
    """The rows of a query, which are computed while they are read.

    Attributes:
        schema: schema of the rows; no two columns have the same name.
    """

    def __init__(self, session: Session, reader: pa.RecordBatchReader) -> None:
        self._session, self._reader = session, reader
        names = _distinct(reader.schema.names)
        self.schema = pa.schema(
            [_plain_field(field.with_name(name)) for field, name in zip(reader.schema, names, strict=True)]
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, once.

        Raises:
            UsageError: the SQL cannot be evaluated.
            EngineError: there is not enough memory or disk.
            KforensicsError: a table cannot be read.
        """
        for batch in self._session.each(self._reader):
            columns = map(_plain, batch.columns, self.schema.types)
            yield pa.RecordBatch.from_arrays(list(columns), schema=self.schema)


class Session:
    """Tables, and SQL over them. Use it as a context manager.

    Args:
        tables: the tables by name.
        absent: for the names of tables that are elsewhere, a sentence that says where.

    Attributes:
        tables: the columns of each table.
    """

    def __init__(self, tables: Mapping[str, Source], absent: Mapping[str, str]) -> None:
        self._failures, self._absent = Failures(), absent
        self.tables = {name: tuple(source.schema.names) for name, source in tables.items()}
        self._spill = TemporaryDirectory(prefix="kforensics-")
        self._connection = duckdb.connect(":memory:")
        self._connection.execute(f"SET temp_directory='{self._spill.name.replace(chr(39), chr(39) * 2)}'")
        for name, value in LOCKED.items():
            self._connection.execute(f"SET {name}={value}")
        for name, source in tables.items():
            self._connection.register(name, ScannedTable(source, self._failures))
        # Python handles Ctrl-C in the main thread, which therefore only waits.
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        self._connection.close()
        self._spill.cleanup()

    def run(self, sql: str) -> Result | None:
        """Return the result of the last of some statements, None if there is none.

        Args:
            sql: the statements.

        Raises:
            UsageError: the SQL is wrong, or would read or write a file.
            EngineError: there is not enough memory or disk.
            KforensicsError: a table cannot be read.
        """
        reader = self._call(partial(self._started, sql))
        return None if reader is None else Result(self, reader)

    def _started(self, sql: str) -> pa.RecordBatchReader | None:
        relation: Any = self._connection.sql(sql)  # None after a statement without a result
        return None if relation is None else relation.to_arrow_reader(BATCH_ROWS)

    def each(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a reader; see :meth:`Result.batches`."""
        while (batch := self._call(partial(next, reader, None))) is not None:
            yield batch

    def _call(self, function: Any) -> Any:
        """Return what a function returns in the thread of the session."""
        pending = self._thread.submit(function)
        try:
            return pending.result()
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
            self._failures.raise_first()
            raise self._as_sentence(error) from error
        except BaseException:
            self._connection.interrupt()
            with suppress(Exception):
                pending.result()
            raise

    def _as_sentence(self, error: Exception) -> Exception:
        if isinstance(error, duckdb.OutOfMemoryException):
            why = str(error).partition("\n")[0]
            return EngineError(f"the query needs more memory or disk: {why}; select fewer rows, or set TMPDIR")
        return UsageError(sql_sentence(str(error), self.tables, self._absent))


def _distinct(names: list[str]) -> list[str]:
    """Return names of columns, with a number after each that is there already."""
    result: list[str] = []
    for name in names:
        number, distinct = 2, name
        while distinct in result:
            number, distinct = number + 1, f"{name}_{number}"
        result.append(distinct)
    return result


def _plain_field(field: pa.Field) -> pa.Field:
    """Return a column as every format can have it: an interval is text, and an enumeration its values."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        return pa.field(field.name, kind.value_type)
    if pa.types.is_interval(kind) or pa.types.is_null(kind):
        return pa.field(field.name, pa.string())
    return pa.field(field.name, _with_items(kind))


def _with_items(kind: pa.DataType) -> pa.DataType:
    """Return a type whose lists have items, as those of Arrow; DuckDB calls what is in a list ``l``."""
    if pa.types.is_list(kind):
        return pa.list_(_with_items(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_items(field.type)) for field in kind])
    return kind


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if str(column.type) == str(kind):  # equal types may have other names of items
        return column
    if pa.types.is_interval(column.type):
        return pa.array([None if value is None else _duration(value) for value in column.to_pylist()], kind)
    return column.cast(kind)


def _duration(value: Any) -> str:
    """Return an interval as ISO 8601 has it."""
    months, days, seconds = value.months, value.days, value.nanoseconds / 1e9
    return f"P{months}M{days}DT{seconds:g}S"
