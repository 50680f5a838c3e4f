"""A broker's log directory that changes from day to day: data is appended, cleaned, deleted and truncated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.forensics.batch_notation import NOW, parse_batches
from tests.forensics.coordinators.clusters import forge_coordinator
from tests.forensics.forge import Content, forge

__all__ = ["ROUNDS", "GrowingCluster", "bytes_kept", "contents"]

ROUNDS = 10
PRODUCERS, IDEMPOTENT = 3, 9
VALUE = b"v" * 400
# Segments before the first round, and transactions in each.
SEGMENTS, TRANSACTIONS = 14, 12
HOUR_MS = 3_600_000
LATE_MS = 2 * HOUR_MS


@dataclass(slots=True)
class GrowingLog:
    """The log of a partition, in the notation of ``batch_notation``.

    Attributes:
        topic: its topic.
        segments: batches by the base offset of their segment; those that were deleted begin with ``gone``.
        epochs: leader epochs by their first offset.
        end: log end offset.
        time: time of the newest batch in ms after ``NOW``.
        coordinator: coordinator epoch of the next markers.
        first_dirty: first offset that was not cleaned, None if none ever was.
    """

    topic: str
    segments: dict[int, list[str]] = field(default_factory=lambda: {0: []})
    epochs: dict[int, int] = field(default_factory=lambda: {0: 0})
    end: int = 0
    time: int = 0
    coordinator: int = 0
    first_dirty: int | None = None

    def append(self, transactions: int) -> None:
        """Append transactions of several producers: every fourth is aborted, and the last is open.

        After the first one, a producer without transactions writes a record that is two hours old.
        """
        for number in range(transactions):
            producer = 1 + (self.end + number) % PRODUCERS
            if number == 1:
                sequence = self._sequence(IDEMPOTENT)
                self._add(f"D {IDEMPOTENT} 0 {sequence}-{sequence} @{self.end}-{self.end} N", 1, LATE_MS)
            for _ in range(2):
                sequence = self._sequence(producer)
                self._add(f"D {producer} 0 {sequence}-{sequence + 1} @{self.end}-{self.end + 1} T", 2)
            if number < transactions - 1:
                outcome = "A" if number % 4 == 3 else "C"
                self._add(f"M {producer} 0 {outcome} {self.coordinator} @{self.end}", 1)

    def _add(self, text: str, offsets: int, late: int = 0) -> None:
        self.time += 1000
        self.segments[max(self.segments)].append(f"{text} ts {NOW + self.time - late}")
        self.end += offsets

    def _sequence(self, producer: int) -> int:
        texts = (text for base in sorted(self.segments, reverse=True) for text in reversed(self.segments[base]))
        batches = (parse_batches(text.removeprefix("gone "))[0] for text in texts)
        return next((one.last_sequence + 1 for one in batches if one.producer_id == producer and not one.is_control), 0)

    def roll(self) -> None:
        """Begin a segment."""
        self.segments[self.end] = []

    def elect(self) -> None:
        """Begin a leader epoch."""
        self.epochs[self.end] = max(self.epochs.values()) + 1

    def truncate(self, batches: int) -> None:
        """Remove the last batches, as a follower does after an election, and write others."""
        last = self.segments[max(self.segments)]
        del last[len(last) - min(batches, len(last) - 1) :]
        self.end = parse_batches(last[-1])[0].last_offset + 1
        self.epochs = {start: epoch for start, epoch in self.epochs.items() if start < self.end}
        self.elect()

    def delete(self) -> None:
        """Delete the first segment, whose producers later snapshots still have."""
        first, second = sorted(self.segments)[:2]
        gone = [text if text.startswith("gone ") else f"gone {text}" for text in self.segments.pop(first)]
        self.segments[second] = gone + self.segments[second]

    def clean(self) -> None:
        """Merge two closed segments, and remove every third data batch of them."""
        first, second, third = sorted(self.segments)[1:4]
        merged = self.segments[first] + self.segments.pop(second)
        removed = [text for text in merged if text.startswith("D ")][::3]
        self.segments[first] = [f"gone {text}" if text in removed else text for text in merged]
        self.first_dirty = max(third, self.first_dirty or 0)

    def write(self, folder: Path, *, clean_shutdown: bool) -> None:
        """Write its files."""
        segments = {base: "; ".join(texts) for base, texts in self.segments.items()}
        forge(
            folder,
            segments,
            topic=self.topic,
            records=_values(segments),
            leader_epochs=self.epochs,
            first_dirty=self.first_dirty,
            clean_shutdown=clean_shutdown,
        )


def _values(segments: Mapping[int, str]) -> dict[int, list[Content]]:
    batches = (one for text in segments.values() for one in parse_batches(text.replace("gone ", "")))
    return {one.base_offset: [(b"k", VALUE)] * one.count for one in batches if not one.is_control}


class GrowingCluster:
    """A log directory with the logs of two topics and of a transaction coordinator, round by round.

    Args:
        folder: the log directory.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = [GrowingLog("orders"), GrowingLog("payments")]
        self._states = "tx Empty 1 0 t 0"
        for log in self.logs:
            for number in range(SEGMENTS):
                if number:
                    log.roll()
                log.append(TRANSACTIONS)
        self._write(clean_shutdown=True)

    def change(self, number: int) -> None:
        """Let a day pass.

        Args:
            number: number of the round, from 1 on.
        """
        orders, payments = self.logs
        events: Mapping[int, Callable[[], None]] = {
            2: payments.clean,
            3: orders.elect,
            4: lambda: orders.truncate(5),
            5: orders.delete,
            6: payments.clean,
            7: lambda: payments.truncate(1),
            8: orders.delete,
            9: payments.elect,
        }
        if number in events:
            events[number]()
        for log in self.logs:
            log.coordinator = number // 3
            log.time += HOUR_MS
            log.append(3)
        if number % 2:
            orders.roll()
            orders.append(2)
        partitions = "{orders-0, payments-0}"
        self._states += f"; tx Ongoing 1 {number} {partitions} t {number * 10}"
        self._write(clean_shutdown=number % 3 != 0)

    def _write(self, *, clean_shutdown: bool) -> None:
        # A cleaner or a deletion leaves no file of a segment that is gone.
        for file in self.folder.glob("*-0/0*"):
            file.unlink()
        for log in self.logs:
            log.write(self.folder, clean_shutdown=clean_shutdown)
        forge_coordinator(self.folder, self._states, clean_shutdown=clean_shutdown)


def contents(folder: Path) -> dict[Path, bytes]:
    """Return the bytes of all segments under a folder."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*.log"))}


def bytes_kept(before: Mapping[Path, bytes], after: Mapping[Path, bytes]) -> int:
    """Return how many bytes at the beginning of segments are the same as before."""
    return sum(_common(before.get(path, b""), data) for path, data in after.items())


def _common(left: bytes, right: bytes) -> int:
    pairs = zip(left, right, strict=False)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))
