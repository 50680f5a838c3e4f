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
# Written to, and cleaned, after the live consumer had read them.
WRITTEN_SINCE = ("crash-while-cleaning", "crash-while-swapping")
# A broker that had forgotten an open transaction showed its consumers what nobody had decided.
FORGOT = "state-lost-after-stop/broker-1/open-0"
# Its head is gone, and no snapshot tells what was open.
UNTOLD = "ghosts/broker-1/restarted-open-in-nothing-0"
# Partitions and records that are compared at least.
LEAST = (205, 3390)
LEFT_OUT = "no consumer is served from"


@dataclass(frozen=True)
class Partition:
    """A replica of a partition in the samples, and what its leader's consumers received."""

    folder: Path
    truth: dict[str, Any]

    @property
    def first_offset(self) -> int:
        """Where the log on hand begins: of a tiered one the rest is elsewhere."""
        return min((int(path.stem) for path in self.folder.glob("*.log")), default=0)

    def received(self, isolation: str) -> list[dict[str, Any]]:
        """Return what a consumer received of what is on hand."""
        return [row for row in self.truth[isolation] if row["offset"] >= self.first_offset]


def _partitions() -> Iterator[Partition]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        if path.parent.name in WRITTEN_SINCE:
            continue
        for topic, partitions in json.loads(path.read_bytes())["topics"].items():
            for number, truth in partitions.items():
                if truth.get("read_committed") is not None:
                    folders = sorted(path.parent.rglob(f"{topic}-{number}"))
                    served = (each for each in folders if _broker(each) in truth["isr"] and _name(each) != FORGOT)
                    yield from (Partition(each, truth) for each in served)


def _name(folder: Path) -> str:
    return folder.relative_to(SAMPLES).as_posix()


def _broker(folder: Path) -> int:
    return next(int(part.removeprefix("broker-")) for part in folder.parts if part.startswith("broker-"))


PARTITIONS = tuple(_partitions())


def records(*words: object) -> list[dict[str, Any]]:
    """Return the rows of records that a dump gives."""
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
        assert ("upper bound" in ended.err) == (_name(one.folder) == UNTOLD), one.folder
        compared += len(ended.rows("records"))
    with capsys.disabled():
        sys.stdout.write(f"as read_committed consumers received: {len(PARTITIONS)} partitions, {compared} records\n")
    assert (len(PARTITIONS) >= LEAST[0], compared >= LEAST[1]) == (True, True)


@pytest.mark.parametrize("scenario", WRITTEN_SINCE)
def test_what_was_written_and_cleaned_since_changes_nothing_of_the_rest(scenario: str) -> None:
    (path,) = (SAMPLES / scenario).glob("truth.json")
    truth = json.loads(path.read_bytes())["topics"]["cleaning"]["0"]
    rows = as_received(records(*HEX, *COMMITTED, SAMPLES / scenario / "broker-1" / "cleaning-0"))
    known = [row for row in rows if row["offset"] < truth["latest"]]
    assert known
    assert all(row in truth["read_committed"] for row in known)


def test_aborted_records_are_those_that_only_read_uncommitted_consumers_received() -> None:
    compared = 0
    for one in PARTITIONS:
        committed = offsets(one.received("read_committed"))
        found = as_received(records(*HEX, "--aborted", one.folder))
        # Behind the last stable offset a transaction may have been aborted, and below the log start nobody looked.
        stable, first = one.truth["latest_read_committed"], one.truth["earliest"]
        hidden = [row for row in one.received("read_uncommitted") if row["offset"] not in committed]
        assert [row for row in found if first <= row["offset"] < stable] == [
            row for row in hidden if row["offset"] < stable
        ], one.folder
        assert all(row in hidden for row in found if row["offset"] >= stable), one.folder
        compared += len(found)
    assert compared >= 258


