"""The data source ``kforensics`` for ``spark.read``: the decoded tables of files, read by Spark's tasks.

Spark plans in one Python process and reads in others; between them it sends :class:`.input_slices.Work`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kforensics.errors import UsageError
from kforensics.spark.source.input_slices import Work, works_of
from kforensics.spark.source.source_options import Wanted, ddl_of, ddl_type, wanted_of
from kforensics.spark.source.source_reading import record_batches
from kforensics.spark.worker import settle

__all__ = ["KforensicsSource", "Reader"]


class KforensicsSource(DataSource):
    """The tables of ``kforensics.dump`` as Spark data frames; see ``docs/spark.md`` for the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``."""
        return "kforensics"

    def schema(self) -> str:
        """Return the schema of the table, or of the selected columns, as DDL.

        Raises:
            UsageError: an option is missing, unknown or invalid.
        """
        return ddl_of(wanted_of(self.options).table)

    def reader(self, schema: StructType) -> Reader:
        """Return a reader of the columns in a schema.

        Raises:
            UsageError: the schema does not match the table, or an option is invalid.
        """
        return Reader(_with_schema(wanted_of(self.options), schema))


def _with_schema(wanted: Wanted, schema: StructType) -> Wanted:
    selected = wanted.with_columns(schema.fieldNames())
    for column, field in zip(selected.table.columns, schema.fields, strict=True):
        expected = ddl_type(column)
        if field.dataType.simpleString() != expected:
            given = field.dataType.simpleString()
            raise UsageError(f"the column {column.name} of {wanted.name} is of type {expected}, not {given}")
    return selected


class Reader(DataSourceReader):
    """Reads the selected columns.

    It takes no filters of queries: Spark plans a reader once for each data frame, and applies the filters that the
    reader has taken for one query to the next query, and to both sides of a self-join.

    Args:
        wanted: the options of the query.
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        """Return the work of each task.

        Raises:
            InputError: there is nothing under the paths.
        """
        return [InputPartition(work.to_bytes()) for work in works_of(self._wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        settle()
        return record_batches(Work.from_bytes(partition.value), self._wanted)
