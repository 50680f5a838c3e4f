"""Misplaced keys are reported, and topics with a custom partitioner are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.keys.key_placement import findings
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.keys.topic_keys import KeyFinding, TopicKeys
from kforensics.forensics.metadata.topic_metadata import PartitionCount, TopicMetadata
from tests.forensics.batch_notation import NOW
from tests.forensics.keys.topics import KEYS, Sent, at_home, home, joined, sent_to, topic, truth

FIRES = {"key-partition-mismatch": "test_misplaced_keys_are_found_by_producer_and_partition"}
SILENT = {"key-partition-mismatch": "test_keys_of_real_producers_are_in_order"}


def found_in(keys: TopicKeys) -> list[KeyFinding]:
    """Return the findings on the keys of a topic."""
    return list(findings(keys))


@pytest.mark.parametrize("name", ["keyed", "grown-twice", "compacted", "transactional", "no-keys"])
def test_keys_of_real_producers_are_in_order(name: str) -> None:
    assert found_in(topic(name)) == []


def test_a_few_scattered_keys_are_not_reported(tmp_path: Path) -> None:
    sent = [Sent(key, (home(key, 5) + 1) % 5, number) for number, key in enumerate(KEYS[:6])]
    assert found_in(joined(sent_to(tmp_path, sent, 5), 5)) == []


def test_misplaced_keys_are_found_by_producer_and_partition(tmp_path: Path) -> None:
    misplaced = [Sent(key, (home(key, 4) + 1) % 4, 200 + number, 5) for number, key in enumerate(KEYS[:3])]
    sent = [*at_home(KEYS, 4, producer=4), *at_home(KEYS, 4, at=100, producer=5), *misplaced]
    findings = found_in(joined(sent_to(tmp_path, sent, 4), 4))
    expected = sorted({row.partition for row in misplaced})
    assert [place.partition for place, _ in findings] == expected
    for place, finding in findings:
        mine = [row for row in sent if row.partition == place.partition]
        offsets = [offset for offset, row in enumerate(mine) if row in misplaced]
        assert (finding.severity, finding.producer_id) == (Severity.WARNING, 5)
        assert (finding.first_offset, finding.last_offset) == (offsets[0], offsets[-1])
        assert (finding.evidence["astray_keys"], finding.evidence["astray_records"]) == (len(offsets), len(offsets))
        assert finding.evidence["share"] == round(1 - 3 / 43, 4)
        assert finding.path is not None


def test_a_writer_with_another_rule_is_reported(tmp_path: Path) -> None:
    by_hand = [Sent(key, (home(key, 3) + 1) % 3, 100, 6) for key in KEYS[:4]]
    findings = found_in(joined(sent_to(tmp_path, [*at_home(KEYS, 3, producer=5), *by_hand], 3)))
    assert findings
    assert all("uses another rule" in placed.finding.message for placed in findings)
    assert {placed.finding.producer_id for placed in findings} == {6}


@pytest.mark.parametrize("name", ["by-hand", "round-robin"])
def test_a_topic_with_another_partitioner_is_one_info_finding(name: str) -> None:
    ((_, finding),) = found_in(topic(name))
    assert finding.severity is Severity.INFO
    assert "custom partitioner" in finding.message


def test_a_real_producer_that_had_not_heard_of_the_growth_is_named() -> None:
    """By the records that the clients report: those of the unaware producer that do not match four partitions."""
    keys = topic("late-writer")
    findings = found_in(keys)
    late = [
        row
        for row in truth()["sent"]["late-writer"]
        if row["timestamp"] > (keys.grown_ms or 0) and home(row["key"].encode(), 4) != row["partition"]
    ]
    assert {row["producer"] for row in late} == {"unaware"}
    reported = {place.partition: finding.evidence["late_keys"] for place, finding in findings}
    partitions = {row["partition"] for row in late}
    assert reported == {item: len({row["key"] for row in late if row["partition"] == item}) for item in partitions}
    assert {(finding.cause, finding.severity) for _, finding in findings} == {("partition-growth", Severity.INFO)}
    assert len({finding.producer_id for _, finding in findings}) == 1


@pytest.mark.parametrize(
    ("after", "outcome", "severity"),
    [(200, "likely", Severity.INFO), (500, "ruled out by its timestamps", Severity.WARNING)],
)
def test_it_has_five_minutes_to_hear_of_it(after: int, outcome: str, severity: Severity, tmp_path: Path) -> None:
    sent = [*at_home(KEYS, 2, producer=1), *at_home(KEYS, 4, at=110, producer=2)]
    late = next(key for key in KEYS if home(key, 4) != home(key, 2))
    sent.append(Sent(late, home(late, 2), 100 + after, 1))
    grown = TopicMetadata("t", "id", (PartitionCount(2, NOW - 1), PartitionCount(4, NOW + 100_000)))
    ((place, finding),) = found_in(joined(sent_to(tmp_path, sent, 4), None, grown))
    assert (place.partition, finding.evidence["late_keys"]) == (home(late, 2), 1)
    assert finding.benign[0].endswith(outcome)
    assert finding.severity is severity


@pytest.mark.parametrize(("given", "exactness"), [(4, Exactness.EXACT), (None, Exactness.APPROXIMATE)])
def test_it_is_no_more_certain_than_the_count(given: int | None, exactness: Exactness, tmp_path: Path) -> None:
    misplaced = Sent(KEYS[0], (home(KEYS[0], 4) + 1) % 4, 100)
    ((_, finding),) = found_in(joined(sent_to(tmp_path, [*at_home(KEYS[1:], 4), misplaced], 4), given))
    assert finding.exactness is exactness


def test_very_many_are_reported_up_to_a_thousand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kforensics.forensics.checks.keys.key_placement.MOST", 2)
    misplaced = [Sent(key, (home(key, 3) + 1) % 3, 100, 10 + number) for number, key in enumerate(KEYS[:5])]
    findings = found_in(joined(sent_to(tmp_path, [*at_home(KEYS, 3), *misplaced], 3)))
    assert len(findings) == 2
    assert findings[-1].finding.evidence["left_out"] == 3
