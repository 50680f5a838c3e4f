"""Folders that a start has set aside, in the shape in which brokers of 4.1.1 and 4.3.1 left them."""

import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import stray_folders
from kforensics.forensics.core.broker_settings import RETENTION_MS, Setting
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from lab.forecast.bases import BASES, unpack
from lab.places import SAMPLES
from tests.forensics.checks.partition.check_runs import HEALTHY_SCENARIOS, RULES, findings_in_sample
from tests.forensics.partition_states import partitions_under

CHECKS = [stray_folders]
FIRES = {"stray-has-records": "test_records_that_only_a_stray_folder_has_are_found"}
SILENT = {"stray-has-records": "test_the_stray_folder_of_a_deleted_topic_is_silent"}
STOPPED = next(base for base in BASES if base.name == "4.4.0-stopped")
SEGMENT = f"{0:020}.log"
EIGHT_DAYS = 8 * 24 * 3_600_000
# Byte in a batch at which its leader epoch begins.
EPOCH_AT = 12


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory whose broker has the only replica of all partitions."""
    unpack(STOPPED, tmp_path)
    return tmp_path / "data"


def set_aside(folder: Path, *, has_topic_id: bool = False) -> Path:
    """Do to a partition what a start does whose partition.metadata is missing, and return the stray folder."""
    stray = folder.with_name(f"{folder.name}.{'5' * 32}-stray")
    folder.rename(stray)
    folder.mkdir()
    metadata = stray / "partition.metadata"
    (shutil.copy if has_topic_id else shutil.move)(metadata, folder / metadata.name)
    for suffix in (".log", ".index", ".timeindex"):
        (folder / f"{0:020}{suffix}").touch()
    begin_epoch(folder, 2)
    return stray


def begin_epoch(folder: Path, epoch: int, offset: int = 0) -> None:
    (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} {offset}\n", "ascii")


def found(data: Path, name: str = "plain-0", rules: Rules = RULES) -> list[Finding]:
    (partition,) = (each for each in partitions_under(data) if each.name == name)
    return list(stray_folders.findings(examine(partition, rules)))


def end_of(folder: Path) -> int:
    (partition,) = partitions_under(folder)
    return examine(partition, RULES).log_end_offset


def test_records_that_only_a_stray_folder_has_are_found(data: Path) -> None:
    end = end_of(data / "plain-0")
    stray = set_aside(data / "plain-0")
    (finding,) = found(data)
    assert finding.severity == Severity.CRITICAL
    assert (finding.first_offset, finding.last_offset) == (0, end - 1)
    assert finding.message.startswith(
        f"Records at offsets 0 to {end - 1} are only in {stray.name}, which the start of the broker"
    )
    assert finding.message.endswith("the log that it serves begins at 0 and ends at 0.")
    assert finding.path == str(stray)
    assert finding.remedy is not None
    assert f"`mv {stray} {data}/plain-0`" in finding.remedy


def test_records_that_were_written_since_do_not_replace_them(data: Path) -> None:
    folder = data / "plain-0"
    stray = set_aside(folder)
    batches = bytearray((stray / SEGMENT).read_bytes())
    (length,) = struct.unpack_from(">i", batches, 8)
    batches[EPOCH_AT : EPOCH_AT + 4] = struct.pack(">i", 2)
    (folder / SEGMENT).write_bytes(batches[: length + 12])
    (finding,) = found(data)
    assert (finding.severity, finding.first_offset) == (Severity.CRITICAL, 0)


def test_it_is_an_error_where_the_metadata_is_missing(data: Path) -> None:
    set_aside(data / "plain-0")
    shutil.rmtree(data / "__cluster_metadata-0")
    (finding,) = found(data)
    assert finding.severity == Severity.ERROR


def test_the_stray_folder_of_a_deleted_topic_is_silent(data: Path) -> None:
    stray = set_aside(data / "plain-0", has_topic_id=True)
    assert found(data)
    (stray / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "ascii")
    assert found(data) == []


def test_a_log_that_has_the_records_again_is_silent(data: Path) -> None:
    stray = set_aside(data / "plain-0")
    for file in stray.iterdir():
        shutil.copy(file, data / "plain-0")
    assert found(data) == []


def test_a_log_that_starts_after_the_records_is_silent(data: Path) -> None:
    end = end_of(data / "plain-0")
    set_aside(data / "plain-0")
    for suffix in (".log", ".index", ".timeindex"):
        (data / "plain-0" / f"{0:020}{suffix}").rename(data / "plain-0" / f"{end:020}{suffix}")
    begin_epoch(data / "plain-0", 2, end)
    assert found(data) == []


def test_a_tail_that_a_later_leader_has_overruled_is_silent(data: Path) -> None:
    stray = set_aside(data / "plain-0")
    batches = (stray / SEGMENT).read_bytes()
    (length,) = struct.unpack_from(">i", batches, 8)
    (data / "plain-0" / SEGMENT).write_bytes(batches[: length + 12])
    (last_offset_delta,) = struct.unpack_from(">i", batches, 23)
    epochs = f"0\n2\n0 0\n2 {last_offset_delta + 1}\n"
    (data / "plain-0" / "leader-epoch-checkpoint").write_text(epochs, "ascii")
    assert found(data) == []


def test_an_empty_stray_folder_is_silent(data: Path) -> None:
    stray = set_aside(data / "plain-0")
    for segment in stray.glob("*.log"):
        segment.write_bytes(b"")
    assert found(data) == []


def test_a_damaged_tail_of_the_stray_log_hides_nothing_before_it(data: Path) -> None:
    stray = set_aside(data / "plain-0")
    last = max(stray.glob("*.log"))
    last.write_bytes(last.read_bytes() + bytes(100))
    (finding,) = found(data)
    end = (finding.last_offset or 0) + 1
    last.write_bytes(bytes(100))
    (finding,) = found(data)
    assert finding.severity == Severity.CRITICAL
    assert finding.last_offset == int(last.stem) - 1 < end


def test_without_the_id_of_the_broker_it_is_not_known_who_fills_whom(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "consume-transform-produce" / "broker-1", tmp_path / "broker-1")
    folder = tmp_path / "broker-1" / "output-0"
    set_aside(folder)
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n", "ascii")
    (tmp_path / "broker-1" / "meta.properties").unlink()
    (finding,) = found(tmp_path, "output-0", replace(RULES, as_of_ms=0))
    assert finding.severity == Severity.WARNING
    assert (finding.remedy or "").startswith("Look first whether another replica")
    assert "`" not in (finding.remedy or "")


def test_a_replica_that_is_being_filled_is_information(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "consume-transform-produce" / "broker-1", tmp_path / "broker-1")
    folder = tmp_path / "broker-1" / "output-0"
    set_aside(folder)
    (folder / "leader-epoch-checkpoint").write_text("0\n0\n", "ascii")
    for as_of_ms in (0, RULES.as_of_ms * 2):  # however old the records are
        (finding,) = found(tmp_path, "output-0", replace(RULES, as_of_ms=as_of_ms))
        assert finding.severity == Severity.INFO
    assert finding.benign == ("the partition is being filled from broker 2: likely",)
    assert finding.remedy is None
    shutil.rmtree(tmp_path / "broker-1" / "__cluster_metadata-0")
    (finding,) = found(tmp_path, "output-0", replace(RULES, as_of_ms=0))
    assert finding.severity == Severity.WARNING


def test_records_that_retention_would_have_deleted_since_are_no_loss(data: Path) -> None:
    stray = set_aside(data / "plain-0")
    (partition,) = partitions_under(stray.rename(data.parent / "plain-9"))
    newest = examine(partition, RULES).log.newest_timestamp
    (data.parent / "plain-9").rename(stray)
    later = replace(RULES, as_of_ms=newest + EIGHT_DAYS)
    (finding,) = found(data, rules=later)
    assert finding.severity == Severity.WARNING
    (benign,) = finding.benign
    assert benign == "retention.ms (604800000) would have deleted the records since: not ruled out"
    known = replace(later, topic_settings=(Setting(RETENTION_MS, "3600000", "the metadata"),))
    (finding,) = found(data, rules=known)
    assert finding.severity == Severity.INFO
    kept = replace(later, topic_settings=(Setting(RETENTION_MS, "-1", "the metadata"),))
    (finding,) = found(data, rules=kept)
    assert finding.severity == Severity.CRITICAL


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_logs_of_brokers_without_stray_folders_are_silent(scenario: str) -> None:
    assert findings_in_sample(scenario, CHECKS) == {}
