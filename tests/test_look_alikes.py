"""Situations on the files of real brokers: each is recognized, and what looks nearly the same raises no alarm."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.command import SAMPLES, dump, run
from tests.forensics.moved_by_hand import move_by_hand
from tests.test_audit_samples import DAY, MINUTE, truth_of

BROKER = SAMPLES / "transactions-v2" / "broker-1"
FORGED = [f"forged-markers-v{version}" for version in range(3)]
HOUR = 60 * MINUTE


def taken(scenario: str) -> int:
    """Return when the broker was asked, just before it was stopped."""
    return int(datetime.fromisoformat(truth_of(scenario)["taken"]).timestamp() * 1000)


def found(*paths: Path, as_of_ms: int, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of the findings of an audit."""
    result = kforensics.audit([str(path) for path in paths], as_of=as_of_ms, **options)
    rows: list[dict[str, Any]] = result.findings.to_pylist()
    return rows


def alarming(rows: Sequence[dict[str, Any]], topic: str | None = None) -> set[str]:
    """Return the codes at warning or worse, in one topic or in all."""
    return {row["code"] for row in rows if row["severity"] != "info" and topic in {None, row["topic"]}}


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """A copy of the log directory of a real broker."""
    return Path(shutil.copytree(BROKER, tmp_path / "broker-1"))


def test_partitions_that_never_had_a_record_change_nothing(broker: Path) -> None:
    """Most of the fifty partitions of each internal topic have none in a small cluster."""
    as_of_ms = taken("transactions-v2") + HOUR
    before = kforensics.audit(str(broker), as_of=as_of_ms)
    for name in ("__transaction_state-40", "__consumer_offsets-33", "never-written-7"):
        (broker / name).mkdir()
        (broker / name / f"{0:020}.log").touch()
    after = kforensics.audit(str(broker), as_of=as_of_ms)
    known = {(row["topic"], row["partition"]) for row in before.partitions.to_pylist()}
    rows = [row for row in after.findings.to_pylist() if (row["topic"], row["partition"]) in known]
    assert rows == before.findings.to_pylist()
    for table in ("transactions", "transactional_ids", "committed_offsets", "group_offsets"):
        assert after.tables[table].to_pylist() == before.tables[table].to_pylist(), table
        assert after.tables[table].num_rows
    assert after.partitions.num_rows == before.partitions.num_rows + 3


@pytest.mark.parametrize("scenario", FORGED)
@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("aborted", "ABORT, the data at offsets 6 to 7 is lost to read_committed consumers"),
        ("committed", "COMMIT, the data at offsets 6 to 7 is visible although it was aborted"),
    ],
)
def test_explain_says_which_half_of_a_split_transaction_was_lost(name: str, half: str, scenario: str) -> None:
    """The other half, and the transactions before and after it, are as decided."""
    lines = run("explain", "--transactional-id", f"{name}-app", SAMPLES / scenario).lines
    assert [line.strip() for line in lines if "contrary" in line] == [f"contrary: {name}-0 (offset 8: {half})"]
    assert [line.strip() for line in lines if "(offset 8)" in line] == [f"marked: {name}-1 (offset 8)"]


@pytest.mark.parametrize("scenario", FORGED)
def test_a_late_write_hangs_and_an_open_transaction_beside_it_does_not(scenario: str) -> None:
    """One is a minute old, as is the other, whose coordinator waits for it for an hour."""
    rows = found(SAMPLES / scenario, as_of_ms=taken(scenario) + MINUTE)
    (late,) = (row for row in rows if row["code"] == "txn-hanging")
    assert (late["topic"], late["severity"], late["exactness"]) == ("late", "critical", "exact")
    assert {row["code"] for row in rows if row["topic"] == "patient"} == {"txn-open-at-end"}


@pytest.mark.parametrize("scenario", FORGED)
def test_a_transaction_of_milliseconds_with_records_of_another_year_is_not_long(scenario: str, tmp_path: Path) -> None:
    as_of_ms = taken(scenario) + MINUTE
    assert {row["code"] for row in found(SAMPLES / scenario, as_of_ms=as_of_ms) if row["topic"] == "backdated"} == set()
    alone = shutil.copytree(SAMPLES / scenario / "broker-1" / "backdated-0", tmp_path / "backdated-0")
    rows = found(Path(alone), as_of_ms=as_of_ms)
    assert {(row["code"], row["severity"]) for row in rows} == {("txn-duration-excessive", "info")}


