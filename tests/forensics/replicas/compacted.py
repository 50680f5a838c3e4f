"""Compacted logs by dice, a cleaner that does to them what Kafka's does, and partition folders written of both."""

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
    """A record as it was written: its offset, its key, its value or None for a tombstone."""

    offset: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True)
class Log:
    """A log: records by first and last offset of their batch, offsets at which segments begin, and where it ends."""

    batches: Mapping[tuple[int, int], tuple[Written, ...]]
    bases: tuple[int, ...]
    end: int

    @property
    def records(self) -> list[Written]:
        """All records."""
        return [one for held in self.batches.values() for one in held]

    def below(self, end: int) -> Log:
        """Return what a replica has that has fetched up to an offset."""
        batches = {span: held for span, held in self.batches.items() if span[0] < end}
        return Log(batches, tuple(base for base in self.bases if base < end), end)

    def without(self, lost: Written) -> Log:
        """Return the log without a record, and without its batch if it was the only one."""
        left = {span: tuple(one for one in held if one != lost) for span, held in self.batches.items()}
        return Log({span: held for span, held in left.items() if held}, self.bases, self.end)


def random_log(dice: Random) -> Log:
    """Return a log as a leader writes it; about one record in four is a tombstone."""
    batches: dict[tuple[int, int], tuple[Written, ...]] = {}
    at, bases = 0, []
    for number in range(BATCHES):
        if number % PER_SEGMENT == 0:
            bases.append(at)
        last = at + dice.randrange(LONGEST_BATCH)
        batches[at, last] = tuple(_random_record(dice, offset) for offset in range(at, last + 1))
        at = last + 1
    return Log(batches, tuple(bases), at)


def _random_record(dice: Random, offset: int) -> Written:
    key = b"key-%d" % dice.randrange(KEYS)
    return Written(offset, key, None if dice.randrange(TOMBSTONES) == 0 else b"value-%d" % offset)


def cleaned(log: Log, bound: int, *, drops_tombstones: bool) -> Log:
    """Return a log of which everything below an offset was cleaned, as ``Cleaner.shouldRetainRecord`` has it."""
    newest = {one.key: one.offset for one in log.records if one.offset < bound}

    def stays(one: Written) -> bool:
        if one.offset >= bound:
            return True
        return one.offset == newest[one.key] and not (drops_tombstones and one.value is None)

    left = {span: tuple(one for one in held if stays(one)) for span, held in log.batches.items()}
    return Log({span: held for span, held in left.items() if held}, log.bases, log.end)


def view(records: Iterable[Written]) -> dict[bytes, Written]:
    """Return what a consumer is left with: the newest record of each key, tombstones included."""
    return {one.key: one for one in sorted(records, key=lambda one: one.offset)}


def write(log: Log, broker: Path, node_id: int, first_dirty: int | None) -> None:
    """Write a log directory with the log as partition ``t-0``; the cleaner's checkpoint says how far it came."""
    folder = broker / "t-0"
    folder.mkdir(parents=True)
    for number, base in enumerate(log.bases):
        after = log.bases[number + 1] if number + 1 < len(log.bases) else log.end
        held = {span: records for span, records in log.batches.items() if base <= span[0] < after}
        built = b"".join(_encoded(span, records) for span, records in held.items())
        (folder / f"{base:020}.log").write_bytes(built)
    entries = [] if first_dirty is None else [f"t 0 {first_dirty}\n"]
    (broker / "cleaner-offset-checkpoint").write_text(f"0\n{len(entries)}\n{''.join(entries)}")
    (broker / "meta.properties").write_text(f"version=1\nnode.id={node_id}\n")


def _encoded(span: tuple[int, int], records: tuple[Written, ...]) -> bytes:
    first, last = span
    payload = b"".join(record(one.offset - first, one.key, one.value) for one in records)
    return batch_of(payload, base_offset=first, last_offset_delta=last - first, count=len(records))
