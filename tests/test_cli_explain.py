"""``explain``: stories as text and in every format, and exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.analyses.explain import Subject
from kforensics.errors import InputError, UsageError
from kforensics.forensics.explain.offset_story import RecordStatus
from kforensics.forensics.explain.story_tables import EXPLAIN_TABLES
from kforensics.forensics.explain.transactional_id_story import MARKER_VERDICTS, UNDECIDED
from kforensics.parsers.tables.arrow import arrow_schema_of
from scripts import documented
from tests.command import ROOT, SAMPLES, Ended, run, sentence
from tests.forensics.forge import drop, file_of, forge

BROKER = SAMPLES / "transactions-v2" / "broker-1"
AS_OF, AS_OF_MS = "2026-11-21T12:16", 1_795_263_360_000
SUBJECTS: dict[str, tuple[object, ...]] = {
    "explained_offsets": ("--offset", 5, BROKER / "open-0"),
    "explained_producers": ("--producer-id", 12, BROKER),
    "explained_transactions": ("--transactional-id", "wide", BROKER),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "explained_offsets": {"offset": 5},
    "explained_producers": {"producer_id": 12},
    "explained_transactions": {"transactional_id": "wide"},
}

subjects = pytest.mark.parametrize("table", SUBJECTS)


def explain(*words: object) -> Ended:
    """Run ``kforensics explain`` as of a time at which nothing is late."""
    return run("explain", "--as-of", AS_OF, *words)


def test_an_offset_is_explained_with_its_evidence() -> None:
    ended = explain("--offset", 5, BROKER / "open-0")
    log, snapshot = (BROKER / "open-0" / name for name in ("00000000000000000000.log", "00000000000000000012.snapshot"))
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines == [
        "open-0 on broker 1, offset 5: undecided",
        "  delivered to read_uncommitted consumers only: the transaction of producer 17 from offset 4 is open",
        (
            "  record: 2026-11-21 12:05:24 UTC, sequence 1, key 'second open-1' (13 bytes),"
            " value 'second open 1 ......' (20 bytes)"
        ),
        (
            "  batch: offsets 4 to 5, 2 records, producer 17, epoch 0, sequences 0 to 1, transactional,"
            " newest 2026-11-21 12:05:24 UTC"
        ),
        f"         141 bytes at byte 0x141 of {log}, leader epoch 0",
        (
            "  transaction: producer 17 ('open-second'), offsets 4 to 5, 1 batch, 2 records,"
            " started 2026-11-21 12:05:24 UTC, last write 2026-11-21 12:05:24 UTC, open"
        ),
        (f"  snapshot: {snapshot} has producer 17, epoch 0, last sequence 1, open transaction from offset 4"),
        "  log: log start 0, LSO 2, log end 12",
        "  next: See whether the transaction will be ended, and how:",
        f"        $ kforensics lso {BROKER / 'open-0'}",
    ]


def test_an_aborted_record_and_its_marker_name_the_entry_of_the_index() -> None:
    index = BROKER / "aborted-0" / "00000000000000000000.txnindex"
    entry = f"  transaction index: offsets 0 to 2 aborted, byte 0x0 of {index}"
    record, marker = (explain("--offset", offset, BROKER / "aborted-0").lines for offset in (1, 2))
    assert record[1] == (
        "  delivered to read_uncommitted consumers only: the transaction of producer 1 from offset 0 was aborted by the"
        " marker at offset 2"
    )
    assert marker[1:3] == [
        "  not delivered to applications: it is the ABORT marker of the transaction of producer 1 from offset 0",
        "  record: ABORT, 2026-11-21 12:05:18 UTC, coordinator epoch 0",
    ]
    assert entry in record
    assert entry in marker
    assert any(
        "ABORT marker at offset 2" in line and line.endswith("byte 0x89 of 00000000000000000000.log") for line in record
    )


@pytest.mark.parametrize(
    ("offset", "folder", "says"),
    [
        (
            30,
            "compaction/broker-1/compact-0",
            "no batch contains offsets 27 to 53: the log is compacted up to offset 119 according to the cleaner",
        ),
        (3, "deletion/broker-1/retention-size-0", "moved the log start offset to 6; its segment is deleted"),
        (25, "deletion/broker-1/retention-size-0", "the log ends at offset 24"),
    ],
    ids=["compacted", "deleted", "beyond"],
)
def test_a_missing_record_is_delivered_to_no_consumer(offset: int, folder: str, says: str) -> None:
    ended = explain("--offset", offset, SAMPLES / folder)
    assert ended.code == 0
    assert ended.lines[1].startswith("  not delivered: ")
    assert says in ended.lines[1]


def test_the_delivery_of_an_offset_outside_the_log_is_unknown() -> None:
    words = ("--offset", 12, SAMPLES / "remote-storage" / "broker-1" / "tiered-0")
    known = explain(*words).lines
    assert known[0].endswith("offset 12: not-on-hand")
    assert known[1].startswith("  delivery unknown: it is in remote storage, in segment ")
    lines = explain(*words, "--alone").lines  # without the metadata of remote storage beside it
    assert lines[0].endswith("offset 12: not-on-hand (unverifiable)")
    assert lines[1].startswith("  delivery unknown: it is in remote storage: the log starts at offset 9 ")
    assert lines[2].startswith("  log: log start 9, ")
    (row,) = explain("--format", "ndjson", *words).objects
    assert (row["read_uncommitted"], row["read_committed"]) == (None, None)


def test_the_transaction_that_blocks_a_record_is_shown(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-0 @0-0 T; D 2 3 7-7 @1-1 N")
    lines = explain("--offset", 1, folder).lines
    assert lines[:2] == [
        "t-0 on broker 1, offset 1: held-back",
        (
            "  delivered to read_uncommitted consumers only: it is not in a transaction, but it is not below the last"
            " stable offset 0, which is blocked by the transaction of producer 1 from offset 0"
        ),
    ]
    (blocking,) = (line for line in lines if line.startswith("  blocked by: "))
    assert "producer 1, offset 0, 1 batch, 1 record, started 2023-11-14 22:13:20 UTC" in blocking
    assert any("producer 2, epoch 3, sequence 7, newest" in line for line in lines)


def test_a_delete_horizon_is_shown(tmp_path: Path) -> None:
    log = {0: "plain @0-2 cnt 1", 3: "plain @3-3"}
    folder = forge(tmp_path, log, compacted=True, horizons={0: 1_700_000_000_000})
    lines = explain("--offset", 1, folder).lines
    assert lines[0].endswith("offset 1: compacted")
    assert "set its delete horizon" in lines[1]
    assert any("delete horizon 2023-11-14 22:13:20 UTC" in line for line in lines)


def test_the_same_sequences_at_other_offsets_are_shown() -> None:
    ended = explain("--offset", 13, SAMPLES / "duplicates" / "broker-1" / "expired-0")
    assert any(line.startswith("  same sequences: offsets 3 to 5") for line in ended.lines)


def test_a_producer_is_explained_with_its_id_and_its_open_transaction() -> None:
    lines = explain("--producer-id", 12, BROKER).lines
    assert lines[:4] == [
        "hanging-0 on broker 1, producer 12, transactional id hanging: 1 open transaction",
        "  2 transactions (1 committed, 1 open), 4 records, epochs 0 to 1",
        (
            "  at the end of the log: epoch 1, last sequence 1 at offset 4, coordinator epoch 0,"
            " last write 2026-11-21 12:05:21 UTC"
        ),
        "  blocks the LSO at 3: 6 offsets hidden from read_committed consumers",
    ]
    # The producer is the same without the coordinator's log, or with one topic only.
    alone = explain("--producer-id", 12, BROKER / "hanging-0").lines
    assert alone[0] == "hanging-0 on broker 1, producer 12, transactional id hanging: 1 open transaction"
    assert explain("--producer-id", 12, "--topic", "hanging", BROKER).lines == lines


def test_a_transactional_id_is_explained_with_its_partitions() -> None:
    lines = explain("--transactional-id", "hanging", BROKER).lines
    assert lines[0] == "transactional id hanging: CompleteCommit"
    assert "    marked: hanging-0 (offset 2)" in lines
    assert lines[-1] == (
        "  open in hanging-0, but the coordinator has no ongoing transaction: producer 12, from offset 3"
    )


def test_payloads_cannot_control_a_terminal(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-0", records={0: [(b"\x1b[2J", b"\xff\n" + b"x" * 100)]})
    (line,) = (line for line in explain("--offset", 0, folder).lines if line.startswith("  record: "))
    assert line.isprintable()
    assert "key '\\x1b[2J' (4 bytes), value '\\xff\\x0a" in line
    assert line.endswith("x…' (102 bytes)")


@subjects
@pytest.mark.parametrize("output_format", ["table", "json", "ndjson", "csv", "parquet", "arrow"])
def test_every_story_comes_in_every_format(table: str, output_format: str, tmp_path: Path) -> None:
    output = tmp_path / "answer"
    ended = explain("--format", output_format, "--output", output, *SUBJECTS[table])
    assert (ended.code, ended.out) == (0, b"")
    from_python = kforensics.explain(str(SUBJECTS[table][-1]), as_of=AS_OF_MS, **OPTIONS[table]).table
    assert from_python.num_rows > 0
    data = output.read_bytes()
    if output_format == "parquet":
        assert pq.read_table(io.BytesIO(data)).to_pylist() == from_python.to_pylist()
    elif output_format == "arrow":
        assert pa.ipc.open_stream(data).read_all() == from_python
    elif output_format == "csv":
        assert len(list(csv.DictReader(io.StringIO(data.decode())))) == from_python.num_rows
    elif output_format == "table":
        assert data.decode().startswith(table)
    else:
        text = data.decode()
        rows = json.loads(text)["tables"][table] if output_format == "json" else [*map(json.loads, text.splitlines())]
        assert [{key: row[key] for key in from_python.column_names} for row in rows] == from_python.to_pylist()


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("--topic", "hanging", "--offset", 3), ("txn-hanging", "lso-stuck")),
        (("--topic", "hanging", "--offset", "3:9"), ("txn-hanging", "lso-stuck")),
        (("--topic", "hanging", "--offset", 0), ()),
        (("--producer-id", 12), ("txn-hanging", "lso-stuck")),
        (("--transactional-id", "open-first"), ("txnlog-ongoing-overdue", "lso-stuck", "txn-open-at-end")),
        (("--transactional-id", "wide"), ()),
    ],
    ids=str,
)
def test_a_document_has_what_an_audit_finds_on_the_subject(words: tuple[object, ...], codes: tuple[str, ...]) -> None:
    late = ("--as-of", "2026-11-21T16:00", "--fail-on", "never")
    tables = json.loads(run("explain", *late, "--format", "json", *words, BROKER).out)["tables"]
    assert {*codes} <= {finding["code"] for finding in tables["findings"]}
    assert bool(codes) == bool(tables["incidents"])
    audited = json.loads(run("audit", *late, "--format", "json", BROKER).out)["tables"]["findings"]
    assert all(finding in audited for finding in tables["findings"])
    assert len(tables["findings"]) < len(audited)


@pytest.mark.parametrize("output_format", ["text", "ndjson"])
def test_a_group_is_explained_by_its_history(output_format: str) -> None:
    words = ("--group", "modern", "--format", output_format, SAMPLES / "groups")
    explained, history = explain(*words), run("groups", "--as-of", AS_OF, *words)
    assert (explained.code, explained.out) == (history.code, history.out)
    assert b"modern" in explained.out


def test_a_group_is_explained_alone() -> None:
    assert "--group alone" in sentence(explain("--group", "modern", "--offset", 3, SAMPLES / "groups"))
    assert "--severity selects findings" in sentence(explain("--group", "g", "--severity", "error", SAMPLES / "groups"))


@subjects
def test_the_python_function_explains_the_same(table: str) -> None:
    explained = kforensics.explain(str(SUBJECTS[table][-1]), as_of=AS_OF_MS, **OPTIONS[table])
    assert explained.text == explain(*SUBJECTS[table]).text
    assert explained.table.schema == arrow_schema_of(EXPLAIN_TABLES[table])
    assert len(explained.stories) == 1


def test_offsets_with_the_same_story_are_one_line() -> None:
    ended = explain("--offset", "0:20", BROKER / "aborted-0")
    marker = "it is the ABORT marker of the transaction of producer 1 from offset 0"
    assert ended.lines[:4] == [
        "aborted-0 on broker 1:",
        "  log: log start 0, LSO 15, log end 15",
        "  0 to 1: aborted, data of transaction 'aborter' (producer 1), marker at offset 2, 2026-11-21 12:05:18 UTC",
        f"  2: control, {marker}; its transactional id is 'aborter'",
    ]
    committed = "  3 to 4: visible, committed data of transaction 'aborter' (producer 1), marker at offset 5, "
    assert ended.lines[4].startswith(committed)
    assert ended.lines[-1] == "  15 to 19: beyond-end, the log ends at offset 15"


@pytest.mark.parametrize("output_format", ["table", "json", "ndjson", "csv", "parquet", "arrow"])
def test_a_range_of_offsets_has_rows_in_every_format(output_format: str) -> None:
    words = ("--offset", "3:9", BROKER / "aborted-0", "--format")
    data, rows = explain(*words, output_format).out, explain(*words, "ndjson").objects
    expected = [(3, 4, "visible", "aborter"), (5, 5, "control", "aborter"), (6, 8, "aborted", "aborter")]
    names = ("first_offset", "last_offset", "fate", "transactional_id")
    assert [tuple(row[name] for name in names) for row in rows] == expected
    if output_format in ("parquet", "arrow"):
        reader = pa.BufferReader(data)
        table = pq.read_table(reader) if output_format == "parquet" else pa.ipc.open_stream(reader).read_all()
        assert table.to_pylist() == [{name: row[name] for name in row if name != "table"} for row in rows]
    elif output_format == "json":
        assert len(json.loads(data)["tables"]["explained_runs"]) == len(rows)
    elif output_format == "csv":
        assert [row["fate"] for row in csv.DictReader(io.StringIO(data.decode()))] == [row["fate"] for row in rows]
    else:
        assert "explained_runs" in data.decode()


@pytest.mark.parametrize(
    ("offsets", "first", "last"), [("4:6", 4, 5), ("13:", 13, 14), (":2", 0, 1), ("14:16", 14, 15), ("500:", 500, 500)]
)
def test_a_range_is_spelled_as_for_a_dump(offsets: str, first: int, last: int) -> None:
    rows = explain("--offset", offsets, "--format", "ndjson", BROKER / "aborted-0").objects
    assert (rows[0]["first_offset"], rows[-1]["last_offset"]) == (first, last)
    assert [row["first_offset"] for row in rows[1:]] == [row["last_offset"] + 1 for row in rows[:-1]]


def test_a_range_decides_about_the_exit_code_as_its_offsets_do() -> None:
    folder = SAMPLES / "damaged" / "batches" / "flipped-payload-bit-0"
    assert [explain("--offset", offsets, folder).code for offsets in ("0:6", "0:7")] == [0, 1]


@pytest.mark.parametrize("offsets", ["-1", "5:4", "a:b", ":", "1-5"])
def test_what_is_no_range_is_refused(offsets: str) -> None:
    assert f"--offset '{offsets}' is not a range; write --offset 100:200" in sentence(
        explain(f"--offset={offsets}", BROKER)
    )


def test_an_empty_range_and_a_range_of_a_producer_are_refused() -> None:
    assert "the range 5:5 has no offset" in sentence(explain("--offset", "5:5", BROKER / "open-0"))
    assert "say what to explain" in sentence(explain("--offset", "5:6", "--producer-id", 3, BROKER / "open-0"))


def test_a_range_of_a_missing_log_is_unknown(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-2")
    file_of(folder).unlink()
    ended = explain("--offset", "0:9", folder)
    assert ended.code == 1
    assert (
        ended.lines[-1]
        == "  0 to 8: not-on-hand (unverifiable), the partition folder has no .log file any more, or an empty one"
    )


def test_each_replica_is_explained() -> None:
    ended = explain("--offset", 3, "--format", "ndjson", "--topic", "durable", SAMPLES / "replication")
    assert {row["broker_id"] for row in ended.objects} == {1, 2, 3}


@pytest.mark.parametrize(("offset", "is_named"), [(1, False), (5, True), (9, True)])
def test_the_unclean_election_whose_leader_wrote_an_offset_is_named(offset: int, is_named: bool) -> None:
    ended = explain("--offset", offset, SAMPLES / "unclean-election" / "broker-3" / "lossy-0")
    named = [line for line in ended.lines if line.startswith("  unclean election: broker 3 became leader with epoch 2")]
    assert len(named) == is_named
    assert ("continued at offset 3" in "".join(ended.lines)) == is_named


def test_a_partition_without_an_unclean_election_has_none_beyond_its_end() -> None:
    ended = explain("--offset", 1_000, SAMPLES / "unclean-election" / "broker-3" / "clean-0")
    assert "beyond-end" in ended.lines[0]
    assert "unclean election" not in "".join(ended.lines)


def test_one_partition_of_a_log_directory() -> None:
    (row,) = explain("--offset", 3, "--topic", "multi", "--partition", 1, "--format", "ndjson", BROKER).objects
    assert (row["topic"], row["partition"]) == ("multi", 1)


def test_at_another_high_watermark() -> None:
    statuses = [
        explain("--offset", 5, *at, "--format", "ndjson", BROKER / "open-0").objects[0]["fate"]
        for at in ((), ("--at", 5))
    ]
    assert statuses == ["undecided", "not-replicated"]


def test_the_older_high_watermark_of_the_checkpoint_is_shown(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-2", high_watermark=1)
    assert (
        "checkpointed high watermark 1, some seconds older: not delivered at that time"
        in explain("--offset", 2, folder).text
    )
    assert "not delivered at that time" not in explain("--offset", 0, folder).text


def test_a_loss_is_an_error_and_an_index_that_misleads_is_critical(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-0; plain @1-1; plain @2-2")
    drop(file_of(folder), 1)
    words = ("--offset", 1, folder)
    assert [explain("--fail-on", level, *words).code for level in ("error", "critical", "never")] == [1, 0, 0]
    assert explain("--offset", 0, folder).code == 0
    shown = forge(tmp_path / "shown", "D 1 0 0-0 @0-0 T; M 1 0 A 1 @1", txnindex={0: None})
    ended = explain("--fail-on", "critical", "--offset", 0, shown)
    assert ended.code == 1
    assert "no entry, so read_committed consumers receive the aborted data" in ended.text
    hidden = forge(tmp_path / "hidden", "D 1 0 0-0 @0-0 T; M 1 0 C 1 @1", txnindex={0: [(1, 0, 1, 2)]})
    ended = explain("--fail-on", "critical", "--offset", 0, hidden)
    assert ended.code == 1
    assert "wrong, it hides committed data" in ended.text


@pytest.mark.parametrize("subject", ["offset", "producer_id"])
def test_a_replica_that_cannot_be_read_does_not_hide_the_others(subject: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {subject: 1}
    forge(tmp_path / "one", "D 1 0 0-1 @0-1 N")
    log = file_of(forge(tmp_path / "two", "D 1 0 0-1 @0-1 N", node_id=2))
    log.unlink()
    os.mkfifo(log)
    ended = explain(f"--{subject.replace('_', '-')}", 1, tmp_path)
    assert ended.code == 3
    assert "t-0 on broker 1" in ended.text
    assert str(log) in ended.err
    with pytest.raises(InputError):
        kforensics.explain(tmp_path, **options)


@pytest.mark.parametrize(
    "words", [("--offset", 1), ("--producer-id", 1), ("--transactional-id", "a")], ids=["offset", "producer", "id"]
)
def test_unreadable_input_is_not_a_usage_error(words: tuple[object, ...], tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "D 1 0 0-1 @0-1 N", topic="__transaction_state"))
    log.unlink()
    os.mkfifo(log)
    ended = explain(*words, tmp_path)
    assert (ended.code, ended.out) == (3, b"")
    assert str(log) in ended.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--offset", 1], "there is no input; name partition folders or log directories"),
        ([BROKER], "say what to explain: one of --offset N, --producer-id N, --transactional-id ID and --group NAME"),
        (["--offset", 1, "--producer-id", 1, BROKER], "say what to explain"),
        (["--producer-id", 1, "--at", 1, BROKER], "--at is for --offset"),
        (["--transactional-id", "a", "--topic", "t", BROKER], "leave out --topic and --partition"),
        (["--offset", 1, BROKER], "choose one with --topic and --partition: __cluster_metadata-0, "),
        (
            ["--offset", 1, "--topic", "open", "--partition", 7, BROKER],
            "no such partition is under the paths; name one of __cluster_metadata-0, ",
        ),
        (["--producer-id", 4711, BROKER / "open-0"], "producer 4711 does not appear in open-0; name other partitions"),
        (["--transactional-id", "nope", BROKER], "there is no record of the id 'nope' in __transaction_state-0"),
        (
            ["--transactional-id", "nope", BROKER / "open-0"],
            "with 1 partition its coordinator's log is __transaction_state-0",
        ),
        (["--offset", 1, "--format", "xml", BROKER / "open-0"], "--format 'xml' is not one of"),
    ],
    ids=[
        "no-path",
        "nothing",
        "two",
        "at",
        "id-topic",
        "which",
        "no-partition",
        "producer",
        "id",
        "coordinator",
        "format",
    ],
)
def test_a_usage_error_is_one_sentence(words: list[object], says: str) -> None:
    assert says in sentence(run("explain", "--quiet", *words))


def test_the_manual_lists_every_status_every_outcome_and_every_table() -> None:
    manual = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \|(?: [^|]+ \|)?$", manual.partition("## Options")[0], re.MULTILINE)
    assert sorted(listed) == sorted([*map(str, RecordStatus), *MARKER_VERDICTS.values(), UNDECIDED])
    assert documented.explain_tables() in manual, "run make docs"


def test_a_subject_is_exactly_one() -> None:
    with pytest.raises(UsageError):
        kforensics.explain(BROKER)
    assert [
        Subject(offset=0).table.name,
        Subject(producer_id=0).table.name,
        Subject(transactional_id="").table.name,
    ] == [*SUBJECTS]


@pytest.mark.parametrize(
    ("folder", "offset", "step"),
    [
        ("transactions-v2/broker-1/open-0", 4, "$ kforensics lso "),
        ("transactions-v2/broker-1/open-0", 6, "$ kforensics lso "),
        ("transactions-v2/broker-1/open-0", 0, None),
        (
            "transactions-v2/broker-1/open-0",
            7,
            "No action: a group that has committed this offset has missed no record.",
        ),
        ("damaged/batches/flipped-payload-bit-0", 6, "$ kforensics audit --topic flipped-payload-bit "),
        ("damaged/batches/flipped-payload-bit-0", 5, None),
        ("classic-transaction/broker-1/classic-0", 2, "Nothing is written there yet, and a group that has committed"),
        ("classic-transaction/broker-1/classic-0", 30, "If a record with this offset was acknowledged, the log was"),
    ],
)
def test_an_offset_that_is_not_delivered_has_a_next_step(folder: str, offset: int, step: str | None) -> None:
    text = run("explain", "--quiet", "--offset", offset, SAMPLES / folder).text
    assert ("\n  next: " in text) is (step is not None)
    assert step is None or step in text.partition("\n  next: ")[2]


def test_what_is_not_sure_to_be_the_log_end_is_not_called_that() -> None:
    """A copy with a torn end may have had more."""
    text = run("explain", "--quiet", "--offset", 80, SAMPLES / "crash-before-recovery/broker-1/torn-0").text
    assert "the readable part of the log ends at offset 80" in text
    assert "Nothing is written there yet" not in text
