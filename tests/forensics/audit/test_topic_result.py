"""The keys of topics in an audit."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from kforensics.analyses.audit import AuditRequest, audit_results
from kforensics.analyses.partitions import Investigation
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.topic_result import (
    evaluate_topics,
    partitions_by_topic,
    summaries_from_wire,
    summarize_keys,
    summary_to_wire,
)
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_rows import KEY_ROW
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES, partitions_under

GROWTH = SAMPLES / "partition-growth"
RULES = Rules(NOW)


def test_the_keys_of_internal_topics_are_not_evaluated() -> None:
    partitions = partitions_under(GROWTH)
    topics = partitions_by_topic(partitions, Clusters.of(partitions))
    assert {topic.name for topic in topics} == {
        partition.place.topic for partition in partitions if "__" not in str(partition.place.topic)
    }
    assert all(topic.topic_id for topic in topics)


def test_topics_of_the_same_name_in_two_clusters_are_distinguished(tmp_path: Path) -> None:
    for name in ("one", "two"):
        forge(tmp_path / name, "D 1 0 0-0 @0-0 N")
        (tmp_path / name / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={name}\n", "ascii")
    partitions = partitions_under(tmp_path)
    assert [topic.cluster for topic in partitions_by_topic(partitions, Clusters.of(partitions))] == ["one", "two"]


def test_a_summary_is_serialized_in_pieces() -> None:
    keyed = [partition for partition in partitions_under(GROWTH) if partition.place.topic == "keyed"]
    summaries = [summarize_keys(partition, RULES, workers=0) for partition in keyed]
    whole = [summary for summary in summaries if summary]
    pieces = [pickle.loads(pickle.dumps(piece)) for summary in whole for piece in summary_to_wire(summary)]  # noqa: S301
    deserialized = list(summaries_from_wire(pieces))
    assert [summary.folder for summary in deserialized] == [partition.folder for partition in keyed]
    for before, after in zip(whole, deserialized, strict=True):
        names = list(KEY_ROW.names or ())
        left, right = (np.sort(summary.share(0, 1), order=names) for summary in (before, after))
        assert len(left) > 1
        assert left.tolist() == right.tolist()
        assert before.counts == after.counts


def test_an_audit_with_records_finds_when_a_topic_grew() -> None:
    partitions = tuple(partitions_under(GROWTH))
    investigation, done = Investigation((), partitions, RULES), list[int]()
    request = AuditRequest(None, 1, records=True)
    uncounted = [result for result in audit_results(investigation, request, done.append) if not result.is_counted]
    tables = {name for result in uncounted for name in result.rows}
    assert tables >= {"key_partitions", "keys_apart", "producer_batches"}
    grown = {
        result.place.topic
        for result in uncounted
        for finding in result.findings
        if finding.code.name == "partition-growth"
    }
    assert grown >= {"keyed", "grown-twice"}
    without_records = audit_results(investigation, AuditRequest(None, 1), done.append)
    assert not any("key_partitions" in result.rows for result in without_records)


def test_an_unreadable_partition_is_reported_by_its_own_result(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-0 @0-0 N")
    partitions = partitions_under(tmp_path)
    (log,) = tmp_path.glob("t-0/*.log")
    log.unlink()
    assert list(evaluate_topics(partitions, Clusters.of(partitions), RULES, workers=0)) == []
