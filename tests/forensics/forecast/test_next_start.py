"""Every forecast against what a real broker did on the same files: see ``lab/forecast``."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.forecast.broker_forecast import BrokerForecast
from kforensics.forensics.forecast.effects import ROUTINE
from kforensics.forensics.forecast.forecast_rows import forecast_rows
from kforensics.forensics.forecast.metadata_loading import NOT_KNOWN
from kforensics.forensics.forecast.next_start import forecast_start
from lab.forecast.bases import BASES, DATA, Base, unpack
from lab.forecast.cases import Case, cases_of
from lab.forecast.compare import differences, file_differences, load_differences, unsaid_changes
from tests.command import SAMPLES, run

RECORDED = [base for base in BASES if (DATA / f"{base.name}.json").exists()]
# Cases whose outcome the forecast does not know, and those in which it does not know what becomes of some partitions;
# docs/forecast.md has the reasons.
UNKNOWN = {"metadata-folder-missing", "everything-but-meta-missing", "metadata-moved", "partition-beside-metadata"}
UNKNOWN_IN_PART = {"topic-ids-swapped", "internal-topic-id-other"}
# With ZooKeeper: cases in which the start depends on what only ZooKeeper and the settings have.
# The limits of indexes are settings of topics.
UNKNOWN_WITH_ZOOKEEPER = {"meta-missing", "meta-empty", "meta-garbage"}
UNKNOWN_BEFORE_3_7 = {"future-alone", "future-of-unknown"}
DECIDED_BY_ZOOKEEPER = {
    *("meta-other-node", "meta-other-cluster", "partition-is-a-file"),
    *(
        "index-above-limit",
        "index-above-limit-of-stray",
        "timeindex-above-limit",
        "index-fills-unclean",
        "time-index-fills-unclean",
    ),
}
# Cases of a broker that stopped in order in which segments are recovered: how their names end.
RECOVERED = ("-unclean", "index-missing")
# A corrupt snapshot is deleted and written again; a folder that becomes stray takes its snapshots with it.
# 2.8 writes the snapshot of a segment that it swaps in.
OTHER_SNAPSHOTS = {"snapshot-older-bit", "topic-id-missing"}
SWAPPED_IN_2_8 = {"swap-whole-unclean", "swap-beside-unclean", "swap-beside"}
# What a start does to files without a forecast of it, as the record has it, and why.
ROUTINE_CHANGES = {
    r"removed (.*/)?\.kafka_cleanshutdown": "every start removes the marker of the clean shutdown",
    r"created (.*/)?\.lock": "every start locks its log directories; since 3.8 a stop removes the file",
    r"created .*-checkpoint": "the checkpoints are written again, also those that were missing",
    r"removed .*-checkpoint\.tmp": "the next write of the checkpoint replaces it",
    r"created .*\.(log|index|timeindex|checkpoint)\.deleted": "what becomes of a file whose removal is forecast",
    r"created .*\.snapshot": "a recovery, and each new segment, writes the state of producers",
    r"created (.*/)?__cluster_metadata-0/\d+\.(log|index|timeindex)": "the metadata log begins a new segment",
}
CHANGES_WITH_ZOOKEEPER = {
    r"created (.*/)?[^/]+-\d+/": "which partitions have no folder is in ZooKeeper",
    r"created .*/partition\.metadata": "so are the ids of topics",
    r"created b/": "a missing log directory is created",
}
ROUTINE_PATTERNS = tuple(map(re.compile, ROUTINE_CHANGES))
ZOOKEEPER_PATTERNS = tuple(map(re.compile, CHANGES_WITH_ZOOKEEPER))


def _truth(base: Base) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((DATA / f"{base.name}.json").read_text(encoding="utf-8"))
    return recorded


def _forecast(base: Base, case: Case, pristine: Path, folder: Path) -> BrokerForecast:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder)
    case.doctor(folder)
    return forecast_start(base.directories(folder), base.release)


def _changed_files(case: Case, truth: dict[str, Any]) -> dict[str, str]:
    """The files that a start changed; a record leaves out what the start of the undoctored directory does too."""
    did: dict[str, str] = truth[case.name]["files"]
    files = {**truth["undoctored"]["files"], **did}
    return {name: kind for name, kind in files.items() if kind != "as before"}


def _file_differences(forecast: BrokerForecast, base: Base, case: Case, truth: dict[str, Any], data: Path) -> list[str]:
    """How the files that come and go differ."""
    did = truth[case.name] | {"files": _changed_files(case, truth)}
    if did["outcome"] != "started":
        return []
    patterns = ROUTINE_PATTERNS + ZOOKEEPER_PATTERNS * base.has_zookeeper
    found = unsaid_changes(forecast, did["files"], data, patterns)
    is_recovered = base.state == "killed" or case.name.endswith(RECOVERED)
    other = OTHER_SNAPSHOTS | (SWAPPED_IN_2_8 if base.release.startswith("2.8") else set())
    if is_recovered and case.name not in other:
        found += file_differences(forecast, did, data, (".snapshot",))
    return found


@pytest.mark.parametrize("base", RECORDED, ids=lambda base: base.name)
def test_forecast_equals_what_the_broker_did(base: Base, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unpack(base, tmp_path / "base")
    truth, wrong, unknown, unknown_in_part = _truth(base), dict[str, list[str]](), set[str](), set[str]()
    cases = [case for case in cases_of(base) if case.name in truth]
    for case in cases:
        forecast = _forecast(base, case, tmp_path / "base" / "data", tmp_path / "copy")
        if base.has_zookeeper and case.name in DECIDED_BY_ZOOKEEPER and forecast.outcome == "starts":
            assert "in-zookeeper" in {effect.kind for effect in forecast.effects}
            continue
        found = differences(forecast, truth[case.name])
        found += _file_differences(forecast, base, case, truth, tmp_path / "copy")
        if forecast.outcome == NOT_KNOWN:
            unknown.add(case.name)
        elif any(each.fate == NOT_KNOWN for each in forecast.partitions):
            unknown_in_part.add(case.name)
        if found:
            wrong[case.name] = found
    outcomes = Counter(truth[case.name]["outcome"] for case in cases)
    with capsys.disabled():
        line = f"{base.name}: {len(cases)} directories ({', '.join(f'{n} {kind}' for kind, n in outcomes.items())})"
        line += f", not known: {sorted(unknown)}, in part: {sorted(unknown_in_part)}"
        print(f"\n{line}")  # noqa: T201  # how much the comparison covers
    assert wrong == {}
    names = {case.name for case in cases}
    expected = UNKNOWN_WITH_ZOOKEEPER if base.has_zookeeper else UNKNOWN
    expected = expected | UNKNOWN_BEFORE_3_7 if base.has_zookeeper and base.release < "3.7" else expected
    assert (unknown, unknown_in_part) == (expected & names, UNKNOWN_IN_PART & names)


@pytest.mark.parametrize("base", [base for base in RECORDED if base.state != "killed"], ids=lambda base: base.name)
def test_healthy_directory_starts_and_nothing_is_changed(base: Base, tmp_path: Path) -> None:
    unpack(base, tmp_path / "base")
    case = cases_of(base)[0]
    forecast = _forecast(base, case, tmp_path / "base" / "data", tmp_path / "copy")
    assert forecast.outcome == "starts"
    assert not forecast.changes
    assert [effect for _, effect in forecast.all_effects() if effect.kind not in ROUTINE] == []


@pytest.mark.parametrize("state", ["deleted", "stray"])
def test_recovery_point_of_the_partition_in_service_is_not_that_of_a_folder_beside_it(
    state: str, tmp_path: Path
) -> None:
    """A folder of an older topic with the same name, whose log is shorter, is no loss."""
    base = BASES[0]
    unpack(base, tmp_path / "base")
    case = next(case for case in cases_of(base) if case.name == f"{state}-folder-of-shorter-log")
    forecast = _forecast(base, case, tmp_path / "base" / "data", tmp_path / "copy")
    expected = {"deleted": ["deleted"], "stray": []}[state]
    assert [effect.kind for _, effect in forecast.all_effects() if effect.kind not in ROUTINE] == expected
    # The broker does not compute where a log ends that it will delete.
    loaded = [
        each.loaded is not None
        for each in forecast.partitions
        if (each.folder or "").endswith({"deleted": "-delete", "stray": "-stray"}[state])
    ]
    assert loaded == [state == "stray"]
    # What is out of service already stays so.
    severities = [severity for *_, effect, severity in (row[:6] for row in forecast_rows(forecast)) if effect == state]
    assert severities == ["info"]


@pytest.mark.parametrize("base", [base for base in RECORDED if base.state == "killed"], ids=lambda base: base.name)
def test_snapshots_after_the_segment_from_which_a_recovery_begins_are_deleted(base: Base, tmp_path: Path) -> None:
    unpack(base, tmp_path / "base")
    case = cases_of(base)[0]
    forecast = _forecast(base, case, tmp_path / "base" / "data", tmp_path / "copy")
    assert file_differences(forecast, _truth(base)[case.name], tmp_path / "copy") == []


@pytest.mark.parametrize("cleaned_to", [0, 14])
def test_open_transaction_before_the_log_start_holds_the_last_stable_offset(cleaned_to: int, tmp_path: Path) -> None:
    """In ``lso`` as in the broker, also if retention has moved the checkpoint of the cleaner to the log start."""
    base = BASES[0]
    unpack(base, tmp_path)
    case = next(case for case in cases_of(base) if case.name == "transaction-before-log-start-unclean")
    case.doctor(tmp_path / "data")
    (tmp_path / "data" / "cleaner-offset-checkpoint").write_text(f"0\n1\nopen 0 {cleaned_to}\n", encoding="utf-8")
    stable = kforensics.lso([str(tmp_path / "data" / "open-0")]).column("last_stable_offset").to_pylist()
    assert stable == [_truth(base)[case.name]["partitions"]["open-0"][2]]


def test_partitions_in_directories_that_are_not_named_are_left_out(tmp_path: Path) -> None:
    base = next(base for base in BASES if base.state == "jbod")
    unpack(base, tmp_path)
    forecast = forecast_start([str(tmp_path / "data" / base.log_dirs[0])])
    assert forecast.outcome == "starts"
    assert {each.fate for each in forecast.partitions} == {"served"}
    assert 0 < len(forecast.partitions) < 4


@pytest.mark.parametrize("folder", [".", "broker-1", "broker-1/metadata"])
def test_brokers_with_several_directories_are_found_below_a_folder(folder: str, tmp_path: Path) -> None:
    """Of a broker whose metadata log is apart, that directory alone shows no partition."""
    base = next(base for base in BASES if base.name == "4.4.0-apart")
    unpack(base, tmp_path)
    (tmp_path / "data").rename(tmp_path / "broker-1")
    (line,) = (line for line in run("forecast", tmp_path / folder).lines if line.startswith("broker 1 on "))
    partitions = 0 if folder.endswith("metadata") else 4
    assert line.endswith(f"starts, changes nothing; {partitions} partitions")


def test_copies_of_a_broker_from_two_days_are_forecast_apart(tmp_path: Path) -> None:
    """They have the same directory id, with which a broker that had both would refuse to start."""
    base = next(base for base in BASES if base.name == "4.4.0-stopped")
    unpack(base, tmp_path)
    for day in ("monday", "tuesday"):
        shutil.copytree(tmp_path / "data", tmp_path / day / "broker-1")
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "wednesday").mkdir()
    (tmp_path / "wednesday" / "broker-1").symlink_to(tmp_path / "tuesday" / "broker-1")
    lines = [line for line in run("forecast", tmp_path).lines if line.startswith("broker 1 on ")]
    assert [line.split(", release 4.4: starts")[0] for line in lines] == [
        f"broker 1 on {tmp_path / day / 'broker-1'}" for day in ("monday", "tuesday")
    ]


def test_copies_below_a_folder_with_log_directories_are_left_out(tmp_path: Path) -> None:
    base = next(base for base in BASES if base.name == "4.4.0-stopped")
    unpack(base, tmp_path)
    shutil.copytree(tmp_path / "data", tmp_path / "old" / "data")
    assert run("forecast", tmp_path).lines[0].startswith(f"broker 1 on {tmp_path / 'data'}, release 4.4: starts")


def test_what_lies_beside_a_metadata_log_apart_is_not_loaded(tmp_path: Path) -> None:
    """As the ``lost+found`` of its file system, which no broker accepts in one of its ``log.dirs``."""
    base = next(base for base in BASES if base.name == "4.4.0-apart")
    unpack(base, tmp_path)
    (tmp_path / "data" / "metadata" / "lost+found").mkdir()
    assert forecast_start(base.directories(tmp_path / "data"), base.release).outcome == "starts"


def test_a_directory_whose_name_begins_as_that_of_another_is_offline_alone(tmp_path: Path) -> None:
    base = next(base for base in BASES if base.state == "jbod")
    unpack(base, tmp_path)
    first, second = tmp_path / "data" / "disk", tmp_path / "data" / "disk-2"
    for name, log_dir in zip(base.log_dirs, (first, second), strict=True):
        (tmp_path / "data" / name).rename(log_dir)
    (second / "recovery-point-offset-checkpoint").write_bytes(b"garbage")
    fates = {(each.log_dir, each.fate) for each in forecast_start([str(first), str(second)], base.release).partitions}
    assert fates == {(str(first), "served"), (str(second), "offline")}


UNKNOWN_IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")


@pytest.mark.parametrize(
    ("topic_ids", "outcome"),
    [((None, None), "refuses"), ((None, UNKNOWN_IDS[0]), "starts"), (UNKNOWN_IDS, "starts")],
    ids=["of one topic", "one stray", "both stray"],
)
def test_two_folders_of_a_partition_clash_unless_one_is_stray(
    topic_ids: tuple[str | None, str | None], outcome: str, tmp_path: Path
) -> None:
    """A broker of 4.3.1 started on a hot copy with two folders of topics that its metadata log did not have."""
    base = next(base for base in BASES if base.state == "jbod")
    unpack(base, tmp_path)
    first, second = (tmp_path / "data" / name for name in base.log_dirs)
    name = next(path.parent.name for path in sorted(first.glob("*/partition.metadata")) if path.parent.name[0] != "_")
    shutil.copytree(first / name, second / name)
    for log_dir, topic_id in zip((first, second), topic_ids, strict=True):
        if topic_id is not None:
            (log_dir / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}", encoding="utf-8")
    assert forecast_start([str(first), str(second)], base.release).outcome == outcome


@pytest.mark.parametrize("name", ["4.4.0-hot", "4.4.0-killed-under-load"])
def test_copies_of_a_broker_under_load_start_as_forecast(name: str, tmp_path: Path) -> None:
    """Each log as its load left it, before the coordinators ended transactions; strays, and what was cut off."""
    shutil.unpack_archive(DATA / f"{name}.zip", tmp_path)
    truth = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert len(truth) >= 10
    for copy, did in truth.items():
        forecast = forecast_start([str(tmp_path / copy)])
        assert load_differences(forecast, did, tmp_path / copy) == [], copy
        assert unsaid_changes(forecast, did["files"], tmp_path / copy, ROUTINE_PATTERNS) == [], copy


def test_zeros_at_the_end_of_a_log_are_no_lost_records() -> None:
    """``log.preallocate`` leaves them; the sample was written with it. Bytes of a torn batch are a warning."""
    table = kforensics.forecast(SAMPLES / "crash-before-recovery" / "broker-1")
    cut = {row["topic"]: (row["severity"], row["message"]) for row in table if row["effect"] == "truncated"}
    assert {topic: severity for topic, (severity, _) in cut.items()} == {"preallocated": "info", "torn": "warning"}
    assert cut["preallocated"][1].endswith("36385 of 40000 bytes of 00000000000000000000.log, all zeros")
    assert run("forecast", SAMPLES / "crash-before-recovery" / "broker-1").lines[0].endswith("1 truncated")
