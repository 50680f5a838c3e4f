"""What stands in several partitions of a topic, by what live consumers received of all of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.cross_partition_duplicates import judged_duplicates
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.topic_pairs import OFTEN
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.events import NOW

# Partition and offset.
Place = tuple[int, int]
LEVELS = {"read_uncommitted": {"raw", "committed"}, "read_committed": {"committed"}}


def _topics() -> Iterator[Any]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        for name, partitions in json.loads(path.read_text("utf-8"))["topics"].items():
            if len(partitions) > 1 and all("read_committed" in said for said in partitions.values()):
                yield pytest.param(path.parent, name, partitions, id=f"{path.parent.name}-{name}")


@pytest.mark.parametrize(("folder", "topic", "partitions"), list(_topics()))
def test_later_records_are_those_of_which_a_consumer_had_another(
    folder: Path, topic: str, partitions: dict[str, Any]
) -> None:
    """For both isolation levels: the same key, value and headers before, by time, from another partition."""
    found = partitions_under(folder)
    said = judged_duplicates(found, Clusters.of(found), Rules(NOW), workers=0)
    rows = [
        dict(zip(one.rows["duplicates"].table.names, row, strict=True))
        for one in said
        for row in one.rows["duplicates"]
    ]
    rows = [row for row in rows if row["topic"] == topic]
    for level, views in LEVELS.items():
        records = {int(number): one[level] for number, one in partitions.items()}
        expected = set(_had_before(records))
        offsets = {number: [one["offset"] for one in some] for number, some in records.items()}
        seen = [row for row in rows if row["view"] in views]
        places = {place for row in seen for place in _places(row, offsets[row["partition"]])}
        assert {(row["partition"], row["second_offset"]) for row in seen} <= expected
        assert expected <= places, level
        if views == {"committed"}:  # else a record may have a pair in each view
            assert sum(row["records"] for row in seen) == len(expected)


def _had_before(records: dict[int, list[dict[str, Any]]]) -> Iterator[Place]:
    """Yield the places of records whose content another partition had before, if none has it too often."""
    every = [
        (one["timestamp"], number, one["offset"], _content(one)) for number, some in records.items() for one in some
    ]
    counts = Counter((number, content) for _, number, _, content in every)
    often = {content for (_, content), count in counts.items() if count > OFTEN}
    where: dict[str, set[int]] = {}
    for _, number, offset, content in sorted(every):
        if content not in often and where.get(content, set()) - {number}:
            yield number, offset
        where.setdefault(content, set()).add(number)


def _content(record: dict[str, Any]) -> str:
    return json.dumps([record["key"], record["value"], record["headers"]])


def _places(row: dict[str, Any], offsets: list[int]) -> list[Place]:
    """Return the places of a run, and of what lies between its records."""
    at = offsets.index(row["second_offset"])
    return [(row["partition"], offset) for offset in offsets[at : at + row["records"] + 100]]


def test_samples_hold_records_of_two_partitions() -> None:
    """A sample that gets lost must not make the test above pass."""
    places = [list(_had_before({int(n): one["read_committed"] for n, one in p.values[2].items()})) for p in _topics()]
    assert len(places) >= 10
    assert sum(map(len, places)) >= 100


def test_one_copy_of_each_partition_is_searched() -> None:
    """Three brokers have each partition: what stands in both partitions is told once."""
    found = kforensics.duplicates(SAMPLES / "replication", as_of_ms=NOW).to_pylist()
    rows = [row for row in found if row["topic"] == "replicated" and row["first_partition"] is not None]
    assert sum(row["records"] for row in rows) == 36
    assert len({row["broker_id"] for row in rows}) == 1
