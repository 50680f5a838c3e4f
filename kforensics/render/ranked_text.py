"""Collects what text shows of each partition, and yields the worst first; what has nothing to show is counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import IO, Any, TypeAlias, cast

from kforensics.forensics.core.formatting import format_count
from kforensics.parsers.log.log_rows import Place
from kforensics.render.partition_names import PartitionNames, partition_label
from kforensics.render.screen import Line, Screen, indent_of

# Smaller is worse.
Rank: TypeAlias = tuple[Any, ...]
# Partitions that are shown.
SHOWN = 20
# The rank of what has nothing to show: after every number.
LAST = float("inf")
# Bytes of text to hold in memory.
MEMORY = 1 << 24
BLOCK = 1 << 20


@dataclass(slots=True)
class _Stored:
    """Lines that are stored.

    Attributes:
        rank: their place among the others.
        start: where they begin in the file.
        end: where they end there.
        count: how many partitions they are of.
        is_kept: whether they are shown however many others there are.
        same: other partitions with the same lines.
        indent: of the line that names these.
    """

    rank: Rank
    start: int
    end: int
    count: int
    is_kept: bool
    same: PartitionNames | None = None
    indent: int = 0


@dataclass(slots=True)
class _Alike:
    """Partitions whose details differ in their names alone.

    Attributes:
        details: the lines of the first one.
        first: its name.
        is_kept: whether they are shown however many others there are.
        names: the names of all.
    """

    details: Callable[[str], Iterable[str]]
    first: str
    is_kept: bool
    names: PartitionNames = field(default_factory=PartitionNames)


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
    _same: dict[bytes, _Stored] = field(default_factory=dict)
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
        self._spool.writelines(self._encoded(lines))
        self._stored.append(_Stored(rank, start, self._spool.tell(), count, is_kept))

    def add_partition(self, rank: Rank, lines: Iterable[str], place: Place, folder: str) -> None:
        """Add the lines of a partition, which others may have, too: they are shown once, with the names of the others.

        Args:
            rank: its place among the others.
            lines: its lines.
            place: the partition.
            folder: folder of its files.
        """
        if self.screen.shows_all:
            self.add(rank, lines)
            return
        block = [*lines]
        digest = _digest_without_name(block, place, folder)
        if (stored := self._same.get(digest)) is None:
            self.add(rank, block)
            self._same[digest] = self._stored[-1]
            return
        if stored.same is None:
            stored.same, stored.indent = PartitionNames(), indent_of(block[1]) if len(block) > 1 else 2
        stored.same.add(place, folder)
        stored.rank, stored.count = min(stored.rank, rank), stored.count + 1
        self.is_cut = True

    def add_alike(  # noqa: PLR0913  # the partition, what is said of it, and where
        self,
        rank: Rank,
        what: str,
        place: Place,
        folder: str,
        details: Callable[[str], Iterable[str]],
        *,
        is_kept: bool = False,
    ) -> None:
        """Add a partition about which the same is said as about others: once, with the details of the first one.

        Args:
            rank: the place of these partitions among the others.
            what: what is said of them.
            place: the partition.
            folder: folder of its files.
            details: returns its other lines, which name it if they are given its name.
            is_kept: whether these partitions are shown however many others there are.
        """
        name = partition_label(place, folder)
        if self.screen.shows_all:
            self.add(rank, chain([f"{name}: {what}"], details("")))
            return
        alike = self._alike.setdefault((rank, what), _Alike(details, name, is_kept))
        alike.names.add(place, folder)

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
            self.add(rank, self._alike_lines(what, alike), alike.names.count, is_kept=alike.is_kept)
        self._alike.clear()
        ordered = sorted(self._stored, key=lambda stored: (stored.rank, stored.start))
        limit, left_out = self.screen.shown(SHOWN), 0
        for index, stored in enumerate(ordered):
            if limit is not None and index >= limit and not stored.is_kept:
                left_out += stored.count
            elif self._spool is not None:
                yield from _read(self._spool, stored)
                yield from self._encoded(_same_lines(stored))
        yield from self._encoded(self._closing(left_out))

    def _encoded(self, lines: Iterable[str]) -> Iterator[bytes]:
        for line in self.screen.lines(lines):
            yield f"{line}\n".encode("utf-8", "replace")

    def _alike_lines(self, what: str, alike: _Alike) -> Iterator[str]:
        if alike.names.count == 1:
            yield Line(f"{alike.first}: {what}")
            yield from alike.details("")
            return
        self.is_cut = True
        yield Line(f"{format_count(alike.names.count, 'partition')}: {what}")
        yield Line(f"  {alike.names.text()}", hang=4)
        yield from alike.details(alike.first)

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


def _digest_without_name(lines: Sequence[str], place: Place, folder: str) -> bytes:
    """Return a digest of lines that is the same for partitions whose lines differ in their names alone."""
    own = filter(None, (partition_label(place, folder), f"{place.topic}-{place.partition}", folder))
    names = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, own))})(?![\w-])")
    return blake2b(names.sub("\0", "\n".join(lines)).encode("utf-8", "replace"), digest_size=16).digest()


def _same_lines(stored: _Stored) -> Iterator[str]:
    """Yield which other partitions have the same lines."""
    if stored.same is not None:
        others = format_count(stored.same.count, "more partition")
        yield Line(f"{' ' * stored.indent}the same in {others}: {stored.same.text()}")


def _read(spool: IO[bytes], stored: _Stored) -> Iterator[bytes]:
    spool.seek(stored.start)
    left = stored.end - stored.start
    while left:
        data = spool.read(min(left, BLOCK))
        left -= len(data)
        yield data
