"""The keys of a topic as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from kforensics.forensics.audit.topic_result import KeyJudgement
from kforensics.forensics.keys.key_locations import Apart
from kforensics.forensics.keys.partitioner_fit import CountSource, Placing
from kforensics.forensics.keys.topic_keys import KeyApart, TopicKeys
from kforensics.parsers.format.printable import printable
from kforensics.render.formatting import amount, moment
from kforensics.render.stories import finding_lines

__all__ = ["key_lines"]

SOURCES = {
    CountSource.GIVEN: "as you say",
    CountSource.METADATA: "as the cluster's metadata has it",
    CountSource.KEYS: "as its keys lie; not all of them are here",
    CountSource.PARTITIONS: "the highest one here is the last, as far as anybody knows",
}
WHY = {
    Apart.GROWN: "since the topic grew",
    Apart.LATE: "by producers that had not heard of the growth yet",
    Apart.STRAY: "and no growth explains it",
    Apart.TOMBSTONE: "with a tombstone that misses the value",
}
PARTITIONS = (
    "partition",
    "records",
    "no key",
    "keys",
    "astray",
    "late",
    "apart",
    "last by the old count",
    "first by the new",
)
PARTITION = "  {:>9}  {:>10}  {:>10}  {:>10}  {:>8}  {:>8}  {:>8}  {:>21}  {:>16}"
PRODUCERS = ("producer", "writes", "batches", "records", "a batch", "largest", "fill", "compressed")
PRODUCER = "  {:>12}  {:<11}  {:>9}  {:>10}  {:>9}  {:>9}  {:>5}  {}"
# Of what there may be very many, so many are shown; the tables have all.
SHOWN = 10
LONGEST = 60


def key_lines(judged: KeyJudgement) -> Iterator[str]:
    """Yield how the keys of a topic are placed, which lie apart, how producers write, and what was found."""
    topic = judged.topic
    yield f"{printable(topic.name)}: {_counts(topic)}"
    yield f"  {_placing(topic)}"
    yield from _partitions(judged)
    yield from _apart(topic)
    yield from _producers(judged)
    for place, some in groupby(judged.placed, lambda one: one.place):
        yield from finding_lines(place, "", [one.finding for one in some])


def _counts(topic: TopicKeys) -> str:
    placing, counts = topic.placing, topic.counts
    *earlier, count = placing.numbers
    before = f", {' and then '.join(map(str, earlier))} before" if earlier else ""
    keyless = f", {counts.keyless:,} of them without a key" if counts.keyless else ""
    return (
        f"{amount(count, 'partition')} ({SOURCES[placing.source]}){before};"
        f" {amount(counts.records, 'record')}{keyless}; {amount(topic.lying.keys, 'key')}"
    )


def _placing(topic: TopicKeys) -> str:
    placing = topic.placing
    if not placing.keys:
        return "no key tells how it is partitioned"
    if placing.count == 1:
        return "with one partition every key lies right"
    if placing.follows is None:
        return f"too few keys tell who has placed them: {_share(placing)}"
    rule = (
        "the default partitioner has placed its keys" if placing.follows else "another partitioner has placed its keys"
    )
    return f"{rule}: {_share(placing)}"


def _share(placing: Placing) -> str:
    if placing.share == 1:
        return "all of them lie right"
    return f"{placing.share:.1%} lie right, by chance {placing.by_chance:.0%} would"


def _partitions(judged: KeyJudgement) -> Iterator[str]:
    yield PARTITION.format(*PARTITIONS).rstrip()
    names = ("records", "keyless_records", "keys", "astray_keys", "late_keys", "keys_apart")
    bounds = ("last_old_offset", "first_new_offset")
    for row in judged.rows["key_partitions"].only("partition", *names, *bounds):
        yield PARTITION.format(*("" if value is None else value for value in row)).rstrip()


def _apart(topic: TopicKeys) -> Iterator[str]:
    for kind in (Apart.STRAY, Apart.TOMBSTONE, Apart.LATE, Apart.GROWN):
        count = sum(row["keys"] for row in topic.pair_counts(kind))
        if count:
            verb = "lies" if count == 1 else "lie"
            yield f"  {amount(count, 'key')} {verb} in two partitions {WHY[kind]}"
            some = [one for one in topic.apart if one.kind is kind]
            yield from (f"    {_pair(one)}" for one in some[:SHOWN])
            if count > SHOWN:
                yield f"    … and {count - SHOWN:,} more; --format with --list keys has them"


def _pair(one: KeyApart) -> str:
    first, second = one.first, one.second
    tombstone = " with a tombstone" if second["last_mark"] & 1 else ""
    return (
        f"{_key(one.key)}: partition {first['partition']} up to offset {first['last_mark'] >> 1}"
        f" ({_time(first['last_timestamp'])}), partition {second['partition']} from offset {second['first_offset']} on"
        f" ({_time(second['first_timestamp'])}){tombstone}"
    )


def _key(key: bytes | None) -> str:
    if key is None:
        return "a key that cannot be read any more"
    return f"'{printable(key[:LONGEST].decode('utf-8', 'backslashreplace'))}{'…' if len(key) > LONGEST else ''}'"


def _time(timestamp: int) -> str:
    return moment(timestamp) if 0 <= timestamp < 1 << 62 else "no time"


def _producers(judged: KeyJudgement) -> Iterator[str]:
    together: dict[int, list[dict[str, Any]]] = {}
    rows = judged.rows["producer_batches"]
    for values in rows:
        row = dict(zip(rows.table.names, values, strict=True))
        together.setdefault(row["producer_id"], []).append(row)
    if not together:
        return
    yield PRODUCER.format(*PRODUCERS).rstrip()
    ordered = sorted(together.items(), key=lambda one: -sum(row["bytes"] for row in one[1]))
    yield from (_producer(producer_id, some) for producer_id, some in ordered[:SHOWN])
    if len(ordered) > SHOWN:
        yield f"  … and {len(ordered) - SHOWN:,} more producers; --format with --list producers has them"


def _producer(producer_id: int, rows: list[dict[str, Any]]) -> str:
    batches, records = (sum(row[name] for row in rows) for name in ("batches", "records"))
    size, largest = sum(row["bytes"] for row in rows), max(row["most_bytes"] for row in rows)
    ratios = [row["compression_ratio"] for row in rows if row["compression_ratio"] is not None]
    ratio = f"{min(ratios):.2f}" if ratios else ""
    if ratios and f"{max(ratios):.2f}" != ratio:
        ratio += f" to {max(ratios):.2f}"
    return PRODUCER.format(
        "no id" if producer_id < 0 else producer_id,
        rows[0]["style"] or "",
        batches,
        records,
        f"{records / batches:.1f}",
        max(row["most_records"] for row in rows),
        f"{size / batches / largest:.0%}",
        ratio,
    ).rstrip()
