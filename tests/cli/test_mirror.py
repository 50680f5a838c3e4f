"""The command and the function ``mirror`` on two clusters between which a real MirrorMaker 2 copied."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.forensics.mirrors.mirror_rows import MIRROR
from kforensics.render.formats import Format
from tests.command import ROOT, run
from tests.forensics.mirrors.mirrored_logs import every, forge_mirror, forge_source

DATA = ROOT / "tests" / "data" / "mirror"
SOURCE, TARGET = DATA / "source", DATA / "target"


def _truth(folder: Path, topic: str, isolation: str) -> list[dict[str, Any]]:
    """Return what a consumer received."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    records: list[dict[str, Any]] = truth["topics"][topic]["0"][isolation]
    return records


def _content(record: dict[str, Any]) -> tuple[Any, ...]:
    return (record["key"], record["value"], record["timestamp"])


def _offsets(rows: Iterable[dict[str, Any]], kind: str) -> list[tuple[int, int]]:
    """Return the offset in the mirror and the difference for each record of ranges without gaps in the mirror."""
    ranges = [row for row in rows if row["kind"] == kind]
    return [
        (offset, row["difference"])
        for row in ranges
        for offset in range(row["mirror_first_offset"], row["mirror_last_offset"] + 1)
    ]


@pytest.mark.parametrize("topic", ["orders", "twice"])
def test_offsets_are_where_consumers_of_both_clusters_found_the_records(topic: str) -> None:
    rows = kforensics.mirror(SOURCE, TARGET, topic=topic).to_pylist()
    originals = {_content(record): record["offset"] for record in _truth(SOURCE, topic, "read_uncommitted")}
    expected = [
        (record["offset"], record["offset"] - originals[_content(record)])
        for record in _truth(TARGET, f"source.{topic}", "read_uncommitted")
    ]
    assert sorted(_offsets(rows, "copied") + _offsets(rows, "copied-twice")) == expected


def test_groups_go_on_where_the_broker_of_the_mirror_says() -> None:
    """MirrorMaker synchronized its checkpoints to the offsets of the groups in the target cluster."""
    committed, synced = (
        {
            group: {place: found["offset"] for place, found in of_group["offsets"].items()}
            for group, of_group in json.loads((folder / "truth.json").read_text(encoding="utf-8"))["groups"].items()
        }
        for folder in (SOURCE, TARGET)
    )
    rows = kforensics.mirror(SOURCE, TARGET, topic="orders").to_pylist()
    found = {row["detail"].split()[1]: row for row in rows if row["kind"] == "group-offset"}
    assert found.keys() == {"audit", "reports"}
    for group, row in found.items():
        assert row["first_offset"] == committed[group]["orders-0"]
        assert row["mirror_first_offset"] == synced[group]["source.orders-0"]
        received = [record["offset"] for record in _truth(TARGET, "source.orders", "read_uncommitted")]
        copies = {_content(record): record["offset"] for record in _truth(SOURCE, "orders", "read_uncommitted")}
        originals = [copies[_content(record)] for record in _truth(TARGET, "source.orders", "read_uncommitted")]
        again = [
            offset
            for offset, original in zip(received, originals, strict=True)
            if offset >= row["mirror_first_offset"] and original < row["first_offset"]
        ]
        assert row["records"] == len(again)
    assert (found["audit"]["records"], found["reports"]["records"]) == (0, 9)
    assert "the checkpoint of 2026-11-27 03:45:04.666 UTC translates 9 to 8" in found["reports"]["detail"]


def test_without_the_topic_of_checkpoints_no_group_is_shown(tmp_path: Path) -> None:
    target = shutil.copytree(TARGET, tmp_path / "target")
    shutil.rmtree(target / "broker-1" / "source.checkpoints.internal-0")
    assert not [row for row in kforensics.mirror(SOURCE, target).to_pylist() if row["kind"] == "group-offset"]


def test_aborted_records_are_those_that_only_readers_of_the_mirror_receive() -> None:
    rows = kforensics.mirror(SOURCE, TARGET, topic="orders").to_pylist()
    stable = json.loads((SOURCE / "truth.json").read_text(encoding="utf-8"))["topics"]["orders"]["0"]
    committed = set(map(_content, stable["read_committed"]))
    ended = {
        _content(record)
        for record in stable["read_uncommitted"]
        if record["offset"] < stable["latest_read_committed"] and _content(record) not in committed
    }
    received = _truth(TARGET, "source.orders", "read_committed")
    expected = [record["offset"] for record in received if _content(record) in ended]
    assert [offset for offset, _ in _offsets(rows, "aborted-copied")] == expected
    assert len(expected) == 5


def test_what_is_not_copied_yet_is_what_the_mirror_lacks() -> None:
    rows = kforensics.mirror(SOURCE, TARGET, topic="orders").to_pylist()
    copied = set(map(_content, _truth(TARGET, "source.orders", "read_uncommitted")))
    lacking = [
        record["offset"] for record in _truth(SOURCE, "orders", "read_uncommitted") if _content(record) not in copied
    ]
    (lag,) = [row for row in rows if row["kind"] == "lag"]
    assert (lag["first_offset"], lag["last_offset"], lag["records"]) == (lacking[0], lacking[-1], len(lacking))


