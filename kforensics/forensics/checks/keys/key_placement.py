"""Whether keys lie where the default partitioner puts them.

Rule: ``BuiltInPartitioner.partitionForKey``, with the partition count of the time, where a key was given, no partition,
no partitioner of one's own, and ``partitioner.ignore.keys`` is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST, Row, span
from kforensics.forensics.keys.key_bytes import Where
from kforensics.forensics.keys.key_locations import FAMILIAR_MS
from kforensics.forensics.keys.topic_keys import Placed, TopicKeys, rows_of

__all__ = ["CODES", "findings"]

CODES = codes("""
key-partition-mismatch warning
Keys lie in a partition where the default partitioner would not put them.
Find out which producer this is and how it places keys; across producers that do it differently a key has no order.
why: Records of a key are in order only within one partition. Clients that place the same keys by different rules \
break that without an error.
innocent: Clients that are not Java's have other partitioners, and applications their own. The partition count was \
changed.
""")

CODE = CODES["key-partition-mismatch"]
OTHER_CLIENT = "a partitioner of its own, or of another client library"
# A writer that has less than this share of its keys right goes by another rule.
MOSTLY = 0.5


def findings(topic: TopicKeys) -> Iterator[Placed]:
    """Yield one finding for each producer and partition with keys astray; one for all where most of them are."""
    if topic.placing.follows is False:
        yield _other_partitioner(topic)
        return
    if topic.placing.follows is None:
        return
    writers = topic.lying.writers
    some = writers[(writers["astray_keys"] > 0) | (writers["late_keys"] > 0)]
    for number, row in enumerate(rows_of(some[:MOST]), 1):
        found = _astray(topic, row, writers) if row["astray_keys"] else _late(topic, row)
        if number == MOST < len(some):
            found = _with_left_out(found, len(some) - MOST)
        yield found


def _with_left_out(placed: Placed, count: int) -> Placed:
    place, found = placed
    return Placed(place, replace(found, evidence={**found.evidence, "left_out": count}))


def _other_partitioner(topic: TopicKeys) -> Placed:
    placing = topic.placing
    return topic.finding(
        topic.summaries[0].number,
        CODE,
        f"The keys of {topic.name} do not lie where the default partitioner would put them: {placing.share:.0%} of"
        f" {placing.keys} lie right with {_counts(topic)}, and by chance {placing.by_chance:.0%} would. It is written"
        " with another one, so nothing is said of single keys.",
        severity=Severity.INFO,
        evidence={
            "partition_counts": list(placing.numbers),
            "count_source": str(placing.source),
            "keys": placing.keys,
            "share": round(placing.share, 4),
            "by_chance": round(placing.by_chance, 4),
        },
        exactness=Exactness.APPROXIMATE,
        benign=(f"{OTHER_CLIENT}: likely",),
    )


def _counts(topic: TopicKeys) -> str:
    *others, last = map(str, topic.placing.numbers)
    told = f"{', '.join(others)} and {last}" if others else last
    return f"{told} partition{'' if told == '1' else 's'}"


def _astray(topic: TopicKeys, row: Row, writers: Records) -> Placed:
    mine = writers[writers["producer_id"] == row["producer_id"]]
    records, astray = int(mine["records"].sum()), int(mine["astray_records"].sum())
    right = 1 - astray / records
    follows = (
        f"it places {right:.0%} of its {records} records with keys by the default rule"
        if right >= MOSTLY
        else f"it goes by another rule: the default one explains {right:.0%} of its {records} records with keys"
    )
    return topic.finding(
        row["partition"],
        CODE,
        f"{_keys(row['astray_keys'])} of {_producer(row)} in {row['astray_records']} records lie here, where the"
        f" default partitioner would not put them with {_counts(topic)}; {follows}.",
        at=_where(topic, row),
        offsets=(row["first_offset"], row["last_mark"] >> 1),
        producer_id=row["producer_id"],
        evidence=_evidence(topic, row) | {"share": round(right, 4)},
        exactness=topic.exactness,
        benign=(
            f"{OTHER_CLIENT}: {'possible for some of its records' if right >= MOSTLY else 'likely'}",
            f"another partition count: {_by_count(topic)}",
        ),
    )


def _late(topic: TopicKeys, row: Row) -> Placed:
    since = row["late_timestamp"] - (topic.grown_ms or 0)
    is_familiar = since <= FAMILIAR_MS
    heard = "likely" if is_familiar else "ruled out by its timestamps"
    return topic.finding(
        row["partition"],
        CODE,
        f"{_keys(row['late_keys'])} of {_producer(row)} were still written here {span(since)} after {topic.name} had"
        f" grown to {topic.placing.count} partitions, and belong elsewhere since.",
        # It comes with every growth; what it has done to single keys is told of where they lie in two partitions.
        severity=Severity.INFO if is_familiar else None,
        at=_where(topic, row),
        offsets=(row["first_offset"], row["last_mark"] >> 1),
        producer_id=row["producer_id"],
        evidence=_evidence(topic, row) | {"grown_ms": topic.grown_ms, "late_timestamp": row["late_timestamp"]},
        # It is the producers' clocks against the controller's.
        exactness=Exactness.APPROXIMATE,
        benign=(f"a producer that had not heard of it, for it asks every {span(FAMILIAR_MS)}: {heard}",),
        cause="partition-growth",
    )


def _keys(count: int) -> str:
    return "1 key" if count == 1 else f"{count} keys"


def _producer(row: Row) -> str:
    return "producers without an id" if row["producer_id"] < 0 else f"producer {row['producer_id']}"


def _where(topic: TopicKeys, row: Row) -> Where:
    return Where.of(topic.by_number[row["partition"]].paths, row["first_place"], row["first_offset"])


def _evidence(topic: TopicKeys, row: Row) -> dict[str, object]:
    names = ("keys", "records", "astray_keys", "astray_records", "late_keys")
    counts = {name: row[name] for name in names}
    return {"partition_counts": list(topic.placing.numbers), "count_source": str(topic.placing.source), **counts}


def _by_count(topic: TopicKeys) -> str:
    return (
        "ruled out by the cluster's metadata" if topic.knows_growth else "possible, not all that there were are known"
    )
