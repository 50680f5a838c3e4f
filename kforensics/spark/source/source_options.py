"""Parses the options of ``spark.read`` for the data source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kforensics.errors import UsageError
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.log.selection import HalfOpenRange, Selection
from kforensics.parsers.tables.schemas import Table
from kforensics.spark.source.spark_schemas import chosen, table_named

__all__ = ["OPTIONS", "Wanted", "wanted_of"]

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
    "push_filters": "`true` to apply the filters of queries, see below",
}
LOG_TABLES = ("batches", "records")
FLAGS = {"true": True, "false": False}


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
        push_filters: whether the filters of queries are applied.
    """

    table: Table
    paths: tuple[str, ...]
    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    selection: Selection = field(default_factory=Selection)
    split_size: int = SPLIT_SIZE
    budget: int = DEFAULT_BUDGET
    push_filters: bool = False

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
        push_filters=_flag("push_filters", given.get("push_filters", "false")),
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


def _flag(name: str, text: str) -> bool:
    if text.lower() not in FLAGS:
        raise UsageError(f"the option {name} is true or false, not {text!r}")
    return FLAGS[text.lower()]
