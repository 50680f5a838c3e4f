"""Whether a key lies in two partitions of its topic, and whether a tombstone can delete what it means.

Rule: order, and compaction, are per partition: nobody brings two partitions into one order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.reporting import Row, moment, span
from kforensics.forensics.keys.key_locations import FAMILIAR_MS, Apart
from kforensics.forensics.keys.topic_keys import KeyApart, Placed, TopicKeys
from kforensics.parsers.format.printable import printable

__all__ = ["CODES", "findings"]

CODES = codes("""
key-in-two-partitions error
A key lies in more than one partition of its topic.
Find out who wrote it where; consumers see its records in any order, and a compacted {topic} keeps two values of it.
why: The order between its records is lost, and a compacted topic keeps a value in each partition: a consumer that \
builds a table takes whichever it reads last.
innocent: Partitions were added, which is told by partition-growth. Keys that mean nothing, with a partitioner that \
goes round.

tombstone-wrong-partition error
A tombstone lies in another partition than the value it is to delete.
Write a tombstone for each of these keys into the partition of the value, with the partition named by the producer.
why: A cleaner works within a partition, so that the tombstone deletes nothing: the value comes back whenever the \
topic is read from the start.
innocent: None, unless it was to delete nothing.
""")
TWICE, TOMBSTONE = CODES.values()
# From this share of keys on, it is how the topic is written rather than what went wrong.
OFTEN = 0.1
# Keys that a finding names, and the bytes of them that it shows.
NAMED, LONGEST = 3, 60

Some = Sequence[KeyApart]


def findings(topic: TopicKeys) -> Iterator[Placed]:
    """Yield one finding for each two partitions that share keys, but for growth, and for tombstones that miss."""
    if not topic.placing.follows and topic.lying.twice > OFTEN * topic.lying.keys:
        yield _by_rule(topic)
    else:
        yield from _each(topic, Apart.STRAY, _stray)
    yield from _each(topic, Apart.LATE, _late)
    yield from _each(topic, Apart.TOMBSTONE, _missed)


def _each(topic: TopicKeys, kind: Apart, tell: Callable[[TopicKeys, Row, Some], Placed]) -> Iterator[Placed]:
    for row in topic.pair_counts(kind):
        some = topic.examples(kind, row["first"], row["second"])
        # Without an example all of them were other keys with the same hash, or nobody can tell any more.
        if some:
            yield tell(topic, row, some)


def _by_rule(topic: TopicKeys) -> Placed:
    twice, keys = topic.lying.twice, topic.lying.keys
    return topic.finding(
        topic.summaries[0].number,
        TWICE,
        f"{twice} of the {keys} keys of {topic.name} lie in more than one partition: whoever writes it does not place"
        " records by their keys.",
        severity=Severity.INFO,
        evidence={"keys_apart": twice, "keys": keys},
        exactness=Exactness.APPROXIMATE,
        benign=("a partitioner that goes round, or keys that mean nothing: likely, there are so many",),
    )


def _stray(topic: TopicKeys, row: Row, some: Some) -> Placed:
    return _of_pair(
        topic,
        row,
        some,
        f"{_keys(row)} in both partition {row['first']} and partition {row['second']}: {_named(some)}.",
        exactness=Exactness.EXACT if topic.knows_growth else Exactness.APPROXIMATE,
        benign=(f"partition growth: {_growth(topic)}",),
    )


def _growth(topic: TopicKeys) -> str:
    if topic.placing.has_grown:
        numbers = " and then ".join(map(str, topic.placing.numbers))
        return f"no, these keys lie otherwise than with {numbers}"
    return "ruled out by the cluster's metadata" if topic.knows_growth else "possible, too few keys tell"


def _late(topic: TopicKeys, row: Row, some: Some) -> Placed:
    longest = max(one.first["last_timestamp"] - one.second["first_timestamp"] for one in some)
    return _of_pair(
        topic,
        row,
        some,
        f"{_keys(row)} in both partition {row['first']} and partition {row['second']}, and after {topic.name} had grown"
        f" both were written to for {span(longest)}: {_named(some)}. The order of their records is lost.",
        severity=Severity.WARNING,
        exactness=Exactness.APPROXIMATE,
        benign=(f"producers that had not heard of the growth: likely, they ask every {span(FAMILIAR_MS)}",),
        cause="partition-growth",
    )


def _missed(topic: TopicKeys, row: Row, some: Some) -> Placed:
    has_moved = topic.placing.has_grown and all(one.second["era"] > one.first["oldest"] >= 0 for one in some)
    return _of_pair(
        topic,
        row,
        some,
        f"Tombstones of {_count(row)} lie in partition {row['second']}, and their last values in partition"
        f" {row['first']}, where nothing deletes them: {_named(some)}.",
        code=TOMBSTONE,
        # The producers' clocks say which of the two came last.
        exactness=Exactness.APPROXIMATE,
        cause="partition-growth" if has_moved else "key-in-two-partitions",
    )


def _of_pair(topic: TopicKeys, row: Row, some: Some, message: str, *, code: Any = TWICE, **more: Any) -> Placed:
    """Return a finding in the partition that has the second records."""
    second = [one.second for one in some]
    evidence = {
        "partitions": [row["first"], row["second"]],
        "keys": row["keys"],
        "records": row["records"],
        "partition_counts": list(topic.placing.numbers),
    }
    return topic.finding(
        row["second"],
        code,
        message,
        at=topic.where(min(second, key=lambda one: one["first_offset"])),
        offsets=(min(one["first_offset"] for one in second), max(one["last_mark"] >> 1 for one in second)),
        evidence=evidence,
        **more,
    )


def _keys(row: Row) -> str:
    return "1 key lies" if row["keys"] == 1 else f"{row['keys']} keys lie"


def _count(row: Row) -> str:
    return "1 key" if row["keys"] == 1 else f"{row['keys']} keys"


def _named(some: Some) -> str:
    words = [_story(one) for one in some[:NAMED]]
    return "; ".join((*words, "…") if len(some) > NAMED else words)


def _story(one: KeyApart) -> str:
    before, since = one.first["last_mark"] >> 1, one.second["first_offset"]
    return f"{_text(one.key)} up to offset {before} ({moment(one.first['last_timestamp'])}) and from offset {since} on"


def _text(key: bytes | None) -> str:
    if key is None:
        return "a key that cannot be read any more"
    text = printable(key[:LONGEST].decode("utf-8", "backslashreplace"))
    return f"'{text}{'…' if len(key) > LONGEST else ''}'"
