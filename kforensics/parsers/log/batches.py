"""Walks a ``.log``: every byte ends up in a ``Batch`` or a ``Damage`` row, whatever the file holds.

Kafka's own reader stops at the first thing it does not like. This one says what it could not read, looks for the next
header that checks out, and goes on. A batch whose checksum fails is still a batch where its header makes sense and
another one (or the end) follows where it says; ``crc_valid`` tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.window import CHUNK, Window
from kforensics.parsers.format.checksums import crc32, crc32c
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import BATCH_HEADER, ENTRY_PREFIX, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import CODECS, Batch, Damage
from kforensics.parsers.log.headers import LENGTH_END, batch_header, legacy_header, prefix
from kforensics.parsers.log.legacy import LENGTH_FIELD, MIN_SIZE
from kforensics.parsers.log.resync import Candidates, crc_start, zeros_end

__all__ = ["InFull", "Walk", "batch_bytes", "checked_header", "walk"]

HEADER, PREFIX = fixed(BATCH_HEADER), fixed(ENTRY_PREFIX)
# Kafka asks for one byte more than the prefix before it looks at one.
SMALLEST = PREFIX.size + 1
V1_MIN_SIZE = fixed(LEGACY_HEADER_V1).size + 2 * LENGTH_FIELD - LENGTH_END
NEWEST_MAGIC = 2
# Bytes summed in vain may be this many times those walked over: hostile headers must not cost hours.
VAIN_READS = 4
VAIN_FLOOR = 64 << 20
SMALL = 1 << 14
# Looking for a batch in a byte costs this many times what summing it does.
SEARCH_COST = 4


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why there is no batch at a position, how long it would have been, and a sound one that was met inside it."""

    reason: str
    detail: str
    size: int = 0
    good: int | None = None


class _Effort:
    """Bounds the checksums that fail.

    Batches of every order of size have an allowance of their own, so that a flood of wild lengths does not use up what
    smaller ones need. Small ones are free: summing them costs no more than looking at their header.
    """

    def __init__(self, start: int, free: int) -> None:
        self._start, self._free = start, free
        self._vain: dict[int, int] = {}

    def allows(self, position: int, size: int) -> bool:
        allowed = VAIN_FLOOR + VAIN_READS * (position - self._start)
        return size <= self._free or self._vain.get(size.bit_length(), 0) + size <= allowed

    def refused_sizes(self, position: int) -> int:
        """Return a bit for each order of size of which the largest is not allowed."""
        return sum(1 << order for order in self._vain if not self.allows(position, max(1 << order, self._free + 1)))

    def in_vain(self, size: int) -> None:
        self._vain[size.bit_length()] = self._vain.get(size.bit_length(), 0) + size


def walk(source: Source, start: int = 0, end: int | None = None) -> Iterator[Batch | Damage]:
    """Yield the batches of a log and the ranges that hold none, in order, without gap or overlap.

    Behind a batch may come damage inside it (``inside_batch``): a checksum that fails, a strange magic byte.

    Args:
        source: the log.
        start: position of a batch.
        end: byte behind the last one to look at, None for all.
    """
    log = Walk(source, start, end)
    while rows := log.step():
        yield from rows


class Walk:
    """A walk over a log, step by step, which somebody else may go a part of; see :func:`walk`.

    Attributes:
        position: behind the last byte walked over; set behind batches that somebody else found beyond doubt.
    """

    def __init__(self, source: Source, start: int = 0, end: int | None = None) -> None:
        window = Window(source, end)
        self._effort = _Effort(start, SMALL)
        self._walker = _Walker(window, self._effort, _Effort(start, 0), Candidates(window))
        self._stop, self.position = window.end, start

    def step(self) -> list[Batch | Damage]:
        """Return a batch and what is wrong with it, or the damage before the next one; nothing at the end."""
        walker = self._walker
        if self.position < walker.window.end:
            found = walker.batch_at(self.position)
            if isinstance(found, Batch):
                self.position += found.size
                return [found, *_doubts(found)]
            damage = walker.damage(self.position, found)
            if damage.end > self.position:
                self.position = damage.end
                return [damage]
        start, self.position = self.position, self._stop
        if start >= self._stop:
            return []
        return [Damage(start, self._stop, "shrunk", "the file has become shorter while it was read")]

    @property
    def refused_sizes(self) -> int:
        """A bit for each order of size of which no more batches are summed here."""
        return self._effort.refused_sizes(self.position)