def test_the_syncs_of_mirror_maker_agree_with_its_copies() -> None:
    ended = run("mirror", SOURCE, TARGET)
    assert ended.code == 0
    assert "sync-contradiction" not in ended.text
    assert "no offset syncs" not in ended.text


def test_without_their_topic_it_is_said_that_no_syncs_were_compared(tmp_path: Path) -> None:
    shutil.copytree(SOURCE / "broker-1" / "orders-0", tmp_path / "orders-0")
    assert "no offset syncs of this partition are under the paths" in run("mirror", tmp_path, TARGET).text


@pytest.mark.parametrize("output_format", [*Format])
def test_every_format_has_the_rows_of_the_function(output_format: str, tmp_path: Path) -> None:
    source = forge_source(tmp_path, "plain @0-9")
    target = forge_mirror(tmp_path, {0: 0, 1: 5})
    ended = run("mirror", "--format", output_format, source, target)
    assert ended.code == 1
    expected = kforensics.mirror(source, target)["kind"].to_pylist()
    if output_format in ("text", "table"):
        assert "missing" in ended.text
        return
    if output_format in ("csv", "csv-safe"):
        kinds = [row["kind"] for row in csv.DictReader(io.StringIO(ended.text))]
    elif output_format == "json":
        kinds = [row["kind"] for row in json.loads(ended.text)["tables"]["mirror"]]
    elif output_format == "ndjson":
        kinds = [row["kind"] for row in ended.objects]
    else:
        reader = pa.BufferReader(ended.out)
        table = pq.read_table(reader) if output_format == "parquet" else pa.ipc.open_stream(reader).read_all()
        kinds = table["kind"].to_pylist()
        assert tuple(table.column_names) == MIRROR.names
    assert kinds == expected == ["partition", "missing", "lag", "copied", "copied"]


def test_severity_decides_the_exit_code(tmp_path: Path) -> None:
    source, target = forge_source(tmp_path, "plain @0-9"), forge_mirror(tmp_path, {0: 0, 1: 5})
    assert run("mirror", source, target).code == 1
    assert run("mirror", "--fail-on", "critical", source, target).code == 0
    assert run("mirror", "--fail-on", "warning", SOURCE, TARGET).code == 1


def test_a_mirror_of_any_name(tmp_path: Path) -> None:
    source, target = forge_source(tmp_path, "plain @0-2"), forge_mirror(tmp_path, every(3), topic="copy")
    assert run("mirror", source, target).code == 2
    ended = run("mirror", "--topic", "t", "--mirror-topic", "copy", source, target)
    assert (ended.code, ended.lines[0]) == (0, "t-0 and its mirror copy-0: 3 of 3 records copied")


def test_a_mirror_of_the_same_name(tmp_path: Path) -> None:
    source, target = forge_source(tmp_path, "plain @0-2"), forge_mirror(tmp_path, every(3), topic="t")
    assert run("mirror", source, target).lines[0] == "t-0 and its mirror t-0: 3 of 3 records copied"


def test_the_worst_partitions_of_many_are_first_and_a_command_shows_the_rest(tmp_path: Path) -> None:
    for number in range(23):
        source = forge_source(tmp_path, "plain @0-9", partition=number)
        copies = {0: 0, 1: 5, 2: 6, 3: 7, 4: 8, 5: 9} if number == 22 else every(10)
        target = forge_mirror(tmp_path, copies, partition=number)
    ended = run("mirror", source, target)
    assert ended.lines[0].startswith("t-22 and its mirror eu.t-22: ")
    assert sum(" and its mirror " in line for line in ended.lines) == 20
    assert ended.lines[-3:] == [
        "… and 3 more partitions",
        "all of them:",
        f"  $ kforensics mirror --all {source} {target}",
    ]
    assert sum(" and its mirror " in line for line in run("mirror", "--all", source, target).lines) == 23


def test_a_partition_without_a_mirror_is_stated(tmp_path: Path) -> None:
    source, target = forge_source(tmp_path, "plain @0-2"), forge_mirror(tmp_path, every(3))
    forge_source(tmp_path, "plain @0-2", partition=1)
    ended = run("mirror", source, target)
    assert ended.code == 0
    assert "t-1 and its mirror eu.t-1: not compared: the log of this partition" in ended.text
    assert len(run("mirror", "--partition", "1", source, target).lines) == 1


@pytest.mark.parametrize(
    "words",
    [(), (SOURCE,), (SOURCE, TARGET, TARGET), (TARGET, SOURCE), ("--topic", "nothing", SOURCE, TARGET),
     ("--mirror-topic", "source.orders", SOURCE, TARGET), ("--topic", "orders", "--mirror-topic", "x", SOURCE, TARGET)],
    ids=str,
)  # fmt: skip
def test_usage_errors(words: tuple[object, ...]) -> None:
    ended = run("mirror", *words)
    assert (ended.code, ended.out) == (2, b"")


def test_a_folder_without_a_log_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no log under"):
        kforensics.mirror(SOURCE, tmp_path)
