"""What the next start will do, as findings, against what real brokers did: see ``lab/forecast``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.checks.partition import metadata_snapshots, start_effects
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.forecast.forecast_rows import remedies
from kforensics.forensics.forecast.log_directory import MARKER, META
from kforensics.forensics.forecast.next_start import forecast_start
from kforensics.forensics.partition.examine import examine
from lab.forecast.bases import BASES, DATA, Base, unpack
from lab.forecast.cases import cases_of
from tests.forensics.checks.partition.check_runs import HEALTHY_SCENARIOS, RULES, code_names, findings_in_sample
from tests.forensics.moved_by_hand import move_by_hand
from tests.forensics.partition_states import partitions_under
from tests.thorough import some

CHECKS = [start_effects]
EXAMPLES = {
    "start-refused": "folder-backup",
    "start-stray": "topic-id-other",
    "start-creates-empty": "partition-missing",
    "start-without-leader": "meta-moved-directory",
    "start-promotes-future": "future-alone",
    "start-torn-tail": "torn-tail",
    "start-cuts-log": "index-high-bit",
    "start-returns-records": "log-start-missing",
}
FIRES = dict.fromkeys(EXAMPLES, "test_an_effect_of_the_start_is_found")
SILENT = dict.fromkeys(EXAMPLES, "test_logs_of_brokers_that_start_as_usual_are_silent")
STOPPED = next(base for base in BASES if base.name == "4.4.0-stopped")
LOG_KINDS = {"torn-tail": "start-torn-tail", "truncated": "start-cuts-log", "records-return": "start-returns-records"}
# Refusals that other findings announce, and those that depend on the release, which the files do not show.
NOT_ANNOUNCED = {
    *("txnindex-version", "txnindex-version-unclean", "txnindex-tail-whole-unclean"),
    # segment-base-mismatch
    *("segment-overlapping", "segment-overlapping-unclean", "segment-beyond", "segment-beyond-unclean"),
    *("log-renamed", "log-renamed-unclean"),
    # Only a recovery needs more entries than the indexes may have, and a copy of a running broker is no recovery.
    *("index-fills-unclean", "time-index-fills-unclean"),
}


def _doctored(name: str, pristine: Path, copy: Path) -> Path:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(pristine, copy)
    next(case for case in cases_of(STOPPED) if case.name == name).doctor(copy)
    return copy


def _found(folder: Path) -> dict[str, list[Finding]]:
    """Return the findings on a log directory by the name of the partition."""
    states = [examine(partition, RULES) for partition in partitions_under(folder)]
    found = {state.partition.name: list(start_effects.findings(state)) for state in states}
    return {name: findings for name, findings in found.items() if findings}


def _codes(folder: Path) -> set[str]:
    return {finding.code.name for findings in _found(folder).values() for finding in findings}


def _effects(folder: Path) -> set[str]:
    """Return the kinds of the effects that are forecast."""
    forecast = forecast_start([str(folder)], release="4.4")
    return {effect.kind for partition in forecast.partitions for effect in partition.effects}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    unpack(STOPPED, folder)
    return folder / "data"


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_logs_of_brokers_that_start_as_usual_are_silent(scenario: str) -> None:
    assert findings_in_sample(scenario, CHECKS) == {}


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.name)
def test_stopped_and_killed_brokers_are_silent(base: Base, tmp_path: Path) -> None:
    unpack(base, tmp_path)
    assert _found(tmp_path / "data") == {}


@pytest.mark.parametrize("name", ["4.4.0-hot", "4.4.0-killed-under-load"])
def test_copies_of_a_broker_under_load_are_silent(name: str, tmp_path: Path) -> None:
    shutil.unpack_archive(DATA / f"{name}.zip", tmp_path)
    copies = sorted(tmp_path.iterdir())
    assert len(copies) >= 10
    assert {copy.name: _found(copy) for copy in copies} == {copy.name: {} for copy in copies}


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_effect_of_the_start_is_found(code: str, pristine: Path, tmp_path: Path) -> None:
    found = _found(_doctored(EXAMPLES[code], pristine, tmp_path / "data"))
    (finding,) = (finding for findings in found.values() for finding in findings if finding.code.name == code)
    assert finding.path is not None
    assert finding.path.startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("missing", "severity"),
    [
        (["single-0"], Severity.ERROR),
        (["plain-0", "plain-1"], Severity.ERROR),
        (["plain-0", "single-0"], Severity.ERROR),
        (["plain-0", "plain-1", "plain-2"], Severity.INFO),
        (["single-0", "txn-0"], Severity.INFO),
        (["plain-0", "compact-0", "open-0", "single-0", "trimmed-0", "txn-0"], Severity.INFO),
    ],
    ids=["a topic of one folder", "folders of a topic", "two topics", "all of a topic", "all of topics", "most"],
)
def test_folders_that_were_not_copied_are_not_lost(
    missing: list[str], severity: Severity, pristine: Path, tmp_path: Path
) -> None:
    """The checkpoints list all folders; only some of those of a stopped broker of 4.3.1 were copied."""
    shutil.copytree(pristine, tmp_path / "data")
    for name in missing:
        shutil.rmtree(tmp_path / "data" / name)
    found = [one for findings in _found(tmp_path / "data").values() for one in findings]
    (finding,) = (one for one in found if one.code.name == "start-creates-empty")
    likely = severity is Severity.INFO
    assert finding.severity is severity
    assert finding.benign == (f"only some folders were copied: {'likely' if likely else 'not ruled out'}",)
    created = [each for _, each in forecast_start([str(tmp_path / "data")]).all_effects() if each.kind == "created"]
    assert {"(only some folders were copied: likely)" in effect.detail for effect in created if effect.silent} >= {
        likely
    }


def test_a_checkpoint_without_the_partition_is_silent(pristine: Path, tmp_path: Path) -> None:
    """The deletion was lost in a crash before the next checkpoint, and the records came back at the start after it."""
    folder = _doctored("log-start-missing", pristine, tmp_path / "data")
    assert "start-returns-records" in _codes(folder)
    assert "records-return" in _effects(folder)
    (folder / "log-start-offset-checkpoint").write_text("0\n0\n", "ascii")
    assert _codes(folder) == set()
    assert "records-return" not in _effects(folder)


def test_a_stray_without_other_replicas_is_critical(pristine: Path, tmp_path: Path) -> None:
    found = _found(_doctored("topic-id-other", pristine, tmp_path / "data"))
    assert list(found) == ["plain-0"]
    (finding,) = found["plain-0"]
    assert finding.severity is Severity.CRITICAL
    assert "serves an empty partition" in finding.message
    assert f"`kforensics forecast {tmp_path}/data`" in (finding.remedy or "")


@pytest.mark.parametrize(
    ("release", "does"), [("3.6.2", "deletes the folder"), ("3.9.1", "renames the folder to -stray")]
)
def test_releases_before_stray_folders_delete_what_they_are_not_assigned(
    release: str, does: str, tmp_path: Path
) -> None:
    unpack(next(base for base in BASES if base.name == f"{release}-stopped"), tmp_path)
    next(case for case in cases_of(STOPPED) if case.name == "folder-unknown-partition").doctor(tmp_path / "data")
    ((finding,),) = _found(tmp_path / "data").values()
    assert finding.code.name == "start-stray"
    assert f"The next start {does}" in finding.message


@pytest.fixture
def disks(pristine: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Return the two log directories of a stopped broker: the first has the metadata log, the second only plain-0."""
    first = Path(shutil.copytree(pristine, tmp_path / "data"))
    move_by_hand("plain-0", first)
    return first, tmp_path / "data-moved"


