"""Selects the partition that a chart shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.errors import UsageError
from kforensics.plots.chart import Tabular, to_table

PARTITION_NAMES = ("log_dir", "topic", "partition")
# org.apache.kafka.storage.internals.log.LogFileUtils: files of the cleaner, and files waiting for deletion.
UNSERVED_SUFFIXES = (".deleted", ".cleaned", ".swap")


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """The partition to show, as far as the caller names it.

    Attributes:
        topic: topic of the partition.
        partition: number of the partition.
        log_dir: log directory, if several brokers have the partition.
    """

    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None

    def select(self, tabular: Tabular) -> pa.Table:
        """Return the rows of the partition; if rows have a path, only those of segments that the broker serves.

        Raises:
            UsageError: several partitions, or several copies of the partition, have rows.
        """
        table = to_table(tabular)
        for name in PARTITION_NAMES:
            if (value := getattr(self, name)) is not None:
                table = table.filter(pc.equal(table[name], value))
        table, folders = _served_segments(table)
        partitions = _partitions(table)
        if len(partitions) > 1:
            names = ", ".join(f"{topic}-{partition} in {log_dir}" for log_dir, topic, partition in partitions[:3])
            raise UsageError(
                f"the chart shows one partition, but the table has {len(partitions)} ({names}, …); "
                "name topic, partition or log_dir"
            )
        if len(folders) > 1:
            raise UsageError(
                f"the table has several copies of a partition ({', '.join(folders)}); open one of these folders"
            )
        return table

    def title(self, text: str, *tables: pa.Table) -> str:
        """Return a title that names the partition of the tables."""
        partitions = [partition for table in tables for partition in _partitions(table)]
        return f"{text}: {partitions[0][1]}-{partitions[0][2]}" if partitions else f"{text}: no data"


def _served_segments(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return the rows of segments that the broker serves, and the folders of these segments."""
    if "path" not in table.column_names:
        return table, []
    paths = [path for path in pc.unique(table["path"]).to_pylist() if path is not None]
    served = [path for path in paths if not path.endswith(UNSERVED_SUFFIXES)]
    if len(served) < len(paths):
        table = table.filter(pc.is_in(table["path"], pa.array(served, pa.string())))
    return table, sorted({path.rpartition("/")[0] for path in served})


def _partitions(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return log directory, topic and number of the partitions of a table."""
    partitions = table.select(PARTITION_NAMES).group_by(list(PARTITION_NAMES)).aggregate([])
    return sorted((tuple(row.values()) for row in partitions.to_pylist()), key=str)