def _doubts(batch: Batch) -> Iterator[Damage]:
    """Yield what is wrong with a batch that was read all the same."""
    start, end = batch.position, batch.position + batch.size
    if not batch.crc_valid:
        detail = f"the stored checksum {batch.crc} is not that of the bytes; the batch is shown as it is"
        yield Damage(start, end, "crc", detail, inside_batch=start)
    if batch.magic > NEWEST_MAGIC:
        at = start + PREFIX.offsets["magic"]
        detail = f"the magic byte is {batch.magic}, which the checksum does not cover; read as format {NEWEST_MAGIC}"
        yield Damage(at, at + 1, "magic", detail, inside_batch=start)


class InFull:
    """Damage in a range of a log as it shows to who reads all of the log.

    What is wrong before the end of a range can only be told by what stands behind it: how much of a batch is there, and
    whether its length makes sense. One walk serves all damage of a range, so that hostile bytes are searched twice at
    most.

    Args:
        source: the log.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._walk: Walk | None = None

    def damage(self, damage: Damage, end: int | None) -> Damage:
        """Return damage of a range with all that can be said of it.

        Args:
            damage: as a walk over the range has it, in the order of the bytes.
            end: byte behind the range, where a batch begins; None for the end of the log.
        """
        if end is None or damage.inside_batch is not None or damage.reason == "shrunk":
            return damage
        self._walk = self._walk or Walk(self._source, damage.start)
        self._walk.position = damage.start
        row = next(iter(self._walk.step()), None)
        if isinstance(row, Damage) and row.end == damage.end:
            return row
        return replace(damage, next_good_position=end) if damage.end == end else damage


def batch_bytes(source: Source, batch: Batch, most: int | None = None) -> bytes:
    """Return the bytes of a batch, its header included: all, or the first ``most`` of them."""
    return source.read(batch.position, batch.size if most is None else min(batch.size, most))


@dataclass(frozen=True, slots=True)
class _Walker:
    window: Window
    effort: _Effort
    search_effort: _Effort
    candidates: Candidates

    def batch_at(self, position: int) -> Batch | _Refusal:
        window = self.window
        head = window.read(position, HEADER.size)
        left = window.end - position
        if len(head) < SMALLEST:
            return _Refusal("truncated", f"{left} bytes are too few for a batch header")
        _, length, magic = prefix(head)
        refusal = _refused(length, magic, left)
        if refusal:
            return refusal
        size = LENGTH_END + length
        if not self.effort.allows(position, size):
            doubt = self._doubt(_header(head, position, 0), "its checksum was not tried")
            if doubt:
                return doubt
        batch = checked_header(window, position, head, size)
        if window.end < position + size:
            return _Refusal("truncated", f"the batch has {size} bytes, of which {window.end - position} are left")
        doubt = None if batch.crc_valid else self._doubt(batch, f"the checksum is wrong (stored {batch.crc})")
        if doubt:
            self.effort.in_vain(size)
        return doubt or batch

    def damage(self, position: int, refusal: _Refusal) -> Damage:
        window = self.window
        zeros = zeros_end(window, position)
        if zeros >= window.end:
            detail = f"{window.end - position} zero bytes up to the end of the file"
            return Damage(position, window.end, "zero-tail", detail)
        good = self._next_good(position, refusal, zeros)
        reason, detail = refusal.reason, refusal.detail
        if zeros - position > HEADER.size:
            # The next header may begin with zeros of its own.
            count = (zeros if good is None else min(zeros, good)) - position
            reason, detail = "zeros", f"{count} zero bytes where a batch should begin"
        if good is None:
            return Damage(position, window.end, reason, detail)
        if reason == "truncated" or refusal.good is not None:
            reason, detail = "length", f"{detail}; another batch begins inside it"
        return Damage(position, good, reason, detail, next_good_position=good)

    def _next_good(self, position: int, refusal: _Refusal, zeros: int) -> int | None:
        if refusal.good is not None:
            return refusal.good
        end = position + refusal.size
        if refusal.size and self._sound(end):
            good = self._inside(position, end)
            return end if good is None else good
        # A header may begin with zeros of its own, up to the magic byte.
        start = max(position + 1, zeros - PREFIX.size)
        return next((at for at in self.candidates.behind(start) if self._sound(at)), None)

    def _inside(self, position: int, end: int, last_offset: int | None = None) -> int | None:
        """Return where the first sound batch begins inside a batch that is not sound, if they are of the same log.

        The length of that one is wrong then, or bytes of it are missing. A record's value may hold sound batches too,
        of another log: those do not reach the end of the batch around them, nor go on with its offsets.
        """
        cost = SEARCH_COST * (end - position)
        thorough = self.search_effort.allows(position, cost)
        first, passed = None, 0
        for at in self.candidates.behind(position + 1, end):
            inner = self._sound(at) if at >= passed else None
            if inner is None:
                continue
            first = at if first is None else first
            passed = self._chain_end(inner, end) if thorough else end
            if passed >= end or (last_offset is not None and inner.last_offset > last_offset):
                self.search_effort.in_vain(cost)
                return first
        return None

    def _chain_end(self, batch: Batch, end: int) -> int:
        """Return the position behind the sound batches that follow one another, at ``end`` at the latest asked."""
        position = batch.position + batch.size
        while position < end and (following := self._sound(position)):
            position += following.size
        return position

    def _sound(self, position: int) -> Batch | None:
        """Return the batch with a valid checksum at a position."""
        head = self.window.glimpse(position, HEADER.size)
        if len(head) < SMALLEST:
            return None
        _, length, magic = prefix(head)
        if magic not in (0, 1, 2) or _refused(length, magic, self.window.end - position):
            return None
        size = LENGTH_END + length
        if not self.effort.allows(position, size):
            return None
        batch = checked_header(self.window, position, head, size)
        if batch.crc_valid:
            return batch
        self.effort.in_vain(size)
        return None

    def _doubt(self, batch: Batch, checksum: str) -> _Refusal | None:
        """Return why a batch is not believed without its checksum: it is where it and what follows it make sense."""
        end = batch.position + batch.size
        if not _plausible(batch) or not _continues(self.window, end):
            return _Refusal("crc", f"{checksum} and no batch follows the {batch.size} bytes of this one", batch.size)
        good = self._inside(batch.position, end, batch.last_offset)
        return None if good is None else _Refusal("length", f"the batch has {batch.size} bytes, {checksum}", good=good)


def checked_header(window: Window, position: int, head: bytes, size: int) -> Batch:
    """Return the header of a batch of any format, its checksum taken piece by piece.

    Args:
        window: the log.
        position: of the batch.
        head: its first bytes, at least those of a header.
        size: its bytes.
    """
    return _header(head, position, _crc(window, position, size, prefix(head)[2]))


def _header(head: bytes, position: int, crc_of_rest: int) -> Batch:
    read = legacy_header if prefix(head)[2] < 2 else batch_header
    return read(head, position, crc_of_rest=crc_of_rest)


def _refused(length: int, magic: int, left: int) -> _Refusal | None:
    least = MIN_SIZE if magic == 0 else V1_MIN_SIZE if magic == 1 else HEADER.size - LENGTH_END
    size = LENGTH_END + length
    if length < MIN_SIZE:
        return _Refusal("length", f"Found record size {length} smaller than minimum record overhead ({MIN_SIZE})")
    if magic < 0:
        return _Refusal("magic", f"{magic} is no message format", size if size <= left else 0)
    if length < least:
        return _Refusal(
            "length", f"a batch of format {magic} cannot have a length of {length}", size if size <= left else 0
        )
    if size > left:
        return _Refusal("truncated", f"the batch has {size} bytes, of which {left} are there")
    return None


def _crc(window: Window, position: int, size: int, magic: int) -> int:
    start, end = position + crc_start(magic), position + size
    extend = crc32 if magic < 2 else crc32c
    if end - start <= CHUNK:
        return extend(window.read(start, end - start))
    checksum = 0
    for piece in window.chunks(start, end):
        checksum = extend(piece, checksum)
    return checksum


def _plausible(batch: Batch) -> bool:
    """Whether the fields of a header make sense together, where its checksum does not vouch for them."""
    if batch.last_offset < 0 or batch.codec >= len(CODECS):
        return False
    if batch.is_legacy:
        return True
    delta, count = batch.last_offset_delta or 0, batch.count or 0
    return batch.magic == 2 and (batch.base_offset or 0) >= 0 and delta >= 0 and 0 <= count <= delta + 1


def _continues(window: Window, position: int) -> bool:
    """Whether a batch, what is left of one, zeros or the end of the file stand at a position."""
    head = window.glimpse(position, HEADER.size)
    if len(head) < SMALLEST:
        return not head.strip(b"\0") or (len(head) >= LENGTH_END and prefix(head.ljust(SMALLEST, b"\0"))[1] >= MIN_SIZE)
    base_offset, length, magic = prefix(head)
    if not head[:SMALLEST].strip(b"\0"):
        return True
    if base_offset < 0 or length < MIN_SIZE or magic not in (0, 1, 2):
        return False
    if magic < 2 or len(head) < HEADER.size:
        return True
    return _plausible(batch_header(head, position, crc_of_rest=0))
