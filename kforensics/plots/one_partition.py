"""Picks the partition that a chart is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.errors import UsageError
from kforensics.plots.chart import Tabular, table_of

__all__ = ["Wanted", "several_places"]

PLACE = ("log_dir", "topic", "partition")
# org.apache.kafka.storage.internals.log.LogFileUtils: what the cleaner writes, and what waits for its deletion.
UNSERVED = (".deleted", ".cleaned", ".swap")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The partition that is wanted, as far as the caller named it.

    Attributes:
        topic: its topic.
        partition: its number.
        log_dir: the log directory, where several brokers have it.
    """

    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None

    def of(self, tabular: Tabular) -> pa.Table:
        """Return the rows of the partition; of its segments those that a broker serves from, where rows have a path.

        Raises:
            UsageError: there are rows of more than one, or of several copies of it.
        """
        table = table_of(tabular)
        for name in PLACE:
            if (wanted := getattr(self, name)) is not None:
                table = table.filter(pc.equal(table[name], wanted))
        table, folders = _served(table)
        places = several_places(table)
        if len(places) > 1:
            named = ", ".join(f"{topic}-{partition} in {log_dir}" for log_dir, topic, partition in places[:3])
            raise UsageError(
                f"a chart of one partition, and here are {len(places)} ({named}, …); name topic, partition or log_dir"
            )
        if len(folders) > 1:
            raise UsageError(
                f"here are several copies of a partition ({', '.join(folders)}); open one of these folders"
            )
        return table

    def title(self, what: str, *tables: pa.Table) -> str:
        """Return a title: what it shows, and of which partition."""
        places = [place for table in tables for place in several_places(table)]
        return f"{what}: {places[0][1]}-{places[0][2]}" if places else f"{what}: nothing there"


def _served(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return the rows of segments that are not on their way in or out of the log, and the folders they lie in."""
    if "path" not in table.column_names:
        return table, []
    paths = [path for path in pc.unique(table["path"]).to_pylist() if path is not None]
    served = [path for path in paths if not path.endswith(UNSERVED)]
    if len(served) < len(paths):
        table = table.filter(pc.is_in(table["path"], pa.array(served, pa.string())))
    return table, sorted({path.rpartition("/")[0] for path in served})


def several_places(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the partitions that a table has rows of."""
    found = table.select(PLACE).group_by(list(PLACE)).aggregate([])
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)
