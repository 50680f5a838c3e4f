"""``kforensics dump --isolation read_committed`` and ``--aborted``, against what live consumers received."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.errors import UsageError
from lab.damage import forge
from tests.command import COMMAND, ROOT, SAMPLES, Ended, dump, sentence

COMMITTED = ("--isolation", "read_committed")
HEX = ("--key-format", "hex", "--value-format", "hex")
TRANSACTIONS = SAMPLES / "transactions-v2" / "broker-1"
SEGMENTS = TRANSACTIONS / "segments-0"
DELETED_INTO = SAMPLES / "deletion" / "broker-1" / "delete-records-transactional-0"
PLAIN = SAMPLES / "deletion" / "broker-1" / "retention-size-0"
# Topics that were written to and compacted after the live consumer had read them.
WRITTEN_SINCE = ("crash-while-cleaning", "crash-while-swapping")
# The log start is missing, and no snapshot has the open transactions.
NOT_COVERED = "ghosts/broker-1/restarted-open-in-nothing-0"
# Minimum numbers of partitions and records to compare.
LEAST = (205, 3390)
LEFT_OUT = "that no broker serves"


@dataclass(frozen=True)
class Partition:
    """A replica of a partition in the samples, and what its leader's consumers received."""

    folder: Path
    truth: dict[str, Any]

    @property
    def first_offset(self) -> int:
        """First offset of the local log; a tiered one has earlier segments in remote storage."""
        return min((int(path.stem) for path in self.folder.glob("*.log")), default=0)

    def received(self, isolation: str) -> list[dict[str, Any]]:
        """Return what a consumer received from the first local offset on."""
        return [row for row in self.truth[isolation] if row["offset"] >= self.first_offset]


def _partitions() -> Iterator[Partition]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        if path.parent.name in WRITTEN_SINCE:
            continue
        for topic, partitions in json.loads(path.read_bytes())["topics"].items():
            for number, truth in partitions.items():
                if truth.get("read_committed") is not None:
                    folders = sorted(path.parent.rglob(f"{topic}-{number}"))
                    served = (each for each in folders if _broker(each) in truth["isr"])
                    yield from (Partition(each, truth) for each in served)


def _name(folder: Path) -> str:
    return folder.relative_to(SAMPLES).as_posix()


def _broker(folder: Path) -> int:
    return next(int(part.removeprefix("broker-")) for part in folder.parts if part.startswith("broker-"))


PARTITIONS = tuple(_partitions())


def records(*words: object) -> list[dict[str, Any]]:
    """Return the record rows of a dump."""
    return dump("--format", "ndjson", "--records", *words).rows("records")


