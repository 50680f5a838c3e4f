"""Checks whether keys are in more than one partition of their topic, and whether tombstones delete what they should.

Rule: order and compaction are per partition; there is no order between two partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_duration, format_time
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.keys.key_locations import METADATA_MAX_AGE_MS, SplitKeyCause
from kforensics.forensics.keys.topic_keys import KeyFinding, SplitKey, TopicKeys

CODES = by_name(
    Code(
        "key-in-two-partitions",
        Severity.ERROR,
        meaning="A key is in more than one partition of its topic.",
        remedy=(
            "Find out which producer wrote it to which partition; consumers see its records in any order, and a "
            "compacted {topic} keeps two values of it."
        ),
        why=(
            "The order of its records is lost, and a compacted topic keeps one value per partition: a consumer "
            "that builds a table uses whichever it reads last."
        ),
        benign=(
            "Partitions were added, which partition-growth reports. Keys without a meaning, with a round-robin "
            "partitioner. An empty key, which librdkafka places at random."
        ),
    ),
    Code(
        "tombstone-wrong-partition",
        Severity.ERROR,
        meaning="A tombstone is in another partition than the value it should delete.",
        remedy=(
            "Write a tombstone for each of these keys to the partition of the value, with an explicit partition "
            "in the producer."
        ),
        why=(
            "Compaction works within a partition, so the tombstone deletes nothing: the value reappears "
            "whenever the topic is read from the start."
        ),
        benign="None, unless the tombstone was not meant to delete anything.",
    ),
)
SPLIT_KEY, TOMBSTONE = CODES.values()
# Above this share of keys it is how the topic is written, not an error.
OFTEN = 0.1
# Keys to name in a finding, and the bytes of each to show.
NAMED, LONGEST = 3, 60

# Whether librdkafka wrote an empty key, by whether another partitioner than Java's default one placed the other keys.
RANDOM = {
    True: "likely, the keys of the topic are not where the Java client places them",
    False: "possible, too few keys show the partitioner",
}
Examples = Sequence[SplitKey]


def findings(topic: TopicKeys) -> Iterator[KeyFinding]:
    """Yield one finding for each two partitions with common keys, and for tombstones without effect.

    Keys that moved because partitions were added are not reported here. An empty key that librdkafka may have placed at
    random is information.
    """
    empty = [*topic.pair_counts(SplitKeyCause.EMPTY)]
    split_count = topic.locations.split_count - bool(empty)
    if not topic.fit.uses_default and split_count > OFTEN * topic.locations.keys:
        yield _by_design(topic)
    else:
        yield from _for_each_pair(topic, SplitKeyCause.STRAY, _split)
        if empty:
            yield _empty_key(topic, sorted({row[side] for row in empty for side in ("first", "second")}))
    yield from _for_each_pair(topic, SplitKeyCause.LATE, _after_growth)
    yield from _for_each_pair(topic, SplitKeyCause.TOMBSTONE, _ineffective_tombstone)


def _for_each_pair(
    topic: TopicKeys, kind: SplitKeyCause, finding: Callable[[TopicKeys, Row, Examples], KeyFinding]
) -> Iterator[KeyFinding]:
    for row in topic.pair_counts(kind):
        examples = topic.examples(kind, row["first"], row["second"])
        # Without an example all of them were different keys with the same hash, or are no longer readable.
        if examples:
            yield finding(topic, row, examples)


def _by_design(topic: TopicKeys) -> KeyFinding:
    split, keys = topic.locations.split_count, topic.locations.keys
    return topic.finding(
        topic.summaries[0].number,
        SPLIT_KEY,
        f"{split} of {keys} keys of {topic.name} are in more than one partition: its producers do not partition "
        "records by key, or each by another rule.",
        severity=Severity.INFO,
        evidence={"keys_apart": split, "keys": keys},
        exactness=Exactness.APPROXIMATE,
        benign=(
            "round-robin partitioner, or keys without a meaning: likely, there are so many",
            "clients of several libraries: possible, the Java client places keys by murmur2, librdkafka by CRC32",
        ),
    )


def _empty_key(topic: TopicKeys, partitions: list[int]) -> KeyFinding:
    return topic.finding(
        partitions[0],
        SPLIT_KEY,
        f"The empty key of {topic.name} is in {len(partitions)} partitions: the default partitioner of librdkafka "
        "places records with an empty key at random.",
        severity=Severity.INFO,
        evidence={"keys": 1, "partitions": partitions},
        exactness=Exactness.APPROXIMATE,
        benign=(f"librdkafka: {RANDOM[topic.fit.uses_default is False]}",),
    )


def _split(topic: TopicKeys, row: Row, examples: Examples) -> KeyFinding:
    return _of_pair(
        topic,
        row,
        examples,
        f"{_keys_are(row)} in both partition {row['first']} and partition {row['second']}: {_named(examples)}.",
        exactness=Exactness.EXACT if topic.knows_growth else Exactness.APPROXIMATE,
        benign=(f"partition growth: {_growth(topic)}",),
    )


def _growth(topic: TopicKeys) -> str:
    if topic.fit.has_grown:
        numbers = " and then ".join(map(str, topic.fit.numbers))
        return f"no, these keys do not match {numbers} partitions"
    return "ruled out by the cluster metadata" if topic.knows_growth else "possible, too few keys to tell"


def _after_growth(topic: TopicKeys, row: Row, examples: Examples) -> KeyFinding:
    longest = max(example.first["last_timestamp"] - example.second["first_timestamp"] for example in examples)
    return _of_pair(
        topic,
        row,
        examples,
        f"{_keys_are(row)} in both partition {row['first']} and partition {row['second']}, and both were written to "
        f"for {format_duration(longest)} after {topic.name} had grown: {_named(examples)}. The order of their records "
        "is lost.",
        severity=Severity.WARNING,
        exactness=Exactness.APPROXIMATE,
        benign=(f"producer metadata not yet refreshed: likely, interval {format_duration(METADATA_MAX_AGE_MS)}",),
        cause="partition-growth",
    )


def _ineffective_tombstone(topic: TopicKeys, row: Row, examples: Examples) -> KeyFinding:
    has_grown = topic.fit.has_grown
    has_moved = has_grown and all(
        example.second["newest_generation"] > example.first["oldest_generation"] >= 0 for example in examples
    )
    return _of_pair(
        topic,
        row,
        examples,
        f"Tombstones of {format_count(row['keys'], 'key')} are in partition {row['second']}, but their last values are "
        f"in partition {row['first']} and stay there: {_named(examples)}.",
        code=TOMBSTONE,
        # Which of the two is newer depends on the producers' clocks.
        exactness=Exactness.APPROXIMATE,
        cause="partition-growth" if has_moved else "key-in-two-partitions",
    )


def _of_pair(
    topic: TopicKeys, row: Row, examples: Examples, message: str, *, code: Code = SPLIT_KEY, **more: Any
) -> KeyFinding:
    """Return a finding in the partition with the later records."""
    second = [example.second for example in examples]
    evidence = {
        "partitions": [row["first"], row["second"]],
        "keys": row["keys"],
        "records": row["records"],
        "partition_counts": list(topic.fit.numbers),
    }
    return topic.finding(
        row["second"],
        code,
        message,
        at=topic.location(min(second, key=lambda key: key["first_offset"])),
        offsets=(min(key["first_offset"] for key in second), max(key["last_tagged_offset"] >> 1 for key in second)),
        evidence=evidence,
        **more,
    )


def _keys_are(row: Row) -> str:
    return "1 key is" if row["keys"] == 1 else f"{row['keys']} keys are"


def _named(examples: Examples) -> str:
    named = [_offsets(example) for example in examples[:NAMED]]
    return "; ".join((*named, "…") if len(examples) > NAMED else named)


def _offsets(example: SplitKey) -> str:
    before, since = example.first["last_tagged_offset"] >> 1, example.second["first_offset"]
    last = format_time(example.first["last_timestamp"])
    return f"{_text(example.key)} up to offset {before} ({last}) and from offset {since}"


def _text(key: bytes | None) -> str:
    if key is None:
        return "a key that is no longer readable"
    text = key[:LONGEST].decode("utf-8", "backslashreplace")
    return repr(f"{text}…" if len(key) > LONGEST else text)


CHECK = Check("keys_in_two_partitions", CODES, findings)
