"""Formats the keys of a topic: partition placement, keys in two partitions, producer batches and findings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from kforensics.forensics.audit.topic_result import TopicKeyResult
from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.formatting import format_count, format_share, format_time
from kforensics.forensics.keys.key_locations import SplitKeyCause
from kforensics.forensics.keys.partitioner_fit import CountSource, PartitionerFit
from kforensics.forensics.keys.topic_keys import SplitKey, TopicKeys
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.partition_text import finding_lines, missing_log_lines

COUNT_SOURCES = {
    CountSource.GIVEN: "as given",
    CountSource.METADATA: "from the cluster metadata",
    CountSource.KEYS: "estimated from the keys, some partitions are missing",
    CountSource.PARTITIONS: "the highest partition found",
}
SPLIT_CAUSES = {
    SplitKeyCause.GROWN: "the topic grew",
    SplitKeyCause.LATE: "producers had stale metadata after the topic grew",
    SplitKeyCause.STRAY: "not explained by growth",
    SplitKeyCause.TOMBSTONE: "the tombstone is not in the partition of the value",
}
PARTITION_HEADINGS = (
    "partition",
    "records",
    "no key",
    "keys",
    "misplaced",
    "old count",
    "split",
    "last by old count",
    "first by new count",
)
PARTITION_FORMAT = "  {:>9}  {:>10}  {:>10}  {:>10}  {:>9}  {:>9}  {:>8}  {:>17}  {:>18}"
KEY_PARTITION_COLUMNS = (
    *("partition", "records", "keyless_records", "keys", "astray_keys", "late_keys", "keys_apart"),
    *("last_old_offset", "first_new_offset"),
)
PRODUCER_BATCH_HEADINGS = (
    "producer",
    "style",
    "batches",
    "records",
    "per batch",
    "largest",
    "fill",
    "compression ratio",
)
PRODUCER_BATCH_FORMAT = "  {:>12}  {:<11}  {:>9}  {:>10}  {:>9}  {:>9}  {:>7}  {}"
# Split keys and producers listed; the tables have all of them.
MAX_LISTED = 10
MAX_KEY_CHARACTERS = 60
LATEST_TIMESTAMP = 1 << 62


def key_lines(result: TopicKeyResult | MissingLog) -> Iterator[str]:
    """Yield the key placement of a topic by partition, its split keys, its producers and its findings."""
    if isinstance(result, MissingLog):
        yield from missing_log_lines(result)
        return
    topic = result.topic
    yield f"{printable(topic.name)}: {_counts(topic)}"
    yield f"  {_partitioner(topic.fit)}"
    yield PARTITION_FORMAT.format(*PARTITION_HEADINGS).rstrip()
    for row in result.rows["key_partitions"].only(*KEY_PARTITION_COLUMNS):
        yield PARTITION_FORMAT.format(*("" if value is None else value for value in row)).rstrip()
    yield from _split_keys(topic)
    yield from _producers(result)
    for place, placed in groupby(result.placed, lambda finding: finding.place):
        yield from finding_lines(place, "", [finding.finding for finding in placed])


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


def _split_keys(topic: TopicKeys) -> Iterator[str]:
    for cause in (SplitKeyCause.STRAY, SplitKeyCause.TOMBSTONE, SplitKeyCause.LATE, SplitKeyCause.GROWN):
        count = sum(row["keys"] for row in topic.pair_counts(cause))
        if count:
            yield f"  {format_count(count, 'key')} in two partitions: {SPLIT_CAUSES[cause]}"
            listed = [key for key in topic.split_keys if key.cause is cause][:MAX_LISTED]
            yield from (f"    {_split_key(key)}" for key in listed)
            if count > MAX_LISTED:
                yield f"    … and {count - MAX_LISTED:,} more; list all with --list keys and a --format of rows"


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


def _producers(result: TopicKeyResult) -> Iterator[str]:
    by_producer: dict[int, list[dict[str, Any]]] = {}
    rows = result.rows["producer_batches"]
    for values in rows:
        row = dict(zip(rows.table.names, values, strict=True))
        by_producer.setdefault(row["producer_id"], []).append(row)
    if not by_producer:
        return
    yield PRODUCER_BATCH_FORMAT.format(*PRODUCER_BATCH_HEADINGS).rstrip()
    largest_first = sorted(by_producer.items(), key=lambda item: -sum(row["bytes"] for row in item[1]))
    yield from (_producer(producer_id, rows) for producer_id, rows in largest_first[:MAX_LISTED])
    if len(largest_first) > MAX_LISTED:
        more = format_count(len(largest_first) - MAX_LISTED, "more producer")
        yield f"  … and {more}; list all with --list producers and a --format of rows"


def _producer(producer_id: int, rows: list[dict[str, Any]]) -> str:
    batches, records = (sum(row[name] for row in rows) for name in ("batches", "records"))
    size, largest = sum(row["bytes"] for row in rows), max(row["most_bytes"] for row in rows)
    ratios = [row["compression_ratio"] for row in rows if row["compression_ratio"] is not None]
    ratio = f"{min(ratios):.2f}" if ratios else ""
    if ratios and f"{max(ratios):.2f}" != ratio:
        ratio += f" to {max(ratios):.2f}"
    return PRODUCER_BATCH_FORMAT.format(
        "no id" if producer_id < 0 else producer_id,
        rows[0]["style"] or "",
        batches,
        records,
        f"{records / batches:.1f}",
        max(row["most_records"] for row in rows),
        format_share(size / batches / largest),
        ratio,
    ).rstrip()
