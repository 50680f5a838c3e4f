"""Opened logs can be displayed, and have the tables of the library."""

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kforensics
from kforensics.errors import InputError, InputMissingError, UsageError
from kforensics.parsers.tables.schemas import TABLES, arrow_schema
from tests.api.views.page import HOSTILE, OURS, assert_harmless, seen
from tests.command import SAMPLES
from tests.forensics.forge import forge

INTERLEAVED = SAMPLES / "transactions-v2" / "broker-1" / "interleaved-0"
STORED = ["batches", "records", "files", "damage"]
AS_OF_MS = 1_795_263_300_000
VERDICTS = ["transactions", "producers", "lso", "lso_history", "duplicates", "findings", "incidents", "partitions"]


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_stored_data_equal_a_dump(name: str) -> None:
    view, table = kforensics.open(SAMPLES / "damaged").table(name), kforensics.dump(SAMPLES / "damaged").table(name)
    assert view.head(3).equals(table.slice(0, 3))
    assert view.to_arrow().equals(table)
    assert view.to_arrow().schema == arrow_schema(name)
    assert len(view) == table.num_rows


def test_tables_of_results_equal_the_functions() -> None:
    log = kforensics.open(INTERLEAVED, as_of=AS_OF_MS)
    audit = kforensics.audit(INTERLEAVED, as_of=AS_OF_MS)
    functions = {name: getattr(kforensics, name) for name in ("duplicates", "producers")}
    tables = {
        **audit.tables,
        **{name: function(INTERLEAVED, as_of=AS_OF_MS) for name, function in functions.items()},
    }
    for name in VERDICTS:
        assert getattr(log, name) == tables[name]


@pytest.mark.parametrize("name", ["distributed_transactions", "replica_differences", "transactional_ids"])
def test_tables_across_partitions_equal_an_audit(name: str) -> None:
    folder = SAMPLES / "transactions-v2"
    view = kforensics.open(folder, as_of=AS_OF_MS).table(name)
    assert view == kforensics.audit(folder, as_of=AS_OF_MS).tables[name]
    assert repr(view).startswith(f"{name}: ")


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"^there is no table 'xyz'; there are files, .*, incidents, "):
        kforensics.open(INTERLEAVED).table("xyz")
    with pytest.raises(KeyError, match=r"^there is no table 'recods'; did you mean records or "):
        kforensics.open(INTERLEAVED).table("recods")


@pytest.mark.parametrize("name", [*STORED, *VERDICTS])
def test_every_table_can_be_displayed(name: str) -> None:
    view = getattr(kforensics.open(INTERLEAVED), name)
    assert repr(view).startswith(f"{name}: ")
    assert_harmless(view._repr_html_())


def test_iterating_over_batches_gives_batches() -> None:
    log = kforensics.open(INTERLEAVED)
    assert [batch["base_offset"] for batch in log.batches] == log.batches.to_arrow()["base_offset"].to_pylist()
    assert log.batches[-1]["last_offset"] == 63
    assert pa.table(log.batches).num_rows == len(log.batches)


def test_a_batch_is_found_by_an_offset_in_it() -> None:
    log = kforensics.open(INTERLEAVED)
    assert log.batch(7)["base_offset"] == 6
    with pytest.raises(IndexError, match="no batch spans offset 64"):
        log.batch(64)


def test_the_files_are_listed() -> None:
    log = kforensics.open(INTERLEAVED)
    assert re.match(r"7 files of 1 partition, \d\.\d KB\n", repr(log))
    assert "transaction_index_entries" in log.tables
    assert "checkpoints" not in log.tables
    assert "txnindex" in assert_harmless(log._repr_html_()).texts


def test_any_file_can_be_opened() -> None:
    (index,) = INTERLEAVED.glob("*.txnindex")
    log = kforensics.open(index)
    assert len(log.table("transaction_index_entries")) == 4
    assert not log.batches
    with pytest.raises(UsageError, match="there is no log"):
        len(log.transactions)


def test_only_the_files_of_the_shown_rows_are_read(tmp_path: Path) -> None:
    """The first rows can be read if the second segment is missing."""
    folder = forge(tmp_path, {0: "plain @0-1; plain @2", 3: "plain @3"})
    second = folder / "00000000000000000003.log"
    log = kforensics.open(folder)
    second.unlink()
    assert log.batches.head(2)["base_offset"].to_pylist() == [0, 2]
    assert log.batches[1]["base_offset"] == 2
    with pytest.raises(InputMissingError):
        log.batches.to_arrow()


def test_a_topic_and_a_partition_select_every_table() -> None:
    folder = SAMPLES / "transactions-v2"
    log = kforensics.open(folder, topic="hang*", partition=0, as_of=AS_OF_MS, settings={"retention.ms": -1})
    assert {row["topic"] for row in log.files} == {"hanging", "hanging-resolved"}
    assert {Path(row["path"]).parent.name for row in log.records} == {"hanging-0", "hanging-resolved-0"}
    for name in VERDICTS:
        assert {row["topic"] for row in getattr(log, name)} <= {"hanging", "hanging-resolved"}, name
    assert log.lso == kforensics.lso(folder, topic="hang*", partition=0, as_of=AS_OF_MS)
    assert log.batch(3).row["path"].endswith("hanging-0/00000000000000000000.log")


def test_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file under"):
        kforensics.open(tmp_path)
    with pytest.raises(InputError, match="there is no such file"):
        kforensics.open(tmp_path / "nothing")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_records_and_names_stay_text(text: str, tmp_path: Path) -> None:
    data = text.encode()
    folder = forge(
        tmp_path, "D 1 0 0-0 @0-0 T; M 1 0 C 0 @1", records={0: [(data, data, [(data, data), (b"h", None)])]}
    )
    name = re.sub(r"[/\x00]", "_", text)
    folder = folder.rename(folder.parent / f"{name}-0")
    log = kforensics.open(folder)
    shown: list[Any] = [
        log,
        log.files,
        log.batches,
        log.batches[0],
        log.batches[0].records,
        log.records,
        log.transactions,
    ]
    shown += [log.findings, log.partitions, log.damage]
    for view in shown:
        assert_harmless(view._repr_html_())
        assert all(line.isprintable() for line in repr(view).split("\n"))
    assert log.records[0]["key"] == data
    frame = log.transactions.to_pandas()._repr_html_()  # type: ignore[operator]  # pandas hides it from its types
    assert set(seen(frame).elements) <= OURS | {"style"}
    assert os.fspath(folder) in log.records[0]["path"]
