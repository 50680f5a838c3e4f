"""Random logs of transactional ids, as coordinators and partitions write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import forge

__all__ = ["Sent", "Story", "story"]

PARTITIONS = tuple(f"p-{number}" for number in range(4))


@dataclass(frozen=True)
class Sent:
    """A batch of a transaction in a partition: data or a marker.

    Attributes:
        text: in the notation of ``batch_notation``, with a placeholder for its offset.
        transaction: number of the transaction.
        is_marker: whether it is the first marker of the transaction here.
        has_data: whether the transaction has data here.
    """

    text: str
    transaction: int
    is_marker: bool
    has_data: bool


@dataclass
class Story:
    """What a cluster wrote.

    Attributes:
        records: of the coordinator.
        logs: batches by partition.
    """

    records: list[str] = field(default_factory=list)
    logs: dict[str, list[Sent]] = field(default_factory=lambda: {name: [] for name in PARTITIONS})

    def markers(self) -> list[tuple[str, int]]:
        """Return the first marker of each transaction in each partition: partition and index in its log."""
        return [(name, index) for name, log in self.logs.items() for index, sent in enumerate(log) if sent.is_marker]

    def forge(self, folder: Path) -> None:
        """Write everything into a log directory."""
        forge_coordinator(folder, "; ".join(self.records))
        for name, log in self.logs.items():
            forge(folder, "; ".join(_batches(log)), topic="p", partition=int(name[-1]))

    def forge_remains(self, folder: Path, dice: Random) -> None:
        """Write what compaction left of the coordinator's log, and what retention left of the others."""
        dirty = dice.randrange(1, len(self.records))
        last = {record.split()[0]: offset for offset, record in enumerate(self.records[:dirty])}
        cleaned = [_at(self.records[offset], offset) for offset in sorted(last.values())]
        rest = [_at(record, offset) for offset, record in enumerate(self.records) if offset >= dirty]
        forge_coordinator(folder, {0: "; ".join(cleaned), dirty: "; ".join(rest)}, first_dirty=dirty)
        for name, log in self.logs.items():
            start = dice.randrange(max(1, len(log)))
            batches = [*(f"gone {batch}" for batch in _batches(log)[:start]), *_batches(log)[start:]]
            forge(folder, {start: "; ".join(batches)}, topic="p", partition=int(name[-1]), log_start=start)


def _batches(log: list[Sent]) -> list[str]:
    return [sent.text.format(offset=offset) for offset, sent in enumerate(log)]


def _at(record: str, offset: int) -> str:
    """Return a record with its offset, which precedes its time."""
    head, _, time = record.rpartition(" t ")
    return f"{head} @{offset} t {time}"


@dataclass
class _Clock:
    dice: Random
    now: int = 60_000
    skews: dict[str, int] = field(default_factory=dict)

    def tick(self) -> int:
        """Return a later time; most events happen within a few ms."""
        self.now += self.dice.randrange(1, 8) if self.dice.random() < 0.95 else self.dice.randrange(1, 20_000)
        return self.now


def story(dice: Random, *, version: int, length: int, sent_twice: float = 0.0, skew_ms: int = 0) -> Story:
    """Return what some ids wrote in random order.

    Args:
        dice: source of randomness.
        version: version of the protocol: 0 (or 1, which looks the same) or 2.
        length: number of transactions.
        sent_twice: probability that a marker is sent again.
        skew_ms: maximum difference of leaders' clocks from the coordinator's.
    """
    written, clock = Story(), _Clock(dice)
    clock.skews = {name: dice.randrange(-skew_ms, skew_ms + 1) for name in PARTITIONS}
    lives = [
        _life(f"id-{number}", number + 1, (written, clock), version=version, sent_twice=sent_twice)
        for number in range(3)
    ]
    for life in lives:
        next(life)
    for _ in range(length):
        next(dice.choice(lives))
    return written


def _life(name: str, producer: int, shared: tuple[Story, _Clock], *, version: int, sent_twice: float) -> Iterator[None]:
    """Write a transaction at each step."""
    written, clock = shared
    dice, epoch = clock.dice, 0
    tag = "tv 2 " if version == 2 else ""
    written.records.append(f"{name} Empty {producer} {epoch} t {clock.tick()}")
    yield
    while True:
        if dice.random() < 0.2:
            epoch += 1
            written.records.append(f"{name} Empty {producer} {epoch} {tag}t {clock.tick()}")
        listed = dice.sample(PARTITIONS, dice.randrange(1, 4))
        filled = [one for one in listed if dice.random() < 0.8]
        begun = clock.now + 1
        for count in range(1, len(listed) + 1):
            some = "{" + ", ".join(sorted(listed[:count])) + f"}} start {begun}"
            written.records.append(f"{name} Ongoing {producer} {epoch} {tag}{some} t {clock.tick()}")
        number = len(written.records)
        for one in filled:
            written.logs[one].append(
                Sent(f"D {producer} {epoch} 0-0 @{{offset}}-{{offset}} T {at(clock.tick())}", number, False, True)
            )
        committed, fenced = dice.random() < 0.6, dice.random() < 0.3
        epoch += version == 2 or (not committed and fenced)
        kind = "Commit" if committed else "Abort"
        written.records.append(f"{name} Prepare{kind} {producer} {epoch} {tag}{some} t {clock.tick()}")
        for one in dice.sample(listed, len(listed)):
            marker = f"M {producer} {epoch} {kind[0]} 0 @{{offset}} {at(clock.tick() + clock.skews[one])}"
            again = dice.random() < sent_twice
            written.logs[one].append(Sent(marker, number, not again, one in filled))
            if again:
                written.logs[one].append(Sent(marker, number, False, False))
        written.records.append(f"{name} Complete{kind} {producer} {epoch} {tag}start {begun} t {clock.tick()}")
        epoch += version != 2 and not committed and fenced
        if version != 2 and not committed and fenced:
            written.records.append(f"{name} Empty {producer} {epoch} t {clock.tick()}")
        yield
