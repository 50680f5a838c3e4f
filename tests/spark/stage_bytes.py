"""What each task of an audit sends on, without a cluster: the operations of Spark's data frames on lists of rows.

The rows of a task arrive in any order and its process has run any other tasks before, as on a cluster.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned
from kforensics.spark.audit.serialization import batches_of, rows_of

__all__ = ["stage_digests"]

Row = tuple[Any, ...]
Condition = Callable[[dict[str, Any]], Any]
# The functions of SQL that slots are made with.
FUNCTIONS: dict[str, Any] = {
    "choose": lambda condition, one, other: one if condition else other,
    "hash": lambda number: int.from_bytes(sha256(str(number).encode("ascii")).digest()[:4], "big"),
    "int": int,
    "pmod": lambda number, divisor: number % divisor,
}


@dataclass(frozen=True, slots=True, eq=False)
class LocalColumn:
    """A column, or a condition on columns."""

    value: Condition
    __hash__ = None  # type: ignore[assignment]  # conditions are not compared

    def __eq__(self, other: object) -> LocalColumn:  # type: ignore[override]  # as Spark's
        return LocalColumn(lambda row: self.value(row) == other)

    def __ne__(self, other: object) -> LocalColumn:  # type: ignore[override]  # as Spark's
        return LocalColumn(lambda row: self.value(row) != other)

    def __ge__(self, other: Any) -> LocalColumn:
        return LocalColumn(lambda row: self.value(row) >= other)

    def __and__(self, other: LocalColumn) -> LocalColumn:
        return LocalColumn(lambda row: self.value(row) and other.value(row))

    def __invert__(self) -> LocalColumn:
        return LocalColumn(lambda row: not self.value(row))

    def isin(self, *values: Any) -> LocalColumn:
        """Return the condition that the value is one of several."""
        among = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return LocalColumn(lambda row: self.value(row) in among)


def expr(text: str) -> LocalColumn:
    """Return an expression as a column."""
    code = compile(text.replace("if(", "choose("), "<expr>", "eval")
    return LocalColumn(lambda row: eval(code, FUNCTIONS, row))  # noqa: S307  # expressions of the package


@dataclass(slots=True)
class RecordedStages:
    """The rows that each stage has sent on, as digests that do not depend on their order.

    Attributes:
        dice: decide in which order rows arrive and tasks run.
        digests: by stage and task.
    """

    dice: random.Random
    digests: dict[str, list[str]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)


class LocalFrame:
    """A data frame.

    Args:
        stages: take what its tasks yield.
        schema: of the rows.
        tasks: the rows of each task.
    """

    def __init__(self, stages: RecordedStages, schema: pa.Schema, tasks: Sequence[Sequence[Row]]) -> None:
        self._stages, self._schema, self._tasks = stages, schema, [list(rows) for rows in tasks]
        self.columns = schema.names

    def __getattr__(self, name: str) -> LocalColumn:
        return LocalColumn(lambda row: row[name])

    def _with(self, tasks: Sequence[Sequence[Row]]) -> LocalFrame:
        return LocalFrame(self._stages, self._schema, tasks)

    def _named(self, row: Row) -> dict[str, Any]:
        return dict(zip(self.columns, row, strict=True))

    def where(self, condition: LocalColumn) -> LocalFrame:
        """Return the rows that meet a condition."""
        return self._with([[row for row in rows if condition.value(self._named(row))] for rows in self._tasks])

    def unionAll(self, other: LocalFrame) -> LocalFrame:  # noqa: N802  # the name in Spark's interface
        """Return the tasks of both."""
        return self._with([*self._tasks, *other._tasks])

    def repartitionById(self, tasks: int, slot: LocalColumn) -> LocalFrame:  # noqa: N802  # the name in Spark's interface
        """Return the rows at the tasks of their slots; those of one task stay together, as blocks of a shuffle do."""
        arriving: list[list[Row]] = [[] for _ in range(tasks)]
        for rows in self._stages.dice.sample(self._tasks, len(self._tasks)):
            for row in rows:
                arriving[slot.value(self._named(row)) % tasks].append(row)
        return self._with(arriving)

    def sortWithinPartitions(self, *names: str) -> LocalFrame:  # noqa: N802  # the name in Spark's interface
        """Return the rows of each task in order."""
        at = [self.columns.index(name) for name in names]
        return self._with([sorted(rows, key=lambda row: [row[index] for index in at]) for rows in self._tasks])

    def mapInArrow(self, function: partial[Any], _schema: str) -> LocalFrame:  # noqa: N802  # the name in Spark's interface
        """Return what a function of the record batches of each task yields."""
        schema: pa.Schema = function.keywords["schema"]
        number, results = next(self._stages.numbers), [list[Row]() for _ in self._tasks]
        tasks = list(range(len(self._tasks)))
        for task in self._stages.dice.sample(tasks, len(tasks)):
            batches = list(batches_of(self._schema, self._tasks[task]))
            results[task] = list(rows_of(function(iter(batches))))
            steps = function.keywords.get("applied", function).keywords["steps"]  # within what keeps finished tasks
            name = f"{number:02}-{_name(steps)}"
            digests = (sha256(repr(row).encode()).hexdigest()[:16] for row in results[task])
            self._stages.digests[f"{name}-{task:03}"] = sorted(digests)
        return LocalFrame(self._stages, schema, results)

    def select(self, *names: str) -> LocalFrame:
        """Return some of the columns."""
        at = [self.columns.index(name) for name in names]
        schema = pa.schema([self._schema.field(index) for index in at])
        tasks = [[tuple(row[index] for index in at) for row in rows] for rows in self._tasks]
        return LocalFrame(self._stages, schema, tasks)

    def toArrow(self) -> pa.Table:  # noqa: N802  # the name in Spark's interface
        """Return all rows."""
        rows = [row for rows in self._tasks for row in rows]
        arrays = [pa.array([row[index] for row in rows], kind.type) for index, kind in enumerate(self._schema)]
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def persist(self) -> LocalFrame:
        """Return this frame: its rows are kept anyway."""
        return self

    def unpersist(self) -> LocalFrame:
        """Return this frame."""
        return self


def _name(steps: Sequence[Any]) -> str:
    names = []
    for step in steps:
        names.append(getattr(step, "func", step).__name__)
        keywords = getattr(step, "keywords", {})
        names += [getattr(inner, "func", inner).__name__ for inner in (keywords.get("step"),) if inner]
        names += [keywords["kind"]] if "kind" in keywords else []
    return ".".join(name.strip("_") for name in names)


class LocalSum:
    """An accumulator of this process."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, term: int) -> None:
        """Add a number."""
        self.value += term


