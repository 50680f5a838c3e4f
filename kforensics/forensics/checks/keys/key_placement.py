"""Checks that keys are in the partitions where the default partitioner puts them.

Rule: ``BuiltInPartitioner.partitionForKey`` with the partition count at that time. It applies to records with a key and
without an explicit partition, unless the producer has a custom partitioner or ``partitioner.ignore.keys``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_duration, format_share
from kforensics.forensics.core.reporting import MOST, Row
from kforensics.forensics.keys.key_locations import METADATA_MAX_AGE_MS, WriterArray
from kforensics.forensics.keys.topic_keys import KeyFinding, TopicKeys, rows_as_dicts

CODES = by_name(
    Code(
        "key-partition-mismatch",
        Severity.WARNING,
        meaning="Keys are in a partition where the default partitioner would not put them.",
        remedy=(
            "Find out which producer it is and how it partitions keys; if producers differ in this, a key has no order."
        ),
        why=(
            "The records of a key are ordered within one partition only. Clients that partition the same keys "
            "by different rules break this order without an error."
        ),
        benign=(
            "Clients other than the Java client have other partitioners, and applications may have their own. "
            "The partition count was changed."
        ),
    ),
)

CODE = CODES["key-partition-mismatch"]
OTHER_PARTITIONER = "custom partitioner, or one of another client library"
# A writer with a smaller share of matching keys uses another rule.
MOSTLY = 0.5


def findings(topic: TopicKeys) -> Iterator[KeyFinding]:
    """Yield one finding for each producer and partition with misplaced keys; one for all if most keys are misplaced."""
    if topic.fit.uses_default is False:
        yield _custom_partitioner(topic)
        return
    if topic.fit.uses_default is None:
        return
    writers = topic.locations.writers
    reported = writers[(writers["astray_keys"] > 0) | (writers["late_keys"] > 0)]
    for number, row in enumerate(rows_as_dicts(reported[:MOST]), 1):
        placed = _misplaced(topic, row, writers) if row["astray_keys"] else _by_old_count(topic, row)
        if number == MOST < len(reported):
            placed = _with_left_out(placed, len(reported) - MOST)
        yield placed


def _with_left_out(placed: KeyFinding, count: int) -> KeyFinding:
    place, finding = placed
    return KeyFinding(place, replace(finding, evidence={**finding.evidence, "left_out": count}))


def _custom_partitioner(topic: TopicKeys) -> KeyFinding:
    fit = topic.fit
    return topic.finding(
        topic.summaries[0].number,
        CODE,
        f"{format_share(fit.share)} of {fit.keys} keys of {topic.name} match murmur2 with {_counts(topic)} "
        f"({format_share(fit.by_chance)} expected by chance): custom partitioner, so single keys are not evaluated.",
        severity=Severity.INFO,
        evidence={
            "partition_counts": list(fit.numbers),
            "count_source": str(fit.source),
            "keys": fit.keys,
            "share": round(fit.share, 4),
            "by_chance": round(fit.by_chance, 4),
        },
        exactness=Exactness.APPROXIMATE,
        benign=(f"{OTHER_PARTITIONER}: likely",),
    )


def _counts(topic: TopicKeys) -> str:
    *others, last = map(str, topic.fit.numbers)
    counts = f"{', '.join(others)} and {last}" if others else last
    return f"{counts} partition{'' if counts == '1' else 's'}"


def _misplaced(topic: TopicKeys, row: Row, writers: WriterArray) -> KeyFinding:
    own = writers[writers["producer_id"] == row["producer_id"]]
    records, misplaced = int(own["records"].sum()), int(own["astray_records"].sum())
    matching = 1 - misplaced / records
    rule = (
        f"it follows the default rule in {format_share(matching)} of its {records} records with keys"
        if matching >= MOSTLY
        else f"it uses another rule: the default explains {format_share(matching)} of its {records} records with keys"
    )
    return topic.finding(
        row["partition"],
        CODE,
        f"{format_count(row['astray_keys'], 'key')} of {_producer(row)} misplaced, in "
        f"{format_count(row['astray_records'], 'record')}: with "
        f"{_counts(topic)} the default partitioner uses another partition; {rule}.",
        at=topic.location(row),
        offsets=(row["first_offset"], row["last_tagged_offset"] >> 1),
        producer_id=row["producer_id"],
        evidence=_evidence(topic, row) | {"share": round(matching, 4)},
        exactness=topic.exactness,
        benign=(
            f"{OTHER_PARTITIONER}: {'possible for some of its records' if matching >= MOSTLY else 'likely'}",
            f"another partition count: {_by_count(topic)}",
        ),
    )


def _by_old_count(topic: TopicKeys, row: Row) -> KeyFinding:
    delay = row["late_timestamp"] - (topic.grown_ms or 0)
    is_normal = delay <= METADATA_MAX_AGE_MS
    outcome = "likely" if is_normal else "ruled out by its timestamps"
    return topic.finding(
        row["partition"],
        CODE,
        f"{format_count(row['late_keys'], 'key')} of {_producer(row)} still written here {format_duration(delay)} "
        f"after {topic.name} grew to {topic.fit.count} partitions, although they now belong to another partition.",
        # Normal after every growth; key-in-two-partitions reports the effect on single keys.
        severity=Severity.INFO if is_normal else None,
        at=topic.location(row),
        offsets=(row["first_offset"], row["last_tagged_offset"] >> 1),
        producer_id=row["producer_id"],
        evidence=_evidence(topic, row) | {"grown_ms": topic.grown_ms, "late_timestamp": row["late_timestamp"]},
        # Compares the producers' clocks with the controller's.
        exactness=Exactness.APPROXIMATE,
        benign=(f"metadata not yet refreshed, every {format_duration(METADATA_MAX_AGE_MS)}: {outcome}",),
        cause="partition-growth",
    )


def _producer(row: Row) -> str:
    return "producers without an id" if row["producer_id"] < 0 else f"producer {row['producer_id']}"


def _evidence(topic: TopicKeys, row: Row) -> dict[str, object]:
    return {
        "partition_counts": list(topic.fit.numbers),
        "count_source": str(topic.fit.source),
        "keys": row["keys"],
        "records": row["records"],
        "astray_keys": row["astray_keys"],
        "astray_records": row["astray_records"],
        "late_keys": row["late_keys"],
    }


def _by_count(topic: TopicKeys) -> str:
    return "ruled out by the cluster metadata" if topic.knows_growth else "possible, not all counts are known"


CHECK = Check("key_placement", CODES, findings)
