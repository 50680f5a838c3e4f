"""Walks a ``.log``: every byte ends up in a ``Batch`` or a ``Damage`` row, whatever the file contains.

Kafka's own reader stops at the first error. This one reports what it could not read, searches for the next batch with a
valid checksum, and continues there. A batch whose own checksum fails is still a batch if its header is plausible and
another batch, or the end, follows where the header says; ``crc_valid`` is False then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from kforensics.parsers.files.source import BUFFER_BYTES, Source, Window
from kforensics.parsers.format.checksums import crc32, crc32c
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, ENTRY_PREFIX, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.batch_headers import (
    LENGTH_END,
    LENGTH_FIELD,
    MIN_SIZE,
    batch_header,
    crc_start,
    legacy_header,
    plausible,
    prefix,
)

if TYPE_CHECKING:
    from kforensics.parsers.log.resync import Candidates

__all__ = ["DamageContext", "LogWalk", "batch_bytes", "checked_header", "walk"]

HEADER, PREFIX = fixed_layout(BATCH_HEADER), fixed_layout(ENTRY_PREFIX)
# Kafka needs one byte more than the prefix before it reads a header.
MIN_HEAD = PREFIX.size + 1
V1_MIN_SIZE = fixed_layout(LEGACY_HEADER_V1).size + 2 * LENGTH_FIELD - LENGTH_END
NEWEST_MAGIC = 2
# Bytes whose checksum failed may be this many times the bytes walked over: hostile headers must not cost hours.
FAILED_RATIO = 4
FAILED_FLOOR = 64 << 20
FREE_SIZE = 1 << 14
# Searching a byte for batches costs this many times as much as checksumming it.
SEARCH_COST = 4


@dataclass(frozen=True, slots=True)
class _Rejection:
    """Why there is no batch at a position.

    Attributes:
        reason: damage reason.
        detail: damage detail.
        size: size of the batch according to its header, 0 if unknown.
        next_good: position of a valid batch found inside it.
    """

    reason: str
    detail: str
    size: int = 0
    next_good: int | None = None


class _ChecksumBudget:
    """Limits the work spent on checksums that fail.

    Every order of magnitude of batch sizes (power of two) has its own budget, so that a flood of corrupt lengths does
    not use up what smaller batches need. Batches up to ``free`` bytes are always allowed: summing them costs no more
    than reading their header.
    """

    def __init__(self, start: int, free: int) -> None:
        self._start, self._free = start, free
        self._failed: dict[int, int] = {}

    def allows(self, position: int, size: int) -> bool:
        budget = FAILED_FLOOR + FAILED_RATIO * (position - self._start)
        return size <= self._free or self._failed.get(size.bit_length(), 0) + size <= budget

    def refused_sizes(self, position: int) -> int:
        """Return a bit mask of the orders of magnitude whose largest size is not allowed."""
        return sum(1 << order for order in self._failed if not self.allows(position, max(1 << order, self._free + 1)))

    def spend(self, size: int) -> None:
        self._failed[size.bit_length()] = self._failed.get(size.bit_length(), 0) + size


def walk(source: Source, start: int = 0, end: int | None = None) -> Iterator[Batch | Damage]:
    """Yield the batches of a log and the ranges without a batch, in order; together they cover the log.

    A batch may be followed by damage inside it (``inside_batch``): a failed checksum, an unknown magic byte, or a torn
    end. Only a torn end is part of two batches: its bytes are also the start of the next batch.

    Args:
        source: the log.
        start: position of a batch.
        end: position to end at, None for the end of the log.
    """
    log = LogWalk(source, start, end)
    while rows := log.step():
        yield from rows


class LogWalk:
    """A walk over a log, step by step; see :func:`walk`. A faster decoder may take over parts of it.

    Attributes:
        position: end of the walked range; callers set it after decoding valid batches themselves.
    """

    def __init__(self, source: Source, start: int = 0, end: int | None = None) -> None:
        window = Window(source, end)
        self._budget = _ChecksumBudget(start, FREE_SIZE)
        self._walker = _Walker(window, self._budget, _ChecksumBudget(start, 0))
        self._start, self._stop, self.position = start, window.end, start

    def step(self) -> list[Batch | Damage]:
        """Return the next batch with its damage, or the damage before the next batch; an empty list at the end."""
        walker = self._walker
        if self.position < walker.window.end:
            row = walker.batch_at(self.position)
            if isinstance(row, Batch):
                self.position += row.size
                return [row, *_damage_inside(row)]
            if overlap := walker.overlap(self._start, self.position):
                _, following = overlap
                self.position = following.position + following.size
                return [*overlap]
            damage = walker.damage(self.position, row)
            if damage.end > self.position:
                self.position = damage.end
                return [damage]
        start, self.position = self.position, self._stop
        if start >= self._stop:
            return []
        return [Damage(start, self._stop, "shrunk", "the file shrank while it was being read")]

    @property
    def refused_sizes(self) -> int:
        """Bit mask of the orders of magnitude of batch sizes whose checksum budget is used up."""
        return self._budget.refused_sizes(self.position)


def _damage_inside(batch: Batch) -> Iterator[Damage]:
    """Yield the faults of a batch that was read nevertheless."""
    start, end = batch.position, batch.position + batch.size
    if not batch.crc_valid:
        detail = f"the stored checksum {batch.crc} is not that of the bytes; the batch is shown as it is"
        yield Damage(start, end, "crc", detail, inside_batch=start)
    if batch.magic > NEWEST_MAGIC:
        magic = start + PREFIX.offsets["magic"]
        detail = f"the magic byte is {batch.magic}, which the checksum does not cover; read as format {NEWEST_MAGIC}"
        yield Damage(magic, magic + 1, "magic", detail, inside_batch=start)


class DamageContext:
    """Completes damage at the end of a range of a log to what a walk over the whole log reports.

    The bytes after the range decide how much of a batch is left and whether its length is plausible. All damage of a
    range shares one walk, so that hostile bytes are searched at most twice.

    Args:
        source: the log.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._walk: LogWalk | None = None

    def damage(self, damage: Damage, end: int | None) -> Damage:
        """Return damage of a range as a walk over the whole log reports it.

        Args:
            damage: as the walk over the range reports it; must be passed in byte order.
            end: end of the range, where a batch begins; None for the end of the log.
        """
        if end is None or damage.inside_batch is not None or damage.reason == "shrunk":
            return damage
        self._walk = self._walk or LogWalk(self._source, damage.start)
        self._walk.position = damage.start
        row = next(iter(self._walk.step()), None)
        if isinstance(row, Damage) and row.end == damage.end:
            return row
        return replace(damage, next_good_position=end) if damage.end == end else damage


