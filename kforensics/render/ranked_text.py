"""Collects what text shows of each partition, and yields the worst first; what has nothing to show is counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeAlias, cast

from kforensics.forensics.core.formatting import format_count
from kforensics.render.screen import Line, Screen

# Smaller is worse.
Rank: TypeAlias = tuple[Any, ...]
# Partitions that are shown, and those with nothing to show that are named all the same.
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
    _quiet: list[list[str]] = field(default_factory=list)
    _quiet_count: int = 0
    _spool: IO[bytes] | None = None

    def add(self, rank: Rank, lines: Iterable[str]) -> None:
        """Add the lines of a partition."""
        if self._spool is None:
            self._spool = cast("IO[bytes]", SpooledTemporaryFile(MEMORY))  # noqa: SIM115  # ``close`` closes it
        start = self._spool.tell()
        for line in self.screen.lines(lines):
            self._spool.write(f"{line}\n".encode("utf-8", "replace"))
        self._stored.append(_Stored(rank, start, self._spool.tell()))

    def add_quiet(self, lines: Iterable[str]) -> None:
        """Add a partition that has nothing to show, with the lines that ``--all`` shows of it."""
        self._quiet_count += 1
        if self.screen.shows_all:
            self.add((LAST,), lines)
        elif len(self._quiet) < NAMED:
            self._quiet.append(list(lines))

    def parts(self) -> Iterator[bytes]:
        """Yield the text, the worst first, and at its end what was left out with the command that shows it."""
        ordered = sorted(self._stored, key=lambda stored: (stored.rank, stored.start))
        shown = ordered[: self.screen.shown(SHOWN)]
        for stored in shown:
            if self._spool is not None:
                yield from _read(self._spool, stored)
        for line in self.screen.lines(self._closing(len(ordered) - len(shown))):
            yield f"{line}\n".encode("utf-8", "replace")

    def close(self) -> None:
        """Forget the text."""
        if self._spool is not None:
            self._spool.close()

    def _closing(self, left_out: int) -> Iterator[str]:
        """Yield how many partitions have nothing to show, and the command that shows what was left out."""
        if not (self._stored or self._quiet_count):
            yield "nothing to show"
        is_summed_up = self._quiet_count > NAMED and not self.screen.shows_all
        if left_out:
            yield f"… and {format_count(left_out, f'more {self.unit}')}"
        if is_summed_up:
            yield Line(f"{format_count(self._quiet_count, self.unit)}: {self.nothing}")
        elif not self.screen.shows_all:
            yield from chain.from_iterable(self._quiet)
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
