"""What a reader of the data source is asked for: the options of ``spark.read`` as one value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kforensics.errors import UsageError
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.log.selection import Range, Selection
from kforensics.parsers.tables.schemas import Table
from kforensics.spark.source.spark_schemas import chosen, table_named

__all__ = ["OPTIONS", "Wanted", "wanted_of"]

# Every option there is; Spark folds their case.
OPTIONS = {
    "table": "name of the table",
    "path": "file, folder, glob or URI",
    "paths": "several of them, as a JSON list; `load([...])` sets it",
    "columns": "the columns wanted, with commas between them; all if it is left out",
    "topic": "only these topics, with commas between them",
    "partition": "only these partition numbers, with commas between them",
    "start_offset": "first offset wanted; of `batches` and `records` only, as are the next four",
    "end_offset": "offset behind the last one wanted",
    "start_time": "first timestamp wanted, in ms",
    "end_time": "timestamp behind the last one wanted, in ms; batches that begin later are not left out",
    "producer_id": "only batches of this producer, and their records",
    "split_size": "bytes of a task, about",
    "max_decompressed_bytes": "most bytes to decompress per batch",
    "push_filters": "`true` to take filters from queries, see below",
}
LOG_TABLES = ("batches", "records")
FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of which files.

    Attributes:
        table: the table, with the columns wanted.
        paths: files, folders, globs and URIs.
        topics: names of the topics, all if there is none.
        partitions: numbers of the partitions, all if there is none.
        selection: which batches and records.
        split_size: bytes of a task, about.
        budget: most bytes to decompress per batch.
        push_filters: whether filters are taken from queries.
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
        """Return the same for some columns.

        Raises:
            UsageError: the table has no such column.
        """
        return replace(self, table=chosen(table_named(self.name), names))


def wanted_of(options: Mapping[str, str]) -> Wanted:
    """Return what options ask for.

    Args:
        options: as Spark hands them over, by names in lower case.

    Raises:
        UsageError: an option is missing, unknown or makes no sense.
    """
    given = {name.lower(): value for name, value in options.items()}
    strange = sorted(set(given) - set(OPTIONS))
    if strange:
        raise UsageError(f"there is no option {strange[0]!r}; choose of {', '.join(OPTIONS)}")
    if "table" not in given:
        raise UsageError('name the table that is wanted, as in .option("table", "records")')
    table = table_named(given["table"])
    selection = _selection(given)
    if selection != Selection() and table.name not in LOG_TABLES:
        raise UsageError(f"offsets, times and producers choose batches and records; leave them out for {table.name}")
    return Wanted(
        table=chosen(table, _words(given.get("columns", ""))),
        paths=_paths(given),
        topics=frozenset(_words(given.get("topic", ""))),
        partitions=frozenset(_whole("partition", word) for word in _words(given.get("partition", ""))),
        selection=selection,
        split_size=_positive("split_size", given.get("split_size"), SPLIT_SIZE),
        budget=_positive("max_decompressed_bytes", given.get("max_decompressed_bytes"), DEFAULT_BUDGET),
        push_filters=_flag("push_filters", given.get("push_filters", "false")),
    )


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths: ``load("a")`` gives an option ``path``, ``load(["a", "b"])`` a JSON list in ``paths``."""
    paths: list[Any] = [given["path"]] if "path" in given else []
    several = given.get("paths", "[]")
    try:
        found = json.loads(several)
    except ValueError:
        found = several  # one path, by hand
    paths += found if isinstance(found, list) else [several]
    if not paths or not all(isinstance(path, str) and path for path in paths):
        raise UsageError('name what to read, as in .load("/var/lib/kafka") or .load(["first", "second"])')
    return tuple(dict.fromkeys(paths))


def _selection(given: Mapping[str, str]) -> Selection:
    producer_id = given.get("producer_id")
    return Selection(
        offsets=_range(given, "offset"),
        times=_range(given, "time"),
        producer_id=None if producer_id is None else _whole("producer_id", producer_id),
    )


def _range(given: Mapping[str, str], what: str) -> Range | None:
    first, end = (_whole(name, given[name]) if name in given else None for name in (f"start_{what}", f"end_{what}"))
    return None if first is None and end is None else Range(first, end)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"the option {name} takes a whole number, not {text!r}") from None


def _positive(name: str, text: str | None, default: int) -> int:
    number = default if text is None else _whole(name, text)
    if number < 1:
        raise UsageError(f"the option {name} takes a number above 0, not {number}")
    return number


def _flag(name: str, text: str) -> bool:
    if text.lower() not in FLAGS:
        raise UsageError(f"the option {name} is true or false, not {text!r}")
    return FLAGS[text.lower()]
