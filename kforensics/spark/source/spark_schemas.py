"""Table schemas as Spark DDL, derived from the column definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kforensics.errors import UsageError
from kforensics.parsers.tables.schemas import TABLES, Column, Table, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["chosen", "ddl_of", "ddl_type", "table_named"]

# Spark's names of Arrow types.
NAMES = {"int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "bool": "boolean"}


def table_named(name: str, tables: Mapping[str, Table] = TABLES) -> Table:
    """Return a table by name.

    Raises:
        UsageError: there is no such table.
    """
    if name not in tables:
        raise UsageError(f"there is no table {name!r}; choose one of {', '.join(tables)}")
    return tables[name]


def chosen(table: Table, names: Sequence[str]) -> Table:
    """Return a table with some of its columns, in the given order; all of them if no column is named.

    Raises:
        UsageError: the table has no such column, or a column is named twice.
    """
    if not names:
        return table
    by_name = {column.name: column for column in table.columns}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UsageError(f"the table {table.name} has no column {unknown[0]!r}; choose of {', '.join(by_name)}")
    if len(set(names)) < len(names):
        raise UsageError(f"a column is named twice: {', '.join(names)}")
    return Table(table.name, table.row, tuple(by_name[name] for name in names))


def ddl_of(table: Table) -> str:
    """Return the schema of a table as Spark DDL; every column is nullable."""
    return ", ".join(f"`{column.name}` {ddl_type(column)}" for column in table.columns)


def ddl_type(column: Column) -> str:
    """Return the type of a column as Spark DDL, which equals the ``simpleString`` of the type."""
    return _ddl(arrow_type(column.type))


def _ddl(kind: pa.DataType) -> str:
    import pyarrow as pa  # not needed to look up a table by name

    if pa.types.is_list(kind):
        return f"array<{_ddl(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_ddl(field.type)}' for field in kind)}>"
    return NAMES.get(str(kind), str(kind))