def _found_in(folder: Path) -> list[tuple[str, str]]:
    """Return the folders of the findings on several log directories, and their codes."""
    states = [examine(partition, RULES) for partition in partitions_under(folder)]
    found = [(state.partition, finding) for state in states for finding in start_effects.findings(state)]
    return [(str(Path(partition.folder).relative_to(folder)), finding.code.name) for partition, finding in found]


def test_disks_of_a_broker_that_starts_as_usual_are_silent(disks: tuple[Path, Path], tmp_path: Path) -> None:
    assert _found_in(tmp_path) == []


@pytest.mark.parametrize("original", ["on the other disk", "gone", "of another broker", "gone, and not stopped"])
def test_a_future_folder_is_promoted_if_no_disk_has_the_original(
    original: str, disks: tuple[Path, Path], tmp_path: Path
) -> None:
    """A replica is moved between the log directories of a broker that is stopped meanwhile."""
    first, second = disks
    shutil.copytree(second / "plain-0", first / f"plain-0.{'0123456789abcdef' * 2}-future")
    if original.startswith("gone"):
        shutil.rmtree(second / "plain-0")
    if original == "gone, and not stopped":
        (second / MARKER).unlink()
    if original == "of another broker":
        meta = (second / META).read_text("ascii")
        (second / META).write_text(meta.replace("node.id=1", "node.id=2"), "ascii")
    expected = [("data/__cluster_metadata-0", "start-promotes-future")]
    assert _found_in(tmp_path) == (expected if original in ("gone", "of another broker") else [])


