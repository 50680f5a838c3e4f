"""Topics in the metadata log of a cluster, compared with what clients and brokers of the lab reported."""

from __future__ import annotations

import pytest

from kforensics.forensics.core.past_cleanings import PastPolicy
from kforensics.forensics.metadata.topic_metadata import TopicReader, topics_in
from tests.forensics.keys.topics import GROWTH, truth
from tests.forensics.partition_states import SAMPLES, partitions_under


def test_partition_counts_and_times_match_what_the_client_saw() -> None:
    topics = {topic.name: topic for topic in topics_in(partitions_under(GROWTH)).values()}
    for name, growth in truth()["growth"].items():
        counts = {each.count: each.from_ms for each in topics[name].partition_counts}
        assert {row["partitions"] for row in growth} <= set(counts)
        for row in growth[1:]:
            from_ms = counts[row["partitions"]]
            assert from_ms is not None
            assert row["asked_ms"] <= from_ms <= row["seen_ms"]


def test_topic_ids_and_compaction_match_what_the_broker_reported() -> None:
    topics = topics_in(partitions_under(GROWTH))
    for name, partitions in truth()["topics"].items():
        assert topics[partitions["0"]["topic_id"]].name == name
    compacted = {topic.name for topic in topics.values() if topic.is_compacted}
    assert compacted >= {"compacted"}
    assert compacted.isdisjoint(set(truth()["sent"]) - {"compacted"})


@pytest.mark.parametrize(
    ("policy", "expected"), [("compact", True), ("compact,delete", True), ("delete", False), (None, None)]
)
def test_the_last_policy_of_the_topic_itself_counts(policy: str | None, expected: bool | None) -> None:
    reader = TopicReader()
    reader.add(1, "TopicRecord", {"topicId": "id", "name": "t"})
    for number, value in enumerate(("delete", policy)):
        config = {"resourceType": 2, "resourceName": "t", "name": "cleanup.policy", "value": value}
        reader.add(number, "ConfigRecord", config)
    reader.add(3, "ConfigRecord", {"resourceType": 4, "resourceName": "", "name": "cleanup.policy", "value": "x"})
    (topic,) = reader.topics()
    assert topic.is_compacted is expected


def test_the_last_policy_with_compaction_is_remembered_by_topic_id() -> None:
    """A topic that was created again with the name has only its own."""
    reader, config = TopicReader(), {"resourceType": 2, "resourceName": "t", "name": "cleanup.policy"}
    reader.add(0, "TopicRecord", {"topicId": "old", "name": "t"})
    for time, value in enumerate(("compact", "compact,delete", "delete", None), 1):
        reader.add(time, "ConfigRecord", config | {"value": value})
    reader.add(5, "TopicRecord", {"topicId": "new", "name": "t"})
    assert reader.compacted == {"old": PastPolicy("compact,delete", 3)}
    reader.add(6, "ConfigRecord", config | {"value": "compact"})
    assert reader.compacted == {"old": PastPolicy("compact,delete", 3), "new": PastPolicy("compact")}


def test_a_policy_that_precedes_the_record_of_its_topic_is_of_that_topic() -> None:
    """Controllers of 3.0 to 3.2 write the settings of a new topic first."""
    reader, config = TopicReader(), {"resourceType": 2, "resourceName": "t", "name": "cleanup.policy"}
    reader.add(1, "ConfigRecord", config | {"value": "compact"})
    assert reader.compacted == {}
    reader.add(1, "TopicRecord", {"topicId": "old", "name": "t"})
    reader.add(2, "ConfigRecord", config | {"value": "delete"})
    assert reader.compacted == {"old": PastPolicy("compact", 2)}
    reader.add(3, "RemoveTopicRecord", {"topicId": "old"})
    reader.add(4, "ConfigRecord", config | {"value": "compact,delete"})
    reader.add(4, "TopicRecord", {"topicId": "new", "name": "t"})
    assert reader.compacted == {"old": PastPolicy("compact", 2), "new": PastPolicy("compact,delete")}
    reader.add(5, "RemoveTopicRecord", {"topicId": "new"})
    reader.add(6, "TopicRecord", {"topicId": "newest", "name": "t"})
    assert "newest" not in reader.compacted
    assert {topic.topic_id for topic in reader.topics()} == {"old", "new", "newest"}


@pytest.mark.parametrize("sample", ["cluster-metadata", "cluster-metadata-3.9"])
def test_topics_from_a_snapshot_replace_a_missing_log_start(sample: str) -> None:
    """It is unknown when their partitions were created, but the partitions are known."""
    topics = topics_in(partitions_under(SAMPLES / sample))
    counts = {topic.name: topic.partition_counts for topic in topics.values()}
    assert counts["kept"][-1].count == 4
    assert counts["later-4"][-1].count == 3


def test_without_a_metadata_log_there_are_no_topics() -> None:
    assert topics_in(partitions_under(SAMPLES / "records" / "broker-1" / "twice-0")) == {}