def as_received(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in the form of truth.json."""
    names = ("offset", "timestamp", "timestamp_type", "key", "value")
    return [
        {name: row[name] for name in names} | {"headers": [[each["key"], each["value"]] for each in row["headers"]]}
        for row in rows
    ]


def offsets(rows: list[dict[str, Any]]) -> list[int]:
    """Return the offsets of records."""
    return [row["offset"] for row in rows]


def test_records_are_those_that_a_live_consumer_received(capsys: pytest.CaptureFixture[str]) -> None:
    compared = 0
    for one in PARTITIONS:
        ended = dump("--format", "ndjson", "--records", *HEX, *COMMITTED, one.folder)
        assert as_received(ended.rows("records")) == one.received("read_committed"), one.folder
        assert ("upper bound" in ended.err) == (_name(one.folder) == NOT_COVERED), one.folder
        compared += len(ended.rows("records"))
    with capsys.disabled():
        sys.stdout.write(f"as read_committed consumers received: {len(PARTITIONS)} partitions, {compared} records\n")
    assert (len(PARTITIONS) >= LEAST[0], compared >= LEAST[1]) == (True, True)


@pytest.mark.parametrize("scenario", WRITTEN_SINCE)
def test_later_writes_and_compaction_do_not_change_the_other_records(scenario: str) -> None:
    (path,) = (SAMPLES / scenario).glob("truth.json")
    truth = json.loads(path.read_bytes())["topics"]["cleaning"]["0"]
    rows = as_received(records(*HEX, *COMMITTED, SAMPLES / scenario / "broker-1" / "cleaning-0"))
    known = [row for row in rows if row["offset"] < truth["latest"]]
    assert known
    assert all(row in truth["read_committed"] for row in known)


@pytest.mark.slow
def test_aborted_records_are_those_that_only_read_uncommitted_consumers_received() -> None:
    compared = 0
    for one in PARTITIONS:
        committed = offsets(one.received("read_committed"))
        found = as_received(records(*HEX, "--aborted", one.folder))
        # After the last stable offset a transaction may have been aborted; no consumer read below the log start.
        stable, first = one.truth["latest_read_committed"], one.truth["earliest"]
        hidden = [row for row in one.received("read_uncommitted") if row["offset"] not in committed]
        assert [row for row in found if first <= row["offset"] < stable] == [
            row for row in hidden if row["offset"] < stable
        ], one.folder
        assert all(row in hidden for row in found if row["offset"] >= stable), one.folder
        compared += len(found)
    assert compared >= 258


def test_by_default_all_records_are_dumped() -> None:
    words = ("--format", "ndjson", "--records", SEGMENTS)
    assert dump("--isolation", "read_uncommitted", *words) == dump(*words)
    assert len(records(SEGMENTS)) > len(records(*COMMITTED, SEGMENTS)) + len(records("--aborted", SEGMENTS))


@pytest.mark.parametrize("words", [COMMITTED, ("--aborted",)], ids=lambda words: words[0])
def test_every_format_has_the_same_records(words: tuple[str, ...], tmp_path: Path) -> None:
    folder = TRANSACTIONS / "interleaved-0"
    expected = offsets(records(*words, folder))
    assert expected
    common = (*words, "--records", folder)
    document = json.loads(dump("--format", "json", *common).text)
    assert offsets(document["tables"]["records"]) == expected
    rows = csv.DictReader(io.StringIO(dump("--format", "csv", *common).text))
    assert [int(row["offset"]) for row in rows] == expected
    stream = pa.ipc.open_stream(dump("--format", "arrow", *common).out)
    assert stream.read_all()["offset"].to_pylist() == expected
    dump("--format", "parquet", "--output", tmp_path / "r.parquet", *common)
    assert pq.read_table(tmp_path / "r.parquet")["offset"].to_pylist() == expected
    head, *lines = [line for line in dump("--format", "table", *common).lines if line.lstrip()[:1].isdigit()]
    column = len(expected)
    assert len([head, *lines]) == column
    text = dump("--print-data-log", *words, folder).lines
    assert [int(line.split()[2]) for line in text if line.startswith("| offset")] == expected


@pytest.mark.parametrize("choice", ["always", "never"])
def test_kernels_do_not_change_the_selection(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORENSICS_KERNELS", choice)
    for words in (COMMITTED, ("--aborted",)):
        expected = offsets(records(*words, SEGMENTS))
        stream = pa.ipc.open_stream(dump("--records", "--format", "arrow", *words, SEGMENTS).out)
        assert stream.read_all()["offset"].to_pylist() == expected
        text = dump("--print-data-log", *words, SEGMENTS).lines
        assert [int(line.split()[2]) for line in text if line.startswith("| offset")] == expected


@pytest.mark.parametrize("words", [COMMITTED, ("--aborted",)], ids=lambda words: words[0])
@pytest.mark.parametrize("folder", [SEGMENTS, TRANSACTIONS / "open-0", DELETED_INTO], ids=lambda folder: folder.name)
def test_batches_are_those_of_the_records(words: tuple[str, ...], folder: Path) -> None:
    rows = dump("--format", "ndjson", "--batches", *words, folder).rows("batches")
    expected = {(row["path"], row["batch_position"]) for row in records(*words, folder)}
    assert {(row["path"], row["position"]) for row in rows} == expected
    assert len(rows) == len(expected)
    assert dump(*words, folder).text.count("baseOffset") == len(rows)
    assert dump("--print-data-log", *words, folder).text.count("baseOffset") == len(rows)


def test_batches_without_records_are_not_selected() -> None:
    """The cleaner leaves such batches."""
    folder = SAMPLES / "compaction" / "broker-1" / "emptied-0"
    rows = dump("--format", "ndjson", "--batches", folder).rows("batches")
    assert any(row["count"] == 0 and not row["is_control"] for row in rows)
    kept = dump("--format", "ndjson", "--batches", *COMMITTED, folder).rows("batches")
    assert kept == [row for row in rows if row["count"] and not row["is_control"]]


def test_filters_and_limits_apply_to_the_received_records() -> None:
    rows = records(*COMMITTED, SEGMENTS)
    for filters, kept in (
        (("--offset", "9:40"), [row for row in rows if 9 <= row["offset"] < 40]),
        (("--producer-id", "5"), [row for row in rows if row["batch_position"] not in (309, 307, 800, 796)]),
        (("--control",), []),
        (("--key", "-1$"), [row for row in rows if row["key"].endswith("-1")]),
        (("--time", f":{rows[7]['timestamp']}"), [row for row in rows if row["timestamp"] < rows[7]["timestamp"]]),
        (("--limit", "3"), rows[:3]),
        (("--limit", "2", "--offset", "20:"), [row for row in rows if row["offset"] >= 20][:2]),
    ):
        assert records(*filters, *COMMITTED, SEGMENTS) == kept, filters
    text = dump("--print-data-log", "--limit", 3, *COMMITTED, SEGMENTS).lines
    assert len([line for line in text if line.startswith("| offset")]) == 3


def test_payloads_are_formatted_and_redacted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    redaction = ("--redact", "--redact-key-file", tmp_path / "secret")
    rows = records(*redaction, *COMMITTED, SEGMENTS)
    assert offsets(rows) == offsets(records(*COMMITTED, SEGMENTS))
    assert all(row["key"].startswith("redacted:") for row in rows)


def _on(folder: Path, *words: object, **options: Any) -> Ended:
    done = subprocess.run(
        [*COMMAND, *map(str, words)], cwd=folder, capture_output=True, check=False, timeout=60, **options
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode())


def test_a_segment_is_filtered_by_the_transactions_of_its_whole_partition() -> None:
    """A transaction spans the first four segments of this log."""
    common = ("--format", "ndjson", "--records", *COMMITTED)
    rows = dump(*common, SEGMENTS).objects
    for path in sorted(SEGMENTS.glob("*.log")):
        ended = dump(*common, path)
        assert ended.objects == [row for row in rows if row["path"] == str(path)]
        assert ended.err == ""
    second = SEGMENTS / "00000000000000000008.log"
    expected = [row["offset"] for row in rows if row["path"] == str(second)]
    assert expected
    for named in (second.as_uri(), str(second).replace("segments", "segment[s]"), f"{SEGMENTS}//{second.name}"):
        ended = dump(*common, named)
        assert (offsets(ended.objects), ended.err) == (expected, ""), named
    for folder, named in ((SEGMENTS, second.name), (SEGMENTS, f"./{second.name}"), (TRANSACTIONS, "segments-0")):
        ended = _on(folder, *common, "--offset", "8:16", named)
        assert (offsets(ended.objects), ended.err) == (expected, ""), named


def test_files_of_several_partitions_are_filtered_by_their_own_transactions() -> None:
    """In any order; the producer ids are the same in all of them."""
    first, second = SEGMENTS, SAMPLES / "transactions-v1" / "broker-1" / "open-0"
    files = [*first.glob("*.log"), *second.glob("*.log")]
    files = files[::2] + files[1::2]
    assert [row["offset"] for row in records(*COMMITTED, *files)] == [
        row["offset"] for path in files for row in records(*COMMITTED, path)
    ]


def _copy(source: Path, folder: Path) -> Path:
    return Path(shutil.copytree(source, folder / source.name))


@pytest.mark.parametrize(
    "name", ["00000000000000000016.log", "evidence.bin", "evidence.log", "x/00000000000000000016.log"]
)
def test_a_stray_file_is_filtered_by_itself_and_that_is_reported(name: str, tmp_path: Path) -> None:
    """Here the first transaction of producer 5 has no marker, so the records after its first one are hidden."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    shutil.copy(SEGMENTS / "00000000000000000016.log", path)
    ended = dump("--format", "ndjson", "--records", *COMMITTED, path)
    assert ended.objects == []
    assert [line.partition(": ")[2] for line in ended.err.splitlines()] == [
        "evaluated on its own, because no other segment of its log is known",
        "log start missing and no producer snapshot; last stable offset 16 is an upper bound",
    ]
    assert (ended.err.count(f"{path}: "), ended.code) == (2, 0)
    assert offsets(records("--aborted", path)) == [22]


def test_a_folder_of_segments_is_a_partition_whatever_its_name(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SEGMENTS, tmp_path / "evidence"))
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert offsets(ended.objects) == offsets(records(*COMMITTED, SEGMENTS))
    assert ended.err == ""


