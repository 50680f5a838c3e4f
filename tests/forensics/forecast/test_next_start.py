"""Every forecast against what a real broker did on the same files: see ``lab/forecast``."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kforensics.analyses.forecast import known_release
from kforensics.forensics.forecast.effects import HOUSEKEEPING, Effect
from kforensics.forensics.forecast.next_start import NOT_KNOWN, BrokerForecast, forecast_start
from lab.forecast.bases import BASES, DATA, Base, unpack
from lab.forecast.cases import Case, cases_of

RECORDED = [base for base in BASES if (DATA / f"{base.name}.json").exists()]
OUTCOMES = {"started": "starts", "refused": "refuses", "ended": "refuses", "hung": "hangs"}
# Cases in which the forecast does not know what becomes of some partitions; docs/forecast.md has the reasons.
UNKNOWN = {"metadata-folder-missing", "everything-but-meta-missing", "topic-ids-swapped", "internal-topic-id-other"}
UNKNOWN |= {"metadata-moved"}


def _truth(base: Base) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((DATA / f"{base.name}.json").read_text(encoding="utf-8"))
    return recorded


def _forecast(base: Base, case: Case, pristine: Path, folder: Path) -> BrokerForecast:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pristine, folder)
    case.doctor(folder)
    log_dirs = [str(folder / name) if name else str(folder) for name in base.log_dirs]
    return forecast_start(log_dirs, known_release(base.release))


def _differences(forecast: BrokerForecast, truth: dict[str, Any]) -> list[str]:
    expected = OUTCOMES[truth["outcome"]]
    if forecast.outcome == NOT_KNOWN:
        return []
    if forecast.outcome != expected:
        return [f"{forecast.outcome} instead of {expected}: {forecast.refusals[:1]} {truth.get('exceptions')}"]
    if expected == "refuses":
        first = truth["exceptions"][0][0]
        named = forecast.refusals[0].exception
        removed = truth["files"].get(".kafka_cleanshutdown") == "removed"
        says_so = any(effect.kind == "marker-removed" for _, effect in forecast.all_effects())
        if len(forecast.log_dirs) > 1:
            says_so = removed  # the record has no markers of several log directories
        return [] if (named, says_so) == (first, removed) else [f"{named}, {says_so} instead of {first}, {removed}"]
    return [*_offset_differences(forecast, truth["partitions"]), *_stray_differences(forecast, truth["files"])]


def _offset_differences(forecast: BrokerForecast, truth: dict[str, Any]) -> list[str]:
    unknown = {each.name for each in forecast.partitions if each.fate == NOT_KNOWN}
    served = {
        each.name: [each.loaded.log_start, each.loaded.log_end, each.loaded.last_stable]
        for each in forecast.partitions
        if each.fate in ("served", "created") and each.loaded is not None
    }
    return [
        f"{name}: {served.get(name)} instead of {offsets}"
        for name, offsets in truth.items()
        if name not in unknown and served.get(name) != (offsets if isinstance(offsets, list) else None)
    ]


def _stray_differences(forecast: BrokerForecast, truth: dict[str, str]) -> list[str]:
    made = {name.split(".*")[0] for name, kind in truth.items() if name.endswith("-stray/") and kind == "created"}
    named = {
        Path(each.folder).name
        for each in forecast.partitions
        if each.fate == "stray" and each.folder is not None and not each.folder.endswith("-stray")
    }
    unknown = {Path(each.folder or "").name for each in forecast.partitions if each.fate == NOT_KNOWN}
    made = {name.rpartition("/")[2] for name in made} - unknown
    return [] if made == named else [f"strays {sorted(named)} instead of {sorted(made)}"]


@pytest.mark.parametrize("base", RECORDED, ids=lambda base: base.name)
def test_forecast_equals_what_the_broker_did(base: Base, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unpack(base, tmp_path / "base")
    truth, wrong, unknown = _truth(base), dict[str, list[str]](), list[str]()
    cases = [case for case in cases_of(base.state) if case.name in truth]
    for case in cases:
        forecast = _forecast(base, case, tmp_path / "base" / "data", tmp_path / "copy")
        differences = _differences(forecast, truth[case.name])
        if forecast.outcome == NOT_KNOWN or any(each.fate == NOT_KNOWN for each in forecast.partitions):
            unknown.append(case.name)
        if differences:
            wrong[case.name] = differences
    outcomes = Counter(truth[case.name]["outcome"] for case in cases)
    with capsys.disabled():
        line = f"{base.name}: {len(cases)} directories ({', '.join(f'{n} {kind}' for kind, n in outcomes.items())})"
        print(f"\n{line}, not known in part: {unknown}")  # noqa: T201  # how much the comparison covers
    assert wrong == {}
    assert set(unknown) <= UNKNOWN


@pytest.mark.parametrize("base", [base for base in RECORDED if base.state != "killed"], ids=lambda base: base.name)
def test_healthy_directory_starts_and_nothing_is_changed(base: Base, tmp_path: Path) -> None:
    unpack(base, tmp_path / "base")
    case = cases_of(base.state)[0]
    forecast = _forecast(base, case, tmp_path / "base" / "data", tmp_path / "copy")
    assert forecast.outcome == "starts"
    assert [effect for _, effect in forecast.all_effects() if effect.kind != HOUSEKEEPING] == []


def test_partitions_in_directories_that_are_not_named_are_left_out(tmp_path: Path) -> None:
    base = next(base for base in BASES if base.state == "jbod")
    unpack(base, tmp_path)
    forecast = forecast_start([str(tmp_path / "data" / base.log_dirs[0])])
    assert forecast.outcome == "starts"
    assert {each.fate for each in forecast.partitions} == {"served"}
    assert 0 < len(forecast.partitions) < 4


@pytest.mark.parametrize("name", ["4.4.0-hot", "4.4.0-killed-under-load"])
def test_copies_of_a_broker_under_load_start_as_forecast(name: str, tmp_path: Path) -> None:
    """Each log as its load left it, before the coordinators ended transactions; strays, and what was cut off."""
    shutil.unpack_archive(DATA / f"{name}.zip", tmp_path)
    truth = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert len(truth) >= 10
    for copy, did in truth.items():
        forecast = forecast_start([str(tmp_path / copy)])
        assert forecast.outcome == OUTCOMES[did["outcome"]], copy
        logs = {Path(each.folder).name: each.loaded for each in forecast.partitions if each.folder and each.loaded}
        loaded = {name: [log.log_start, log.log_end] for name, log in logs.items()}
        assert loaded == did["loaded"], copy
        assert _stray_differences(forecast, did["files"]) == [], copy
        stable = {
            name: offsets[2]
            for name, offsets in did["partitions"].items()
            if name in logs and isinstance(offsets, list) and offsets[1] == logs[name].log_end
        }
        assert {name: logs[name].last_stable for name in stable} == stable, copy
        cut = {Path(effect.path or "").relative_to(tmp_path / copy) for effect in _kind(forecast, "truncated")}
        assert {Path(file) for file, kind in did["files"].items() if _is_shorter(file, kind)} <= cut, copy


def _kind(forecast: BrokerForecast, kind: str) -> list[Effect]:
    return [effect for _, effect in forecast.all_effects() if effect.kind == kind]


def _is_shorter(file: str, kind: str) -> bool:
    sizes = [int(size) for size in kind.removesuffix(" bytes").split(" -> ")] if " -> " in kind else []
    return file.endswith(".log") and len(sizes) == 2 and sizes[1] < sizes[0]
