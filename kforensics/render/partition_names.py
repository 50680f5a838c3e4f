"""Names partitions in text: one with its broker, or many as ranges of their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.log.log_rows import Place

# Ranges of partitions that are named where many are alike.
NAMED = 3


def partition_label(place: Place, folder: str) -> str:
    """Return the name of a partition, with its broker if that is known."""
    name = folder if place.topic is None else f"{place.topic}-{place.partition}"
    return printable(f"{name}{_on_broker(place.broker_id)}")


def _on_broker(broker_id: int | None) -> str:
    return "" if broker_id is None else f" on broker {broker_id}"


@dataclass(slots=True)
class PartitionNames:
    """Names of partitions about which the same is said.

    Attributes:
        count: how many they are.
    """

    count: int = 0
    _numbers: dict[tuple[str, int | None], list[int]] = field(default_factory=dict)
    _folders: list[str] = field(default_factory=list)

    def add(self, place: Place, folder: str) -> None:
        """Add a partition."""
        self.count += 1
        if place.topic is not None and place.partition is not None:
            self._numbers.setdefault((place.topic, place.broker_id), []).append(place.partition)
        elif len(self._folders) < NAMED:
            self._folders.append(partition_label(place, folder))

    def text(self) -> str:
        """Return the first ranges of them, and how many there are more."""
        ranges = sorted(self._ranges())[:NAMED]
        names = [printable(name) for *_, name in ranges] + self._folders[: NAMED - len(ranges)]
        more = self.count - sum(length for *_, length, _ in ranges) - (len(names) - len(ranges))
        return f"{', '.join(names)}{f' and {more:,} more' if more else ''}"

    def _ranges(self) -> Iterator[tuple[str, int, int, int, str]]:
        """Yield runs of partitions: topic, first number, broker, how many they are, and their names."""
        for (topic, broker_id), numbers in self._numbers.items():
            for _, run in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
                first, *others = (number for _, number in run)
                last = f" to {topic}-{others[-1]}" if others else ""
                broker = -1 if broker_id is None else broker_id
                yield topic, first, broker, len(others) + 1, f"{topic}-{first}{last}{_on_broker(broker_id)}"
