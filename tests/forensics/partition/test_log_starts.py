"""Log starts whose checkpoint and leader epochs disagree, as brokers leave them after a kill and while they run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import kforensics
from kforensics.forensics.partition.partition_files import LOG_START
from tests.command import SAMPLES, run

# Offsets 8 to 21 are in remote storage, the rest is on disk; DeleteRecords had moved the log start to 11.
TOPIC = "cut"
# After the records were written, in seconds.
EPOCHS, EARLIER, LATER = 1795377640, 1795377620, 1795377680


def _copied(tmp_path: Path, log_start: int | None, checkpointed: int | None = None, topic: str = TOPIC) -> Path:
    """Return a log directory with another log start in its checkpoint.

    Args:
        tmp_path: where to.
        log_start: the log start offset; None for no entry.
        checkpointed: when the checkpoint of a running broker was written; None after an orderly stop.
        topic: of the entry.
    """
    log_dir = Path(shutil.copytree(SAMPLES / "remote-retention" / "broker-1", tmp_path / "broker-1"))
    checkpoint = log_dir / LOG_START
    others = [line for line in checkpoint.read_text().splitlines()[2:] if not line.startswith(f"{topic} ")]
    entries = others if log_start is None else [*others, f"{topic} 0 {log_start}"]
    checkpoint.write_text("\n".join(["0", str(len(entries)), *entries, ""]))
    if checkpointed is not None:
        (log_dir / ".kafka_cleanshutdown").unlink()
        for path in log_dir.rglob("*"):
            written = EARLIER if path.name == "partition.metadata" else LATER
            os.utime(path, (written, written))
        os.utime(log_dir / f"{topic}-0" / "leader-epoch-checkpoint", (EPOCHS, EPOCHS))
        os.utime(checkpoint, (checkpointed, checkpointed))
    return log_dir


def _start(log_dir: Path, topic: str = TOPIC) -> int:
    rows = kforensics.lso(log_dir).to_arrow().to_pylist()
    return int(next(row["log_start_offset"] for row in rows if row["topic"] == topic))


def _findings(log_dir: Path) -> list[tuple[int, int]]:
    rows = kforensics.audit(log_dir, processes=1).findings.to_pylist()
    return [(row["first_offset"], row["last_offset"]) for row in rows if row["code"] == "log-start-forgotten"]


@pytest.mark.parametrize("log_start", [0, 8, None])
def test_a_forgotten_start_is_that_of_the_first_segment_in_remote_storage(tmp_path: Path, log_start: int) -> None:
    log_dir = _copied(tmp_path, log_start)
    assert (_start(log_dir), _findings(log_dir)) == (8, [(8, 10)])


def test_a_checkpoint_that_is_younger_than_the_leader_epochs_has_the_start_of_the_broker(tmp_path: Path) -> None:
    log_dir = _copied(tmp_path, 8, LATER)
    assert (_start(log_dir), _findings(log_dir)) == (8, [(8, 10)])


def test_a_broker_that_was_copied_within_the_minute_has_forgotten_nothing(tmp_path: Path) -> None:
    log_dir = _copied(tmp_path, 8, EARLIER)
    assert (_start(log_dir), _findings(log_dir)) == (11, [])
    text = run("explain", "--offset", 8, log_dir / "cut-0").text
    assert "log start 8 or 11 (its checkpoint may be a minute old)" in text
    assert "If it is 8, consumers there receive nothing: delete the records before offset 11 again:" in text


def test_times_that_a_copy_has_not_kept_prove_nothing(tmp_path: Path) -> None:
    log_dir = _copied(tmp_path, 8, LATER)
    metadata = log_dir / "cut-0" / "partition.metadata"
    os.utime(metadata, (LATER, LATER))
    assert _findings(log_dir) == []


def test_retention_to_the_start_of_a_segment_is_not_forgotten(tmp_path: Path) -> None:
    """The broker finds the first segment in remote storage again, at which its leader epochs begin."""
    log_dir = _copied(tmp_path, 0, topic="retained")
    assert (_start(log_dir, "retained"), _findings(log_dir)) == (16, [])


def test_a_log_that_has_its_start_is_sound() -> None:
    assert _findings(SAMPLES / "remote-retention") == []


def test_an_offset_before_the_leader_epochs_is_explained(tmp_path: Path) -> None:
    text = run("explain", "--offset", 8, _copied(tmp_path, 8) / "cut-0").text
    assert "cut-0 on broker 1, offset 8: deleted" in text
    assert "a consumer at the log start receives nothing, but remote storage still has segment" in text
    assert """{"partitions":[{"topic":"cut","partition":0,"offset":11}],"version":1}""" in text
    assert "No action" not in text
    assert "offset 11: not-on-hand" in run("explain", "--offset", 11, tmp_path / "broker-1" / "cut-0").text


@pytest.mark.parametrize(("is_running", "epochs", "is_open"), [(1, "0 17", 1), (0, "0 17", 0), (1, "3 17", 0)])
def test_records_on_disk_may_be_deleted_since_the_checkpoint(
    tmp_path: Path, is_running: int, epochs: str, is_open: int
) -> None:
    """The broker had checkpointed no log start yet. After an orderly stop, or with a later epoch, nothing is open."""
    log_dir = Path(shutil.copytree(SAMPLES / "deletion" / "broker-1", tmp_path / "broker-1"))
    folder = log_dir / "delete-records-0"
    (log_dir / LOG_START).write_text("0\n0\n")
    (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epochs}\n")
    if is_running:
        (log_dir / ".kafka_cleanshutdown").unlink()
    text = run("explain", "--offset", 16, folder).text
    assert ("offset 16: visible (approximate)" in text) == is_open
    assert ("unless DeleteRecords moved the log start of the running broker to 17" in text) == is_open
    assert ("log start 12 or 17 (its checkpoint may be a minute old), LSO" in text) == is_open
    assert "offset 17: visible\n" in run("explain", "--offset", 17, folder).text
    assert ("log start 12 or 17: its checkpoint may be a minute old" in run("lso", folder).text) == is_open
    assert _start(log_dir, "delete-records") == 12
