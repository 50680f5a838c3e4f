"""The keys of topics in an audit."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from kforensics.analyses.audit import AuditRequest, judged
from kforensics.analyses.partitions import Investigation
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.topic_keys import in_pieces, judged_topics, out_of_pieces, summary_of_keys, topics_among
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_rows import KEY
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.events import NOW
from tests.forensics.forge import forge

GROWTH = SAMPLES / "partition-growth"
RULES = Rules(NOW)


def test_brokers_own_topics_have_no_keys_to_judge() -> None:
    partitions = partitions_under(GROWTH)
    found = topics_among(partitions, Clusters.of(partitions))
    assert {topic.name for topic in found} == {
        one.place.topic for one in partitions if "__" not in str(one.place.topic)
    }
    assert all(topic.topic_id for topic in found)


def test_topics_of_the_same_name_in_two_clusters_are_two(tmp_path: Path) -> None:
    for name in ("one", "two"):
        forge(tmp_path / name, "D 1 0 0-0 @0-0 N")
        (tmp_path / name / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={name}\n", "ascii")
    partitions = partitions_under(tmp_path)
    assert [topic.cluster for topic in topics_among(partitions, Clusters.of(partitions))] == ["one", "two"]


def test_a_summary_travels_in_pieces() -> None:
    some = [one for one in partitions_under(GROWTH) if one.place.topic == "keyed"]
    summaries = [summary_of_keys(one, RULES, workers=0) for one in some]
    whole = [one for one in summaries if one]
    travelled = [pickle.loads(pickle.dumps(piece)) for one in whole for piece in in_pieces(one)]  # noqa: S301
    arrived = list(out_of_pieces(travelled))
    assert [one.folder for one in arrived] == [one.folder for one in some]
    for before, after in zip(whole, arrived, strict=True):
        names = list(KEY.names or ())
        left, right = (np.sort(one.share(0, 1), order=names) for one in (before, after))
        assert len(left) > 1
        assert left.tolist() == right.tolist()
        assert before.counts == after.counts


def test_an_audit_with_records_finds_when_a_topic_grew() -> None:
    partitions = tuple(partitions_under(GROWTH))
    found, done = Investigation((), partitions, RULES), list[int]()
    said = [one for one in judged(found, AuditRequest(None, 1, records=True), done.append) if not one.is_counted]
    tables = {name for one in said for name in one.rows}
    assert tables >= {"key_partitions", "keys_apart", "producer_batches"}
    grown = {one.place.topic for one in said for finding in one.findings if finding.code.name == "partition-growth"}
    assert grown >= {"keyed", "grown-twice"}
    assert not any("key_partitions" in one.rows for one in judged(found, AuditRequest(None, 1), done.append))


def test_a_partition_that_cannot_be_read_is_left_to_its_own_verdict(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-0 @0-0 N")
    partitions = partitions_under(tmp_path)
    (log,) = tmp_path.glob("t-0/*.log")
    log.unlink()
    assert list(judged_topics(partitions, Clusters.of(partitions), RULES, workers=0)) == []
