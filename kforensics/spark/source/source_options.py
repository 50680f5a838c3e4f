"""Parses the options of ``spark.read`` for the data source, and derives its schemas as Spark DDL from the columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kforensics.errors import UsageError
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.log.selection import HalfOpenRange, Selection
from kforensics.parsers.tables.schemas import TABLES, Column, Table, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["OPTIONS", "Wanted", "chosen", "ddl_of", "ddl_type", "table_named", "wanted_of"]


# All options; their names are case-insensitive in Spark.
OPTIONS = {
    "table": "name of the table",
    "path": "file, folder, glob or URI",
    "paths": "several paths, as a JSON list; set by `load([...])`",
    "columns": "columns to read, separated by commas; default: all",
    "topic": "only these topics, separated by commas",
    "partition": "only these partition numbers, separated by commas",
    "start_offset": "first offset to read; this option and the next four apply to `batches` and `records` only",
    "end_offset": "offset after the last one to read",
    "start_time": "first timestamp to read, in ms",
    "end_time": "timestamp after the last one to read, in ms; batches that begin later are not skipped",
    "producer_id": "only batches of this producer, and their records",
    "split_size": "approximate bytes per task",
    "max_decompressed_bytes": "maximum bytes to decompress per batch",
}
LOG_TABLES = ("batches", "records")
# Why an option is refused that earlier versions had.
REMOVED = {
    "push_filters": "Spark applied the filters of one query to the next query of the same data frame, which lost rows;"
    " select rows by topic, partition, start_offset, end_offset, start_time, end_time or producer_id instead",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows to read: table, columns, files and selection.

    Attributes:
        table: the table, with the selected columns.
        paths: files, folders, globs and URIs.
        topics: topic names; all topics if empty.
        partitions: partition numbers; all partitions if empty.
        selection: which batches and records to read.
        split_size: approximate bytes per task.
        budget: maximum bytes to decompress per batch.
    """

    table: Table
    paths: tuple[str, ...]
    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    selection: Selection = field(default_factory=Selection)
    split_size: int = SPLIT_SIZE
    budget: int = DEFAULT_BUDGET

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    def with_columns(self, names: list[str]) -> Wanted:
        """Return a copy with some of the columns.

        Raises:
            UsageError: the table has no such column.
        """
        return replace(self, table=chosen(table_named(self.name), names))


def wanted_of(options: Mapping[str, str]) -> Wanted:
    """Return the parsed options.

    Args:
        options: the options that Spark passes; the case of their names is ignored.

    Raises:
        UsageError: an option is missing, unknown or invalid.
    """
    given = {name.lower(): value for name, value in options.items()}
    for name in sorted(set(given) & set(REMOVED)):
        raise UsageError(f"the option {name} was removed: {REMOVED[name]}")
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r}; choose of {', '.join(OPTIONS)}")
    if "table" not in given:
        raise UsageError('name the table that is wanted, as in .option("table", "records")')
    table = table_named(given["table"])
    selection = _selection(given)
    if selection != Selection() and table.name not in LOG_TABLES:
        raise UsageError(f"offsets, times and producers choose batches and records; leave them out for {table.name}")
    return Wanted(
        table=chosen(table, _listed_in(given.get("columns", ""))),
        paths=_paths(given),
        topics=frozenset(_listed_in(given.get("topic", ""))),
        partitions=frozenset(_integer("partition", item) for item in _listed_in(given.get("partition", ""))),
        selection=selection,
        split_size=_positive("split_size", given.get("split_size"), SPLIT_SIZE),
        budget=_positive("max_decompressed_bytes", given.get("max_decompressed_bytes"), DEFAULT_BUDGET),
    )


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths: ``load("a")`` sets the option ``path``; ``load(["a", "b"])`` sets ``paths`` to a JSON list."""
    paths: list[Any] = [given["path"]] if "path" in given else []
    paths_option = given.get("paths", "[]")
    try:
        decoded = json.loads(paths_option)
    except ValueError:
        decoded = paths_option  # a single path, set by the user
    paths += decoded if isinstance(decoded, list) else [paths_option]
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise UsageError('name what to read, as in .load("/var/lib/kafka") or .load(["first", "second"])')
    return tuple(dict.fromkeys(paths))


def _selection(given: Mapping[str, str]) -> Selection:
    producer_id = given.get("producer_id")
    return Selection(
        offsets=_range(given, "offset"),
        times=_range(given, "time"),
        producer_id=None if producer_id is None else _integer("producer_id", producer_id),
    )


def _range(given: Mapping[str, str], unit: str) -> HalfOpenRange | None:
    first, end = (_integer(name, given[name]) if name in given else None for name in (f"start_{unit}", f"end_{unit}"))
    if first is not None and end is not None and first > end:
        raise UsageError(f"start_{unit} is {first} and end_{unit} is {end}; exchange them, nothing is in this range")
    return None if first is None and end is None else HalfOpenRange(first, end)


def _listed_in(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the option {name} takes a whole number, not {text!r}") from None


def _positive(name: str, text: str | None, default: int) -> int:
    number = default if text is None else _integer(name, text)
    if number < 1:
        raise UsageError(f"the option {name} takes a number above 0, not {number}")
    return number


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
