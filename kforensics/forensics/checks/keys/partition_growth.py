"""Checks whether partitions were added to a topic, and from where on its keys follow the new partition count.

Rule: ``kafka-topics.sh --alter --partitions`` moves no record: a key may continue in another partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.keys.key_locations import SplitKeyCause
from kforensics.forensics.keys.key_rows import NO_MINIMUM
from kforensics.forensics.keys.topic_keys import KeyFinding, TopicKeys, rows_as_dicts

CODES = by_name(
    Code(
        "partition-growth",
        Severity.INFO,
        meaning="Partitions were added to the topic, and its keys go to other partitions since then.",
        remedy=(
            "If consumers need the order or the last value of a key, have them read all partitions of {topic} "
            "up to this point first."
        ),
        why=(
            "The partition of a key is its hash modulo the partition count, so most keys move when the count "
            "changes. Older records stay where they are."
        ),
        benign="Always: partitions are added on purpose.",
    ),
)
CODE = CODES["partition-growth"]


def findings(topic: TopicKeys) -> Iterator[KeyFinding]:
    """Yield one finding for each growth of the topic that keys or the cluster metadata show."""
    for step, (before, after) in enumerate(pairwise(topic.fit.counts)):
        yield _growth(topic, step, before.count, after.count, after.from_ms)


def _growth(topic: TopicKeys, step: int, before: int, after: int, metadata_ms: int | None) -> KeyFinding:
    bounds = [row for row in rows_as_dicts(topic.locations.bounds) if row["step"] == step]
    moved = sum(
        row["keys"]
        for row in topic.pair_counts(SplitKeyCause.GROWN, SplitKeyCause.LATE)
        if row["generation"] == step + 1
    )
    first = next((summary for summary in topic.summaries if before <= summary.number < after), topic.summaries[0])
    last_old = max((row["old_timestamp"] for row in bounds), default=-1)
    first_new = min((row["new_timestamp"] for row in bounds), default=NO_MINIMUM)
    return topic.finding(
        first.number,
        CODE,
        f"{topic.name} grew from {before} to {after} partitions{_when(metadata_ms, last_old, first_new)}."
        f" {_moved(moved)} in one partition before and in another one since.",
        offsets=_offsets(topic, first.number, before, bounds),
        evidence={
            "before": before,
            "after": after,
            "count_source": str(topic.fit.source),
            "told_ms": metadata_ms,
            "last_old_timestamp": None if last_old < 0 else last_old,
            "first_new_timestamp": None if first_new == NO_MINIMUM else first_new,
            "keys_moved": moved,
            "partitions": [_bound(row) for row in bounds],
        },
        exactness=Exactness.EXACT if metadata_ms is not None else Exactness.APPROXIMATE,
        benign=("partitions added on purpose: always",),
    )


def _when(metadata_ms: int | None, last_old: int, first_new: int) -> str:
    if metadata_ms is not None:
        return f" at {format_time(metadata_ms)}, by the cluster metadata"
    if last_old < 0 or first_new == NO_MINIMUM:
        return ", by its keys"
    earlier, later = (format_time(time) for time in sorted((last_old, first_new)))
    return f" at about {earlier}, by its keys" if earlier == later else f" between {earlier} and {later}, by its keys"


def _moved(keys: int) -> str:
    few = {0: "No key was", 1: "1 key was"}
    return few.get(keys, f"{keys} keys were")


def _offsets(topic: TopicKeys, partition: int, before: int, bounds: list[dict[str, Any]]) -> tuple[int, int] | None:
    """Return the first record of the new count in the reported partition, None if there is none."""
    bound = next((row for row in bounds if row["partition"] == partition), None)
    if bound is not None and bound["new_offset"] != NO_MINIMUM:
        return bound["new_offset"], bound["new_offset"]
    summary = topic.by_number[partition]
    start = summary.log_start_offset
    return (start, start) if partition >= before and summary.log_end_offset > start else None


def _bound(row: Row) -> dict[str, int | None]:
    return {
        "partition": row["partition"],
        "last_old_offset": None if row["old_offset"] < 0 else row["old_offset"],
        "first_new_offset": None if row["new_offset"] == NO_MINIMUM else row["new_offset"],
    }


CHECK = Check("partition_growth", CODES, findings)
