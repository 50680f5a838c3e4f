"""Random logs, a cleaner that works as Kafka's does, and partition folders written from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.parsers.builders import batch_of, record

__all__ = ["Log", "Written", "cleaned", "random_log", "view", "write"]

KEYS, LONGEST_BATCH, BATCHES, PER_SEGMENT = 20, 4, 24, 4
TOMBSTONES = 4


@dataclass(frozen=True)
class Written:
    """A written record: its offset, its key, and its value or None for a tombstone."""

    offset: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Log:
    """A log: records by first and last offset of their batch, base offsets of its segments, and its end offset."""

    batches: Mapping[tuple[int, int], tuple[Written, ...]]
    bases: tuple[int, ...]
    end: int

    @property
    def records(self) -> list[Written]:
        """All records."""
        return [record for records in self.batches.values() for record in records]

    def below(self, end: int) -> Log:
        """Return the log of a replica that has fetched up to an offset."""
        batches = {span: records for span, records in self.batches.items() if span[0] < end}
        return Log(batches, tuple(base for base in self.bases if base < end), end)

    def without(self, lost: Written) -> Log:
        """Return the log without a record, and without its batch if it was the only one."""
        left = {span: tuple(row for row in records if row != lost) for span, records in self.batches.items()}
        return Log({span: records for span, records in left.items() if records}, self.bases, self.end)


def random_log(dice: Random) -> Log:
    """Return a log as a leader writes it; about one record in four is a tombstone."""
    batches: dict[tuple[int, int], tuple[Written, ...]] = {}
    base, bases = 0, []
    for number in range(BATCHES):
        if number % PER_SEGMENT == 0:
            bases.append(base)
        last = base + dice.randrange(LONGEST_BATCH)
        batches[base, last] = tuple(_random_record(dice, offset) for offset in range(base, last + 1))
        base = last + 1
    return Log(batches, tuple(bases), base)


def _random_record(dice: Random, offset: int) -> Written:
    key = b"key-%d" % dice.randrange(KEYS)
    return Written(offset, key, None if dice.randrange(TOMBSTONES) == 0 else b"value-%d" % offset)


def cleaned(log: Log, bound: int, *, drops_tombstones: bool) -> Log:
    """Return a log that was cleaned below an offset by the rule of ``Cleaner.shouldRetainRecord``."""
    newest = {row.key: row.offset for row in log.records if row.offset < bound}

    def stays(row: Written) -> bool:
        if row.offset >= bound:
            return True
        return row.offset == newest[row.key] and not (drops_tombstones and row.value is None)

    left = {span: tuple(row for row in records if stays(row)) for span, records in log.batches.items()}
    return Log({span: records for span, records in left.items() if records}, log.bases, log.end)


def view(records: Iterable[Written]) -> dict[bytes, Written]:
    """Return what a consumer ends up with: the newest record of each key, including tombstones."""
    return {row.key: row for row in sorted(records, key=lambda row: row.offset)}


def write(log: Log, broker: Path, node_id: int, first_dirty: int | None) -> None:
    """Write a log directory with the log as partition ``t-0``; the cleaner checkpoint contains ``first_dirty``."""
    folder = broker / "t-0"
    folder.mkdir(parents=True)
    for number, base in enumerate(log.bases):
        after = log.bases[number + 1] if number + 1 < len(log.bases) else log.end
        batches = (_encoded(span, records) for span, records in log.batches.items() if base <= span[0] < after)
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    entries = [] if first_dirty is None else [f"t 0 {first_dirty}\n"]
    (broker / "cleaner-offset-checkpoint").write_text(f"0\n{len(entries)}\n{''.join(entries)}")
    (broker / "meta.properties").write_text(f"version=1\nnode.id={node_id}\n")


def _encoded(span: tuple[int, int], records: tuple[Written, ...]) -> bytes:
    first, last = span
    payload = b"".join(record(row.offset - first, row.key, row.value) for row in records)
    return batch_of(payload, base_offset=first, last_offset_delta=last - first, count=len(records))
