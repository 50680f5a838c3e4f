"""Duplicates across partitions in the samples, against the records that live consumers received."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.cross_partition_duplicates import evaluate_topic_duplicates
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.cross_partition_pairs import MAX_OCCURRENCES, MAX_RUN_GAP
from tests.forensics.batch_notation import NOW
from tests.forensics.partition_states import SAMPLES, partitions_under

# Partition and offset.
RecordOffset = tuple[int, int]
VIEWS_OF_LEVEL = {"read_uncommitted": {"raw", "committed"}, "read_committed": {"committed"}}


def _topics() -> Iterator[Any]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        for name, partitions in json.loads(path.read_text("utf-8"))["topics"].items():
            if len(partitions) > 1 and all("read_committed" in reported for reported in partitions.values()):
                yield pytest.param(path.parent, name, partitions, id=f"{path.parent.name}-{name}")


@pytest.mark.parametrize(("folder", "topic", "truth"), list(_topics()))
def test_later_copies_are_those_that_a_consumer_received(folder: Path, topic: str, truth: dict[str, Any]) -> None:
    """At both isolation levels: an earlier record of another partition has the same key, value and headers."""
    partitions = partitions_under(folder)
    results = evaluate_topic_duplicates(partitions, Clusters.of(partitions), Rules(NOW), workers=0)
    rows = [
        dict(zip(result.rows["duplicates"].table.names, row, strict=True))
        for result in results
        for row in result.rows["duplicates"]
    ]
    rows = [row for row in rows if row["topic"] == topic]
    for level, views in VIEWS_OF_LEVEL.items():
        records = {int(number): reported[level] for number, reported in truth.items()}
        expected = set(_later_copies(records))
        offsets = {number: [record["offset"] for record in received] for number, received in records.items()}
        visible = [row for row in rows if row["view"] in views]
        covered = {record for row in visible for record in _covered(row, offsets[row["partition"]])}
        assert {(row["partition"], row["second_offset"]) for row in visible} <= expected
        assert expected <= covered, level
        if views == {"committed"}:  # otherwise a record may have a pair in each view
            assert sum(row["records"] for row in visible) == len(expected)


def _later_copies(records: dict[int, list[dict[str, Any]]]) -> Iterator[RecordOffset]:
    """Yield the records whose content is in another partition earlier, unless a partition has it too often."""
    received = [
        (record["timestamp"], number, record["offset"], _content(record))
        for number, partition_records in records.items()
        for record in partition_records
    ]
    counts = Counter((number, content) for _, number, _, content in received)
    frequent = {content for (_, content), count in counts.items() if count > MAX_OCCURRENCES}
    partitions: dict[str, set[int]] = {}
    for _, number, offset, content in sorted(received):
        if content not in frequent and partitions.get(content, set()) - {number}:
            yield number, offset
        partitions.setdefault(content, set()).add(number)


def _content(record: dict[str, Any]) -> str:
    return json.dumps([record["key"], record["value"], record["headers"]])


def _covered(row: dict[str, Any], offsets: list[int]) -> list[RecordOffset]:
    """Return the records of a run, and those that may lie between them."""
    index = offsets.index(row["second_offset"])
    return [(row["partition"], offset) for offset in offsets[index : index + row["records"] + MAX_RUN_GAP]]


def test_samples_contain_records_in_two_partitions() -> None:
    """A lost sample must not make the test of later copies pass."""
    copies = [
        list(_later_copies({int(number): reported["read_committed"] for number, reported in topic.values[2].items()}))
        for topic in _topics()
    ]
    assert len(copies) >= 10
    assert sum(map(len, copies)) >= 100


def test_only_one_replica_of_each_partition_is_searched() -> None:
    """Three brokers have each partition, but duplicates across two partitions are reported once."""
    duplicates = kforensics.duplicates(SAMPLES / "replication", as_of=NOW).to_pylist()
    rows = [row for row in duplicates if row["topic"] == "replicated" and row["first_partition"] is not None]
    assert sum(row["records"] for row in rows) == 36
    assert len({row["broker_id"] for row in rows}) == 1