def batch_bytes(source: Source, batch: Batch, most: int | None = None) -> bytes:
    """Return the bytes of a batch including its header: all of them, or the first ``most``."""
    return source.read(batch.position, batch.size if most is None else min(batch.size, most))


@dataclass(frozen=True)  # no slots: cached_property needs the instance dictionary
class _Walker:
    """Reads the batch at a position, or searches for the next one.

    Attributes:
        window: the log.
        budget: limits the checksums that fail.
        search_budget: limits the searches inside batches.
    """

    window: Window
    budget: _ChecksumBudget
    search_budget: _ChecksumBudget

    @cached_property
    def candidates(self) -> Candidates:
        """The possible batches."""
        from kforensics.parsers.log.resync import Candidates  # few logs are damaged

        return Candidates(self.window)

    def batch_at(self, position: int) -> Batch | _Rejection:
        window = self.window
        head = window.read(position, HEADER.size)
        left = window.end - position
        if len(head) < MIN_HEAD:
            return _Rejection("truncated", f"{left} bytes are too few for a batch header")
        _, length, magic = prefix(head)
        rejection = _rejected(length, magic, left)
        if rejection:
            return rejection
        size = LENGTH_END + length
        if not self.budget.allows(position, size):
            rejection = self._without_checksum(_header(head, position, 0), "its checksum was not computed")
            if rejection:
                return rejection
        batch = checked_header(window, position, head, size)
        if window.end < position + size:
            return _Rejection("truncated", f"the batch has {size} bytes, of which {window.end - position} are left")
        if batch.crc_valid:
            return batch
        rejection = self._without_checksum(batch, f"the checksum is wrong (stored {batch.crc})")
        if rejection:
            self.budget.spend(size)
        return rejection or batch

    def overlap(self, start: int, position: int) -> tuple[Damage, Batch] | None:
        """Return the damage of the torn batch that ends at a position, and the batch that begins inside it."""
        from kforensics.parsers.log.resync import overlapping_batch  # few logs are damaged

        return overlapping_batch(self.window, lambda: self.candidates, self.valid_batch, start, position)

    def damage(self, position: int, rejection: _Rejection) -> Damage:
        """Return the damage from a position to the next valid batch."""
        from kforensics.parsers.log.resync import zeros_end  # few logs are damaged

        window = self.window
        zeros = zeros_end(window, position)
        if zeros >= window.end:
            detail = f"{window.end - position} zero bytes up to the end of the file"
            return Damage(position, window.end, "zero-tail", detail)
        good = self._next_good(position, rejection, zeros)
        reason, detail = rejection.reason, rejection.detail
        if zeros - position > HEADER.size:
            # The header of the next batch may itself begin with zeros.
            count = (zeros if good is None else min(zeros, good)) - position
            reason, detail = "zeros", f"{count} zero bytes where a batch should begin"
        if good is None:
            return Damage(position, window.end, reason, detail)
        if reason == "truncated" or rejection.next_good is not None:
            reason, detail = "length", f"{detail}; another batch begins inside it"
        return Damage(position, good, reason, detail, next_good_position=good)

    def _next_good(self, position: int, rejection: _Rejection, zeros: int) -> int | None:
        if rejection.next_good is not None:
            return rejection.next_good
        end = position + rejection.size
        # A range of a log ends where the next batch begins.
        walker = self if end < self.window.end else replace(self, window=Window(self.window.source))
        if rejection.size and (following := walker.valid_batch(end)):
            offset, _, _ = prefix(self.window.peek(position, HEADER.size))
            # The length may be wrong and end at a batch by chance. A negative offset is wrong, too, and proves nothing.
            between = (offset, following.last_offset) if offset >= 0 else None
            inside = self._batch_inside(position, end, between)
            return end if inside is None else inside
        # A header may begin with zeros, up to its magic byte.
        start = max(position + 1, zeros - PREFIX.size)
        return next((candidate for candidate in self.candidates.between(start) if self.valid_batch(candidate)), None)

    def _batch_inside(self, position: int, end: int, between: tuple[int, float] | None) -> int | None:
        """Return the position of the first valid batch inside an invalid one, if both belong to the same log.

        In that case the outer batch has a wrong length or lacks bytes. The value of a record may contain valid batches
        of another log, too, but those neither reach the end of the outer batch nor continue its offsets. ``between`` is
        the offset of the outer batch and that of the batch after it, None if unknown.
        """
        cost = SEARCH_COST * (end - position)
        is_thorough = self.search_budget.allows(position, cost)
        first, chain_end = None, 0
        for candidate in self.candidates.between(position + 1, end):
            inner = self.valid_batch(candidate) if candidate >= chain_end else None
            if inner is None:
                continue
            first = candidate if first is None else first
            chain_end = self._chain_end(inner, end) if is_thorough else end
            if chain_end >= end or (between and between[0] < inner.last_offset < between[1]):
                self.search_budget.spend(cost)
                return first
        return None

    def _chain_end(self, batch: Batch, end: int) -> int:
        """Return the end of the chain of adjacent valid batches that starts with ``batch``; stop at ``end``."""
        position = batch.position + batch.size
        while position < end and (following := self.valid_batch(position)):
            position += following.size
        return position

    def valid_batch(self, position: int) -> Batch | None:
        """Return the batch at a position if its checksum is valid."""
        head = self.window.peek(position, HEADER.size)
        if len(head) < MIN_HEAD:
            return None
        _, length, magic = prefix(head)
        if magic not in (0, 1, 2) or _rejected(length, magic, self.window.end - position):
            return None
        size = LENGTH_END + length
        if not self.budget.allows(position, size):
            return None
        batch = checked_header(self.window, position, head, size)
        if batch.crc_valid:
            return batch
        self.budget.spend(size)
        return None

    def _without_checksum(self, batch: Batch, checksum: str) -> _Rejection | None:
        """Return why a batch without a valid checksum is rejected; None if it and what follows it are plausible."""
        end = batch.position + batch.size
        if not plausible(batch) or not _continues(self.window, end):
            return _Rejection("crc", f"{checksum} and no batch follows the {batch.size} bytes of this one", batch.size)
        inside = self._batch_inside(batch.position, end, (batch.last_offset, math.inf))
        if inside is None:
            return None
        return _Rejection("length", f"the batch has {batch.size} bytes, {checksum}", next_good=inside)


