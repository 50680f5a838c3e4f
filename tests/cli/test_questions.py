"""``lso``, ``transactions`` and ``producers``: answers in every format, and exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.errors import InputError, UsageError
from kforensics.forensics.core.tables import RESULTS
from tests.command import COMMAND, SAMPLES, run, sentence
from tests.forensics.forge import forge

OPEN = SAMPLES / "transactions-v2" / "broker-1" / "open-0"
HANGING = SAMPLES / "transactions-v2" / "broker-1" / "hanging-0"
AS_OF = "2026-11-21T12:30"
# Ten minutes after the last write: nothing is late yet.
EARLY, EARLY_MS = "2026-11-21T12:16", 1_795_263_360_000
QUESTIONS = ("lso", "transactions", "producers")
TABLE_OF = {"lso": "lso", "transactions": "transactions", "producers": "producers"}

question = pytest.mark.parametrize("command", QUESTIONS)


def test_lso_shows_the_blocking_transaction_its_age_and_the_hidden_records() -> None:
    ended = run("lso", "--as-of", "2026-11-21T12:20", HANGING)
    assert (ended.code, ended.err) == (1, "")
    assert ended.lines[:2] == [
        "hanging-0 on broker 1: LSO stuck at 3 (log end 9, 4 records hidden, 458 bytes)",
        (
            "  blocked by producer 12 ('hanging'), epoch 1: transaction from offset 3, open,"
            " last write 2026-11-21 12:05:21 UTC, idle for 14 min 38 s"
        ),
    ]
    # Its coordinator waits for no marker here, so it hangs, however young it is.
    assert ended.lines[2].startswith("  critical txn-hanging: The transaction of producer 12, epoch 1,")


def test_a_stuck_lso_is_a_finding_with_a_remedy() -> None:
    ended = run("lso", "--as-of", AS_OF, SAMPLES / "transactions-v0" / "broker-1" / "hanging-0")
    assert ended.code == 1
    assert [line.split()[:2] for line in ended.lines if line.startswith("  critical")] == [
        ["critical", "lso-stuck:"],
        ["critical", "txn-hanging:"],
    ]
    assert "kafka-transactions.sh" in ended.text
    assert "--topic hanging --partition 0 --start-offset 3" in ended.text


def test_lso_at_an_offset_and_its_history_agree() -> None:
    steps = run("lso", "--quiet", "--history", "--format", "ndjson", OPEN).rows("lso_history")
    assert [step["from_high_watermark"] for step in steps[1:]] == [step["to_high_watermark"] + 1 for step in steps[:-1]]
    for step in steps:
        (row,) = run("lso", "--quiet", "--at", step["to_high_watermark"], "--format", "ndjson", OPEN).rows("lso")
        assert (row["last_stable_offset"], row["producer_id"]) == (step["last_stable_offset"], step["producer_id"])


@pytest.mark.parametrize("options", [(), ("--severity", "error"), ("--code", "lso-stuck")])
def test_the_history_has_the_findings_and_the_exit_code_of_the_lso(options: tuple[str, ...]) -> None:
    command = ("lso", "--quiet", "--as-of", AS_OF, *options, SAMPLES / "transactions-v2" / "broker-1")
    ended, history = run(*command, "--format", "json"), run(*command, "--history", "--format", "json")
    assert (ended.code, history.code) == (1, 1)
    for table in ("findings", "incidents"):
        rows = json.loads(ended.out)["tables"][table]
        assert rows
        assert json.loads(history.out)["tables"][table] == rows
    text = run(*command, "--history")
    assert "hanging-0 on broker 1: LSO by high watermark" in text.lines
    assert "  critical lso-stuck: LSO stuck at 3 (log end 9, 6 offsets hidden)" in text.text


def test_one_value_and_all_values_are_not_asked_for_together() -> None:
    ended = run("lso", "--history", "--at", 3, OPEN)
    assert (ended.code, ended.out) == (2, b"")
    assert "leave one out" in ended.err


def test_transactions_are_selected_and_sorted() -> None:
    rows = run("transactions", "--quiet", "--format", "ndjson", OPEN).rows("transactions")
    assert [row["first_offset"] for row in rows] == sorted(row["first_offset"] for row in rows)
    still_open = run("transactions", "--quiet", "--state", "open", "--format", "ndjson", OPEN).rows("transactions")
    assert still_open == [row for row in rows if row["outcome"] == "open"]
    of_one = run("transactions", "--quiet", "--producer-id", 16, "--format", "ndjson", OPEN).rows("transactions")
    assert of_one == [row for row in rows if row["producer_id"] == 16]
    long = run("transactions", "--as-of", AS_OF, "--min-duration", "15m", "--format", "ndjson", OPEN)
    assert [row["outcome"] for row in long.rows("transactions")] == ["open", "open"]
    largest = run("transactions", "--quiet", "--sort", "records", "--format", "ndjson", OPEN).rows("transactions")
    assert [row["records"] for row in largest] == sorted((row["records"] for row in rows), reverse=True)


def test_producers_are_compared_with_the_snapshot_at_the_log_end(tmp_path: Path) -> None:
    rows = run("producers", "--quiet", "--format", "ndjson", OPEN).rows("producers")
    assert {row["in_snapshot"] for row in rows} == {True}
    assert {row["producer_id"]: row["current_txn_first_offset"] for row in rows if row["transactions"]} == {
        **{row["producer_id"]: -1 for row in rows if row["transactions"]},
        16: 2,
        17: 4,
    }
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", snapshots={6: []})
    (row,) = run("producers", "--quiet", "--format", "ndjson", folder).rows("producers")
    assert (row["in_snapshot"], row["last_sequence"], row["transactions"]) == (False, 4, 1)
    assert "differs from the snapshot" in run("producers", "--quiet", folder).text


def test_producers_at_an_offset(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5; D 2 0 0-0 @6-6 N")
    at = {
        offset: [
            row["producer_id"]
            for row in run("producers", "--quiet", "--at", offset, "--format", "ndjson", folder).objects
        ]
        for offset in (0, 5, 7)
    }
    assert at == {0: [], 5: [1], 7: [1, 2]}


@question
@pytest.mark.parametrize("output_format", ["table", "json", "ndjson", "csv", "parquet", "arrow"])
def test_every_answer_comes_in_every_format(command: str, output_format: str, tmp_path: Path) -> None:
    output = tmp_path / "answer"
    words = (command, "--as-of", EARLY, "--format", output_format, "--output", output, OPEN)
    ended = run(*words)
    assert (ended.code, ended.out) == (0, b"")
    from_python = getattr(kforensics, command)(OPEN, as_of=EARLY_MS)
    data = output.read_bytes()
    if output_format == "parquet":
        assert pq.read_table(io.BytesIO(data)).to_pylist() == from_python.to_pylist()
    elif output_format == "arrow":
        assert pa.ipc.open_stream(data).read_all() == from_python
    elif output_format == "csv":
        assert len(list(csv.DictReader(io.StringIO(data.decode())))) == from_python.num_rows
    elif output_format == "table":
        assert data.decode().startswith(RESULTS[TABLE_OF[command]].name)
    else:
        text = data.decode()
        rows = json.loads(text)["tables"][command] if output_format == "json" else [*map(json.loads, text.splitlines())]
        assert [{key: row[key] for key in from_python.column_names} for row in rows] == from_python.to_pylist()


@question
def test_a_file_that_cannot_be_read_does_not_hide_the_other_partitions(command: str, tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-4 @0-4 T", topic="good")
    bad = forge(tmp_path, "D 1 0 0-4 @0-4 T", topic="bad")
    log = bad / "00000000000000000000.log"
    log.unlink()
    os.mkfifo(log)
    ended = run(command, tmp_path)
    assert ended.code == 3
    assert "good-0" in ended.text
    assert f"cannot read {log}" in ended.err
    with pytest.raises(InputError):
        getattr(kforensics, command)(tmp_path)


@question
def test_damage_does_not_stop_a_question(command: str) -> None:
    """There is an answer for every damaged sample that is a partition."""
    words = ("--quiet", "--as-of", "2023-11-14", "--fail-on", "never", "--format", "ndjson", SAMPLES / "damaged")
    ended = run(command, *words)
    assert ended.code == 0
    assert {row["table"] for row in ended.objects} <= {command}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lso"], "there is no input; name partition folders or log directories"),
        (["lso", "/dev/null/nothing"], None),
        (["transactions", "--state", "closed", OPEN], "--state 'closed' is not one of open, aborted, committed"),
        (["transactions", "--sort", "size", OPEN], "--sort 'size' is not one of"),
        (["transactions", "--min-duration", "soon", OPEN], "--min-duration 'soon' is not a duration"),
        (["lso", "--as-of", "yesterday", OPEN], "--as-of 'yesterday' is not a time"),
        (["lso", "--fail-on", "bad", OPEN], "--fail-on 'bad' is not one of info, warning, error, critical, never"),
        (["lso", "--format", "xml", OPEN], "--format 'xml' is not one of"),
        (["lso", "--output", OPEN / "answer", OPEN], "would be among the evidence"),
    ],
    ids=lambda value: "-".join(map(str, value[:3])) if isinstance(value, list) else "",
)
def test_a_usage_error_is_one_sentence(words: list[object], says: str | None) -> None:
    ended = run(*words)
    if says is None:
        assert ended.code == 3
    else:
        assert says in sentence(ended)


def test_a_folder_without_logs_is_a_usage_error(tmp_path: Path) -> None:
    assert "there is no log under" in sentence(run("lso", tmp_path))
    with pytest.raises(UsageError):
        kforensics.lso(tmp_path)


def test_a_folder_that_no_broker_serves_is_named(tmp_path: Path) -> None:
    """Its log is examined in a copy under the name of the partition."""
    stray = tmp_path / f"committed-0.{'5' * 32}-stray"
    shutil.copytree(SAMPLES / "transactions-v2" / "broker-1" / "committed-0", stray)
    for path in (tmp_path, stray):
        said = sentence(run("lso", path))
        assert f"brokers do not serve {stray}, so it is left out" in said
        assert f"`cp -rp {stray} /path/outside/committed-0`" in said


@pytest.mark.parametrize("command", ["lso", "scan", "audit", "dump", "forecast", "collect"])
def test_an_empty_path_is_named(command: str, tmp_path: Path) -> None:
    ended = run(command, "", *(["--output", tmp_path / "copy"] if command == "collect" else []))
    assert ended.err.removeprefix("kforensics: ").startswith("cannot read '': the path is empty\n")
    assert ended.code == 3


def test_a_producer_id_of_more_than_64_bits_is_refused() -> None:
    ended = run("explain", "--producer-id", 10**30, HANGING)
    assert sentence(ended) == f"kforensics: --producer-id={10**30} is not a whole number of 64 bits; give an int"


def test_a_file_from_a_pipe_is_for_dump_unless_it_is_a_log() -> None:
    def piped(command: str, kind: str) -> str:
        words = [*COMMAND[:-1], command, "-"]
        content = (HANGING / f"00000000000000000000.{kind}").read_bytes()
        return subprocess.run(words, input=content, capture_output=True, check=False).stderr.decode()

    advice = "standard input is neither a log nor an archive with one; only dump reads other files from a pipe\n"
    assert piped("lso", "timeindex").endswith(advice)
    assert advice not in piped("lso", "log")


def test_the_assumed_time_of_evaluation_is_that_of_the_newest_file_and_is_reported(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T ts 1700000000000")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_700_000_060, 1_700_000_060))
    ended = run("lso", folder)
    newest = max(map(str, [*folder.iterdir(), *tmp_path.glob("*checkpoint")]))
    assert ended.err == (
        f"evaluated as of 2023-11-14 22:14:20 UTC, when {newest} was last modified; set another time with --as-of\n"
    )
    (row,) = run("lso", "--quiet", "--format", "ndjson", folder).objects
    assert row["age_ms"] == 60_000


def test_one_topic_of_a_log_directory() -> None:
    ended = run("lso", "--quiet", "--topic", "open", "--topic", "hanging", "--format", "ndjson", OPEN.parent)
    assert [row["topic"] for row in ended.objects] == ["hanging", "open"]
