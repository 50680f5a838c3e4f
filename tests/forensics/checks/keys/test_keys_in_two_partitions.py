"""Keys in two partitions and ineffective tombstones are reported, unless the growth of the topic explains them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.keys.keys_in_two_partitions import findings
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.keys.key_result_rows import split_key_rows
from kforensics.forensics.keys.topic_keys import KeyFinding, TopicKeys
from kforensics.forensics.metadata.topic_metadata import PartitionCount, TopicMetadata
from tests.forensics.batch_notation import NOW
from tests.forensics.keys.topics import KEYS, Sent, at_home, home, joined, sent_to, topic, truth

FIRES = {
    "key-in-two-partitions": "test_a_key_in_two_partitions_is_found",
    "tombstone-wrong-partition": "test_tombstones_of_a_real_producer_miss_their_values",
}
SILENT = {
    "key-in-two-partitions": "test_keys_that_growth_has_moved_are_in_order",
    "tombstone-wrong-partition": "test_tombstones_where_the_value_lies_are_in_order",
}
SPLIT_KEY, TOMBSTONE = FIRES


def found_in(keys: TopicKeys, code: str) -> list[KeyFinding]:
    """Return the findings with a code."""
    return [placed for placed in findings(keys) if placed.finding.code.name == code]


@pytest.mark.parametrize("name", ["keyed", "grown-twice", "compacted", "transactional", "by-hand", "no-keys"])
def test_keys_that_growth_has_moved_are_in_order(name: str) -> None:
    assert found_in(topic(name), SPLIT_KEY) == []


def test_a_key_in_two_partitions_is_found(tmp_path: Path) -> None:
    key = KEYS[0]
    other = (home(key, 4) + 2) % 4
    sent = [*at_home(KEYS, 4), Sent(key, other, 100), *at_home(KEYS[:1], 4, at=101)]
    ((place, finding),) = found_in(joined(sent_to(tmp_path, sent, 4), 4), SPLIT_KEY)
    assert finding.severity is Severity.ERROR
    assert finding.evidence["partitions"] == [other, home(key, 4)]
    assert place.partition == home(key, 4)
    assert (finding.evidence["keys"], finding.evidence["records"]) == (1, 3)
    assert f"'{key.decode()}'" in finding.message


def test_it_is_certain_if_the_metadata_shows_no_growth(tmp_path: Path) -> None:
    misplaced = Sent(KEYS[0], (home(KEYS[0], 4) + 1) % 4, 100)
    sent_to(tmp_path, [*at_home(KEYS, 4), misplaced], 4)
    never_grown = TopicMetadata("t", "id", (PartitionCount(4, NOW),))
    exactness = {
        reported: found_in(joined(tmp_path, 4, never_grown if reported else None), SPLIT_KEY)[0].finding.exactness
        for reported in (True, False)
    }
    assert exactness == {True: Exactness.EXACT, False: Exactness.APPROXIMATE}


def test_keys_that_a_late_producer_wrote_on_to_are_a_warning_of_the_growth() -> None:
    """By the records that the clients report: keys that both producers wrote to two partitions after the growth."""
    findings = found_in(topic("late-writer"), SPLIT_KEY)
    assert {(placed.finding.severity, placed.finding.cause) for placed in findings} == {
        (Severity.WARNING, "partition-growth")
    }
    sent, grown = truth()["sent"]["late-writer"], topic("late-writer").grown_ms or 0
    since: dict[str, set[int]] = {}
    for row in sent:
        if row["timestamp"] > grown:
            since.setdefault(row["key"], set()).add(row["partition"])
    assert sum(placed.finding.evidence["keys"] for placed in findings) == sum(
        len(places) > 1 for places in since.values()
    )


def test_a_producer_that_must_have_heard_of_the_growth_makes_it_an_error(tmp_path: Path) -> None:
    late = next(key for key in KEYS if home(key, 4) != home(key, 2))
    sent = [*at_home(KEYS, 2), *at_home(KEYS, 4, at=100), Sent(late, home(late, 2), 900)]
    ((_, finding),) = found_in(joined(sent_to(tmp_path, sent, 4)), SPLIT_KEY)
    assert (finding.severity, finding.evidence["keys"]) == (Severity.ERROR, 1)


def test_a_key_that_comes_back_with_the_third_count_is_in_order(tmp_path: Path) -> None:
    """With two and with five partitions it belongs to one of them, with three to another."""
    back = [key for key in KEYS if home(key, 2) == home(key, 5) != home(key, 3)]
    assert back
    sent = [*at_home(KEYS, 2), *at_home(KEYS, 3, at=100), *at_home(KEYS, 5, at=200)]
    counts = tuple(PartitionCount(count, NOW + at) for count, at in ((2, 0), (3, 90_000), (5, 190_000)))
    keys = joined(sent_to(tmp_path, sent, 5), None, TopicMetadata("t", "id", counts))
    assert keys.locations.split_count >= len(back)
    assert found_in(keys, SPLIT_KEY) == []


def test_a_partitioner_that_does_not_go_by_keys_is_one_info_finding(tmp_path: Path) -> None:
    sent = [Sent(KEYS[number % 10], number % 3, number) for number in range(60)]
    ((_, finding),) = found_in(joined(sent_to(tmp_path, sent, 3)), SPLIT_KEY)
    assert (finding.severity, finding.evidence["keys_apart"]) == (Severity.INFO, 10)


def test_one_key_in_two_partitions_is_an_error_under_any_partitioner(tmp_path: Path) -> None:
    sent = [Sent(key, number % 3, number) for number, key in enumerate(KEYS)]
    sent.append(Sent(KEYS[0], 1, 100))
    ((_, finding),) = found_in(joined(sent_to(tmp_path, sent, 3)), SPLIT_KEY)
    assert (finding.severity, finding.evidence["partitions"]) == (Severity.ERROR, [0, 1])


# The newest record, in partition 0, is a tombstone.
EMPTY = [Sent(b"", partition, 110 - partition, value=b"v" if partition else None) for partition in (3, 2, 1, 0)]


def test_an_empty_key_that_librdkafka_placed_at_random_is_information(tmp_path: Path) -> None:
    """Its default partitioner goes by another hash, and by none if the key is empty; so does a tombstone."""
    sent = [Sent(key, number % 4, number) for number, key in enumerate(KEYS)]
    keys = joined(sent_to(tmp_path, [*sent, *EMPTY], 4, first_dirty=0))
    ((place, finding),) = findings(keys)
    assert (finding.code.name, finding.severity, place.partition) == (SPLIT_KEY, Severity.INFO, 0)
    assert "The empty key of t is in 4 partitions" in finding.message
    assert finding.evidence["partitions"] == [0, 1, 2, 3]
    assert {why for (why,) in split_key_rows(keys).only("why")} == {"empty"}


def test_a_single_empty_key_is_not_how_the_topic_is_partitioned(tmp_path: Path) -> None:
    ((_, finding),) = findings(joined(sent_to(tmp_path, EMPTY, 4)))
    assert (finding.severity, "The empty key" in finding.message) == (Severity.INFO, True)


def test_an_empty_key_in_two_partitions_is_an_error_where_the_default_partitioner_writes(tmp_path: Path) -> None:
    sent_to(tmp_path, [*at_home(KEYS, 4), *EMPTY], 4, first_dirty=0)
    assert {placed.finding.severity for placed in found_in(joined(tmp_path), SPLIT_KEY)} == {Severity.ERROR}
    assert found_in(joined(tmp_path), TOMBSTONE)


def test_another_key_beside_an_empty_one_is_an_error(tmp_path: Path) -> None:
    sent = [Sent(key, number % 4, number) for number, key in enumerate(KEYS)]
    sent_to(tmp_path, [*sent, Sent(KEYS[0], 1, 90), *EMPTY], 4)
    severities = [placed.finding.severity for placed in found_in(joined(tmp_path), SPLIT_KEY)]
    assert sorted(severities) == [Severity.INFO, Severity.ERROR]


def test_tombstones_of_a_real_producer_miss_their_values() -> None:
    """By the records that the clients report: keys whose tombstone went to another partition than their value."""
    findings = found_in(topic("compacted"), TOMBSTONE)
    sent = truth()["sent"]["compacted"]
    values = {row["key"]: row["partition"] for row in sent if row["producer"] == "before"}
    # The first twelve after the growth were tombstones.
    tombstones = [row for row in sent if row["producer"] == "after"][:12]
    missed = [(values[row["key"]], row["partition"]) for row in tombstones if values[row["key"]] != row["partition"]]
    reported = {tuple(placed.finding.evidence["partitions"]): placed.finding.evidence["keys"] for placed in findings}
    assert reported == {pair: missed.count(pair) for pair in missed}
    assert {placed.finding.cause for placed in findings} == {"partition-growth"}


@pytest.mark.parametrize("compacted", [True, False])
def test_tombstones_matter_where_a_cleaner_deletes_by_them(compacted: bool, tmp_path: Path) -> None:
    value, tombstone = Sent(KEYS[0], 1, 0), Sent(KEYS[0], 2, 100, value=None)
    sent_to(tmp_path, [value, *at_home(KEYS[1:], 3), tombstone], 3, first_dirty=0 if compacted else None)
    findings = found_in(joined(tmp_path), TOMBSTONE)
    assert [placed.finding.evidence["partitions"] for placed in findings] == ([[1, 2]] if compacted else [])
    assert {placed.finding.cause for placed in findings} == ({SPLIT_KEY} if compacted else set())


@pytest.mark.parametrize("at", [0, -100], ids=["same-time", "value-newer"])
def test_tombstones_that_are_not_the_newest_are_in_order(at: int, tmp_path: Path) -> None:
    value, tombstone = Sent(KEYS[0], 1, 200), Sent(KEYS[0], 2, 200 + at, value=None)
    sent_to(tmp_path, [value, *at_home(KEYS[1:], 3), tombstone], 3, first_dirty=0)
    assert found_in(joined(tmp_path), TOMBSTONE) == []


def test_tombstones_where_the_value_lies_are_in_order(tmp_path: Path) -> None:
    sent_to(tmp_path, [*at_home(KEYS, 3), *at_home(KEYS[:5], 3, at=100, value=None)], 3, first_dirty=0)
    assert found_in(joined(tmp_path), TOMBSTONE) == []


def test_two_tombstones_delete_what_there_is(tmp_path: Path) -> None:
    values, tombstones = at_home(KEYS, 3), at_home(KEYS[:1], 3, at=100, value=None)
    other = Sent(KEYS[0], (home(KEYS[0], 3) + 1) % 3, 200, value=None)
    sent_to(tmp_path, [*values, *tombstones, other], 3, first_dirty=0)
    assert found_in(joined(tmp_path), TOMBSTONE) == []
    assert len(found_in(joined(tmp_path), SPLIT_KEY)) == 1


def test_other_keys_with_the_same_hashes_are_no_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of the keys decide."""
    sent_to(tmp_path, [*at_home(KEYS, 3), Sent(KEYS[0], (home(KEYS[0], 3) + 1) % 3, 100)], 3)
    assert found_in(joined(tmp_path), SPLIT_KEY)
    other = iter(range(1_000))
    monkeypatch.setattr("kforensics.forensics.keys.topic_keys.read_key", lambda _: b"%d" % next(other))
    assert found_in(joined(tmp_path), SPLIT_KEY) == []


def test_keys_are_printable(tmp_path: Path) -> None:
    hostile = b"\x1b[2J<script>\n" + b"x" * 100
    sent_to(tmp_path, [*at_home(KEYS, 3), *(Sent(hostile, number, number) for number in range(2))], 3)
    findings = found_in(joined(tmp_path), SPLIT_KEY)
    assert len(findings) == 1
    assert findings[0].finding.message.isprintable()
    assert "\\x1b[2J" in findings[0].finding.message