@pytest.mark.parametrize("scenario", FORGED)
@pytest.mark.parametrize(("minutes", "is_late"), [(16, False), (59, False), (81, True)])
def test_a_transaction_alarms_after_its_own_timeout(minutes: int, is_late: bool, scenario: str) -> None:
    rows = found(SAMPLES / scenario, as_of_ms=taken(scenario) + minutes * MINUTE)
    assert ("txn-late" in alarming(rows, "patient")) is is_late


def test_timestamps_are_of_the_future_if_they_are_later_than_the_copy(broker: Path) -> None:
    """A copy cannot be older than what is in it, whatever time an evaluation is for."""
    folder, first = broker / "committed-0", taken("transactions-v2") - DAY
    for as_of_ms in (0, first, taken("transactions-v2") + DAY):
        assert "ts-future" not in {row["code"] for row in found(folder, as_of_ms=as_of_ms)}
    for path in (*broker.iterdir(), *folder.iterdir()):
        os.utime(path, ns=(first * 1_000_000,) * 2)
    assert "ts-future" in alarming(found(folder, as_of_ms=taken("transactions-v2") + DAY))


@pytest.mark.parametrize("name", ["copy-of-the-log.bin", "00000000000000000000.log"])
@pytest.mark.parametrize("bad", [b"\xff" * 7, b"a line of text\n"])
def test_batches_after_bad_bytes_are_found_and_what_is_no_log_has_none(name: str, bad: bytes, tmp_path: Path) -> None:
    (log,) = (BROKER / "committed-0").glob("*.log")
    strange = tmp_path / name
    strange.write_bytes(bad + log.read_bytes())
    ended = dump(strange)
    batches = sum(line.startswith("baseOffset") for line in dump(log).lines)
    assert sum(line.startswith("baseOffset") for line in ended.lines) == batches > 2
    assert (ended.code, f"bytes 0x0 to {len(bad):#x}" in ended.err) == (1, True)
    sound = tmp_path / "sound" / name
    sound.parent.mkdir()
    sound.write_bytes(log.read_bytes())
    assert (dump(sound).code, dump(sound).err) == (0, "")


@pytest.mark.parametrize("kind", ["index", "timeindex", "snapshot", "metadata"])
def test_files_of_a_broker_that_are_no_logs_have_no_batches(kind: str, tmp_path: Path) -> None:
    """They are full of small numbers and zeros, as batches are."""
    source = max((BROKER / "segments-0").glob(f"*.{kind}"), key=lambda path: path.stat().st_size)
    (tmp_path / "unknown.bin").write_bytes(source.read_bytes())
    assert not [line for line in dump(tmp_path).lines if line.startswith("baseOffset")]


def test_a_last_byte_equal_to_the_next_first_one_is_damage_only_where_it_is_missing(broker: Path) -> None:
    """In real logs most batches end with a zero, and begin with one; here no byte is missing."""
    as_of_ms, equal = taken("transactions-v2") + MINUTE, 0
    for log in broker.glob("*/*.log"):
        data = log.read_bytes()
        batches = [row for row in walk(BytesSource(data)) if isinstance(row, Batch)]
        equal += sum(data[row.position - 1] == data[row.position] for row in batches[1:])
    assert equal > 100
    assert not [row["code"] for row in found(broker, as_of_ms=as_of_ms) if row["code"].startswith("batch-")]
    (log,) = (broker / "committed-0").glob("*.log")
    data, second = log.read_bytes(), [row for row in walk(BytesSource(log.read_bytes())) if isinstance(row, Batch)][1]
    log.write_bytes(data[: second.position - 1] + data[second.position :])
    assert "batch-truncated" in alarming(found(broker, as_of_ms=as_of_ms), "committed")


def newly_created(folder: Path) -> None:
    """Leave what a broker writes when it creates a partition."""
    for path in folder.iterdir():
        if path.name != "partition.metadata":
            path.unlink()


def without_logs(folder: Path) -> None:
    """Delete the ``.log`` files."""
    for path in folder.glob("*.log"):
        path.unlink()