def test_the_snapshot_at_the_first_segment_replaces_a_missing_log_start(tmp_path: Path) -> None:
    """The snapshot has the transaction of producer 5, which is open from offset 0."""
    folder = _copy(SEGMENTS, tmp_path)
    for offset in (0, 8):
        (folder / f"{offset:020}.log").unlink()
    expected = [offset for offset in offsets(records(*COMMITTED, SEGMENTS)) if offset >= 16]
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert (offsets(ended.objects), ended.err) == (expected, "")
    # Without the marker it stays open, and the last stable offset is below all remaining records.
    for offset in (24, 33, 41, 49, 57):
        (folder / f"{offset:020}.log").unlink()
    assert records(*COMMITTED, folder) == []
    # Producer 5 writes to the remaining log, too. A log that starts later does not show that it blocks the rest.
    tail = forge.plain(16) + forge.plain(19)
    (folder / "00000000000000000016.log").write_bytes(tail)
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert (ended.objects, ended.err) == ([], "")
    (folder / "00000000000000000016.snapshot").unlink()
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert offsets(ended.objects) == [16, 17, 18, 19, 20, 21]
    assert ended.err == (
        f"{folder}: log start missing and no producer snapshot; last stable offset 22 is an upper bound\n"
    )


@pytest.mark.parametrize("spoilt", ["crc", "fifo", "before"])
def test_a_snapshot_that_no_broker_loads_does_not_replace_the_log_start(spoilt: str, tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000016.log").write_bytes(forge.plain(16))
    snapshot = folder / "00000000000000000016.snapshot"
    content = (SEGMENTS / snapshot.name).read_bytes()
    if spoilt == "crc":
        snapshot.write_bytes(forge.flip(content, 20))
    elif spoilt == "fifo":
        os.mkfifo(snapshot)
    else:
        snapshot.with_name("00000000000000000015.snapshot").write_bytes(content)
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder / "00000000000000000016.log")
    assert offsets(ended.objects) == [16, 17, 18]
    assert "upper bound" in ended.err