def test_a_folder_that_is_missing_on_a_disk_without_the_metadata_log_is_found_once(
    disks: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.move(disks[0] / "single-0", disks[1])
    shutil.rmtree(disks[1] / "plain-0")
    ((finding,),) = _found(tmp_path).values()
    assert finding.code.name == "start-creates-empty"
    assert finding.evidence["partitions"] == ["plain-0"]
    assert f"`kforensics forecast {disks[0]} {disks[1]}`" in (finding.remedy or "")
    assert _found_in(disks[1]) == []


def test_a_folder_without_a_topic_id_becomes_stray_on_a_disk_without_the_metadata_log(
    disks: tuple[Path, Path], tmp_path: Path
) -> None:
    (disks[1] / "plain-0" / "partition.metadata").unlink()
    assert _found_in(tmp_path) == [("data-moved/plain-0", "start-stray")]
    assert _found_in(disks[1]) == []
    (disks[0] / MARKER).unlink()  # its metadata log may be of an earlier moment
    assert _found_in(tmp_path) == []


def test_a_folder_is_not_looked_for_in_another_copy_of_the_broker(disks: tuple[Path, Path], tmp_path: Path) -> None:
    for copy in ("before", "after"):
        for disk in disks:
            shutil.copytree(disk, tmp_path / "copies" / copy / disk.name)
    shutil.rmtree(tmp_path / "copies" / "after" / "data-moved" / "plain-0")
    found = _found_in(tmp_path / "copies")
    assert found == [("after/data/__cluster_metadata-0", "start-creates-empty")]


def test_a_foreign_folder_is_to_be_moved_away(pristine: Path, tmp_path: Path) -> None:
    folder = _doctored("folder-backup", pristine, tmp_path / "data")
    found = _found(folder)
    assert list(found) == ["__cluster_metadata-0"]
    assert f"`mv {folder}/backup /path/outside/`" in (found["__cluster_metadata-0"][0].remedy or "")


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("index-above-limit", "plain-0/00000000000000000018"),
        ("timeindex-above-limit", "plain-0/00000000000000000018"),
        ("index-above-limit-of-stray", f"plain-0.{'0123456789abcdef' * 2}-stray/00000000000000000018"),
    ],
)
def test_indexes_above_the_limit_of_their_topic_are_to_be_removed(
    name: str, index: str, pristine: Path, tmp_path: Path
) -> None:
    """By what the finding says and by what the forecast says; the broker starts without them."""
    folder = _doctored(name, pristine, tmp_path / "data")
    ((finding,),) = _found(folder).values()
    command = f"rm {folder}/{index}.index {folder}/{index}.timeindex"
    assert f"`{command}`" in (finding.remedy or "")
    assert command in [step.command for step in remedies(forecast_start([str(folder)]), "")]
    for suffix in (".index", ".timeindex"):
        (folder / f"{index}{suffix}").unlink()
    assert _found(folder) == {}
    assert forecast_start([str(folder)]).outcome == "starts"


@pytest.mark.parametrize("name", ["index-fills-unclean", "time-index-fills-unclean"])
def test_a_recovery_that_needs_more_index_entries_is_refused_until_the_limit_is_raised(
    name: str, pristine: Path, tmp_path: Path
) -> None:
    forecast = forecast_start([str(_doctored(name, pristine, tmp_path / "data"))])
    assert forecast.outcome == "refuses"
    alter = 'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics --entity-name plain'
    commands = [step.command for step in remedies(forecast, "")]
    assert f"{alter} --add-config segment.index.bytes=10485760" in commands


def test_a_directory_without_metadata_has_its_findings_at_its_first_partition(pristine: Path, tmp_path: Path) -> None:
    folder = _doctored("folder-backup", pristine, tmp_path / "data")
    shutil.rmtree(folder / "__cluster_metadata-0")
    assert {name: code_names(found) for name, found in _found(folder).items()} == {
        "__consumer_offsets-0": ["start-refused"]
    }


