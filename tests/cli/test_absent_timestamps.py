"""Logs without timestamps: no output shows a time of 1969 or 1970, or an age since then."""

from __future__ import annotations

import json
import re
import shutil
import struct
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kforensics
import kforensics.plots
from tests.command import SAMPLES, run
from tests.forensics.forge import file_of, forge, patch
from tests.plots.drawn import layers
from tests.report_html.unpacked import everything

# An open transaction from offset 3, content that is there twice, and producers of every kind.
LOG = (
    "D 7 0 0-1 @0-1 T; M 7 0 A 0 @2; D 7 0 2-3 @3-4 T; plain @5-6; plain @7-8; D 9 0 0-1 @9-10 N; "
    "D 9 0 0-1 @11-12 N; D 9 1 0-0 @13-13 N; plain @14-15; M 8 0 C 0 @16"
)
STARTS = (0, 2, 3, 5, 7, 9, 11, 13, 14, 16)
COMMANDS = [
    *(("lso",), ("lso", "--history"), ("transactions",), ("producers",), ("duplicates",), ("scan",), ("verify",)),
    *(("audit", "--records"), ("keys", "--topic", "t"), ("explain", "--offset", "3"), ("explain", "--offset", "13")),
]
ROWS = ("lso", "transactions", "producers", "duplicates", "scan", "verify", "audit", "ids", "groups")
# A day of 1969 or 1970, or the days since then.
EPOCH = re.compile(r"\b19(?:69|70)-|\b\d{5} d\b")
TIMES = ("first_timestamp", "last_timestamp", "marker_timestamp", "duration_ms", "age_ms")


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Return a partition whose batches all have the timestamp -1, as a producer may send them."""
    folder = forge(tmp_path, LOG)
    for offset in STARTS:
        patch(file_of(folder), offset, base_timestamp=-1, max_timestamp=-1)
    return folder


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_text_shows_an_unknown_time(words: tuple[str, ...], partition: Path) -> None:
    options = [] if words[0] == "explain" else ["--fail-on", "never"]
    done = run(*words, *options, "--quiet", partition)
    assert done.code == 0
    assert done.text
    assert [line for line in done.lines if EPOCH.search(line)] == []


@pytest.mark.parametrize("name", ["legacy-magic-0", "legacy-2.7"])
@pytest.mark.parametrize("command", ROWS)
def test_message_format_0_has_no_times(command: str, name: str) -> None:
    done = run(command, "--fail-on", "never", "--quiet", SAMPLES / name)
    assert [line for line in done.lines if EPOCH.search(line)] == []


@pytest.mark.parametrize("command", ROWS)
def test_no_row_has_an_age_since_1970(command: str, partition: Path) -> None:
    for row in run(command, "--format", "ndjson", "--fail-on", "never", "--quiet", partition).objects:
        texts = [value for value in row.values() if isinstance(value, str)]
        assert [text for text in texts if EPOCH.search(text)] == []
        ages = {name: value for name, value in row.items() if name.endswith("_ms") and name != "as_of_ms"}
        evidence = json.loads(row.get("evidence") or "{}")
        values = evidence.items() if row["table"] == "findings" else ()
        ages |= {name: value for name, value in values if name.endswith("ms")}
        assert [name for name, value in ages.items() if isinstance(value, int) and value > 10**12] == [], row["table"]


def test_an_absent_time_is_null_in_tables(partition: Path) -> None:
    """As a time, -1 would be 1969."""
    for table in (kforensics.lso(partition), kforensics.transactions(partition)):
        for name in {*TIMES} & {*table.column_names}:
            assert set(table[name].to_pylist()) == {None}, name


def test_a_plot_over_time_leaves_out_transactions_without_a_time(partition: Path, tmp_path: Path) -> None:
    """Bars at the -1 of an absent time would begin in 1969, and make those of other transactions points."""
    plot = kforensics.plots.transactions(kforensics.transactions(partition), by="time")
    assert layers(plot) == [[], []]
    assert plot.to_dict()["title"]["subtitle"] == ["2 transactions without timestamps not shown"]
    timed = forge(tmp_path / "timed", LOG)
    patch(file_of(timed), 0, base_timestamp=-1, max_timestamp=-1)
    bars, ticks = layers(kforensics.plots.transactions(kforensics.transactions(timed), by="time"))
    assert (len(bars), len(ticks)) == (2, 1)
    assert [value for bar in bars for value in (bar["start"], bar["end"]) if value < 10**12] == []


def test_a_report_has_no_time_of_1969(partition: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cells with the -1 of an absent time become a word in the page; charts have no such point."""
    folder = tmp_path_factory.mktemp("report")
    store, page = folder / "store", folder / "report.html"
    run("audit", "--records", "--quiet", "--output", store, partition)
    run("report", store, "--output", page)
    text = everything(page)
    assert re.findall(r"\b19(?:69|70)-\d\d-\d\d", text) == []
    assert re.findall(r"timestamp -1\b|timestamp</dt><dd>-1\b", text) == []
    assert re.findall(r'"(?:start|end|time)":-1\b', text) == []


def test_replicas_without_times_have_a_report(tmp_path: Path) -> None:
    """A divergence, lost records and distributed transactions of real brokers, all without times."""
    logs, store, page = tmp_path / "logs", tmp_path / "store", tmp_path / "report.html"
    shutil.copytree(SAMPLES / "replication", logs)
    for file in logs.glob("broker-*/[a-z]*-[0-9]/*.log"):
        data, position = file.read_bytes(), 0
        while position + 12 < len(data):
            base_offset, size = struct.unpack_from(">qi", data, position)
            patch(file, base_offset, base_timestamp=-1, max_timestamp=-1)
            position += 12 + size
    done = run("audit", "--records", "--quiet", "--output", store, logs)
    lost = [row["message"] for row in pq.read_table(store / "findings").to_pylist()]
    assert any("drops 6 records, written from an unknown time to an unknown time" in message for message in lost)
    assert [line for line in done.lines if "an unknown time" in line and line.endswith(" later.")] == []
    assert run("report", store, "--output", page).code == 1
    charts = re.findall(r'"(?:start|end|time)":-1\b', everything(page))
    assert charts == []


def test_a_snapshot_with_times_of_a_log_without_says_so(partition: Path) -> None:
    rows = run("audit", "--format", "ndjson", "--fail-on", "never", "--quiet", partition).objects
    found = [row for row in rows if row.get("code") == "snapshot-minor-mismatch"]
    assert found
    assert all("but the log has no timestamp" in row["message"] for row in found)
    assert {json.loads(row["evidence"])["expected_last_timestamp"] for row in found} == {None}


def test_an_unknown_duration_is_no_long_one(partition: Path) -> None:
    assert len(run("transactions", "--min-duration", "1h", "--fail-on", "never", partition).lines) == 1