@pytest.mark.parametrize(("change", "codes"), [(without_logs, {"log-missing"}), (newly_created, set())])
def test_logs_that_are_gone_and_a_partition_that_has_just_been_created(
    change: Callable[[Path], None], codes: set[str], broker: Path
) -> None:
    """Next to healthy partitions of the same broker; a new partition is not in its checkpoints yet."""
    change(broker / "committed-0")
    if not codes:
        for checkpoint in (path for path in broker.glob("*-checkpoint") if path.stat().st_size):
            version, _, *lines = checkpoint.read_text().splitlines()
            lines = [line for line in lines if not line.startswith("committed ")]
            checkpoint.write_text("\n".join([version, str(len(lines)), *lines]) + "\n")
    rows = found(broker, as_of_ms=taken("transactions-v2") + MINUTE)
    assert alarming(rows, "committed") == codes


@pytest.mark.parametrize(("stopped_ms", "severity"), [(0, "info"), (DAY, "warning")], ids=["stopped", "truncated"])
def test_a_replica_of_a_broker_that_was_stopped_before_the_others(
    stopped_ms: int, severity: str, tmp_path: Path
) -> None:
    """It ends where it was stopped, below their high watermark; a day later it should have had everything."""
    cluster = Path(shutil.copytree(SAMPLES / "consume-transform-produce", tmp_path / "cluster"))
    broker = cluster / "broker-2"
    (log,) = (broker / "output-0").glob("*.log")
    kept = [row for row in walk(BytesSource(log.read_bytes())) if isinstance(row, Batch)][:10]
    log.write_bytes(log.read_bytes()[: kept[-1].position + kept[-1].size])
    end = kept[-1].last_offset + 1
    checkpoint = broker / "replication-offset-checkpoint"
    lines = [
        f"output 0 {end}" if line.startswith("output 0 ") else line for line in checkpoint.read_text().splitlines()
    ]
    checkpoint.write_text("\n".join(lines) + "\n")
    for path in broker.rglob("*"):
        os.utime(path, ns=((kept[-1].max_timestamp + stopped_ms) * 1_000_000,) * 2)
    rows = found(cluster, as_of_ms=taken("consume-transform-produce") + MINUTE)
    (row,) = (row for row in rows if row["code"] == "replica-truncated")
    assert (row["severity"], row["first_offset"]) == (severity, end)


LOOK_ALIKES = SAMPLES / "look-alikes"


def test_equal_contents_without_a_time_are_no_retry() -> None:
    """A whole batch again, 5,632 records later, which with timestamps would be near enough."""
    (row,) = kforensics.duplicates(LOOK_ALIKES / "broker-1" / "states-0").to_pylist()
    assert (row["level"], row["records"], row["second_offset"] - row["first_offset"]) == ("content", 5632, 5632)
    assert row["first_timestamp"] == row["second_timestamp"] == -1


def test_heartbeats_are_no_retries_and_no_range_reaches_into_its_own_copy() -> None:
    """Unlike batches that a client sent again because an answer was lost, also with times of the broker."""
    rows = kforensics.duplicates(LOOK_ALIKES / "broker-1" / "heartbeats-0").to_pylist()
    assert {row["level"] for row in rows} == {"content"}
    assert sum(row["records"] for row in rows) == 9
    assert all(row["second_offset"] - row["first_offset"] >= row["records"] for row in rows)
    periods = [row["second_timestamp"] - row["first_timestamp"] for row in rows if row["records"] == 2]
    assert [round(period, -2) for period in periods] == [15_500] * 4
    retried = kforensics.duplicates(SAMPLES / "duplicates" / "broker-1" / "retried-append-time-0").to_pylist()
    assert {row["level"] for row in retried} == {"content-retry"}


def test_an_audit_of_records_raises_no_alarm_over_content_that_recurs() -> None:
    rows = found(LOOK_ALIKES, as_of_ms=taken("look-alikes") + MINUTE, records=True)
    assert alarming(rows) == set()
    repeated = {row["topic"] for row in rows if row["code"] == "content-duplicate-repeated"}
    assert repeated == {"states", "heartbeats"}


def test_all_findings_of_a_code_are_counted() -> None:
    """Of 1,005 producers the first 1,000 have a row of their own; the summary and the report count all."""
    rows = found(LOOK_ALIKES, as_of_ms=taken("look-alikes") + MINUTE)
    first = [row for row in rows if row["code"] == "seq-first-nonzero"]
    assert (len(first), json.loads(first[-1]["evidence"])["left_out"]) == (1000, 5)
    assert any("1,005 seq-first-nonzero" in line for line in run("audit", LOOK_ALIKES).lines)
    few = [json.loads(row["evidence"] or "{}") for row in found(BROKER, as_of_ms=taken("transactions-v2") + MINUTE)]
    assert few
    assert not [evidence for evidence in few if "left_out" in evidence]