def test_by_default_everything_is_there() -> None:
    words = ("--format", "ndjson", "--records", SEGMENTS)
    assert dump("--isolation", "read_uncommitted", *words) == dump(*words)
    assert len(records(SEGMENTS)) > len(records(*COMMITTED, SEGMENTS)) + len(records("--aborted", SEGMENTS))


@pytest.mark.parametrize("words", [COMMITTED, ("--aborted",)], ids=lambda words: words[0])
def test_every_format_gives_the_same_records(words: tuple[str, ...], tmp_path: Path) -> None:
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
def test_kernels_do_not_change_what_is_wanted(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_batches_without_a_record_are_received_by_nobody() -> None:
    """The cleaner leaves such batches."""
    folder = SAMPLES / "compaction" / "broker-1" / "emptied-0"
    rows = dump("--format", "ndjson", "--batches", folder).rows("batches")
    assert any(row["count"] == 0 and not row["is_control"] for row in rows)
    kept = dump("--format", "ndjson", "--batches", *COMMITTED, folder).rows("batches")
    assert kept == [row for row in rows if row["count"] and not row["is_control"]]


def test_filters_and_limits_choose_among_what_is_received() -> None:
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


def test_payloads_are_formatted_and_redacted_all_the_same(tmp_path: Path) -> None:
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


def test_a_segment_is_judged_by_all_of_its_partition_however_it_is_named() -> None:
    """A transaction runs through the first four segments of this log."""
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


def test_files_of_several_partitions_are_each_judged_by_their_own() -> None:
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
def test_a_stray_file_is_judged_by_itself_and_that_is_said(name: str, tmp_path: Path) -> None:
    """Here the first transaction of producer 5 has no marker, so that nothing behind its first record can be read."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    shutil.copy(SEGMENTS / "00000000000000000016.log", path)
    ended = dump("--format", "ndjson", "--records", *COMMITTED, path)
    assert ended.objects == []
    assert [line.partition(": ")[2] for line in ended.err.splitlines()] == [
        "judged by itself alone, for no other segment of its log is known",
        "the head is missing, and no snapshot stands for it; last stable offset 16 is an upper bound",
    ]
    assert (ended.err.count(f"{path}: "), ended.code) == (2, 0)
    assert offsets(records("--aborted", path)) == [22]


def test_a_folder_of_segments_is_a_partition_whatever_its_name(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(SEGMENTS, tmp_path / "evidence"))
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert offsets(ended.objects) == offsets(records(*COMMITTED, SEGMENTS))
    assert ended.err == ""


def test_without_a_head_the_snapshot_at_the_first_segment_stands_for_it(tmp_path: Path) -> None:
    """It knows of the transaction of producer 5 which is open from offset 0 on."""
    folder = _copy(SEGMENTS, tmp_path)
    for offset in (0, 8):
        (folder / f"{offset:020}.log").unlink()
    expected = [offset for offset in offsets(records(*COMMITTED, SEGMENTS)) if offset >= 16]
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert (offsets(ended.objects), ended.err) == (expected, "")
    # Without the marker it is still open, and the last stable offset stands before all that is left.
    for offset in (24, 33, 41, 49, 57):
        (folder / f"{offset:020}.log").unlink()
    assert records(*COMMITTED, folder) == []
    # Producer 5 writes in what is left too; a log that begins behind that does not tell that it holds back the rest.
    tail = forge.plain(16) + forge.plain(19)
    (folder / "00000000000000000016.log").write_bytes(tail)
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert (ended.objects, ended.err) == ([], "")
    (folder / "00000000000000000016.snapshot").unlink()
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert offsets(ended.objects) == [16, 17, 18, 19, 20, 21]
    assert ended.err == (
        f"{folder}: the head is missing, and no snapshot stands for it; last stable offset 22 is an upper bound\n"
    )


@pytest.mark.parametrize("spoilt", ["crc", "fifo", "before"])
def test_a_snapshot_that_no_broker_would_load_does_not_stand_for_the_head(spoilt: str, tmp_path: Path) -> None:
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


def test_a_snapshot_with_the_rest_of_an_older_one_behind_it_stands_for_the_head(tmp_path: Path) -> None:
    """A broker writes over a file of the same name without cutting it off."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000016.log").write_bytes(forge.plain(16))
    content = (SEGMENTS / "00000000000000000016.snapshot").read_bytes()
    (folder / "00000000000000000016.snapshot").write_bytes(content + content[-20:])
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder / "00000000000000000016.log")
    assert (ended.objects, ended.err) == ([], "")


