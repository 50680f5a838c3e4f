"""Upgrades and downgrades: the forecast against brokers of other releases on the same files; see ``lab/forecast``."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.analyses.forecast import known_release
from kforensics.forensics.forecast.broker_forecast import BrokerForecast
from kforensics.forensics.forecast.forecast_rows import remedies
from kforensics.forensics.forecast.metadata_loading import NOT_KNOWN
from kforensics.forensics.forecast.next_start import forecast_start
from lab.forecast.bases import unpack
from lab.forecast.compare import differences, unsaid_changes
from lab.forecast.releases import RESULTS, STARTED_BY, WRITTEN, Written
from tests.command import SAMPLES, run
from tests.forensics.forecast.test_next_start import ROUTINE_PATTERNS

TRUTH: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8"))
BY_NAME = {written.base.name: written for written in WRITTEN}


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.base.name)
def test_forecast_equals_what_the_release_did(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpack(written.base, tmp_path)
    truth = TRUTH[written.base.name]
    assert set(truth) == set(STARTED_BY)
    data = [str(tmp_path / "data")]
    forecasts = {release: forecast_start(data, known_release(release)) for release in truth}
    wrong = {release: found for release, did in truth.items() if (found := differences(forecasts[release], did))}
    outcomes = Counter(did["outcome"] for did in truth.values())
    with capsys.disabled():
        print(f"\n{written.base.name}: {dict(outcomes)}")  # noqa: T201  # how much the comparison covers
    assert wrong == {}
    for release, did in truth.items():
        assert unsaid_changes(forecasts[release], did["files"], tmp_path / "data", ROUTINE_PATTERNS) == [], release
    assert not [release for release, forecast in forecasts.items() if _is_open(forecast)]


def _is_open(forecast: BrokerForecast) -> bool:
    return NOT_KNOWN in {forecast.outcome, *(each.fate for each in forecast.partitions)}


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.base.name)
def test_without_a_release_it_is_the_one_that_ran(written: Written, tmp_path: Path) -> None:
    """So a setting that a later release refuses is no alarm before a restart."""
    unpack(written.base, tmp_path)
    forecast = forecast_start([str(tmp_path / "data")])
    assert (forecast.release, forecast.outcome) == (tuple(map(int, written.base.release.split(".")[:2])), "starts")
    assert TRUTH[written.base.name][written.base.release]["outcome"] == "started"


def test_remedy_of_a_small_segment_names_each_topic(tmp_path: Path) -> None:
    unpack(BY_NAME["3.9.1-small-segments"].base, tmp_path)
    forecast = forecast_start([str(tmp_path / "data")], "4.1.1")
    steps = remedies(forecast, "kforensics forecast")
    altered = "--alter --entity-type topics --entity-name plain --add-config segment.bytes=1048576"
    alter = f'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" {altered}'
    assert [step.command for step in steps] == [alter, "kforensics forecast"]


def test_the_command_to_repeat_has_no_release_that_refuses_for_good() -> None:
    ended = run("forecast", "--release", "3.9.1", SAMPLES / "deletion" / "broker-1")
    assert ended.lines[0].endswith("release 3.9: refuses")
    (command,) = [line for line in ended.lines if line.startswith("     $ ")]
    assert command.split()[1:3] == ["kforensics", "forecast"]
    assert "--release" not in command


def test_the_command_to_repeat_has_the_release_if_something_can_be_done(tmp_path: Path) -> None:
    unpack(BY_NAME["3.9.1-small-segments"].base, tmp_path)
    ended = run("forecast", "--release", "4.1.1", tmp_path / "data")
    again = [line for line in ended.lines if line.startswith("     $ kforensics forecast")]
    assert again
    assert all("--release 4.1.1" in line for line in again)


def test_first_screen_says_release_and_reason(tmp_path: Path) -> None:
    unpack(BY_NAME["3.9.1-small-segments"].base, tmp_path)
    data = str(tmp_path / "data")
    ended = run("forecast", "--release", "4.3.1", data)
    assert ended.code == 1
    first, second = ended.lines[:2]
    assert first == f"broker 1 on {data}, release 4.3: refuses"
    assert "ConfigException: Invalid value 20000 for configuration segment.bytes" in second
    rows = kforensics.forecast([data], release="4.3.1").to_pylist()
    assert [row["severity"] for row in rows if row["exception"]] == ["critical"]
