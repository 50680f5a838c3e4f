from __future__ import annotations

import pytest

from kforensics.forensics.metadata.topic_metadata import _Reading, topics_in
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.keys.topics import GROWTH, truth


def test_the_metadata_has_the_counts_and_times_that_the_client_saw() -> None:
    found = {one.name: one for one in topics_in(partitions_under(GROWTH)).values()}
    for name, growth in truth()["growth"].items():
        counts = {one.count: one.from_ms for one in found[name].partition_counts}
        assert {row["partitions"] for row in growth} <= set(counts)
        for row in growth[1:]:
            told = counts[row["partitions"]]
            assert told is not None
            assert row["asked_ms"] <= told <= row["seen_ms"]


def test_topic_ids_and_compaction_are_those_the_broker_said() -> None:
    found = topics_in(partitions_under(GROWTH))
    for name, partitions in truth()["topics"].items():
        assert found[partitions["0"]["topic_id"]].name == name
    assert {one.name for one in found.values() if one.is_compacted} >= {"compacted"}
    assert all(
        not one.is_compacted for one in found.values() if one.name in truth()["sent"] and one.name != "compacted"
    )


@pytest.mark.parametrize(
    ("policy", "expected"), [("compact", True), ("compact,delete", True), ("delete", False), (None, None)]
)
def test_the_last_policy_of_the_topic_itself_counts(policy: str | None, expected: bool | None) -> None:
    found = _Reading()
    found.take(1, "TopicRecord", {"topicId": "id", "name": "t"})
    for number, value in enumerate(("delete", policy)):
        config = {"resourceType": 2, "resourceName": "t", "name": "cleanup.policy", "value": value}
        found.take(number, "ConfigRecord", config)
    found.take(3, "ConfigRecord", {"resourceType": 4, "resourceName": "", "name": "cleanup.policy", "value": "x"})
    (told,) = found.topics()
    assert told.is_compacted is expected


@pytest.mark.parametrize("sample", ["cluster-metadata", "cluster-metadata-3.9"])
def test_where_the_head_is_gone_a_snapshot_tells(sample: str) -> None:
    """Nobody knows any more when those partitions were made, but they are known."""
    found = topics_in(partitions_under(SAMPLES / sample))
    counts = {one.name: one.partition_counts for one in found.values()}
    assert counts["kept"][-1].count == 4
    assert counts["later-4"][-1].count == 3


def test_without_metadata_nothing_is_known() -> None:
    assert topics_in(partitions_under(SAMPLES / "records" / "broker-1" / "twice-0")) == {}
