"""Formats the keys of a topic: partition placement, keys in two partitions, producer batches and findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kforensics.forensics.audit.topic_result import TopicKeyResult
from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.formatting import format_count, format_share, format_time
from kforensics.forensics.keys.key_locations import SplitKeyCause
from kforensics.forensics.keys.partitioner_fit import CountSource, PartitionerFit
from kforensics.forensics.keys.topic_keys import SplitKey, TopicKeys
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.fitted_table import FittedTable, TableColumn
from kforensics.render.partition_names import partition_label
from kforensics.render.partition_text import (
    FAULTY,
    NO_LOG,
    NOT_FAULTY,
    add_missing_log,
    placed_details,
)
from kforensics.render.ranked_text import RankedText
from kforensics.render.screen import Screen

COUNT_SOURCES = {
    CountSource.GIVEN: "as given",
    CountSource.METADATA: "from the cluster metadata",
    CountSource.KEYS: "estimated from the keys, some partitions are missing",
    CountSource.PARTITIONS: "the highest partition found",
}
# Of an empty key, which is in several partitions at random, the finding is enough.
SPLIT_CAUSES = {
    SplitKeyCause.GROWN: "the topic grew",
    SplitKeyCause.LATE: "producers had stale metadata after the topic grew",
    SplitKeyCause.STRAY: "not explained by growth",
    SplitKeyCause.TOMBSTONE: "the tombstone is not in the partition of the value",
}
PARTITION_HEADINGS = (
    TableColumn("partition"),
    TableColumn("records"),
    TableColumn("no key", 5),
    TableColumn("keys", 1),
    TableColumn("misplaced"),
    TableColumn("old count", 2),
    TableColumn("split"),
    TableColumn("last by old count", 3),
    TableColumn("first by new count", 4),
)
KEY_PARTITION_COLUMNS = (
    *("partition", "records", "keyless_records", "keys", "astray_keys", "late_keys", "keys_apart"),
    *("last_old_offset", "first_new_offset"),
)
PRODUCER_BATCH_HEADINGS = (
    TableColumn("producer"),
    TableColumn("style", 1, is_text=True),
    TableColumn("batches", 4),
    TableColumn("records", 5),
    TableColumn("per batch"),
    TableColumn("largest", 6),
    TableColumn("fill", 3),
    TableColumn("compression ratio", 2, is_text=True),
    TableColumn("wait ms", 7),
    TableColumn("in 10 ms", 9),
    TableColumn("in 100 ms", 8),
)
# Split keys and producers listed; the tables have all of them.
MAX_LISTED = 10
MAX_KEY_CHARACTERS = 60
LATEST_TIMESTAMP = 1 << 62


def add_keys(text: RankedText, result: TopicKeyResult | MissingLog) -> None:
    """Add a topic, or a partition whose log is missing, to the text: what is wrong first."""
    if isinstance(result, MissingLog):
        add_missing_log(text, NO_LOG, result)
        return
    worst = max((placed.finding.severity for placed in result.placed), default=None)
    text.add((NOT_FAULTY,) if worst is None else (FAULTY, -worst), _topic_lines(result, text))


def _topic_lines(result: TopicKeyResult, text: RankedText) -> Iterator[str]:
    """Yield the findings of a topic, its key placement by partition, its split keys and its producers."""
    topic, screen = result.topic, text.screen
    yield f"{printable(topic.name)}: {_counts(topic)}"
    yield f"  {_partitioner(topic.fit)}"
    yield from placed_details([(one.place, partition_label(one.place, ""), one.finding) for one in result.placed], None)
    rows = result.rows["key_partitions"].only(*KEY_PARTITION_COLUMNS)
    partitions, producers = FittedTable(PARTITION_HEADINGS, screen), FittedTable(PRODUCER_BATCH_HEADINGS, screen)
    yield from partitions.lines(["" if value is None else str(value) for value in row] for row in rows)
    yield from _split_keys(topic, screen)
    yield from _producers(result, producers, screen)
    text.dropped |= {**partitions.dropped, **producers.dropped}


def _counts(topic: TopicKeys) -> str:
    fit, counts = topic.fit, topic.counts
    *earlier, count = fit.numbers
    before = f", {' and then '.join(map(str, earlier))} before" if earlier else ""
    keyless = f", {counts.keyless:,} without a key" if counts.keyless else ""
    return (
        f"{format_count(count, 'partition')} ({COUNT_SOURCES[fit.source]}){before};"
        f" {format_count(counts.records, 'record')}{keyless}; {format_count(topic.locations.keys, 'key')}"
    )


def _partitioner(fit: PartitionerFit) -> str:
    if not fit.keys:
        return "no key shows how the topic is partitioned"
    if fit.count == 1:
        return "one partition: no key can be misplaced"
    partitioner = "too few keys to identify the partitioner"
    if fit.uses_default is not None:
        partitioner = "default partitioner" if fit.uses_default else "custom partitioner"
    share, chance = format_share(fit.share), format_share(fit.by_chance)
    return f"{share} of keys match murmur2 ({chance} expected by chance): {partitioner}"


def _split_keys(topic: TopicKeys, screen: Screen) -> Iterator[str]:
    """Yield the keys in two partitions by cause; a key with two causes is listed once."""
    above: set[tuple[bytes | None, int, int]] = set()
    for cause in (SplitKeyCause.STRAY, SplitKeyCause.TOMBSTONE, SplitKeyCause.LATE, SplitKeyCause.GROWN):
        count = sum(row["keys"] for row in topic.pair_counts(cause))
        if count:
            yield f"  {format_count(count, 'key')} in two partitions: {SPLIT_CAUSES[cause]}"
            keys = [key for key in topic.split_keys if key.cause is cause]
            listed = [key for key in keys if _identity(key) not in above][:MAX_LISTED]
            yield from (f"    {_split_key(key)}" for key in listed)
            repeated = sum(_identity(key) in above for key in keys)
            above.update(map(_identity, listed))
            if repeated:
                yield f"    {'the others' if listed else 'they'} are listed above"
            if more := count - len(listed) - repeated:
                yield f"    … and {more:,} more:"
                yield from screen.rest("--list", "keys", "--format", "ndjson")


def _identity(split: SplitKey) -> tuple[bytes | None, int, int]:
    return split.key, split.first["partition"], split.second["partition"]


def _split_key(split: SplitKey) -> str:
    first, second = split.first, split.second
    tombstone = " (tombstone)" if second["last_tagged_offset"] & 1 else ""
    return (
        f"{_key(split.key)}: partition {first['partition']} up to offset {first['last_tagged_offset'] >> 1}"
        f" ({_time(first['last_timestamp'])}), partition {second['partition']} since offset {second['first_offset']}"
        f" ({_time(second['first_timestamp'])}){tombstone}"
    )


def _key(key: bytes | None) -> str:
    if key is None:
        return "a key that is no longer readable"
    text = printable(key[:MAX_KEY_CHARACTERS].decode("utf-8", "backslashreplace"))
    return f"'{text}{'…' if len(key) > MAX_KEY_CHARACTERS else ''}'"


def _time(timestamp: int) -> str:
    return format_time(timestamp) if 0 <= timestamp < LATEST_TIMESTAMP else "no timestamp"


def _producers(result: TopicKeyResult, table: FittedTable, screen: Screen) -> Iterator[str]:
    by_producer: dict[int, list[dict[str, Any]]] = {}
    rows = result.rows["producer_batches"]
    for values in rows:
        row = dict(zip(rows.table.names, values, strict=True))
        by_producer.setdefault(row["producer_id"], []).append(row)
    if not by_producer:
        return
    largest_first = sorted(by_producer.items(), key=lambda item: -sum(row["bytes"] for row in item[1]))
    yield from table.lines(_producer(producer_id, rows) for producer_id, rows in largest_first[:MAX_LISTED])
    if len(largest_first) > MAX_LISTED:
        more = format_count(len(largest_first) - MAX_LISTED, "more producer")
        yield f"  … and {more}:"
        yield from screen.rest("--list", "producers", "--format", "ndjson")


def _producer(producer_id: int, rows: list[dict[str, Any]]) -> tuple[str, ...]:
    batches, records = (sum(row[name] for row in rows) for name in ("batches", "records"))
    size, largest = sum(row["bytes"] for row in rows), max(row["most_bytes"] for row in rows)
    ratios = [row["compression_ratio"] for row in rows if row["compression_ratio"] is not None]
    ratio = f"{min(ratios):.2f}" if ratios else ""
    if ratios and f"{max(ratios):.2f}" != ratio:
        ratio += f" to {max(ratios):.2f}"
    return (
        "no id" if producer_id < 0 else str(producer_id),
        rows[0]["style"] or "",
        str(batches),
        str(records),
        f"{records / batches:.1f}",
        str(max(row["most_records"] for row in rows)),
        format_share(size / batches / largest),
        ratio,
        _mean_wait(rows),
        *(_joined(rows, name) for name in ("batches_10ms", "batches_100ms")),
    )


def _mean_wait(rows: list[dict[str, Any]]) -> str:
    """Return the mean time from the first to the last record of a batch in ms; empty if no batch has such times."""
    timed = [row for row in rows if row["mean_wait_ms"] is not None]
    batches = sum(row["batches"] for row in timed)
    return f"{sum(row['mean_wait_ms'] * row['batches'] for row in timed) / batches:.1f}" if timed else ""


def _joined(rows: list[dict[str, Any]], name: str) -> str:
    counts = [row[name] for row in rows]
    return "" if None in counts else str(sum(counts))
