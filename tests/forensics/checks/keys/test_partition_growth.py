"""Each growth of a topic is reported with its time and its offsets, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.keys.partition_growth import findings
from kforensics.forensics.core.findings import Exactness, Severity
from tests.forensics.batch_notation import NOW
from tests.forensics.keys.topics import KEYS, Sent, at_home, home, joined, sent_to, topic, truth

FIRES = {"partition-growth": "test_growth_of_real_topics_is_reported"}
SILENT = {"partition-growth": "test_where_nothing_grew_nothing_is_reported"}
GROWN = ("keyed", "grown-twice", "compacted", "late-writer", "transactional")


@pytest.mark.parametrize("name", GROWN)
def test_growth_of_real_topics_is_reported(name: str) -> None:
    """Allows for the time between the client's request and its first view of the new partitions."""
    reported = [row for row in truth()["growth"][name] if row["partitions"] > truth_begin(name)]
    results = list(findings(topic(name)))
    assert [finding.evidence["after"] for _, finding in results] == [row["partitions"] for row in reported]
    for (place, finding), row in zip(results, reported, strict=True):
        assert row["asked_ms"] <= finding.evidence["told_ms"] <= row["seen_ms"]
        assert place.partition == finding.evidence["before"]
        assert (finding.severity, finding.exactness) == (Severity.INFO, Exactness.EXACT)


def truth_begin(name: str) -> int:
    """Return the initial partition count of a topic of the sample."""
    return 1 if name == "grown-twice" else 2


@pytest.mark.parametrize("name", ["keyed", "compacted"])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_offsets_and_keys_are_those_that_the_producers_received(name: str, with_metadata: bool) -> None:
    ((_, finding),) = findings(topic(name, with_metadata=with_metadata))
    sent = [row for row in truth()["sent"][name] if row["key"] is not None]
    grown = truth()["growth"][name][-1]["seen_ms"]
    before = [row for row in sent if row["timestamp"] <= grown]
    after = [row for row in sent if row["timestamp"] > grown]
    moved = {row["key"] for row in before if home(row["key"].encode(), 4) != row["partition"]}
    assert finding.evidence["keys_moved"] == len(moved & {row["key"] for row in after})
    for row in finding.evidence["partitions"]:
        old = [item["offset"] for item in before if item["key"] in moved and item["partition"] == row["partition"]]
        new = [item["offset"] for item in after if row["partition"] >= 2 and item["partition"] == row["partition"]]
        assert row["last_old_offset"] == max(old, default=None)
        assert row["first_new_offset"] == min(new, default=None)


def test_each_growth_has_the_keys_that_it_moved() -> None:
    """A key that returns to its original partition belongs to the first growth only."""
    places: dict[str, dict[str, int]] = {}
    for row in truth()["sent"]["grown-twice"]:
        if row["key"] is not None:
            places.setdefault(row["key"], {})[row["producer"].split()[1]] = row["partition"]
    first = sum(item["1"] != item["3"] for item in places.values())
    second = sum(item["5"] not in {item["3"], item["1"]} for item in places.values())
    assert [finding.evidence["keys_moved"] for _, finding in findings(topic("grown-twice"))] == [first, second]
    assert min(first, second) > 0


def test_the_time_lies_between_the_last_key_of_before_and_the_first_one_since(tmp_path: Path) -> None:
    sent = [*at_home(KEYS, 2), *at_home(KEYS, 3, at=7_200)]
    key, other = next(
        (key, 3 - home(key, 2) - home(key, 3)) for key in KEYS if home(key, 2) != home(key, 3)
    )  # where no count has it
    ((place, finding),) = findings(joined(sent_to(tmp_path, [*sent, Sent(key, other, 9_000)], 3)))
    old = max(row.at for row in sent[: len(KEYS)] if home(row.key or b"", 3) != row.partition)
    new = min(row.at for row in sent[len(KEYS) :] if row.partition == 2 or home(row.key or b"", 2) != row.partition)
    assert finding.evidence["last_old_timestamp"] == NOW + 1_000 * old
    assert finding.evidence["first_new_timestamp"] == NOW + 1_000 * new
    assert (place.partition, finding.exactness) == (2, Exactness.APPROXIMATE)
    assert "between 2023-11-14 22:13" in finding.message
    assert "and 2023-11-15 00:13" in finding.message


def test_partitions_that_were_there_too_have_an_offset_where_the_new_count_begins(tmp_path: Path) -> None:
    """With three partitions after two, some keys go to old partitions that did not before."""
    sent = [*at_home(KEYS, 2), *at_home(KEYS, 3, at=100)]
    keys = joined(sent_to(tmp_path, sent, 3))
    rows = {row["partition"]: row for (_, finding) in findings(keys) for row in finding.evidence["partitions"]}
    for partition in (0, 1):
        mine = [item for item in sent if item.partition == partition]
        new = [n for n, item in enumerate(mine) if home(item.key or b"", 2) != partition]
        old = [n for n, item in enumerate(mine) if home(item.key or b"", 3) != partition]
        assert (rows[partition]["last_old_offset"], rows[partition]["first_new_offset"]) == (old[-1], new[0])
        assert old[-1] < new[0]


@pytest.mark.parametrize("name", ["by-hand", "round-robin", "no-keys"])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_where_nothing_grew_nothing_is_reported(name: str, with_metadata: bool) -> None:
    assert list(findings(topic(name, with_metadata=with_metadata))) == []


def test_keys_of_a_custom_partitioner_are_no_growth(tmp_path: Path) -> None:
    sent = [Sent(key, number % 4, number) for number, key in enumerate(KEYS)]
    assert list(findings(joined(sent_to(tmp_path, sent, 4)))) == []
