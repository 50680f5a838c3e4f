"""The options of the data source, and the schemas it states."""

import pickle
import subprocess
import sys
from typing import Any

import pytest

from kforensics.errors import UsageError, install_line
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.log.selection import HalfOpenRange, Selection
from kforensics.parsers.tables.schemas import TABLES, Column
from kforensics.spark.source.source_options import OPTIONS, Wanted, chosen, ddl_of, ddl_type, wanted_of

ONE = {"table": "records", "path": "/a"}


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({"path": "/a"}, ("/a",)),
        ({"paths": '["/a", "/b,c", "/a"]'}, ("/a", "/b,c")),
        ({"paths": "/a"}, ("/a",)),
        ({"paths": "[ab]*/x"}, ("[ab]*/x",)),
        ({"paths": "12"}, ("12",)),
        ({"path": "/z", "paths": '["/a"]'}, ("/z", "/a")),
    ],
)
def test_paths(options: dict[str, str], paths: tuple[str, ...]) -> None:
    assert wanted_of({"table": "batches", **options}).paths == paths


def test_defaults() -> None:
    wanted = wanted_of(ONE)
    assert wanted == Wanted(TABLES["records"], ("/a",))
    assert (wanted.split_size, wanted.selection) == (SPLIT_SIZE, Selection())


def test_every_option_is_taken() -> None:
    given = {
        "Table": "records",
        "path": "/a",
        "paths": "[]",
        "columns": " key, offset",
        "topic": "orders, bills",
        "partition": "1,2",
        "start_offset": "5",
        "end_offset": "7",
        "start_time": "-1",
        "end_time": "10",
        "producer_id": "9",
        "split_size": "100",
        "max_decompressed_bytes": "1000",
    }
    assert {name.lower() for name in given} == set(OPTIONS)
    wanted = wanted_of(given)
    assert wanted.table.names == ("key", "offset")
    assert (wanted.topics, wanted.partitions) == (frozenset({"orders", "bills"}), frozenset({1, 2}))
    assert wanted.selection == Selection(HalfOpenRange(5, 7), HalfOpenRange(-1, 10), 9)
    assert (wanted.split_size, wanted.budget) == (100, 1000)
    assert pickle.loads(pickle.dumps(wanted)) == wanted  # noqa: S301  # ours


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"table": "cards"}, "there is no table 'cards'; choose one of files, batches"),
        ({"table": None}, "name the table that is wanted"),
        ({"path": None}, "name what to read"),
        ({"path": ""}, "name what to read"),
        ({"path": None, "paths": "[1]"}, "name what to read"),
        ({"colums": "offset"}, "there is no option 'colums'; choose of table, path"),
        ({"columns": "offset,color"}, "the table records has no column 'color'; choose of broker_id"),
        ({"columns": "offset,offset"}, "a column is named twice: offset, offset"),
        (
            {"start_offset": "6", "end_offset": "5"},
            "start_offset is 6 and end_offset is 5",
        ),
        ({"start_time": "2", "end_time": "1"}, "start_time is 2 and end_time is 1"),
        ({"start_offset": "1.5"}, "the option start_offset takes a whole number, not '1.5'"),
        ({"partition": "1,x"}, "the option partition takes a whole number, not 'x'"),
        ({"split_size": "0"}, "the option split_size takes a number above 0, not 0"),
        (
            {"Push_Filters": "true"},
            "the option push_filters was removed: .* select rows by topic",
        ),
        ({"table": "files", "end_time": "5"}, "offsets, times and producers choose batches and records; leave them"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    options = {name: value for name, value in {**ONE, **changes}.items() if value is not None}
    with pytest.raises(UsageError, match=sentence):
        wanted_of(options)


def test_schemas_are_those_of_the_tables() -> None:
    assert ddl_of(chosen(TABLES["batches"], ["magic", "attributes", "crc_valid"])) == (
        "`magic` tinyint, `attributes` smallint, `crc_valid` boolean"
    )
    headers = next(column for column in TABLES["records"].columns if column.name == "headers")
    assert ddl_type(headers) == "array<struct<key:string,value:binary>>"
    numbers = "last_sequence:int,last_offset:bigint,offset_delta:int,timestamp:bigint"
    assert ddl_type(Column("recent", "recent_batches", "")) == f"array<struct<{numbers}>>"


def test_without_pyspark_registering_says_what_to_install() -> None:
    script = """
import sys
sys.modules["pyspark"] = None
import kforensics
from kforensics.errors import MissingExtraError
try:
    kforensics.register(None)
except MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"pyspark is not installed. Install it with: {install_line('spark')}\n"


def test_a_request_knows_its_columns() -> None:
    wanted = wanted_of({"table": "records", "path": "x", "columns": "offset,key"})
    assert wanted.with_columns(["key"]).table.names == ("key",)
    assert wanted.table.names == ("offset", "key")
