"""From the keys of a topic to the rows of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.core.record_arrays import joined_records
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.keys.key_bytes import Where
from kforensics.forensics.keys.key_locations import MANY, Apart
from kforensics.forensics.keys.key_rows import LATER
from kforensics.forensics.keys.key_summary import KeySummary
from kforensics.forensics.keys.producer_batches import PRODUCER_BATCHES, by_producer
from kforensics.forensics.keys.topic_keys import KeyApart, TopicKeys, rows_of
from kforensics.forensics.keys.writing_styles import styles_of

__all__ = ["apart_rows", "partition_rows", "producer_rows"]

PARTITIONERS = {True: "default", False: "other", None: None}
ROLES = {Apart.TOMBSTONE: ("value", "tombstone")}
BOUNDS = ("last_old_offset", "last_old_timestamp", "first_new_offset", "first_new_timestamp")


def partition_rows(topic: TopicKeys) -> Rows:
    """Return a row for each partition on hand."""
    return _rows("key_partitions", [_partition(topic, summary) for summary in topic.summaries])


def _partition(topic: TopicKeys, summary: KeySummary) -> dict[str, Any]:
    placing, number = topic.placing, summary.number
    earlier = " ".join(map(str, placing.numbers[:-1]))
    keys = topic.lying.partitions[topic.lying.partitions["partition"] == number]
    apart = topic.pair_counts(Apart.GROWN, Apart.LATE, Apart.STRAY)
    return {
        **summary.place._asdict(),
        "folder": summary.folder,
        "partition_count": placing.count,
        "count_source": str(placing.source),
        "earlier_counts": earlier or None,
        "partitioner": PARTITIONERS[placing.follows],
        "records": summary.counts.records,
        "keyless_records": summary.counts.keyless,
        "hidden_records": summary.counts.hidden,
        "unread_batches": summary.counts.unread,
        **{name: int(keys[name].sum()) for name in ("keys", "astray_keys", "late_keys")},
        "keys_apart": sum(row["keys"] for row in apart if number in {row["first"], row["second"]}),
        **_bounds(topic, number),
    }


def _bounds(topic: TopicKeys, number: int) -> dict[str, int | None]:
    """Return where the keys of a partition begin to go by today's count."""
    mine = topic.lying.bounds
    mine = mine[(mine["partition"] == number) & (mine["step"] == len(topic.placing.counts) - 2)]
    found: dict[str, int | None] = dict.fromkeys(BOUNDS)
    for row in rows_of(mine):
        values = (row["old_offset"], row["old_timestamp"], row["new_offset"], row["new_timestamp"])
        found = {name: None if value in {-1, LATER} else value for name, value in zip(BOUNDS, values, strict=True)}
    return found


def apart_rows(topic: TopicKeys) -> Rows:
    """Return two rows for each two partitions of a key; of very many keys of a kind the first thousand."""
    rows = (row for one in topic.apart for row in _both(topic, one))
    return _rows("keys_apart", list(rows))


def _both(topic: TopicKeys, one: KeyApart) -> Iterator[dict[str, Any]]:
    sides = ((one.first, one.second), (one.second, one.first))
    for role, (mine, other) in zip(ROLES.get(one.kind, ("earlier", "later")), sides, strict=True):
        yield _side(topic, one, role, mine, other)


def _side(topic: TopicKeys, one: KeyApart, role: str, mine: Row, other: Row) -> dict[str, Any]:
    summary = topic.by_number[mine["partition"]]
    where = Where.of(summary.paths, mine["first_place"], mine["first_offset"])
    return {
        **summary.place._asdict(),
        "folder": summary.folder,
        "key": one.key,
        "hash": mine["murmur"],
        "expected_partition": mine["murmur"] % topic.placing.count,
        "why": one.kind.name.lower(),
        "other_partition": other["partition"],
        "role": role,
        "records": mine["records"],
        "first_offset": mine["first_offset"],
        "last_offset": mine["last_mark"] >> 1,
        "tombstone": bool(mine["last_mark"] & 1),
        "first_timestamp": None if mine["first_timestamp"] == LATER else mine["first_timestamp"],
        "last_timestamp": None if mine["last_timestamp"] < 0 else mine["last_timestamp"],
        "producer_id": None if mine["producer_id"] == MANY else mine["producer_id"],
        "path": where.path,
        "position": where.position,
    }


def producer_rows(topic: TopicKeys) -> Rows:
    """Return a row for each producer id in each partition."""
    by_key = topic.placing.follows is not False
    styles = styles_of(topic.summaries, topic.placing.count, by_key=by_key)
    every = by_producer(
        joined_records([np.empty(0, PRODUCER_BATCHES), *(summary.producers for summary in topic.summaries)])
    )
    largest = dict(zip(every["producer_id"].tolist(), every["most_bytes"].tolist(), strict=True))
    rows = []
    for summary in topic.summaries:
        for row in rows_of(summary.producers):
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
        "first_timestamp": None if row["first_timestamp"] == LATER else row["first_timestamp"],
        "last_timestamp": None if row["last_timestamp"] < 0 else row["last_timestamp"],
    }


def _rows(name: str, rows: Sequence[dict[str, Any]]) -> Rows:
    table = KEY_RESULTS[name]
    return Rows(table, len(rows), {name: [row[name] for row in rows] for name in table.names})
