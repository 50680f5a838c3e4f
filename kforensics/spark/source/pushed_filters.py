"""Filters that the data source evaluates itself, on Arrow arrays, with the same result as Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.tables.arrow import plain_text
from kforensics.parsers.tables.file_rows import place_of
from kforensics.parsers.tables.schemas import Table, arrow_schema, arrow_type, encodable

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

__all__ = ["Condition", "condition_of", "kept_by", "may_hold"]

# Spark's filters, and the Arrow functions that evaluate them.
COMPARISONS = {
    "EqualTo": "equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
}
# Columns with one value for all rows of a file; each line of a checkpoint has its own topic and partition.
CONSTANT = ("broker_id", "log_dir", "topic", "partition", "path")
CONSTANT_OF_CHECKPOINTS = ("broker_id", "log_dir", "path")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column.

    Attributes:
        column: its name.
        function: name of a function of Arrow.
        values: the values to compare with.
    """

    column: str
    function: str
    values: tuple[Any, ...] = ()

    def mask(self, column: pa.Array) -> pa.Array:
        """Return for each value whether it meets the condition; null if unknown, as for null values."""
        if self.function == "is_valid":
            return pc.is_valid(column)
        values = pa.array(self.values, column.type)
        if self.function == "is_in":
            return pc.is_in(column, value_set=values)
        return pc.call_function(self.function, [column, values[0]])


def condition_of(pushed: Filter, table: Table) -> Condition | None:
    """Return a filter of a query as a condition, None if Spark has to evaluate it.

    Spark evaluates the order of text, filters on payloads, and everything that is not a comparison with a value.

    Args:
        pushed: the filter.
        table: the table, with the columns that are read.
    """
    kind, name = type(pushed).__name__, ".".join(getattr(pushed, "attribute", ()))
    value: Any = getattr(pushed, "value", None)
    of_column = next((column for column in table.columns if column.name == name), None)
    if of_column is None:
        return None
    if kind == "IsNotNull":
        return Condition(name, "is_valid")
    type_ = arrow_type(of_column.type)
    is_text = pa.types.is_string(type_)
    if value is None or not (is_text or pa.types.is_integer(type_) or pa.types.is_boolean(type_)):
        return None
    if kind == "In":
        return _fitting(Condition(name, "is_in", tuple(item for item in value if item is not None)), type_)
    if kind not in COMPARISONS or (is_text and kind != "EqualTo"):
        return None
    return _fitting(Condition(name, COMPARISONS[kind], (value,)), type_)


def _fitting(condition: Condition, type_: pa.DataType) -> Condition | None:
    """Return a condition if its values have the type of the column, otherwise None."""
    try:
        pa.array(condition.values, type_)
    except (pa.ArrowException, TypeError, OverflowError):
        return None
    return condition


def kept_by(conditions: Iterable[Condition], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a record batch that meet all conditions."""
    for condition in conditions:
        column = plain_text(batch.column(condition.column))
        batch = batch.filter(condition.mask(column))
    return batch


def may_hold(conditions: Sequence[Condition], table: str, file: FoundFile) -> bool:
    """Whether a file may have rows that meet all conditions, by the columns with one value per file.

    Args:
        conditions: the conditions.
        table: name of the table.
        file: the file.
    """
    names = CONSTANT_OF_CHECKPOINTS if table == "checkpoints" else CONSTANT
    constants = {**place_of(file)._asdict(), "path": file.path}
    schema = arrow_schema(table)
    for condition in conditions:
        if condition.column in names:
            value = constants[condition.column]
            kind = schema.field(condition.column).type
            constant = pa.array([encodable(value) if isinstance(value, str) else value], kind)
            if not condition.mask(constant)[0].as_py():
                return False
    return True
