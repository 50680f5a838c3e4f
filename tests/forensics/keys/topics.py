"""Topics to try the joining of keys on: forged record by record, and those of the samples."""

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
from kforensics.forensics.keys.topic_keys import TopicKeys, joined_keys
from kforensics.forensics.metadata.topic_metadata import TopicMetadata, topics_in
from tests.forensics.cases import SAMPLES, case_in, partitions_under
from tests.forensics.events import NOW
from tests.forensics.forge import Content, forge

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
        partition: where it goes.
        at: seconds after the beginning.
        producer: producer id, None for no id.
        value: its value, None for a tombstone.
    """

    key: bytes | None
    partition: int
    at: int = 0
    producer: int | None = None
    value: bytes | None = b"v"


def murmur2_of(key: bytes) -> int:
    """Return Kafka's hash as ``Utils.murmur2`` computes it, word by word, before it is made positive."""
    every = 0xFFFFFFFF
    found = 0x9747B28C ^ len(key)
    for at in range(0, len(key) // 4 * 4, 4):
        word = int.from_bytes(key[at : at + 4], "little") * 0x5BD1E995 & every
        word = (word ^ word >> 24) * 0x5BD1E995 & every
        found = (found * 0x5BD1E995 & every) ^ word
    if rest := key[len(key) // 4 * 4 :]:
        found = (found ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & every
    found = (found ^ found >> 13) * 0x5BD1E995 & every
    return found ^ found >> 15


def home(key: bytes, count: int) -> int:
    """Return where the default partitioner puts a key."""
    return (murmur2_of(key) & 0x7FFFFFFF) % count


def at_home(keys: Iterable[bytes], count: int, at: int = 0, **more: Any) -> list[Sent]:
    """Return a record for each key, where it belongs, one second after the other."""
    return [Sent(key, home(key, count), at + number, **more) for number, key in enumerate(keys)]


def sent_to(folder: Path, sent: Sequence[Sent], count: int, **style: Any) -> Path:
    """Write a topic ``t`` with so many partitions that holds some records, each in a batch of its own."""
    for partition in range(count):
        mine = [one for one in sent if one.partition == partition]
        written: dict[int, int] = {}
        batches, records = [], {}
        for offset, one in enumerate(mine):
            batches.append(_batch(one, offset, written))
            records[offset] = [(one.key, one.value)]
        content: dict[int, Sequence[Content]] = dict(records)
        forge(folder, "; ".join(batches), partition=partition, records=content, **style)
    return folder


def _batch(one: Sent, offset: int, written: dict[int, int]) -> str:
    time = f"ts {NOW + one.at * SECOND}"
    if one.producer is None:
        return f"plain @{offset} {time}"
    sequence = written.get(one.producer, 0)
    written[one.producer] = sequence + 1
    return f"D {one.producer} 0 {sequence}-{sequence} @{offset} N {time}"


def summaries_in(folder: Path, name: str = "t") -> list[KeySummary]:
    """Return the summaries of the partitions of a topic."""
    found = (one for one in partitions_under(folder) if has_keys(one.place) and one.place.topic == name)
    return best_copies(key_summary(case_in(one)) for one in found)


def joined(folder: Path, partition_count: int | None = None, metadata: TopicMetadata | None = None) -> TopicKeys:
    """Return the keys of the topic ``t`` under a folder."""
    return joined_keys(summaries_in(folder), RULES, partition_count, metadata)


@cache
def topic(name: str, *, with_metadata: bool = True) -> TopicKeys:
    """Return the keys of a topic of the sample on partition growth."""
    told = topics_in(partitions_under(GROWTH)) if with_metadata else {}
    summaries = summaries_in(GROWTH, name)
    return joined_keys(summaries, RULES, None, told.get(summaries[0].topic_id or ""))


@cache
def truth() -> dict[str, Any]:
    """Return what the clients and the broker of that sample said."""
    found: dict[str, Any] = json.loads((GROWTH / "truth.json").read_text("utf-8"))
    return found
