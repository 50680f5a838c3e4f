"""Collects what text shows of each partition, and yields the worst first; what has nothing to show is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeAlias, cast

from kforensics.forensics.core.formatting import format_count
from kforensics.render.screen import Line, Screen

# Smaller is worse.
Rank: TypeAlias = tuple[Any, ...]
# Partitions that are shown, and partitions that are named for what is said of them and others alike.
SHOWN, NAMED = 20, 3
# The rank of what has nothing to show: after every number.
LAST = float("inf")
# Bytes of text to hold in memory.
MEMORY = 1 << 24
BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class _Stored:
    rank: Rank
    start: int
    end: int
    count: int
    is_kept: bool


@dataclass(slots=True)
class _Alike:
    """Partitions whose details differ in their names alone.

    Attributes:
        details: the lines of the first one.
        names: names of the first ones.
        count: how many they are.
    """

    details: Callable[[str], Iterable[str]]
    names: list[str] = field(default_factory=list)
    count: int = 0


def _spool() -> IO[bytes]:
    return SpooledTemporaryFile(MEMORY)  # it is closed with the process, or when it is collected


@dataclass(slots=True)
class RankedText:
    """The text of many partitions.

    Attributes:
        screen: where it is shown.
        nothing: what a partition that is only counted has, such as ``no transactions``.
        unit: what has text: a partition, or a topic.
        is_cut: whether something in the text of a partition was left out.
        dropped: headings of columns that were left out.
    """

    screen: Screen
    nothing: str
    unit: str = "partition"
    is_cut: bool = False
    dropped: dict[str, None] = field(default_factory=dict)
    _stored: list[_Stored] = field(default_factory=list)
    _alike: dict[tuple[Rank, str], _Alike] = field(default_factory=dict)
    _quiet: list[str] = field(default_factory=list)
    _quiet_count: int = 0
    _spool: IO[bytes] | None = None

    def add(self, rank: Rank, lines: Iterable[str], count: int = 1, *, is_kept: bool = False) -> None:
        """Add the lines of a partition, or of several.

        Args:
            rank: its place among the others.
            lines: its lines.
            count: how many partitions the lines are of.
            is_kept: whether they are shown however many others there are.
        """
        if self._spool is None:
            self._spool = cast("IO[bytes]", SpooledTemporaryFile(MEMORY))  # noqa: SIM115  # ``close`` closes it
        start = self._spool.tell()
        for line in self.screen.lines(lines):
            self._spool.write(f"{line}\n".encode("utf-8", "replace"))
        self._stored.append(_Stored(rank, start, self._spool.tell(), count, is_kept))

    def add_alike(self, rank: Rank, what: str, name: str, details: Callable[[str], Iterable[str]]) -> None:
        """Add a partition about which the same is said as about others: once, with the details of the first one.

        Args:
            rank: the place of these partitions among the others.
            what: what is said of them.
            name: name of the partition.
            details: returns its other lines, which name it if they are given its name.
        """
        if self.screen.shows_all:
            self.add(rank, chain([f"{name}: {what}"], details("")))
            return
        alike = self._alike.setdefault((rank, what), _Alike(details))
        alike.count += 1
        if len(alike.names) < NAMED:
            alike.names.append(name)

    def add_quiet(self, lines: Iterable[str]) -> None:
        """Add a partition that has nothing to show, with the lines that ``--all`` shows of it."""
        self._quiet_count += 1
        if self.screen.shows_all:
            self.add((LAST,), lines)
        elif self._quiet_count == 1:
            self._quiet = list(lines)

    def parts(self) -> Iterator[bytes]:
        """Yield the text, the worst first, and at its end what was left out with the command that shows it."""
        for (rank, what), alike in self._alike.items():
            self.add(rank, self._alike_lines(what, alike), alike.count, is_kept=True)
        self._alike.clear()
        ordered = sorted(self._stored, key=lambda stored: (stored.rank, stored.start))
        limit, left_out = self.screen.shown(SHOWN), 0
        for index, stored in enumerate(ordered):
            if limit is not None and index >= limit and not stored.is_kept:
                left_out += stored.count
            elif self._spool is not None:
                yield from _read(self._spool, stored)
        for line in self.screen.lines(self._closing(left_out)):
            yield f"{line}\n".encode("utf-8", "replace")

    def _alike_lines(self, what: str, alike: _Alike) -> Iterator[str]:
        if alike.count == 1:
            yield f"{alike.names[0]}: {what}"
            yield from alike.details("")
            return
        yield f"{format_count(alike.count, 'partition')}: {what}"
        more = alike.count - len(alike.names)
        self.is_cut = True
        yield Line(f"  {', '.join(alike.names)}{f' and {more:,} more' if more else ''}", hang=4)
        yield from alike.details(alike.names[0])

    def close(self) -> None:
        """Forget the text."""
        if self._spool is not None:
            self._spool.close()

    def _closing(self, left_out: int) -> Iterator[str]:
        """Yield how many partitions have nothing to show, and the command that shows what was left out."""
        if not (self._stored or self._quiet_count):
            yield "nothing to show"
        if left_out:
            yield f"… and {format_count(left_out, f'more {self.unit}')}"
        if self._quiet_count == 1 and not self._stored:
            yield from self._quiet  # the answer of whoever asked about one partition
        elif self._quiet_count and not self.screen.shows_all:
            yield Line(f"{format_count(self._quiet_count, self.unit)}: {self.nothing}")
        if left_out or self.is_cut:
            yield "all of them:" if left_out else "in full:"
            yield from self.screen.rest("--all")
        if self.dropped:
            yield f"columns left out to fit the width: {', '.join(self.dropped)}"
            yield from self.screen.rest("--wide")


def _read(spool: IO[bytes], stored: _Stored) -> Iterator[bytes]:
    spool.seek(stored.start)
    left = stored.end - stored.start
    while left:
        data = spool.read(min(left, BLOCK))
        left -= len(data)
        yield data
