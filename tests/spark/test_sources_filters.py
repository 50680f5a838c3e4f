"""Which filters of a query are answered where files are read, and that the answer is Spark's."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import datasource as spark

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.tables.schemas import TABLES
from kforensics.spark.source.pushed_filters import Condition, condition_of, kept_by, may_hold
from kforensics.spark.source.source_options import wanted_of
from tests.command import CLASSIC, SAMPLES
from tests.spark.source_tables import planned, read, read_of

pytestmark = pytest.mark.spark
RECORDS = TABLES["records"]
field = pc.field


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (spark.EqualTo(("offset",), 3), field("offset") == 3),
        (spark.GreaterThan(("offset",), 3), field("offset") > 3),
        (spark.GreaterThanOrEqual(("timestamp",), 1_700_000_000_000), field("timestamp") >= 1_700_000_000_000),
        (spark.LessThan(("offset",), 3), field("offset") < 3),
        (spark.LessThanOrEqual(("key_size",), 0), field("key_size") <= 0),
        (spark.In(("offset",), (1, None, 5)), field("offset").isin([1, 5])),
        (spark.EqualTo(("control_type",), "COMMIT"), field("control_type") == "COMMIT"),
        (spark.In(("topic",), ("classic", "cards")), field("topic").isin(["classic", "cards"])),
        (spark.IsNotNull(("key",)), field("key").is_valid()),
        (spark.GreaterThan(("coordinator_epoch",), -5), field("coordinator_epoch") > -5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, spark.Filter) else None,
)
def test_plain_comparisons_are_answered(pushed: spark.Filter, expected: pc.Expression) -> None:
    condition = condition_of(pushed, RECORDS)
    assert condition is not None
    whole = read("records", SAMPLES / "transactions-v2")
    wanted, works = planned("records", SAMPLES / "transactions-v2", split_size=4 << 20)
    assert read_of(wanted, works, [condition]).equals(whole.filter(expected))


@pytest.mark.parametrize(
    "pushed",
    [
        spark.Not(spark.EqualTo(("offset",), 3)),
        spark.EqualNullSafe(("offset",), 3),
        spark.IsNull(("key",)),
        spark.StringStartsWith(("topic",), "c"),
        spark.GreaterThan(("topic",), "c"),
        spark.EqualTo(("key",), b"k"),
        spark.EqualTo(("offset",), None),
        spark.EqualTo(("offset",), 1 << 70),
        spark.EqualTo(("offset",), "3"),
        spark.EqualTo(("headers", "key"), "k"),
        spark.EqualTo(("colour",), 3),
    ],
    ids=str,
)
def test_what_else_there_is_is_left_to_spark(pushed: spark.Filter) -> None:
    assert condition_of(pushed, RECORDS) is None


def test_files_are_left_out_by_what_all_their_rows_share() -> None:
    found = FoundFile("/d/orders-1/0.log", "log", 1, broker_id=None, log_dir="/d", topic="orders", partition=1)
    held = [
        Condition("topic", "equal", ("orders",)),
        Condition("partition", "less", (2,)),
        Condition("path", "is_in", ("/d/orders-1/0.log",)),
        Condition("offset", "equal", (5,)),
    ]
    assert may_hold(held, "records", found)
    for condition in (
        Condition("topic", "equal", ("bills",)),
        Condition("partition", "is_in", ()),
        Condition("broker_id", "is_valid"),
        Condition("broker_id", "equal", (1,)),
    ):
        assert not may_hold([*held, condition], "records", found)
    assert may_hold([Condition("topic", "equal", ("bills",))], "checkpoints", found)


def test_nulls_meet_no_condition() -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3], pa.int64()), "b": pa.array(["x", "y", None])})
    assert kept_by([Condition("a", "greater", (0,))], batch).to_pylist() == [{"a": 1, "b": "x"}, {"a": 3, "b": None}]
    assert kept_by([Condition("a", "is_in", (1, 3)), Condition("b", "is_valid")], batch).num_rows == 1


def test_names_that_are_no_utf_8_are_compared_as_they_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "or\udcffders-0"
    folder.mkdir()
    (folder / CLASSIC.name).write_bytes(CLASSIC.read_bytes())
    (shown,) = set(read("batches", tmp_path)["path"].to_pylist())
    condition = Condition("path", "equal", (shown,))
    wanted, works = planned("batches", tmp_path)
    found = works[0].slices[0].file
    assert "\\udcff" in shown
    assert may_hold([condition], "batches", found)
    assert read_of(wanted, works, [condition]).num_rows > 0


def test_a_request_knows_its_columns() -> None:
    wanted = wanted_of({"table": "records", "path": "x", "columns": "offset,key"})
    assert wanted.with_columns(["key"]).table.names == ("key",)
    assert wanted.table.names == ("offset", "key")