def test_a_snapshot_inside_what_was_cleaned_away_stands_for_the_head(tmp_path: Path) -> None:
    """Of the first segment the cleaner may have taken the first batches."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000010.log").write_bytes(forge.plain(20))
    shutil.copy(SEGMENTS / "00000000000000000016.snapshot", folder)
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert (ended.objects, ended.err) == ([], "")


def test_what_a_broker_does_not_serve_is_left_out_unless_it_is_named() -> None:
    ended = dump("--format", "ndjson", "--records", *COMMITTED, PLAIN)
    assert offsets(ended.objects) == list(range(6, 24))
    assert ended.err.startswith("left out: a file no consumer is served from")
    ended = dump("--format", "ndjson", "--records", *COMMITTED, PLAIN, PLAIN / "00000000000000000000.log.deleted")
    assert offsets(ended.objects) == list(range(24))
    assert LEFT_OUT not in ended.err
    assert "00000000000000000000.log.deleted: judged by itself alone" in ended.err


def test_a_folder_marked_for_deletion_is_judged_without_the_checkpoint_of_its_successor(tmp_path: Path) -> None:
    (source,) = (SAMPLES / "deletion" / "broker-1").glob("topic-recreated-0.*-delete")
    _copy(source, tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntopic-recreated 0 20\n")
    assert offsets(records(*COMMITTED, tmp_path)) == list(range(24))


def test_the_log_starts_where_the_checkpoint_says(tmp_path: Path) -> None:
    folder = _copy(PLAIN, tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nretention-size 0 11\n")
    assert offsets(records(*COMMITTED, folder)) == list(range(11, 24))
    assert offsets(records(*COMMITTED, folder / "00000000000000000006.log")) == [11]
    checkpoint.write_text("0\nmany\n")
    ended = dump("--format", "ndjson", "--records", *COMMITTED, folder)
    assert offsets(ended.objects) == list(range(6, 24))
    assert "log-start-offset-checkpoint is left out: " in ended.err
    checkpoint.unlink()
    os.mkfifo(checkpoint)
    assert "log-start-offset-checkpoint is left out: cannot read" in dump(*COMMITTED, folder).err


def test_what_cannot_be_read_may_hold_markers_and_that_is_said(tmp_path: Path) -> None:
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


def test_zeros_behind_a_segment_hold_no_markers(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(forge.plain(0) + bytes(100))
    (folder / "00000000000000000003.log").write_bytes(forge.plain(3))
    assert dump("--quiet", *COMMITTED, folder).err == ""
    (folder / "00000000000000000000.log").write_bytes(forge.plain(0)[:-1])
    assert "markers may be missing" in dump("--quiet", *COMMITTED, folder).err


def test_a_batch_with_no_record_behind_the_log_start_has_no_line(tmp_path: Path) -> None:
    """The cleaner has taken the last records of the batch, and DeleteRecords the first."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    path = folder / "00000000000000000000.log"
    path.write_bytes(forge.batch(0, forge.three(0), last_delta=9) + forge.plain(10))
    lines = dump("--print-data-log", *COMMITTED, path).lines
    assert [line.split()[1] for line in lines if line.startswith("baseOffset")] == ["10"]
    assert len([line for line in lines if line.startswith("| offset")]) == 3


