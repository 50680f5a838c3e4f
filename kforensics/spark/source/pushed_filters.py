"""Conditions on columns that are answered where a file is read, on Arrow arrays, with the same outcome as in Spark."""

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

# Spark's filters, and the functions of Arrow that answer them.
COMPARISONS = {
    "EqualTo": "equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
}
# Columns with the same value in all rows of a file; of a checkpoint the line has a topic and partition of its own.
CONSTANT = ("broker_id", "log_dir", "topic", "partition", "path")
CONSTANT_OF_CHECKPOINTS = ("broker_id", "log_dir", "path")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a column.

    Attributes:
        column: its name.
        function: name of a function of Arrow.
        values: what it compares with.
    """

    column: str
    function: str
    values: tuple[Any, ...] = ()

    def mask(self, column: pa.Array) -> pa.Array:
        """Return for each value whether it meets the condition; null where that is not known, as with nulls."""
        if self.function == "is_valid":
            return pc.is_valid(column)
        values = pa.array(self.values, column.type)
        if self.function == "is_in":
            return pc.is_in(column, value_set=values)
        return pc.call_function(self.function, [column, values[0]])


def condition_of(pushed: Filter, table: Table) -> Condition | None:
    """Return the condition that is a filter of a query, None if Spark has to answer it.

    Spark answers what orders text, what is about payloads, and everything that is not a plain comparison with a value.

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
        return _fitting(Condition(name, "is_in", tuple(one for one in value if one is not None)), type_)
    if kind not in COMPARISONS or (is_text and kind != "EqualTo"):
        return None
    return _fitting(Condition(name, COMPARISONS[kind], (value,)), type_)


def _fitting(condition: Condition, type_: pa.DataType) -> Condition | None:
    """Return a condition if its values are of the column's type."""
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


def may_hold(conditions: Sequence[Condition], table: str, found: FoundFile) -> bool:
    """Whether a file may have rows that meet all conditions, by what is the same in all of its rows.

    Args:
        conditions: the conditions.
        table: name of the table.
        found: the file.
    """
    names = CONSTANT_OF_CHECKPOINTS if table == "checkpoints" else CONSTANT
    constants = {**place_of(found)._asdict(), "path": found.path}
    schema = arrow_schema(table)
    for condition in conditions:
        if condition.column in names:
            value = constants[condition.column]
            one = pa.array([encodable(value) if isinstance(value, str) else value], schema.field(condition.column).type)
            if not condition.mask(one)[0].as_py():
                return False
    return True
