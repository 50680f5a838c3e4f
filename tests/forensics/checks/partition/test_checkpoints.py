"""Checkpoint offsets that are impossible for a log."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from os import utime
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition.checkpoints import findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT, Partition
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, file_of, forge
from tests.forensics.partition_states import SAMPLES, each_sample, partitions_under, state_under

FIRES = {
    "checkpoint-hw-beyond-end": "test_a_high_watermark_after_the_end_is_found",
    "checkpoint-start-invalid": "test_a_log_start_after_the_end_is_found",
    "log-start-forgotten": "test_a_log_start_in_remote_storage_before_the_leader_epochs_is_found",
    "checkpoint-cleaner-invalid": "test_a_first_dirty_offset_after_the_end_is_found",
}
SILENT = dict.fromkeys(FIRES, "test_checkpoints_of_brokers_are_sound")

BEYOND, START, FORGOTTEN, CLEANER_INVALID = FIRES
LOG: Segments = {0: "plain @0-4; plain @5-9", 10: "plain @10-14; plain @15-19"}
HEADLESS: Segments = {10: "plain @10-14; plain @15-19"}
FILES = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)


def found_in(folder: Path) -> list[Finding]:
    """Return the findings in the one partition of a log directory."""
    return list(findings(state_under(folder)))


def key_facts(findings: Sequence[Finding]) -> list[tuple[str, Severity]]:
    """Return codes and severities."""
    return [(finding.code.name, finding.severity) for finding in findings]


def offsets(offset: int) -> bytes:
    """Return a checkpoint with an offset for the partition."""
    return f"0\n1\nt 0 {offset}\n".encode()


@each_sample()
def test_checkpoints_of_brokers_are_sound(partition: Partition) -> None:
    assert list(findings(examine(partition, Rules(0)))) == []


@pytest.mark.parametrize("high_watermark", [0, 10, 20])
@pytest.mark.parametrize("log_start", [None, 0, 7, 20])
@pytest.mark.parametrize("first_dirty", [None, 20])
def test_offsets_inside_the_log_are_sound(
    tmp_path: Path, high_watermark: int, log_start: int | None, first_dirty: int | None
) -> None:
    forge(tmp_path, LOG, high_watermark=high_watermark, log_start=log_start, first_dirty=first_dirty)
    assert found_in(tmp_path) == []


def test_a_directory_without_checkpoints_proves_nothing(tmp_path: Path) -> None:
    forge(tmp_path, LOG, clean_shutdown=False, replaced=dict.fromkeys(FILES))
    assert found_in(tmp_path) == []


def test_a_log_without_batches_begins_and_ends_at_its_last_segment(tmp_path: Path) -> None:
    forge(tmp_path, {30: ""}, high_watermark=30, log_start=30)
    assert found_in(tmp_path) == []


@pytest.mark.parametrize(("clean", "exactness"), [(True, Exactness.EXACT), (False, Exactness.APPROXIMATE)])
def test_a_high_watermark_after_the_end_is_found(tmp_path: Path, clean: bool, exactness: Exactness) -> None:
    forge(tmp_path, LOG, high_watermark=23, clean_shutdown=clean)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(BEYOND, Severity.WARNING)]
    assert (finding.first_offset, finding.last_offset, finding.exactness) == (20, 22, exactness)
    assert all(("not ruled out" in phrase) != clean for phrase in finding.benign)
    assert "had been flushed" not in finding.message


def test_traces_of_a_lost_segment_are_named(tmp_path: Path) -> None:
    """The last segment of a real replica is gone; the snapshot of its shutdown and a leader epoch are still there."""
    log_dir = shutil.copytree(SAMPLES / "replication" / "broker-1", tmp_path / "broker-1")
    for suffix in ("log", "index", "timeindex"):
        (log_dir / "replicated-0" / f"00000000000000000039.{suffix}").unlink()
    (finding,) = found_in(log_dir / "replicated-0")
    assert (key_facts([finding]), finding.cause) == ([(BEYOND, Severity.INFO)], "segment-missing")
    assert "The log was longer: a snapshot at offset 51, leader epoch" in finding.message
    assert finding.evidence["snapshots_beyond"] == [51]


def test_what_is_not_ruled_out_is_in_the_message(tmp_path: Path) -> None:
    forge(tmp_path, LOG, high_watermark=23, clean_shutdown=False)
    (finding,) = found_in(tmp_path)
    assert "Not ruled out: log copied before the checkpoint, or unflushed data lost in a crash." in finding.message
    forge(tmp_path, LOG, high_watermark=23)
    (finding,) = found_in(tmp_path)
    assert "ruled out" not in finding.message


def test_a_recovery_point_after_the_end_is_reported_where_something_is_missing(tmp_path: Path) -> None:
    """By itself it is not a finding: a broker that starts moves it to the end."""
    forge(tmp_path, LOG, replaced={RECOVERY_POINT: offsets(22)})
    assert found_in(tmp_path) == []
    forge(tmp_path, LOG, high_watermark=23, replaced={RECOVERY_POINT: offsets(22)})
    (finding,) = found_in(tmp_path)
    assert "All offsets below 22 had been flushed" in finding.message
    assert finding.evidence == {"high_watermark": 23, "log_end_offset": 20, "recovery_point": 22}


def test_a_log_start_in_remote_storage_before_the_leader_epochs_is_found(tmp_path: Path) -> None:
    """The broker was killed after a DeleteRecords to 4; with the entry 4 it has not forgotten the log start."""
    forge(tmp_path, HEADLESS, log_start=0, leader_epochs={4: 0})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(FORGOTTEN, Severity.ERROR)]
    assert (finding.first_offset, finding.last_offset, finding.exactness) == (0, 3, Exactness.EXACT)
    assert '"offset":4}' in (finding.remedy or "")
    forge(tmp_path, HEADLESS, log_start=0, leader_epochs={4: 0}, clean_shutdown=False)
    assert found_in(tmp_path) == []
    forge(tmp_path, HEADLESS, log_start=4, leader_epochs={4: 0})
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("log", [LOG, {0: ""}], ids=["batches", "none"])
def test_a_log_start_after_the_end_is_found(tmp_path: Path, log: Segments) -> None:
    forge(tmp_path, log, log_start=21)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(START, Severity.ERROR)]
    assert "Log start offset 21 is beyond" in finding.message


@pytest.mark.parametrize(("clean", "severity"), [(True, Severity.ERROR), (False, Severity.INFO)])
def test_a_log_start_before_the_first_segment_is_found(tmp_path: Path, clean: bool, severity: Severity) -> None:
    """Without a clean shutdown it may only be older than the last deletion of segments."""
    forge(tmp_path, HEADLESS, log_start=4, clean_shutdown=clean)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(START, severity)]
    assert (finding.first_offset, finding.last_offset) == (4, 9)


def test_with_remote_storage_a_log_starts_before_its_first_segment(tmp_path: Path) -> None:
    """The leader epochs show it: they start at the log start offset."""
    forge(tmp_path, HEADLESS, log_start=4, leader_epochs={4: 0})
    assert found_in(tmp_path) == []


def test_a_first_dirty_offset_after_the_end_is_found(tmp_path: Path) -> None:
    forge(tmp_path, LOG, first_dirty=21)
    assert key_facts(found_in(tmp_path)) == [(CLEANER_INVALID, Severity.WARNING)]


@pytest.mark.parametrize(("log", "log_start"), [(LOG, 7), (HEADLESS, None)], ids=["records", "segments"])
def test_a_first_dirty_offset_that_deletion_passed_is_reported(
    tmp_path: Path, log: Segments, log_start: int | None
) -> None:
    forge(tmp_path, log, first_dirty=5, log_start=log_start)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(CLEANER_INVALID, Severity.INFO)]
    assert "not ruled out" in finding.benign[0]


def test_a_log_start_after_the_end_proves_nothing_about_the_cleaner(tmp_path: Path) -> None:
    forge(tmp_path, LOG, first_dirty=20, log_start=40)
    assert key_facts(found_in(tmp_path)) == [(START, Severity.ERROR)]


REFUSED = {
    HIGH_WATERMARK: (BEYOND, Severity.ERROR),
    LOG_START: (START, Severity.ERROR),
    RECOVERY_POINT: (START, Severity.WARNING),
    CLEANER: (CLEANER_INVALID, Severity.WARNING),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("text", [b"7\n0\n", b"0\n2\nt 0 5\n", b"0\n1\nt zero 5\n"], ids=["version", "count", "number"])
def test_a_checkpoint_that_a_broker_refuses_is_found(tmp_path: Path, name: str, text: bytes) -> None:
    forge(tmp_path, LOG, replaced={name: text})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [REFUSED[name]]
    assert finding.path == str(tmp_path / name)
    assert f"Brokers reject {name}" in finding.message


def test_two_partitions_have_their_own_offsets(tmp_path: Path) -> None:
    forge(tmp_path, LOG)
    invalid = forge(tmp_path, LOG, partition=1, high_watermark=50)
    results = [row for partition in partitions_under(tmp_path) for row in findings(examine(partition, Rules(0)))]
    assert key_facts(results) == [(BEYOND, Severity.WARNING)]
    assert file_of(invalid).exists()


DELETED = "9ae9408f1cdb4dd396f0da23d2bbf622-delete"


@pytest.mark.parametrize(("folder", "expected"), [(f"t-0.{DELETED}", []), (f"t-1.{DELETED}", [BEYOND])])
def test_a_high_watermark_of_the_log_that_was_deleted_before(tmp_path: Path, folder: str, expected: list[str]) -> None:
    """Brokers of 4.0.0 that were killed after a topic had been deleted and created again left such checkpoints."""
    forge(tmp_path, "plain @0-8", high_watermark=41, clean_shutdown=False)
    (tmp_path / folder).mkdir()
    assert [finding.code.name for finding in found_in(tmp_path)] == expected


@pytest.mark.parametrize(("written", "expected"), [(NOW - 60_000, []), (NOW + 60_000, [BEYOND])])
def test_a_high_watermark_from_before_the_first_batch(tmp_path: Path, written: int, expected: list[str]) -> None:
    """A copy of a running broker may lack the deleted folder; a copy without file times has younger checkpoints."""
    forge(tmp_path, "plain @0-8", high_watermark=41, clean_shutdown=False)
    for file in tmp_path.glob("*-checkpoint"):
        utime(file, (written / 1000, written / 1000))
    assert [finding.code.name for finding in found_in(tmp_path)] == expected


@pytest.mark.parametrize(("made", "expected"), [(NOW + 1, []), (NOW - 1, [BEYOND])])
def test_an_empty_log_that_was_made_after_the_checkpoint(tmp_path: Path, made: int, expected: list[str]) -> None:
    """A broker of 3.3.2 was copied between the creation of a topic and the next checkpoint of its high watermark."""
    folder = forge(tmp_path, "", high_watermark=41, clean_shutdown=False)
    for file in tmp_path.glob("*-checkpoint"):
        utime(file, ns=(NOW * 1_000_000,) * 2)
    for file in folder.iterdir():
        utime(file, ns=(made * 1_000_000,) * 2)
    assert [finding.code.name for finding in found_in(tmp_path)] == expected


@pytest.mark.parametrize(("made", "expected"), [(NOW + 1, []), (NOW - 1, [CLEANER_INVALID])])
def test_an_empty_log_that_was_made_after_the_checkpoint_of_the_cleaner(
    tmp_path: Path, made: int, expected: list[str]
) -> None:
    """A broker of 3.7.2 was copied while a compacted topic was deleted and created again."""
    folder = forge(tmp_path, "", clean_shutdown=False, first_dirty=110)
    utime(tmp_path / CLEANER, ns=(NOW * 1_000_000,) * 2)
    for file in folder.iterdir():
        utime(file, ns=(made * 1_000_000,) * 2)
    found = found_in(tmp_path)
    assert [finding.code.name for finding in found] == expected
    assert all("The log was longer" not in finding.message for finding in found)


@pytest.mark.parametrize(
    ("created", "expected"),
    [(NOW - 2_000, []), (NOW - 4_000, [BEYOND]), (NOW + 3_000, [BEYOND])],
    ids=["after the checkpoint", "before it", "in a copy without file times"],
)
def test_a_log_that_was_created_after_the_checkpoint(tmp_path: Path, created: int, expected: list[str]) -> None:
    """A broker of 4.1.1 created a topic again; its producer had sent the first batch a little earlier."""
    log = f"plain @0-4 ts {NOW - 3_500}; plain @5-8 ts {NOW}"
    folder = forge(tmp_path, log, high_watermark=41, clean_shutdown=False)
    for file in tmp_path.glob("*-checkpoint"):
        utime(file, ns=((NOW - 3_000) * 1_000_000,) * 2)
    utime(folder / "partition.metadata", ns=(created * 1_000_000,) * 2)
    assert [finding.code.name for finding in found_in(tmp_path)] == expected


def test_a_log_that_is_younger_than_the_checkpoint_of_high_watermarks_alone(tmp_path: Path) -> None:
    """A broker of 3.6.2 had written that of its cleaner after a topic was created again."""
    forge(tmp_path, f"plain @0-8 ts {NOW}", high_watermark=41, clean_shutdown=False)
    for file in tmp_path.glob("*-checkpoint"):
        age = 3_000 if file.name == HIGH_WATERMARK else -1_000
        utime(file, ns=((NOW - age) * 1_000_000,) * 2)
    assert found_in(tmp_path) == []


def test_a_log_without_its_start_is_older_than_its_checkpoint(tmp_path: Path) -> None:
    forge(tmp_path, HEADLESS, high_watermark=41, clean_shutdown=False)
    for file in tmp_path.glob("*-checkpoint"):
        utime(file, (1, 1))
    assert [finding.code.name for finding in found_in(tmp_path)] == [BEYOND]


@pytest.mark.parametrize(
    ("written_later_ms", "clean_shutdown", "severity", "excuse"),
    [
        (5_000, False, Severity.INFO, "likely, the checkpoint was written after the log"),
        (0, False, Severity.INFO, "likely, the checkpoint was written after the log"),
        (-5_000, False, Severity.WARNING, "no, the log was written after the checkpoint"),
        (5_000, True, Severity.WARNING, "no, clean shutdown"),
    ],
    ids=[
        "of a running broker, log first",
        "in the same second of an archive",
        "of a running broker, checkpoints first",
        "stopped",
    ],
)
def test_a_log_may_have_been_copied_before_its_checkpoint(
    tmp_path: Path, written_later_ms: int, clean_shutdown: bool, severity: Severity, excuse: str
) -> None:
    """In 1 of 182 copies of running brokers of 3.3.2, 3.9.1 and 4.4.0 the high watermark was beyond the log end."""
    folder = forge(tmp_path, LOG, high_watermark=23, clean_shutdown=clean_shutdown)
    for file in folder.iterdir():
        utime(file, ns=((NOW + 10_000) * 1_000_000,) * 2)
    for file in tmp_path.glob("*-checkpoint"):
        utime(file, ns=((NOW + 10_000 + written_later_ms) * 1_000_000,) * 2)
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(BEYOND, severity)]
    assert finding.benign[0] == f"log copied before the checkpoint: {excuse}"
    assert ("log copied before" in finding.message) == (severity is Severity.INFO)


# For each checkpoint with an offset beyond the log: the code, and what it is if the copy does not explain it.
BEYOND_LOG = {LOG_START: (START, Severity.ERROR), CLEANER: (CLEANER_INVALID, Severity.WARNING)}
FLUSHED = {RECOVERY_POINT: offsets(1060)}


def copied(folder: Path, checkpoints_later_ms: int) -> list[Finding]:
    """Return what is found if the checkpoints were written so much later than the log."""
    for file in (file for file in folder.parent.rglob("*") if file.is_file()):
        later = checkpoints_later_ms if file.parent == folder.parent else 0
        utime(file, ns=((NOW + 10_000 + later) * 1_000_000,) * 2)
    return found_in(folder.parent)


@pytest.mark.parametrize("name", BEYOND_LOG)
def test_checkpoints_that_were_copied_after_the_log_are_ahead_of_it(tmp_path: Path, name: str) -> None:
    """Partitions of a running broker of 4.3.1 were copied half a minute before the checkpoints beside them."""
    folder = forge(tmp_path, LOG, clean_shutdown=False, replaced={name: offsets(1060), **FLUSHED})
    (finding,) = copied(folder, 30_000)
    assert key_facts([finding]) == [(BEYOND_LOG[name][0], Severity.INFO)]
    assert finding.benign[0] == "log copied before the checkpoint: likely, the checkpoint was written after the log"
    assert "flushed, so" not in finding.message


@pytest.mark.parametrize("name", BEYOND_LOG)
@pytest.mark.parametrize(("later_ms", "clean"), [(-5_000, False), (30_000, True)], ids=["log is newer", "stopped"])
def test_a_checkpoint_that_the_copy_does_not_explain(tmp_path: Path, name: str, later_ms: int, clean: bool) -> None:
    folder = forge(tmp_path, LOG, clean_shutdown=clean, replaced={name: offsets(1060), **FLUSHED})
    (finding,) = copied(folder, later_ms)
    assert key_facts([finding]) == [BEYOND_LOG[name]]
    assert "All offsets below 1060 had been flushed" in finding.message
    assert "Not ruled out" not in finding.message


@pytest.mark.parametrize("name", BEYOND_LOG)
def test_a_copy_without_file_times_does_not_explain_a_checkpoint(tmp_path: Path, name: str) -> None:
    forge(tmp_path, LOG, clean_shutdown=False, replaced={name: offsets(1060)})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [BEYOND_LOG[name]]
    assert finding.benign[0] == "log copied before the checkpoint: not ruled out"


@pytest.mark.parametrize(("clean_shutdown", "severity"), [(True, Severity.ERROR), (False, Severity.WARNING)])
def test_a_copied_checkpoint_may_be_incomplete(tmp_path: Path, clean_shutdown: bool, severity: Severity) -> None:
    forge(tmp_path, LOG, clean_shutdown=clean_shutdown, replaced={HIGH_WATERMARK: b"0\n2\nt 0 5\n"})
    assert key_facts(found_in(tmp_path)) == [(BEYOND, severity)]
