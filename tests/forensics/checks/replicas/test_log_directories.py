"""A partition in two log directories of one broker, which does not start then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import kforensics
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.copies import copies_among, evaluate_copies
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from tests.forensics.batch_notation import NOW
from tests.forensics.partition_states import SAMPLES, partitions_under

FIRES = {"partition-in-two-log-dirs": "test_a_partition_in_two_log_directories_is_found"}
SILENT = {"partition-in-two-log-dirs": "test_a_partition_that_moves_is_in_order"}

CODE = "partition-in-two-log-dirs"
NAME = "moved-0"


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Return a copy of a broker that was stopped with two log directories, each with the marker of a clean shutdown."""
    copy = shutil.copytree(SAMPLES / "log-dirs" / "broker-1", tmp_path / "broker-1")
    for disk in ("disk-1", "disk-2"):
        (copy / disk / ".kafka_cleanshutdown").touch()
    return copy


def _found(folder: Path) -> list[Finding]:
    partitions = partitions_under(folder)
    copies = copies_among(partitions, Clusters.of(partitions))
    return [finding for one in copies for finding in evaluate_copies(one, Rules(NOW), workers=0).findings]


def _put_in_both(broker: Path) -> None:
    twin = shutil.copytree(broker / "disk-1" / NAME, broker / "disk-2" / NAME)
    for path in twin.iterdir():
        os.utime(path, (NOW, NOW))


def test_a_partition_that_moves_is_in_order(broker: Path) -> None:
    """One folder was renamed to -delete, another one is still a -future."""
    assert _found(broker) == []


def test_a_partition_in_two_log_directories_is_found(broker: Path) -> None:
    """As the 4.4.0 broker did: `partition-in-both` of tests/data/forecast/4.4.0-jbod.json."""
    _put_in_both(broker)
    (finding,) = _found(broker)
    assert (finding.code.name, finding.severity, finding.benign) == (CODE, Severity.CRITICAL, ())
    first, second = (str(broker / disk / NAME) for disk in ("disk-1", "disk-2"))
    assert finding.evidence == {"replica": second, "other": first}
    assert f"`kforensics verify {first} {second}`" in str(finding.remedy)


def test_it_may_have_been_copied_while_it_moved(broker: Path) -> None:
    """A running broker first renames the -future folder, then the one that it replaces."""
    _put_in_both(broker)
    (broker / "disk-2" / ".kafka_cleanshutdown").unlink()
    (finding,) = _found(broker)
    assert finding.severity is Severity.WARNING
    assert finding.benign == ("copied while the replica moved between log directories: not ruled out",)


def test_log_directories_without_ids_may_be_copies(broker: Path) -> None:
    _put_in_both(broker)
    for disk in ("disk-1", "disk-2"):
        meta = broker / disk / "meta.properties"
        lines = meta.read_text("ascii").splitlines(keepends=True)
        meta.write_text("".join(line for line in lines if "directory.id" not in line), "ascii")
    # Of five partitions they share one, so they count as two disks of a broker.
    shutil.copytree(broker / "disk-1" / "moving-0", broker / "disk-2" / "other-0")
    shutil.copytree(broker / "disk-1" / "moving-0", broker / "disk-2" / "another-0")
    (finding,) = [one for one in _found(broker) if one.code.name == CODE]
    assert finding.severity is Severity.WARNING
    assert finding.benign == ("copies of the same log directory: not ruled out, neither has an id",)


def test_two_copies_of_a_log_directory_are_no_two_log_directories(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        shutil.copytree(SAMPLES / "log-dirs" / "broker-1", tmp_path / day)
    assert _found(tmp_path) == []


def test_strays_do_not_clash(broker: Path) -> None:
    """A broker renames folders that the metadata does not assign to it: here, of another topic id."""
    _put_in_both(broker)
    for disk in ("disk-1", "disk-2"):
        metadata = broker / disk / NAME / "partition.metadata"
        metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n", "ascii")
    assert [finding.code.name for finding in _found(broker) if finding.code.name == CODE] == []
    assert "refuses" not in {row["effect"] for row in kforensics.forecast(broker).to_pylist()}


def test_a_partition_in_two_folders_of_one_log_directory_is_found_once(broker: Path) -> None:
    """It is start-refused, of the log directory."""
    shutil.copytree(broker / "disk-1" / NAME, broker / "disk-1" / "moved-00")
    assert _found(broker) == []


@pytest.mark.parametrize("is_in_both", [True, False])
def test_audit_and_forecast_agree(broker: Path, is_in_both: bool) -> None:
    if is_in_both:
        _put_in_both(broker)
    rows = kforensics.audit(broker).findings.to_pylist()
    effects = {row["effect"] for row in kforensics.forecast(broker).to_pylist()}
    assert ("refuses" in effects) == is_in_both
    assert any(row["code"] == CODE for row in rows) == is_in_both