def test_a_snapshot_followed_by_the_rest_of_an_older_one_replaces_the_log_start(tmp_path: Path) -> None:
    """A broker overwrites a file of the same name without truncating it."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000016.log").write_bytes(forge.plain(16))
    content = (SEGMENTS / "00000000000000000016.snapshot").read_bytes()
    (folder / "00000000000000000016.snapshot").write_bytes(content + content[-20:])
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder / "00000000000000000016.log")
    assert (ended.objects, ended.err) == ([], "")


def test_a_snapshot_inside_the_compacted_offsets_replaces_the_log_start(tmp_path: Path) -> None:
    """The cleaner may have removed the first batches of the first segment."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000010.log").write_bytes(forge.plain(20))
    shutil.copy(SEGMENTS / "00000000000000000016.snapshot", folder)
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert (ended.objects, ended.err) == ([], "")


def test_files_that_no_broker_serves_are_left_out_unless_they_are_named() -> None:
    ended = dump("--format", "ndjson", "--records", *COMMITTED, PLAIN)
    assert offsets(ended.objects) == list(range(6, 24))
    assert ended.err.startswith(
        "left out: a file that no broker serves (.deleted, .cleaned, .swap); name a file to read it"
    )
    ended = dump("--format", "ndjson", "--records", *COMMITTED, PLAIN, PLAIN / "00000000000000000000.log.deleted")
    assert offsets(ended.objects) == list(range(24))
    assert LEFT_OUT not in ended.err
    assert "00000000000000000000.log.deleted: evaluated on its own" in ended.err


