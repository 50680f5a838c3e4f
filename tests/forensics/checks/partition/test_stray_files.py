"""Indexes without a log, logs without indexes, and folders in the folder of a partition are named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import stray_files
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.parsers.files.discover import FoundFile, discover
from tests.command import run
from tests.forensics.checks.partition.check_runs import (
    HEALTHY_SCENARIOS,
    RULES,
    code_names,
    findings_in_sample,
    found_in,
)
from tests.forensics.partition_states import SAMPLES, partitions_under

FIRES = {
    "index-orphaned": "test_an_index_without_its_log_is_named",
    "index-absent": "test_a_log_without_its_indexes_is_named",
    "folder-in-partition": "test_a_partition_with_a_folder_in_it_is_found_and_the_folder_is_named",
}
SILENT = dict.fromkeys(FIRES, "test_folders_that_brokers_wrote_have_nothing_stray")
SEGMENTS = SAMPLES / "transactions-v2" / "broker-1" / "segments-0"
CHECKS = [stray_files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a partition of a real broker, with several segments."""
    shutil.copytree(SEGMENTS, tmp_path / "segments-0")
    return tmp_path / "segments-0"


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_folders_that_brokers_wrote_have_nothing_stray(scenario: str) -> None:
    assert findings_in_sample(scenario, CHECKS) == {}


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_an_index_without_its_log_is_named(suffix: str, folder: Path) -> None:
    orphan = folder / f"{99:020}.{suffix}"
    orphan.write_bytes(b"")
    (finding,) = found_in(folder, CHECKS)
    assert (finding.code.name, finding.severity, finding.path) == ("index-orphaned", Severity.INFO, str(orphan))
    result = run("verify", folder)
    assert result.code == 0
    assert f"{orphan.name} has no log: the broker deletes it" in result.text
    assert "agree with the log" not in result.text


@pytest.mark.parametrize(
    ("suffixes", "consequence"),
    [
        (("index",), "rebuilds all indexes of such a segment"),
        (("index", "timeindex"), "rebuilds all indexes of such a segment"),
        (("timeindex",), "creates an empty one"),
    ],
)
def test_a_log_without_its_indexes_is_named(suffixes: tuple[str, ...], consequence: str, folder: Path) -> None:
    log = min(folder.glob("*.log"))
    for suffix in suffixes:
        log.with_suffix(f".{suffix}").unlink()
    (finding,) = found_in(folder, CHECKS)
    assert (finding.code.name, finding.severity, finding.path) == ("index-absent", Severity.INFO, str(log))
    assert consequence in finding.message
    result = run("verify", folder)
    assert result.code == 0
    assert consequence in result.text


def test_files_that_were_not_named_are_not_missing() -> None:
    files = [row for row in discover(map(str, SEGMENTS.glob("*.log"))) if isinstance(row, FoundFile)]
    assert all(file.kind == "log" for file in files)
    assert "index-absent" not in run("verify", *map(str, SEGMENTS.glob("*.log"))).text
    (partition,) = partitions_of(files)
    assert not partition.indexes


@pytest.mark.parametrize("content", ["", "log", "partition"])
def test_a_partition_with_a_folder_in_it_is_found_and_the_folder_is_named(content: str, folder: Path) -> None:
    nested = folder / ("segments-0" if content == "partition" else "backup")
    nested.mkdir()
    for log in SEGMENTS.glob("*.log") if content else ():
        shutil.copy(log, nested)
    found = {partition.name: partition for partition in partitions_under(folder.parent)}
    assert found.keys() == {"segments-0", *([str(nested)] if content else [])}
    assert found["segments-0"].nested == (nested.name,)
    findings = [finding for finding in found_in_named(folder) if finding[0] == "folder-in-partition"]
    assert findings == [("folder-in-partition", Severity.INFO, str(nested))]
    assert "segments" in run("keys", "--topic", "segments", folder).text


def found_in_named(folder: Path) -> list[tuple[str, Severity, str | None]]:
    """Return the findings of the partition with the name of a folder."""
    (partition,) = (partition for partition in partitions_under(folder) if partition.name == folder.name)
    return [(row.code.name, row.severity, row.path) for row in stray_files.findings(examine(partition, RULES))]


def test_a_folder_with_the_name_of_a_file_is_a_warning(folder: Path) -> None:
    (folder / f"{999:020}.log").mkdir()
    (finding,) = found_in(folder, CHECKS)
    assert code_names([finding]) == ["folder-in-partition"]
    assert finding.severity is Severity.WARNING
    assert "a broker can then not write" in finding.message