PARTLY_COMPACTED = (
    "compact", "compact-append-time", "compact-transactional", "compact-transactional-kept",
    # Only their first segments are empty; no offset is missing between two batches.
    "compact-gzip", "compact-lz4", "compact-snappy", "compact-zstd", "horizon-passed",
)  # fmt: skip


@pytest.fixture(scope="module")
def of_compaction(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], ...]:
    """Return the findings of a broker with an older cleaner checkpoint: that has ended in order, and that has not.

    The last ones are those of the broker as it is.
    """
    folder = tmp_path_factory.mktemp("compaction") / "o"
    broker = Path(shutil.copytree(SAMPLES / "compaction" / "broker-1", folder / "broker-1"))
    (broker / "cleaner-offset-checkpoint").write_text("0\n0\n")
    as_of_ms = taken("compaction") + MINUTE
    ended_in_order = found(broker, as_of_ms=as_of_ms)
    (broker / ".kafka_cleanshutdown").unlink()
    return ended_in_order, found(broker, as_of_ms=as_of_ms), found(SAMPLES / "compaction", as_of_ms=as_of_ms)


@pytest.mark.parametrize("topic", PARTLY_COMPACTED)
def test_a_log_that_was_cleaned_after_the_cleaners_checkpoint_was_copied(
    topic: str, of_compaction: tuple[list[dict[str, Any]], ...]
) -> None:
    """Its batches with fewer records than offsets show that, unless the broker has ended in order."""
    ended_in_order, running, as_it_is = (alarming(rows, topic) for rows in of_compaction)
    assert running == as_it_is
    assert ended_in_order > running


@pytest.mark.parametrize("node_id", [1, 2])
def test_a_compacted_partition_that_was_moved_to_another_log_directory_by_hand(node_id: int, tmp_path: Path) -> None:
    """The cleaner checkpoint of the first one lists it still; that of another broker would show nothing."""
    broker = move_by_hand("compact-0", Path(shutil.copytree(SAMPLES / "compaction" / "broker-1", tmp_path / "disk-1")))
    meta = tmp_path / "disk-1" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", f"node.id={node_id}"))
    rows = found(broker, as_of_ms=taken("compaction") + MINUTE)
    assert alarming(rows, "compact") == (set() if node_id == 1 else {"segment-missing"})


@pytest.mark.parametrize("name", ["open-0.bak", "open-0 (copy)", "open-0-old"])
def test_a_partition_folder_that_was_renamed_is_no_partition_that_hangs(name: str, tmp_path: Path) -> None:
    """No coordinator lists it under that name; the one beside it is Ongoing for its coordinator."""
    log_dir = Path(shutil.copytree(BROKER, tmp_path / "broker-1"))
    shutil.copytree(log_dir / "open-0", log_dir / name)
    rows = kforensics.audit(log_dir, as_of="2026-11-21T13:00", processes=1).findings.to_pylist()
    assert {row["topic"] for row in rows if row["code"] == "txn-hanging"} == {"hanging"}
    assert not [row for row in rows if row["code"] == "marker-partition-unlisted"]
    assert "txn-hanging" not in run("lso", "--as-of", "2026-11-21T13:00", log_dir / name).text


@pytest.mark.parametrize("name", ["a", "x"])
@pytest.mark.parametrize("topic", ["hanging-0", "__transaction_state-0"])
def test_a_second_copy_of_a_folder_hides_no_transaction_that_hangs(name: str, topic: str, tmp_path: Path) -> None:
    """Nothing in the folder shows whose it is, or that its broker was stopped, wherever it lies in the order."""
    shutil.copytree(BROKER, tmp_path / "b1")
    shutil.copytree(BROKER / topic, tmp_path / name / topic)
    later_s = taken("transactions-v2") / 1000 + 9 * DAY / 1000  # a checkout does not keep the times of files
    for file in tmp_path.rglob("*"):
        os.utime(file, (later_s, later_s))
    rows = kforensics.audit(tmp_path, processes=1).findings.to_pylist()
    hanging = {(row["topic"], row["severity"]) for row in rows if row["code"] == "txn-hanging"}
    assert hanging == {("hanging", "critical")}
