"""Builds the table rows of a topic's keys: partitions, split keys and producer batches.

The batches of a producer show how it chooses partitions for records without a key, or if the key does not determine the
partition. A sticky partitioner (KIP-480, KIP-794) fills a batch of one partition and then moves to another one, so its
batches in different partitions do not overlap in time. A round-robin partitioner writes each record to the next
partition: its batches follow the order of the partitions, or overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.keys.key_locations import MULTIPLE_PRODUCERS, SplitKeyCause
from kforensics.forensics.keys.key_rows import NO_MINIMUM
from kforensics.forensics.keys.key_summary import KeySummary
from kforensics.forensics.keys.producer_batches import BATCH_TIME, PRODUCER_BATCHES, totals_by_producer
from kforensics.forensics.keys.topic_keys import SplitKey, TopicKeys, rows_as_dicts
from kforensics.parsers.format.array_types import BoolArray

if TYPE_CHECKING:
    import numpy.typing as npt

# Fewer batches, or half as many moves to another partition, prove nothing.
LEAST = 6
# Share of batches that must match a style.
MOSTLY = 0.7
PARTITION_BATCH_TIME = np.dtype([*((name, BATCH_TIME[name]) for name in BATCH_TIME.names or ()), ("partition", "i4")])
PartitionBatchTimeArray: TypeAlias = "npt.NDArray[np.void]"


class WritingStyle(StrEnum):
    """How a producer chooses partitions."""

    KEYED = "keyed"
    STICKY = "sticky"
    ROUND_ROBIN = "round-robin"


def styles_of(summaries: Sequence[KeySummary], count: int, *, by_key: bool) -> dict[int, WritingStyle]:
    """Return the style of each producer whose batches show one.

    Args:
        summaries: all partitions of a topic.
        count: its partition count.
        by_key: whether keys determine the partition.
    """
    producers = (summary.producers for summary in summaries)
    totals = totals_by_producer(concat_rows([np.empty(0, PRODUCER_BATCHES), *producers]))
    keyed = totals["producer_id"][2 * totals["keyless"] < totals["records"]]
    styles = dict.fromkeys(keyed.tolist(), WritingStyle.KEYED) if by_key else {}
    for producer_id, batches in _by_producer(summaries):
        if producer_id not in styles and (style := _style(batches, count)):
            styles[producer_id] = style
    return styles


def _by_producer(summaries: Sequence[KeySummary]) -> Iterator[tuple[int, PartitionBatchTimeArray]]:
    """Yield the batches of each producer in time order."""
    parts = [np.empty(0, PARTITION_BATCH_TIME)]
    for summary in summaries:
        batches = np.empty(len(summary.batch_times), PARTITION_BATCH_TIME)
        for name in BATCH_TIME.names or ():
            batches[name] = summary.batch_times[name]
        batches["partition"] = summary.number
        parts.append(batches)
    rows = concat_rows(parts)
    names = ("last_timestamp", "first_timestamp", "producer_id")
    rows = take_rows(rows, np.lexsort([rows["partition"], *(rows[name] for name in names)]))
    for batches in np.split(rows, np.flatnonzero(np.diff(rows["producer_id"])) + 1):
        if len(batches):
            yield int(batches["producer_id"][0]), batches


def _style(batches: PartitionBatchTimeArray, count: int) -> WritingStyle | None:
    """Return the style of a producer from its batches in time order, None if they show none."""
    before, after = batches[:-1], batches[1:]
    moves = before["partition"] != after["partition"]
    if len(batches) < LEAST or moves.sum() < LEAST // 2:
        return None
    # Last timestamp of all earlier batches, whatever their partition.
    latest = np.maximum.accumulate(before["last_timestamp"])
    overlaps = (after["first_timestamp"] < latest) & moves
    steps = (before["partition"] + 1) % count == after["partition"]
    goes_round = count > 2 and steps.sum() > MOSTLY * len(after)
    if goes_round or overlaps.sum() > MOSTLY * moves.sum() or _is_even(batches, after["first_timestamp"] > latest):
        return WritingStyle.ROUND_ROBIN
    follow_each_other = (after["first_timestamp"] > latest) & moves
    return WritingStyle.STICKY if follow_each_other.sum() > MOSTLY * moves.sum() else None


def _is_even(batches: PartitionBatchTimeArray, begins_period: BoolArray) -> bool:
    """Whether every partition got the same number of records in most periods of overlapping batches.

    Args:
        batches: batches of a producer in time order.
        begins_period: for each batch but the first, whether it starts after all earlier ones have ended.
    """
    periods = np.cumsum(np.append(True, begins_period)) - 1
    numbers, partition = np.unique(batches["partition"], return_inverse=True)
    counts = np.zeros((periods[-1] + 1, len(numbers)), "i8")
    np.add.at(counts, (periods, partition), batches["records"])
    is_even = (counts.min(axis=1) > 0) & (np.ptp(counts, axis=1) <= 1)
    return bool(is_even[periods].mean() > MOSTLY)


PARTITIONERS = {True: "default", False: "other", None: None}
ROLES = {SplitKeyCause.TOMBSTONE: ("value", "tombstone")}
BOUNDS = ("last_old_offset", "last_old_timestamp", "first_new_offset", "first_new_timestamp")


def key_partition_rows(topic: TopicKeys) -> Rows:
    """Return one row for each available partition."""
    return _rows("key_partitions", [_partition(topic, summary) for summary in topic.summaries])


def _partition(topic: TopicKeys, summary: KeySummary) -> dict[str, Any]:
    fit, number = topic.fit, summary.number
    earlier = " ".join(map(str, fit.numbers[:-1]))
    keys = topic.locations.partitions[topic.locations.partitions["partition"] == number]
    pairs = topic.pair_counts(*(cause for cause in SplitKeyCause if cause is not SplitKeyCause.TOMBSTONE))
    return {
        **summary.place._asdict(),
        "folder": summary.folder,
        "partition_count": fit.count,
        "count_source": str(fit.source),
        "earlier_counts": earlier or None,
        "partitioner": PARTITIONERS[fit.uses_default],
        "records": summary.counts.records,
        "keyless_records": summary.counts.keyless,
        "hidden_records": summary.counts.hidden,
        "unread_batches": summary.counts.unread,
        **{name: int(keys[name].sum()) for name in ("keys", "astray_keys", "late_keys")},
        "keys_apart": sum(row["keys"] for row in pairs if number in {row["first"], row["second"]}),
        **_bounds(topic, number),
    }


def _bounds(topic: TopicKeys, number: int) -> dict[str, int | None]:
    """Return where the keys of a partition begin to follow the current partition count."""
    rows = topic.locations.bounds
    rows = rows[(rows["partition"] == number) & (rows["step"] == len(topic.fit.counts) - 2)]
    bounds: dict[str, int | None] = dict.fromkeys(BOUNDS)
    for row in rows_as_dicts(rows):
        values = (row["old_offset"], row["old_timestamp"], row["new_offset"], row["new_timestamp"])
        bounds = {
            name: None if value in {-1, NO_MINIMUM} else value for name, value in zip(BOUNDS, values, strict=True)
        }
    return bounds


def split_key_rows(topic: TopicKeys) -> Rows:
    """Return two rows for each pair of partitions of a split key, for at most a thousand keys per cause."""
    rows = (row for split_key in topic.split_keys for row in _both_sides(topic, split_key))
    return _rows("keys_apart", list(rows))


def _both_sides(topic: TopicKeys, split_key: SplitKey) -> Iterator[dict[str, Any]]:
    sides = ((split_key.first, split_key.second), (split_key.second, split_key.first))
    roles = ROLES.get(split_key.cause, ("earlier", "later"))
    for role, (own, other) in zip(roles, sides, strict=True):
        yield _side(topic, split_key, role, own, other)


def _side(topic: TopicKeys, split_key: SplitKey, role: str, own: Row, other: Row) -> dict[str, Any]:
    summary = topic.by_number[own["partition"]]
    location = topic.location(own)
    return {
        **summary.place._asdict(),
        "folder": summary.folder,
        "key": split_key.key,
        "hash": own["murmur"],
        "expected_partition": own["murmur"] % topic.fit.count,
        "why": split_key.cause.name.lower(),
        "other_partition": other["partition"],
        "role": role,
        "records": own["records"],
        "first_offset": own["first_offset"],
        "last_offset": own["last_tagged_offset"] >> 1,
        "tombstone": bool(own["last_tagged_offset"] & 1),
        "first_timestamp": None if own["first_timestamp"] == NO_MINIMUM else own["first_timestamp"],
        "last_timestamp": None if own["last_timestamp"] < 0 else own["last_timestamp"],
        "producer_id": None if own["producer_id"] == MULTIPLE_PRODUCERS else own["producer_id"],
        "path": location.path,
        "position": location.position,
    }


def producer_batch_rows(topic: TopicKeys) -> Rows:
    """Return one row for each producer id in each partition."""
    by_key = topic.fit.uses_default is not False
    styles = styles_of(topic.summaries, topic.fit.count, by_key=by_key)
    producers = (summary.producers for summary in topic.summaries)
    totals = totals_by_producer(concat_rows([np.empty(0, PRODUCER_BATCHES), *producers]))
    largest = dict(zip(totals["producer_id"].tolist(), totals["most_bytes"].tolist(), strict=True))
    rows = []
    for summary in topic.summaries:
        for row in rows_as_dicts(summary.producers):
            style = styles.get(row["producer_id"])
            place = {**summary.place._asdict(), "folder": summary.folder}
            rows.append({**place, "style": None if style is None else str(style), **_batches(row, largest)})
    return _rows("producer_batches", rows)


def _batches(row: Row, largest: dict[int, int]) -> dict[str, Any]:
    batches, producer_id = row["batches"], row["producer_id"]
    return {
        **{name: row[name] for name in ("producer_id", "batches", "records", "bytes", "most_records", "most_bytes")},
        "keyless_records": row["keyless"],
        "records_per_batch": row["records"] / batches,
        "fill": row["bytes"] / batches / largest[producer_id],
        "compression_ratio": row["plain_bytes"] / row["stored_bytes"] if row["stored_bytes"] else None,
        "mean_wait_ms": row["wait_ms"] / row["timed"] if row["timed"] else None,
        "most_wait_ms": row["most_wait_ms"] if row["timed"] else None,
        **{
            column: batches - row["timed"] + row[joined] if row["timed"] else None
            for column, joined in (("batches_10ms", "joined_10ms"), ("batches_100ms", "joined_100ms"))
        },
        "first_timestamp": None if row["first_timestamp"] == NO_MINIMUM else row["first_timestamp"],
        "last_timestamp": None if row["last_timestamp"] < 0 else row["last_timestamp"],
    }


def _rows(name: str, rows: Sequence[dict[str, Any]]) -> Rows:
    table = KEY_RESULTS[name]
    return Rows(table, len(rows), {name: [row[name] for row in rows] for name in table.names})
