"""Whether a growth is told of with its time and its offsets, and none is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.keys.partition_growth import findings
from kforensics.forensics.core.findings import Exactness, Severity
from tests.forensics.events import NOW
from tests.forensics.keys.topics import KEYS, Sent, at_home, home, joined, sent_to, topic, truth

FIRES = {"partition-growth": "test_growth_of_real_topics_is_told"}
SILENT = {"partition-growth": "test_where_nothing_grew_nothing_is_told"}
GROWN = ("keyed", "grown-twice", "compacted", "late-writer", "transactional")


@pytest.mark.parametrize("name", GROWN)
def test_growth_of_real_topics_is_told(name: str) -> None:
    """With the time that lies between the client's request and its first sight of the new partitions."""
    told = [row for row in truth()["growth"][name] if row["partitions"] > truth_begin(name)]
    found = list(findings(topic(name)))
    assert [finding.evidence["after"] for _, finding in found] == [row["partitions"] for row in told]
    for (place, finding), row in zip(found, told, strict=True):
        assert row["asked_ms"] <= finding.evidence["told_ms"] <= row["seen_ms"]
        assert place.partition == finding.evidence["before"]
        assert (finding.severity, finding.exactness) == (Severity.INFO, Exactness.EXACT)


def truth_begin(name: str) -> int:
    """Return with how many partitions a topic of the sample began."""
    return 1 if name == "grown-twice" else 2


@pytest.mark.parametrize("name", ["keyed", "compacted"])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_offsets_and_keys_are_those_the_producers_were_told(name: str, with_metadata: bool) -> None:
    ((_, finding),) = findings(topic(name, with_metadata=with_metadata))
    sent = [row for row in truth()["sent"][name] if row["key"] is not None]
    grown = truth()["growth"][name][-1]["seen_ms"]
    before = [row for row in sent if row["timestamp"] <= grown]
    after = [row for row in sent if row["timestamp"] > grown]
    moved = {row["key"] for row in before if home(row["key"].encode(), 4) != row["partition"]}
    assert finding.evidence["keys_moved"] == len(moved & {row["key"] for row in after})
    for row in finding.evidence["partitions"]:
        old = [one["offset"] for one in before if one["key"] in moved and one["partition"] == row["partition"]]
        new = [one["offset"] for one in after if row["partition"] >= 2 and one["partition"] == row["partition"]]
        assert row["last_old_offset"] == max(old, default=None)
        assert row["first_new_offset"] == min(new, default=None)


def test_each_growth_has_the_keys_that_it_moved() -> None:
    """A key that comes back to where it lay before the first growth is one of the first growth alone."""
    places: dict[str, dict[str, int]] = {}
    for row in truth()["sent"]["grown-twice"]:
        if row["key"] is not None:
            places.setdefault(row["key"], {})[row["producer"].split()[1]] = row["partition"]
    first = sum(one["1"] != one["3"] for one in places.values())
    second = sum(one["5"] not in {one["3"], one["1"]} for one in places.values())
    assert [finding.evidence["keys_moved"] for _, finding in findings(topic("grown-twice"))] == [first, second]
    assert min(first, second) > 0


def test_the_time_lies_between_the_last_key_of_before_and_the_first_one_since(tmp_path: Path) -> None:
    sent = [*at_home(KEYS, 2), *at_home(KEYS, 3, at=7_200)]
    key, other = next(
        (key, 3 - home(key, 2) - home(key, 3)) for key in KEYS if home(key, 2) != home(key, 3)
    )  # where no count has it
    ((place, finding),) = findings(joined(sent_to(tmp_path, [*sent, Sent(key, other, 9_000)], 3)))
    old = max(one.at for one in sent[: len(KEYS)] if home(one.key or b"", 3) != one.partition)
    new = min(one.at for one in sent[len(KEYS) :] if one.partition == 2 or home(one.key or b"", 2) != one.partition)
    assert finding.evidence["last_old_timestamp"] == NOW + 1_000 * old
    assert finding.evidence["first_new_timestamp"] == NOW + 1_000 * new
    assert (place.partition, finding.exactness) == (2, Exactness.APPROXIMATE)
    assert "between 2023-11-14 22:13" in finding.message
    assert "and 2023-11-15 00:13" in finding.message


def test_partitions_that_were_there_too_have_an_offset_where_the_new_count_begins(tmp_path: Path) -> None:
    """With three partitions after two, keys go to the old ones that did not before."""
    sent = [*at_home(KEYS, 2), *at_home(KEYS, 3, at=100)]
    keys = joined(sent_to(tmp_path, sent, 3))
    rows = {row["partition"]: row for (_, finding) in findings(keys) for row in finding.evidence["partitions"]}
    for partition in (0, 1):
        mine = [one for one in sent if one.partition == partition]
        new = [n for n, one in enumerate(mine) if home(one.key or b"", 2) != partition]
        old = [n for n, one in enumerate(mine) if home(one.key or b"", 3) != partition]
        assert (rows[partition]["last_old_offset"], rows[partition]["first_new_offset"]) == (old[-1], new[0])
        assert old[-1] < new[0]


@pytest.mark.parametrize("name", ["by-hand", "round-robin", "no-keys"])
@pytest.mark.parametrize("with_metadata", [True, False])
def test_where_nothing_grew_nothing_is_told(name: str, with_metadata: bool) -> None:
    assert list(findings(topic(name, with_metadata=with_metadata))) == []


def test_keys_that_somebody_else_placed_are_no_growth(tmp_path: Path) -> None:
    sent = [Sent(key, number % 4, number) for number, key in enumerate(KEYS)]
    assert list(findings(joined(sent_to(tmp_path, sent, 4)))) == []