def test_folders_of_a_collection_of_partitions_are_no_evidence(pristine: Path, tmp_path: Path) -> None:
    """Somebody copied single partitions to a disk of their own and keeps notes beside them."""
    for name in ("single-0", "__consumer_offsets-0"):
        shutil.copytree(pristine / name, tmp_path / "case" / name)
    for name in ("notes", "lost+found", "backup"):
        (tmp_path / "case" / name).mkdir()
    assert _found(tmp_path / "case") == {}
    (tmp_path / "case" / "meta.properties").write_bytes((pristine / "meta.properties").read_bytes())
    assert "start-refused" in _codes(tmp_path / "case")


def _recorded() -> Iterator[tuple[str, dict[str, Any]]]:
    truth = json.loads((DATA / f"{STOPPED.name}.json").read_text(encoding="utf-8"))
    for case in cases_of(STOPPED):
        if case.name in truth:
            yield case.name, truth[case.name]


def test_findings_are_what_the_broker_did(pristine: Path, tmp_path: Path) -> None:
    """Nothing is announced that does not happen, and no refusal comes as a surprise."""
    wrong: dict[str, object] = {}
    for name, truth in some(list(_recorded()), 3):
        folder = _doctored(name, pristine, tmp_path / "data")
        found = _found(folder)
        codes = {finding.code.name for findings in found.values() for finding in findings}
        refused = truth["outcome"] != "started"
        if ("start-refused" in codes) != (refused and name not in NOT_ANNOUNCED) and not _snapshot_says_it(folder):
            wrong[name] = truth["outcome"], codes
        strays = {part for part, findings in found.items() if "start-stray" in code_names(findings)}
        made = {file.partition(".*")[0] for file, kind in truth["files"].items() if "-stray/" in file}
        if not refused and not strays <= made:
            wrong[name] = strays, made
        effects = {(part.name, effect.kind) for part, effect in forecast_start([str(folder)]).all_effects() if part}
        expected = {(part, LOG_KINDS[kind]) for part, kind in effects if kind in LOG_KINDS}
        said = {(part, code) for part, findings in found.items() for code in code_names(findings)}
        if not refused and not {each for each in said if each[1] in LOG_KINDS.values()} <= expected:
            wrong[name] = said, expected
    assert wrong == {}


def _snapshot_says_it(folder: Path) -> bool:
    metadata = [part for part in partitions_under(folder) if part.place.topic == "__cluster_metadata"]
    return any(
        finding.severity is Severity.CRITICAL
        for partition in metadata
        for finding in metadata_snapshots.findings(examine(partition, RULES))
    )


def test_a_checkpoint_of_leader_epochs_that_was_lost_is_no_sign_of_deleted_records(
    pristine: Path, tmp_path: Path
) -> None:
    """The broker that lost it writes its next epoch at the end of the log."""
    folder = tmp_path / "data"
    shutil.copytree(pristine, folder)
    epochs = folder / "single-0" / "leader-epoch-checkpoint"
    epochs.write_text("0\n1\n7 27\n")
    assert "start-returns-records" not in _codes(folder)
    assert "records-return" not in {effect.kind for _, effect in forecast_start([str(folder)]).all_effects()}


def test_processes_have_the_findings_of_one(pristine: Path, tmp_path: Path) -> None:
    folder = _doctored("topic-id-other", pristine, tmp_path / "data")
    (folder / "backup").mkdir()
    rows = [kforensics.audit(folder, processes=count).findings.to_pylist() for count in (1, 2)]
    assert rows[0] == rows[1]
    assert {"start-refused", "start-stray"} <= {row["code"] for row in rows[0]}


def test_a_folder_whose_topic_was_deleted_is_an_info(pristine: Path, tmp_path: Path) -> None:
    """The metadata log shows the deletion, and the broker of the record made the folder stray."""
    folder = _doctored("metadata-transaction-ended", pristine, tmp_path / "data")
    found = {
        name: [one for one in findings if one.code.name == "start-stray"] for name, findings in _found(folder).items()
    }
    (finding,) = found["plain-0"]
    assert finding.severity is Severity.INFO
    assert "its topic was deleted at 20" in finding.message
    assert "topic-deleted" in _effects(folder)
    assert "stray" not in _effects(folder)