def test_a_torn_tail_and_zeros_hold_no_markers() -> None:
    for name in ("torn-0", "preallocated-0"):
        ended = dump("--quiet", *COMMITTED, SAMPLES / "crash-before-recovery" / "broker-1" / name)
        assert (ended.err, ended.code) == ("", 0), name


def test_logs_of_kraft_have_no_markers_and_their_snapshots_are_judged_by_themselves() -> None:
    folder = SAMPLES / "cluster-metadata" / "broker-1" / "__cluster_metadata-0"
    for path in (folder / "00000000000000000090.log", folder / "00000000000000000105-0000000002.checkpoint"):
        ended = dump("--format", "ndjson", "--records", *COMMITTED, path)
        assert ended.objects == records("--no-control", path)
        assert ended.err == ""


def test_what_makes_no_sense_is_a_sentence() -> None:
    assert sentence(dump("--isolation", "serializable", SEGMENTS)) == (
        "kforensics: --isolation 'serializable' is none of read_uncommitted, read_committed"
    )
    assert sentence(dump("--aborted", *COMMITTED, SEGMENTS)) == (
        "kforensics: --aborted shows what --isolation read_committed hides; leave one of them out"
    )
    assert dump("--aborted", "--isolation", "READ_UNCOMMITTED", SEGMENTS).code == 0
    for words in (COMMITTED, ("--aborted",)):
        assert f"leave out {words[0]}" in sentence(dump("--style", "4.3", *words, SEGMENTS))
        index = SEGMENTS / "00000000000000000000.txnindex"
        assert "none of these files holds any" in sentence(dump(*words, index))
    with pytest.raises(UsageError, match="--isolation 'dirty' is none of"):
        kforensics.dump(SEGMENTS, isolation="dirty")
    with pytest.raises(UsageError, match="leave one of them out"):
        kforensics.dump(SEGMENTS, isolation="read_committed", aborted=True)


@pytest.mark.parametrize(
    ("words", "options"), [(COMMITTED, {"isolation": "read_committed"}), (("--aborted",), {"aborted": True})], ids=str
)
def test_the_twin_in_the_library_gives_the_same(words: tuple[str, ...], options: Any) -> None:
    for folder in (SEGMENTS, DELETED_INTO, PLAIN):
        found = kforensics.dump(folder, **options)
        assert found.records["offset"].to_pylist() == offsets(records(*words, folder))
        batches = dump("--format", "ndjson", "--batches", *words, folder).rows("batches")
        assert found.batches["base_offset"].to_pylist() == [row["base_offset"] for row in batches]
        assert found.notes == dump(*words, folder).err.splitlines()
    for name in ("index_entries", "producer_snapshots"):
        assert kforensics.dump(PLAIN, **options).table(name).equals(kforensics.dump(PLAIN).table(name)), name


def test_the_twin_keeps_its_notes(tmp_path: Path) -> None:
    shutil.copy(SEGMENTS / "00000000000000000016.log", tmp_path)
    found = kforensics.dump(tmp_path, isolation="read_committed")
    assert found.notes == []
    assert (found.records.num_rows, found.batches.num_rows) == (0, 0)
    assert [note.partition(": ")[2].split(",")[0] for note in found.notes] == [
        "judged by itself alone",
        "the head is missing",
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


def test_help_names_both() -> None:
    text = " ".join(_on(ROOT, "--help", env={**os.environ, "COLUMNS": "200"}).text.split())
    assert "--isolation" in text
    assert "read_committed: what such a consumer receives" in text
    assert "--aborted" in text


def test_damage_is_told_of_with_either(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(forge.plain(0) + bytes([255] * 40) + forge.plain(3))
    for words in (COMMITTED, ("--aborted",)):
        ended = dump(*words, "--format", "ndjson", "--damage", path)
        assert ([row["reason"] for row in ended.objects], ended.code) == (["length"], 1)
        assert "markers may be missing" in ended.err
    assert offsets(records(*COMMITTED, path)) == [0, 1, 2, 3, 4, 5]
