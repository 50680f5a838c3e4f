"""``spark.read.format("kforensics")`` on real parts: Spark plans, its tasks read, and rows come back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kforensics
from kforensics.forensics.core.tables import STORED
from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.parsers.tables.schemas import TABLES, arrow_schema
from kforensics.spark.source.source_options import ddl_of
from tests.api.test_examples import run_examples
from tests.command import CLASSIC, ROOT, SAMPLES
from tests.thorough import of_each_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Load: TypeAlias = "Callable[..., DataFrame]"
PUSHING = "spark.sql.python.filterPushdown.enabled"
# Bytes of a task of some four files.
FEW_FILES = 4 << 20
TRANSACTIONS = SAMPLES / "transactions-v2"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
PARTS = [SAMPLES / name for name in of_each_kind(NAMES)]


@pytest.fixture(scope="module")
def load(spark: SparkSession) -> Load:
    """Return what loads a table: its name, the paths, options."""
    kforensics.register(spark)

    def load(table: str, paths: Any = PARTS, **options: Any) -> DataFrame:
        names = [str(path) for path in paths] if isinstance(paths, list) else str(paths)
        return spark.read.format("kforensics").option("table", table).options(**options).load(names)

    return load


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session that hands filters to sources."""
    spark.conf.set(PUSHING, "true")
    yield spark
    spark.conf.unset(PUSHING)


@pytest.fixture(scope="module")
def every() -> kforensics.Dump:
    """Return a dump of the samples."""
    return kforensics.dump(PARTS)


def rows(frame: DataFrame) -> pa.Table:
    """Return the rows of a data frame, with Arrow's names for the parts of a list."""
    table = frame.toArrow()
    return table.cast(pa.schema([field.with_nullable(True) for field in table.schema]))


@pytest.mark.parametrize("name", [name for name in TABLES if name != "damage"])
def test_tables_are_those_of_a_dump(load: Load, every: kforensics.Dump, name: str) -> None:
    found = rows(load(name)).cast(arrow_schema(name))
    assert found.num_rows > 0
    assert found.equals(every.table(name))


def test_damage_is_that_of_a_dump(load: Load, every: kforensics.Dump) -> None:
    """A dump orders it by table, Spark by file."""
    found = rows(load("damage"))
    assert found.num_rows > 100
    order = [(name, "ascending") for name in ("path", "start", "end", "reason", "detail")]
    assert found.sort_by(order).equals(every.damage.sort_by(order))


@pytest.mark.parametrize("name", ["files", "records", "damage"])
def test_an_empty_folder_has_tables_without_rows(load: Load, name: str, tmp_path: Path) -> None:
    found = rows(load(name, tmp_path))
    assert (found.schema, found.num_rows) == (arrow_schema(name), 0)


def test_paths_are_files_folders_globs_and_uris(load: Load, every: kforensics.Dump) -> None:
    of_classic = pc.field("path") == str(CLASSIC)
    expected = every.batches.filter(of_classic).drop_columns(["path", "log_dir"])
    paths = [
        CLASSIC,
        CLASSIC.parent,
        str(CLASSIC.parent / "*.log"),
        CLASSIC.as_uri(),
        [CLASSIC, CLASSIC.parent],  # nothing comes twice
        [str(CLASSIC.parent / "*.l[o]g"), CLASSIC],
    ]
    assert expected.num_rows > 0
    for path in paths:
        assert rows(load("batches", path)).drop_columns(["path", "log_dir"]).equals(expected), path


def test_several_paths_are_read_in_their_order(load: Load) -> None:
    folders = [SAMPLES / "transactions-v1", TRANSACTIONS, SAMPLES / "deletion"]
    assert rows(load("batches", folders)).equals(kforensics.dump(folders).batches)


def test_the_option_path_does_too(spark: SparkSession, load: Load) -> None:
    reader = spark.read.format("kforensics").option("table", "batches").option("path", str(CLASSIC))
    assert rows(reader.load()).equals(kforensics.dump(CLASSIC).batches)


def test_columns_are_chosen_by_option_or_schema(spark: SparkSession, load: Load, every: kforensics.Dump) -> None:
    expected = every.records.select(["timestamp", "offset", "headers"]).cast(
        pa.schema([arrow_schema("records").field(name) for name in ("timestamp", "offset", "headers")])
    )
    by_option = load("records", columns="timestamp,offset,headers")
    schema = "timestamp bigint, offset bigint, headers array<struct<key: string, value: binary>>"
    by_schema = spark.read.format("kforensics").schema(schema).option("table", "records").load([*map(str, PARTS)])
    assert by_option.columns == by_schema.columns == ["timestamp", "offset", "headers"]
    assert rows(by_option).cast(expected.schema).equals(expected)
    assert rows(by_schema).cast(expected.schema).equals(expected)


def test_splits_down_to_one_batch_give_the_same_rows(load: Load) -> None:
    folder = SAMPLES / "classic-transaction"
    whole, cut = load("records", folder), load("records", folder, split_size=1)
    assert cut.rdd.getNumPartitions() > whole.rdd.getNumPartitions() == 1
    assert rows(cut).equals(rows(whole))


