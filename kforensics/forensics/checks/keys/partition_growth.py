"""Whether a topic has got more partitions, and where its keys begin to go by the new count.

Rule: ``kafka-topics.sh --alter --partitions`` moves no record: a key goes on in another partition than it began in.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from kforensics.forensics.core.findings import Exactness, codes
from kforensics.forensics.core.reporting import Row, moment
from kforensics.forensics.keys.key_locations import Apart
from kforensics.forensics.keys.key_rows import LATER
from kforensics.forensics.keys.topic_keys import Placed, TopicKeys, rows_of

__all__ = ["CODES", "findings"]

CODES = codes("""
partition-growth info
The topic has got more partitions, and its keys go to other ones since.
Have consumers that need the order of a key, or its last value, read all partitions of {topic} up to here first.
why: The partition of a key is its hash modulo their number, so that most keys move when the number changes. Older \
records stay where they are.
innocent: Always: somebody wanted it so.
""")
CODE = CODES["partition-growth"]


def findings(topic: TopicKeys) -> Iterator[Placed]:
    """Yield one finding for each growth, where keys show it or the metadata tells of it."""
    for step, (before, after) in enumerate(pairwise(topic.placing.counts)):
        yield _growth(topic, step, before.count, after.count, after.from_ms)


def _growth(topic: TopicKeys, step: int, before: int, after: int, told_ms: int | None) -> Placed:
    bounds = [row for row in rows_of(topic.lying.bounds) if row["step"] == step]
    moved = sum(row["keys"] for row in topic.pair_counts(Apart.GROWN, Apart.LATE) if row["era"] == step + 1)
    first = next((one for one in topic.summaries if before <= one.number < after), topic.summaries[0])
    last_old = max((row["old_timestamp"] for row in bounds), default=-1)
    first_new = min((row["new_timestamp"] for row in bounds), default=LATER)
    return topic.finding(
        first.number,
        CODE,
        f"{topic.name} grew from {before} to {after} partitions{_when(told_ms, last_old, first_new)}."
        f" {_moved(moved)} in a partition of before and in another one since.",
        offsets=_offsets(topic, first.number, before, bounds),
        evidence={
            "before": before,
            "after": after,
            "count_source": str(topic.placing.source),
            "told_ms": told_ms,
            "last_old_timestamp": None if last_old < 0 else last_old,
            "first_new_timestamp": None if first_new == LATER else first_new,
            "keys_moved": moved,
            "partitions": [_bound(row) for row in bounds],
        },
        exactness=Exactness.EXACT if told_ms is not None else Exactness.APPROXIMATE,
        benign=("somebody has wanted it so: always",),
    )


def _when(told_ms: int | None, last_old: int, first_new: int) -> str:
    if told_ms is not None:
        return f" at {moment(told_ms)}, as the cluster's metadata has it"
    if last_old < 0 or first_new == LATER:
        return ", as its keys have it"
    one, other = (moment(time) for time in sorted((last_old, first_new)))
    return (
        f" at about {one}, as its keys have it" if one == other else f" between {one} and {other}, as its keys have it"
    )


def _moved(keys: int) -> str:
    few = {0: "No key lies", 1: "1 key lies"}
    return few.get(keys, f"{keys} keys lie")


def _offsets(topic: TopicKeys, partition: int, before: int, bounds: list[dict[str, Any]]) -> tuple[int, int] | None:
    """Return the first record of the new count in the partition that is spoken of, if it has any."""
    mine = next((row for row in bounds if row["partition"] == partition), None)
    if mine is not None and mine["new_offset"] != LATER:
        return mine["new_offset"], mine["new_offset"]
    summary = topic.by_number[partition]
    start = summary.log_start_offset
    return (start, start) if partition >= before and summary.log_end_offset > start else None


def _bound(row: Row) -> dict[str, int | None]:
    return {
        "partition": row["partition"],
        "last_old_offset": None if row["old_offset"] < 0 else row["old_offset"],
        "first_new_offset": None if row["new_offset"] == LATER else row["new_offset"],
    }
