"""The batches of several replicas in windows of offsets, each read once, in memory that does not grow with them.

Kafka's checksum stands in the way of comparing bytes: it covers all of a batch but base offset, length, leader epoch
and magic byte. So two batches are the same where these and the stored checksums are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.columns.batch_columns import BatchColumns, joined
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import BATCH_HEADER, LEGACY_HEADER_V0
from kforensics.parsers.kernels.policy import Choice

__all__ = ["Batches", "in_step", "windows"]

HEADER, LEGACY = fixed(BATCH_HEADER), fixed(LEGACY_HEADER_V0)
FIRST_WITH_PRODUCERS = 2
# Bytes that are read at once to see the checksums in them; a larger batch is passed over.
BLOCK = 1 << 20


class _Sliced(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, which: slice, /) -> Self: ...


Part = TypeVar("Part", bound=_Sliced)


@dataclass(frozen=True, slots=True)
class Batches:
    """Batches of a replica, by rising base offset.

    Attributes:
        columns: their columns.
        crc: their stored checksums.
    """

    columns: BatchColumns
    crc: Records

    def __len__(self) -> int:
        return len(self.crc)

    def __getitem__(self, which: Any) -> Batches:
        """Return some of them: by slice, mask or array of indexes."""
        return Batches(self.columns[which], self.crc[which])


NONE = Batches(joined([]), np.empty(0, "i8"))


def windows(partitions: Sequence[Partition], kernels: Choice, workers: int | None = None) -> Iterator[list[Batches]]:
    """Yield the batches of several replicas, window by window: in each, those whose base offset lies in it.

    Batches that do not rise in their own log are left out: the replica itself is broken there, and its own findings
    say so.

    Args:
        partitions: the replicas.
        kernels: gives the compiled kernels.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    logs = [_rising(_batches(one, kernels, workers)) for one in partitions]
    yield from in_step(logs, lambda batches: batches.columns.base_offset, NONE)


def in_step(logs: Sequence[Iterator[Part]], key: Callable[[Part], Records], nothing: Part) -> Iterator[list[Part]]:
    """Yield parts of several sequences that lie between the same numbers; of each, one part is held at a time.

    Args:
        logs: sequences of parts, each by numbers that rise within a part and from part to part.
        key: gives the numbers of a part.
        nothing: the part that holds nothing.
    """
    ahead = [nothing for _ in logs]
    is_read = [False for _ in logs]
    while True:
        for number, log in enumerate(logs):
            while not len(ahead[number]) and not is_read[number]:
                more = next(log, None)
                is_read[number], ahead[number] = more is None, nothing if more is None else more
        if not any(len(part) for part in ahead):
            return
        border = min((key(part)[-1] for part, done in zip(ahead, is_read, strict=True) if not done), default=None)
        stops = [len(part) if border is None else np.searchsorted(key(part), border, "right") for part in ahead]
        yield [part[:stop] for part, stop in zip(ahead, stops, strict=True)]
        ahead = [part[stop:] for part, stop in zip(ahead, stops, strict=True)]


def _rising(chunks: Iterator[Batches]) -> Iterator[Batches]:
    highest: int = -1
    for chunk in chunks:
        offsets = chunk.columns.base_offset
        before = np.maximum.accumulate(np.concatenate([[highest], offsets]))[:-1]
        rises = offsets > before
        highest = max(highest, int(offsets.max(initial=-1)))
        if rises.any():
            yield chunk if rises.all() else chunk[rises]


def _batches(partition: Partition, kernels: Choice, workers: int | None) -> Iterator[Batches]:
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            for columns in batch_chunks(source, number, _say_nothing, kernels, workers=workers):
                yield Batches(columns, _stored_checksums(source, columns))


def _stored_checksums(source: Source, columns: BatchColumns) -> Records:
    """Return the checksums as they stand in the log."""
    modern = columns.magic >= FIRST_WITH_PRODUCERS
    places = columns.position + np.where(modern, HEADER.offsets["crc"], LEGACY.offsets["crc"])
    kind = HEADER.dtype["crc"]
    found = np.zeros(len(places), "i8")
    for start, stop in _blocks(places):
        first = int(places[start])
        data = source.read(first, int(places[stop - 1]) - first + kind.itemsize)
        at = (places[start:stop] - first)[:, None] + np.arange(kind.itemsize)
        held = np.frombuffer(data, np.uint8)
        if at.max() < len(held):
            found[start:stop] = held[at].view(kind)[:, 0]
    return found


def _blocks(places: Records) -> Iterator[tuple[int, int]]:
    """Yield runs of places that lie in one block, from and to."""
    start, total = 0, len(places)
    while start < total:
        stop = max(start + 1, int(np.searchsorted(places, places[start] + BLOCK)))
        yield start, stop
        start = stop


def _say_nothing(_damage: object) -> None:
    """Damage was told of when the case was made."""