def test_a_folder_marked_for_deletion_does_not_use_the_checkpoint_of_its_successor(tmp_path: Path) -> None:
    (source,) = (SAMPLES / "deletion" / "broker-1").glob("topic-recreated-0.*-delete")
    _copy(source, tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic-recreated 0 20\n")
    assert offsets(records(*COMMITTED, tmp_path)) == list(range(24))


def test_the_log_starts_at_the_offset_of_the_checkpoint(tmp_path: Path) -> None:
    folder = _copy(PLAIN, tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nretention-size 0 11\n")
    assert offsets(records(*COMMITTED, folder)) == list(range(11, 24))
    assert offsets(records(*COMMITTED, folder / "00000000000000000006.log")) == [11]
    checkpoint.write_text("0\nmany\n")
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert offsets(ended.objects) == list(range(6, 24))
    assert "log-start-offset-checkpoint is ignored: " in ended.err
    checkpoint.unlink()
    os.mkfifo(checkpoint)
    assert "log-start-offset-checkpoint is ignored: cannot read" in dump(*COMMITTED, folder).err


def test_unreadable_bytes_may_contain_markers_and_that_is_reported(tmp_path: Path) -> None:
    folder = _copy(SEGMENTS, tmp_path)
    path = folder / "00000000000000000024.log"
    content = path.read_bytes()
    path.write_bytes(content[:990] + bytes([255] * 30) + content[1020:])  # the marker that commits offset 0, at 32
    words = ("--format", "ndjson", "--records", *COMMITTED, folder / "00000000000000000000.log")
    ended = dump(*words)
    assert offsets(ended.objects) == [2]  # the next marker of producer 5, which aborts, seems to end both transactions
    assert ended.err == f"{folder}: a range of 00000000000000000024.log cannot be read; markers may be missing\n"
    path.unlink()
    os.mkfifo(path)
    assert f"{path}: it is a pipe" in dump(*words).err
    assert dump(*words).code == 0


def test_a_marker_in_a_batch_that_cannot_be_decompressed_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    control = forge.batch(3, b"no gzip", count=1, attributes=0x31, producer=(1, 0, -1))
    path = folder / "00000000000000000000.log"
    path.write_bytes(forge.batch(0, forge.three(0), attributes=0x10, producer=(1, 0, 0)) + control + forge.plain(4))
    ended = dump("--quiet", *COMMITTED, folder)
    assert "baseOffset" not in ended.text
    assert ended.err == f"{folder}: a range of {path.name} cannot be read; markers may be missing\n"


def test_zeros_after_a_segment_contain_no_markers(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(forge.plain(0) + bytes(100))
    (folder / "00000000000000000003.log").write_bytes(forge.plain(3))
    assert dump("--quiet", *COMMITTED, folder).err == ""
    (folder / "00000000000000000000.log").write_bytes(forge.plain(0)[:-1])
    assert "markers may be missing" in dump("--quiet", *COMMITTED, folder).err


def test_a_batch_without_records_after_the_log_start_has_no_line(tmp_path: Path) -> None:
    """The cleaner removed the last records of the batch, and DeleteRecords the first."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    path = folder / "00000000000000000000.log"
    path.write_bytes(forge.batch(0, forge.three(0), last_delta=9) + forge.plain(10))
    lines = dump("--print-data-log", *COMMITTED, path).lines
    assert [line.split()[1] for line in lines if line.startswith("baseOffset")] == ["10"]
    assert len([line for line in lines if line.startswith("| offset")]) == 3


def test_a_torn_tail_and_zeros_contain_no_markers() -> None:
    for name in ("torn-0", "preallocated-0"):
        ended = dump("--quiet", *COMMITTED, SAMPLES / "crash-before-recovery" / "broker-1" / name)
        assert (ended.err, ended.code) == ("", 0), name


def test_kraft_logs_have_no_markers_and_their_snapshots_are_filtered_by_themselves() -> None:
    folder = SAMPLES / "cluster-metadata" / "broker-1" / "__cluster_metadata-0"
    for path in (folder / "00000000000000000090.log", folder / "00000000000000000105-0000000002.checkpoint"):
        ended = dump("--format", "ndjson", "--records", *COMMITTED, path)
        assert ended.objects == records("--no-control", path)
        assert ended.err == ""


def test_a_usage_error_is_one_sentence() -> None:
    assert sentence(dump("--isolation", "serializable", SEGMENTS)) == (
        "kforensics: --isolation 'serializable' is not one of read_uncommitted, read_committed"
    )
    assert sentence(dump("--aborted", *COMMITTED, SEGMENTS)) == (
        "kforensics: --aborted shows the records that --isolation read_committed hides; leave out one of the two"
    )
    assert dump("--aborted", "--isolation", "READ_UNCOMMITTED", SEGMENTS).code == 0
    for words in (COMMITTED, ("--aborted",)):
        assert f"leave out {words[0]}" in sentence(dump("--style", "4.3", *words, SEGMENTS))
        index = SEGMENTS / "00000000000000000000.txnindex"
        assert "none of these files has any; leave out the filters" in sentence(dump(*words, index))
    with pytest.raises(UsageError, match=r"^isolation 'dirty' is not one of"):
        kforensics.dump(SEGMENTS, isolation="dirty")
    with pytest.raises(UsageError, match="leave out one of the two"):
        kforensics.dump(SEGMENTS, isolation="read_committed", aborted=True)


@pytest.mark.parametrize(
    ("words", "options"), [(COMMITTED, {"isolation": "read_committed"}), (("--aborted",), {"aborted": True})], ids=str
)
def test_the_python_function_returns_the_same(words: tuple[str, ...], options: Any) -> None:
    for folder in (SEGMENTS, DELETED_INTO, PLAIN):
        found = kforensics.dump(folder, **options)
        assert found.records["offset"].to_pylist() == offsets(records(*words, folder))
        batches = dump("--format", "ndjson", "--batches", *words, folder).rows("batches")
        assert found.batches["base_offset"].to_pylist() == [row["base_offset"] for row in batches]
        assert found.notes == dump(*words, folder).err.splitlines()
    for name in ("index_entries", "producer_snapshots"):
        assert kforensics.dump(PLAIN, **options).table(name).equals(kforensics.dump(PLAIN).table(name)), name


def test_the_python_function_keeps_notes(tmp_path: Path) -> None:
    shutil.copy(SEGMENTS / "00000000000000000016.log", tmp_path)
    found = kforensics.dump(tmp_path, isolation="read_committed")
    assert found.notes == []
    assert (found.records.num_rows, found.batches.num_rows) == (0, 0)
    assert [note.partition(": ")[2].split(",")[0] for note in found.notes] == [
        "evaluated on its own",
        "log start missing and no producer snapshot; last stable offset 16 is an upper bound",
    ]


@pytest.mark.parametrize("words", [["--print-data-log"], ["--format", "ndjson", "--records"]], ids=" ".join)
def test_a_pipe_that_closes_ends_quietly(words: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(b"".join(forge.plain(3 * number) for number in range(20000)))
    command = [*COMMAND, *words, *COMMITTED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stderr
        assert running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


def test_help_has_both_options() -> None:
    text = " ".join(_on(ROOT, "--help", env={**os.environ, "COLUMNS": "200"}).text.split())
    assert "--isolation" in text
    assert "read_committed for what such a consumer receives" in text
    assert "--aborted" in text


def test_damage_is_reported_with_either_option(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(forge.plain(0) + bytes([255] * 40) + forge.plain(3))
    for words in (COMMITTED, ("--aborted",)):
        ended = dump(*words, "--format", "ndjson", "--damage", path)
        assert ([row["reason"] for row in ended.objects], ended.code) == (["length"], 1)
        assert "markers may be missing" in ended.err
    assert offsets(records(*COMMITTED, path)) == [0, 1, 2, 3, 4, 5]
