"""Producers that expire because of their old timestamps, by each of the clocks that show it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import expired_producers
from kforensics.forensics.core.broker_settings import PRODUCER_EXPIRY, default_setting
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import DAY_MS, Rules
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.check_runs import (
    HEALTHY_SCENARIOS,
    HOUR_MS,
    RULES,
    findings_in_sample,
    found_in,
    state_under,
)
from tests.forensics.forge import Segments, file_of, forge, patch

FIRES = {"producer-expired-by-timestamp": "test_example_20"}
SILENT = {"producer-expired-by-timestamp": "test_real_producers_are_remembered"}
CHECK_MODULES = (expired_producers,)
OLD = NOW - DAY_MS - HOUR_MS


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_real_producers_are_remembered(scenario: str) -> None:
    assert findings_in_sample(scenario, CHECK_MODULES) == {}


def _the_one(findings: list[Finding]) -> Finding:
    (finding,) = findings
    assert finding.code.name == "producer-expired-by-timestamp"
    return finding


def _written(partition: Path, base_offset: int, time_ms: int) -> None:
    os.utime(file_of(partition, base_offset), (time_ms / 1000, time_ms / 1000))


DEFAULT_RULES = Rules(100_000_000, settings=(default_setting(PRODUCER_EXPIRY, (3, 4)),))
KNOWN_RULES = replace(DEFAULT_RULES, as_of_ms=NOW + DAY_MS)


def test_brokers_before_3_4_remember_producers_for_a_week(tmp_path: Path) -> None:
    """By default; so it is certain of a release that is not known only after a week."""
    severities = [Severity.INFO, Severity.INFO, Severity.WARNING]
    for days, severity in zip((2, 7, 8), severities, strict=True):
        old = NOW - days * DAY_MS
        forge(tmp_path / str(days), f"M 9 0 C 0 @0; D 5 0 0-1 @1-2 N ts {old}; D 5 0 9-9 @3-3 N ts {old}")
        assert _the_one(found_in(tmp_path / str(days), CHECK_MODULES)).severity == severity


def test_example_20(tmp_path: Path) -> None:
    """Data of an open transaction keeps its producer alive; in example 20 a marker shows the time."""
    forge(
        tmp_path, "M 9 0 C 0 @0 ts 100000000; D 5 0 0-0 @1 N ts 1000; D 6 0 0-0 @2 T ts 1000; D 5 0 42-42 @3 N ts 1000"
    )
    finding = _the_one(found_in(tmp_path, CHECK_MODULES, DEFAULT_RULES))
    assert (finding.severity, finding.exactness) == (Severity.WARNING, Exactness.EXACT)
    assert (finding.producer_id, finding.producer_epoch, finding.first_offset) == (5, 0, 1)


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        (f"D 5 0 2-3 @3-4 N ts {OLD}; plain @5", Severity.INFO),
        (f"D 5 0 0-1 @3-4 N ts {OLD}; plain @5", Severity.WARNING),
        (f"D 5 0 9-9 @3-3 N ts {OLD}; plain @4", Severity.WARNING),
    ],
    ids=["goes on", "again", "gap"],
)
def test_a_mirror_of_old_data_is_no_alarm_unless_its_sequences_show_harm(
    more: str, severity: Severity, tmp_path: Path
) -> None:
    """A program that copies topics with their timestamps looks like this for years."""
    forge(tmp_path, f"M 9 0 C 0 @0; D 5 0 0-1 @1-2 N ts {OLD}; {more}")
    assert {finding.severity for finding in found_in(tmp_path, CHECK_MODULES, KNOWN_RULES)} == {severity}


def test_a_marker_further_in_front_is_a_clock_too(tmp_path: Path) -> None:
    forge(tmp_path, f"M 9 0 C 0 @0; plain @1; D 5 0 0-1 @2-3 N ts {OLD}; plain @4")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.first_offset, finding.last_offset, finding.exactness) == (2, 3, Exactness.EXACT)
    assert finding.evidence == {
        "timestamp": OLD,
        "broker_time": NOW,
        "expiry_ms": DAY_MS,
        "setting": "producer.id.expiration.ms",
        "setting_value": DAY_MS,
        "setting_source": "Kafka's default since 3.4; the release is unknown, before it was 604800000",
    }


def test_a_marker_that_closes_a_transaction_is_a_clock_too(tmp_path: Path) -> None:
    forge(tmp_path, f"D 9 0 0-0 @0 T; M 9 0 C 0 @1; plain @2; D 5 0 0-1 @3-4 N ts {OLD}")
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).evidence["broker_time"] == NOW + 1


@pytest.mark.parametrize(
    "text",
    [
        f"D 5 0 0-1 @0-1 N ts {OLD}; M 9 0 C 0 @2",  # appended before, perhaps long before
        f"M 9 0 C 0 @0; D 5 0 0-1 @1-2 N ts {NOW - DAY_MS}",  # just recent enough
        f"M 9 0 C 0 @0; D 5 0 0-1 @1-2 T ts {OLD}",
        f"M 9 0 C 0 @0; D 5 0 0-1 @1-2 T ts {OLD}; M 5 0 C 0 @3",
        f"M 9 0 C 0 @0; plain @1-2 ts {OLD}",
        f"M 9 0 C 0 @0 ts {RULES.as_of_ms + DAY_MS}; D 5 0 0-1 @1-2 N ts {NOW - HOUR_MS}",  # not a usable clock
        f"D 9 0 0-0 @0 N; D 5 0 0-1 @1-2 N ts {OLD}",  # neither is the timestamp of a client
    ],
)
def test_producers_that_are_remembered(tmp_path: Path, text: str) -> None:
    forge(tmp_path, text)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_producer_0_is_one(tmp_path: Path) -> None:
    forge(tmp_path, f"M 9 0 C 0 @0; D 0 0 0-1 @1-2 N ts {OLD}")
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).producer_id == 0


def test_emptied_and_broken_batches_do_not_count(tmp_path: Path) -> None:
    text = f"M 9 0 C 0 @0; D 5 0 0-0 @1 N cnt 0 ts {OLD}; D 5 0 1-1 @2 N; M 9 0 C 0 @3; D 6 0 0-0 @4 N; D 6 0 1-1 @5 N"
    patch(file_of(forge(tmp_path, text)), 4, max_timestamp=OLD, fix_crc=False)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_log_append_time_in_front_is_a_clock(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, f"plain @0; D 5 0 0-1 @1-2 N ts {OLD}"))
    assert found_in(tmp_path, CHECK_MODULES) == []
    patch(log, 0, attributes=LOG_APPEND_TIME_BIT)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.first_offset, finding.producer_id, finding.exactness) == (1, 5, Exactness.EXACT)
    patch(log, 1, attributes=LOG_APPEND_TIME_BIT)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_data_without_a_timestamp_is_forgotten_at_once(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "D 5 3 0-1 @0-1 N; D 5 3 2-2 @2 N; plain @3"))
    for offset in (0, 2, 3):
        patch(log, offset, max_timestamp=-1)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.producer_id, finding.producer_epoch, finding.evidence["batches"]) == (5, 3, 2)
    assert finding.message == "Producer 5 wrote data without a timestamp in 2 batches."


def test_cleaned_batches_have_lost_their_newest_records(tmp_path: Path) -> None:
    segments: Segments = {0: f"M 9 0 C 0 @0; D 5 0 0-4 @1-5 N cnt 1 ts {OLD}", 6: "plain @6"}
    forge(tmp_path, segments, compacted=True)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_finished_segment_is_a_clock_where_its_data_is_of_that_day(tmp_path: Path) -> None:
    partition = forge(tmp_path, {0: "plain @0; plain @1", 2: f"D 5 0 0-1 @2-3 N ts {OLD}; plain @4"})
    _written(partition, 2, NOW + 1000)
    for written, expected in ((NOW, 1), (NOW + DAY_MS + HOUR_MS, 0), (NOW - HOUR_MS, 0)):
        _written(partition, 0, written)
        rules = Rules(as_of_ms=NOW + 2 * DAY_MS)
        assert len(found_in(tmp_path, CHECK_MODULES, rules)) == expected
    _written(partition, 0, NOW)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES, KNOWN_RULES))
    assert (finding.producer_id, finding.severity, finding.exactness) == (5, Severity.INFO, Exactness.APPROXIMATE)


def test_import_is_only_a_word_for_a_late_replica_looks_the_same(tmp_path: Path) -> None:
    partition = forge(tmp_path, f"plain @0 ts {OLD}; D 5 0 0-1 @1-2 N ts {OLD + 5}")
    for path in (*partition.iterdir(), partition):
        os.utime(path, (NOW / 1000, NOW / 1000))
    finding = _the_one(found_in(tmp_path, CHECK_MODULES, Rules(as_of_ms=NOW + 2 * DAY_MS)))
    assert (finding.severity, finding.exactness) == (Severity.INFO, Exactness.UNVERIFIABLE)
    assert (finding.first_offset, finding.last_offset, finding.producer_id) == (1, 2, 5)
    assert finding.benign[-1] == "replica built later: possible"


def test_import_may_be_reported_by_the_last_segment(tmp_path: Path) -> None:
    partition = forge(tmp_path, {0: f"plain @0 ts {OLD}", 1: f"D 5 0 0-1 @1-2 N ts {OLD + 5}"})
    for path in partition.iterdir():
        os.utime(path, (NOW / 1000, NOW / 1000))
    _written(partition, 0, OLD)
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).first_offset == 1


@pytest.mark.parametrize(
    "text",
    [
        f"plain @0 ts {NOW - HOUR_MS}; D 5 0 0-1 @1-2 N ts {OLD}",  # another client's data is of the same day
        f"D 5 0 0-1 @0-1 N ts {OLD}; plain @2 ts {OLD + 5}",
        f"D 5 0 0-1 @0-1 N ts {NOW - DAY_MS}",
        "",
    ],
)
def test_old_files_need_not_hold_an_import(tmp_path: Path, text: str) -> None:
    partition = forge(tmp_path, text)
    for path in partition.iterdir():
        os.utime(path, (NOW / 1000, NOW / 1000))
    assert found_in(tmp_path, CHECK_MODULES, Rules(as_of_ms=NOW + 2 * DAY_MS)) == []


def test_file_that_was_touched_after_the_copy_proves_nothing(tmp_path: Path) -> None:
    partition = forge(tmp_path, f"D 5 0 0-1 @0-1 N ts {OLD}")
    for path in partition.iterdir():
        os.utime(path, (OLD / 1000, OLD / 1000))
    _written(partition, 0, NOW + HOUR_MS)
    assert found_in(tmp_path, CHECK_MODULES, Rules(as_of_ms=NOW)) == []
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).exactness is Exactness.UNVERIFIABLE


def test_files_without_times_say_nothing(tmp_path: Path) -> None:
    forge(tmp_path, f"D 5 0 0-1 @0-1 N ts {OLD}")
    state = state_under(tmp_path, CHECK_MODULES)
    segments = tuple(replace(segment, mtime_ms=None) for segment in state.partition.segments)
    timeless = replace(state, partition=replace(state.partition, segments=segments))
    assert list(expired_producers.findings(timeless)) == []


@pytest.mark.parametrize("as_of", [NOW, NOW + HOUR_MS, NOW - HOUR_MS])
def test_files_that_all_have_the_time_of_the_copy_say_nothing(tmp_path: Path, as_of: int) -> None:
    partition = forge(tmp_path, f"plain @0 ts {OLD}; D 5 0 0-1 @1-2 N ts {OLD + 5}")
    for path in partition.iterdir():
        os.utime(path, (NOW / 1000, NOW / 1000))
    assert found_in(tmp_path, CHECK_MODULES, Rules(as_of_ms=as_of)) == []
