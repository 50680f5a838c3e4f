"""Topics for tests of keys: forged record by record, and from the samples."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kforensics.forensics.audit.topic_result import best_copies, has_keys
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_summary import KeySummary, key_summary
from kforensics.forensics.keys.topic_keys import TopicKeys, join_topic_keys
from kforensics.forensics.metadata.topic_metadata import TopicMetadata, topics_in
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Content, forge
from tests.forensics.partition_states import SAMPLES, partitions_under, state_of

__all__ = ["GROWTH", "KEYS", "RULES", "Sent", "at_home", "home", "joined", "sent_to", "summaries_in", "topic", "truth"]

GROWTH = SAMPLES / "partition-growth"
RULES = Rules(NOW)
KEYS = [b"customer-%02d" % number for number in range(40)]
SECOND = 1_000


@dataclass(frozen=True, slots=True)
class Sent:
    """A record.

    Attributes:
        key: its key, None for none.
        partition: its partition.
        at: seconds after the start.
        producer: producer id, None without one.
        value: its value, None for a tombstone.
    """

    key: bytes | None
    partition: int
    at: int = 0
    producer: int | None = None
    value: bytes | None = b"v"


def murmur2_of(key: bytes) -> int:
    """Return Kafka's hash as ``Utils.murmur2`` computes it, word by word, before it is made positive."""
    mask = 0xFFFFFFFF
    state = 0x9747B28C ^ len(key)
    for position in range(0, len(key) // 4 * 4, 4):
        word = int.from_bytes(key[position : position + 4], "little") * 0x5BD1E995 & mask
        word = (word ^ word >> 24) * 0x5BD1E995 & mask
        state = (state * 0x5BD1E995 & mask) ^ word
    if rest := key[len(key) // 4 * 4 :]:
        state = (state ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & mask
    state = (state ^ state >> 13) * 0x5BD1E995 & mask
    return state ^ state >> 15


def home(key: bytes, count: int) -> int:
    """Return the partition of a key by the default partitioner."""
    return (murmur2_of(key) & 0x7FFFFFFF) % count


def at_home(keys: Iterable[bytes], count: int, at: int = 0, **more: Any) -> list[Sent]:
    """Return a record for each key in its default partition, one per second."""
    return [Sent(key, home(key, count), at + number, **more) for number, key in enumerate(keys)]


def sent_to(folder: Path, sent: Sequence[Sent], count: int, **style: Any) -> Path:
    """Write a topic ``t`` with ``count`` partitions and some records, each in a batch of its own."""
    for partition in range(count):
        selected = [row for row in sent if row.partition == partition]
        written: dict[int, int] = {}
        batches, records = [], {}
        for offset, row in enumerate(selected):
            batches.append(_batch(row, offset, written))
            records[offset] = [(row.key, row.value)]
        content: dict[int, Sequence[Content]] = dict(records)
        forge(folder, "; ".join(batches), partition=partition, records=content, **style)
    return folder


def _batch(row: Sent, offset: int, written: dict[int, int]) -> str:
    time = f"ts {NOW + row.at * SECOND}"
    if row.producer is None:
        return f"plain @{offset} {time}"
    sequence = written.get(row.producer, 0)
    written[row.producer] = sequence + 1
    return f"D {row.producer} 0 {sequence}-{sequence} @{offset} N {time}"


def summaries_in(folder: Path, name: str = "t") -> list[KeySummary]:
    """Return the summaries of the partitions of a topic."""
    partitions = (row for row in partitions_under(folder) if has_keys(row.place) and row.place.topic == name)
    return best_copies(key_summary(state_of(partition)) for partition in partitions)


def joined(folder: Path, partition_count: int | None = None, metadata: TopicMetadata | None = None) -> TopicKeys:
    """Return the keys of the topic ``t`` under a folder."""
    return join_topic_keys(summaries_in(folder), RULES, partition_count, metadata)


@cache
def topic(name: str, *, with_metadata: bool = True) -> TopicKeys:
    """Return the keys of a topic of the sample on partition growth."""
    metadata = topics_in(partitions_under(GROWTH)) if with_metadata else {}
    summaries = summaries_in(GROWTH, name)
    return join_topic_keys(summaries, RULES, None, metadata.get(summaries[0].topic_id or ""))


@cache
def truth() -> dict[str, Any]:
    """Return what the clients and the broker of that sample reported."""
    content: dict[str, Any] = json.loads((GROWTH / "truth.json").read_text("utf-8"))
    return content