class LocalSpark:
    """A session whose data frames are lists.

    Args:
        stages: take what tasks yield.
    """

    version, master = "local", "none"

    def __init__(self, stages: RecordedStages) -> None:
        self._stages = stages
        self.conf, self.sparkContext = {"spark.master": "local"}, self
        self.defaultParallelism = 2
        self.environment: dict[str, str] = {}

    def accumulator(self, value: int) -> LocalSum:
        """Return a new accumulator."""
        return LocalSum(value)

    def getLocalProperty(self, _name: str) -> None:  # noqa: N802  # the name in Spark's interface
        """Return no property."""

    def setLocalProperty(self, _name: str, _value: str | None) -> None:  # noqa: N802  # the name in Spark's interface
        """Show nothing."""

    def createDataFrame(self, table: pa.Table) -> LocalFrame:  # noqa: N802  # the name in Spark's interface
        """Return the rows of a table, one task for each."""
        return LocalFrame(self._stages, table.schema, [[row] for row in rows_of(table.to_batches())])


def stage_digests(seed: int, request: SparkRequest) -> dict[str, list[str]]:
    """Return digests of the rows that each task of an audit sends on, by stage and task.

    Args:
        seed: of the dice that decide in which order rows arrive and tasks run.
        request: what to audit.
    """
    stages = RecordedStages(random.Random(seed))  # noqa: S311  # an order, no secret
    spark: Any = LocalSpark(stages)
    with patch("pyspark.sql.functions.expr", expr):
        audited_on_spark(spark, planned(spark, request), request)
    return stages.digests


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    print(json.dumps(stage_digests(int(sys.argv[1]), SparkRequest(tuple(given.pop("paths")), **given))))  # noqa: T201  # the parent process reads it