def checked_header(window: Window, position: int, head: bytes, size: int) -> Batch:
    """Return the header of a batch of any format; its checksum is computed chunk by chunk.

    Args:
        window: the log.
        position: position of the batch.
        head: its first bytes, at least a whole header.
        size: its size in bytes.
    """
    return _header(head, position, _crc(window, position, size, prefix(head)[2]))


def _header(head: bytes, position: int, crc_of_rest: int) -> Batch:
    decode = legacy_header if prefix(head)[2] < 2 else batch_header
    return decode(head, position, crc_of_rest=crc_of_rest)


def _rejected(length: int, magic: int, left: int) -> _Rejection | None:
    """Return why length and magic byte cannot begin a batch, None if they can."""
    least = MIN_SIZE if magic == 0 else V1_MIN_SIZE if magic == 1 else HEADER.size - LENGTH_END
    size = LENGTH_END + length
    if length < MIN_SIZE:
        return _Rejection("length", f"Found record size {length} smaller than minimum record overhead ({MIN_SIZE})")
    if magic < 0:
        return _Rejection("magic", f"{magic} is no message format", size if size <= left else 0)
    if length < least:
        return _Rejection(
            "length", f"a batch of format {magic} cannot have a length of {length}", size if size <= left else 0
        )
    if size > left:
        return _Rejection("truncated", f"the batch has {size} bytes, of which {left} are there")
    return None


def _crc(window: Window, position: int, size: int, magic: int) -> int:
    start, end = position + crc_start(magic), position + size
    extend = crc32 if magic < 2 else crc32c
    if end - start <= BUFFER_BYTES:
        return extend(window.read(start, end - start))
    checksum = 0
    for chunk in window.chunks(start, end):
        checksum = extend(chunk, checksum)
    return checksum


def _continues(window: Window, position: int) -> bool:
    """Return whether a batch, a truncated batch, zeros or the end of the file follows at a position."""
    head = window.peek(position, HEADER.size)
    if len(head) < MIN_HEAD:
        return not head.strip(b"\0") or (len(head) >= LENGTH_END and prefix(head.ljust(MIN_HEAD, b"\0"))[1] >= MIN_SIZE)
    base_offset, length, magic = prefix(head)
    if not head[:MIN_HEAD].strip(b"\0"):
        return True
    if base_offset < 0 or length < MIN_SIZE or magic not in (0, 1, 2):
        return False
    if magic < 2 or len(head) < HEADER.size:
        return True
    return plausible(batch_header(head, position, crc_of_rest=0))