def test_spark_understands_schemas_as_arrow_has_them(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    for table in STORED.values():
        struct = StructType.fromDDL(ddl_of(table))
        assert isinstance(struct, StructType)
        stated = to_arrow_schema(struct, timezone="UTC")
        assert stated.equals(arrow_schema_of(table)), table.name


def test_types_are_the_narrow_ones(load: Load) -> None:
    types = dict(load("batches").dtypes)
    assert (types["magic"], types["attributes"], types["partition"]) == ("tinyint", "smallint", "int")
    assert (types["base_offset"], types["is_control"]) == ("bigint", "boolean")
    of_records = dict(load("records").dtypes)
    assert (of_records["key"], of_records["headers"]) == ("binary", "array<struct<key:string,value:binary>>")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "cards"}, "there is no table 'cards'; choose one of files, batches"),
        ({"table": "records", "columns": "offset,color"}, "the table records has no column 'color'"),
        ({"table": "records", "start_offset": "first"}, "the option start_offset takes a whole number, not 'first'"),
        ({"table": "checkpoints", "producer_id": "1"}, "leave them out for checkpoints"),
        ({"table": "records", "topics": "orders"}, "there is no option 'topics'"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(
    spark: SparkSession, load: Load, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        spark.read.format("kforensics").options(**options).load(str(CLASSIC))


def test_a_schema_that_is_not_the_tables_is_a_sentence(spark: SparkSession, load: Load) -> None:
    frame = spark.read.format("kforensics").schema("offset int").option("table", "records").load(str(CLASSIC))
    with pytest.raises(Exception, match="the column offset of records is of type bigint, not int"):
        frame.collect()


def test_a_path_with_nothing_is_a_sentence_and_damage(load: Load, tmp_path: Path) -> None:
    missing = tmp_path / "gone"
    with pytest.raises(Exception, match="there is no such file"):
        load("records", missing).collect()
    (row,) = load("damage", missing).collect()
    assert (row.path, row.reason, row.start, row.end) == (str(missing), "unreadable", 0, 0)
    assert rows(load("batches", [missing, CLASSIC])).equals(kforensics.dump(CLASSIC).batches)
    assert [row.path for row in load("damage", [missing, CLASSIC]).collect()] == [str(missing)]


def test_a_file_that_vanishes_after_planning_is_damage(load: Load, tmp_path: Path) -> None:
    folder = tmp_path / "classic-0"
    shutil.copytree(CLASSIC.parent, folder)
    damage, batches = load("damage", folder), load("batches", folder)
    assert damage.count() == 0
    assert batches.count() > 0
    (folder / CLASSIC.name).unlink()
    (row,) = damage.collect()
    assert (row.path, row.reason) == (str(folder / CLASSIC.name), "unreadable")
    assert (row.topic, row.partition, row.start, row.end) == ("classic", 0, 0, CLASSIC.stat().st_size)
    assert "there is no such file" in row.detail
    assert batches.count() == 0


def test_what_is_no_file_is_damage(load: Load, tmp_path: Path) -> None:
    pipe = tmp_path / CLASSIC.name
    os.mkfifo(pipe)
    (row,) = load("damage", tmp_path).collect()
    assert (row.path, row.reason, row.detail) == (str(pipe), "unreadable", "it is a pipe, not a file")
    assert load("records", tmp_path).count() == 0


def test_tables_join_as_any_data_frames(load: Load) -> None:
    found = load("records", TRANSACTIONS).groupBy("path", "batch_position").count()
    batches = load("batches", TRANSACTIONS).withColumnRenamed("count", "stated")
    joined = batches.join(found, (found.path == batches.path) & (found.batch_position == batches.position))
    of_dump = kforensics.dump(TRANSACTIONS)
    assert joined.where("stated = count").count() == of_dump.batches.num_rows


def test_a_frame_may_be_used_for_many_queries(pushing: SparkSession, load: Load) -> None:
    """Spark 4 applies filters that a source takes to the next query of a frame, and to both sides of a self-join."""
    frame, every = load("records", CLASSIC), kforensics.dump(CLASSIC).records.num_rows
    assert 0 < frame.where("offset < 1").count() < every
    assert frame.count() == every
    first = frame.where("offset < 1").select("offset").withColumnRenamed("offset", "first")
    assert frame.join(first, frame["offset"] >= first["first"]).count() == every


def test_filters_are_no_option(pushing: SparkSession, load: Load) -> None:
    with pytest.raises(Exception, match="the option push_filters was removed"):
        load("records", CLASSIC, push_filters="true")


def test_every_table_is_a_view(spark: SparkSession, every: kforensics.Dump) -> None:
    names = kforensics.views(spark, [*map(str, PARTS)], prefix="logs_")
    assert names == tuple(f"logs_{name}" for name in TABLES)
    (row,) = spark.sql("select count(*) as controls from logs_batches where is_control").collect()
    assert row.controls == pc.sum(every.batches["is_control"]).as_py() > 0
    (row,) = spark.sql("select count(*) as files from logs_files").collect()
    assert row.files == len(every.files)
    for name in names:
        spark.catalog.dropTempView(name)


def test_a_view_is_created_in_sql(spark: SparkSession, load: Load) -> None:
    options = f"table 'batches', path '{CLASSIC.parent}', columns 'base_offset'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW of_classic USING kforensics OPTIONS ({options})")
    found = spark.sql("select base_offset from of_classic order by base_offset").toArrow()
    assert found["base_offset"].to_pylist() == sorted(kforensics.dump(CLASSIC).batches["base_offset"].to_pylist())
    spark.catalog.dropTempView("of_classic")


@pytest.mark.parametrize("function", [kforensics.register, kforensics.views])
def test_the_examples_run(spark: SparkSession, function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_examples(function, spark=spark)
