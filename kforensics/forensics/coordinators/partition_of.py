"""The partition of an internal topic that a transactional id or a group belongs to.

Rule: ``TransactionStateManager.partitionFor`` and ``GroupCoordinatorService.partitionFor``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.cluster_tables import NAME_PARTITIONS
from kforensics.forensics.core.result_rows import Rows
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.byte_slices import ByteSlices, joined_bytes, to_byte_slices
from kforensics.parsers.log.log_rows import Place

__all__ = ["DEFAULT_PARTITIONS", "NamePartition", "hashes_of", "java_hashes", "likely_count"]

# Kafka's default for transaction.state.log.num.partitions and offsets.topic.num.partitions.
DEFAULT_PARTITIONS = 50
SIGN_BIT, HASH_RANGE = 1 << 31, 1 << 32
FACTOR, MAX_ASCII = 31, 0x7F
# Names to hash at once.
BLOCK = 1 << 14


@dataclass(frozen=True, slots=True)
class NamePartition:
    """The partition of an internal topic that a name belongs to.

    Attributes:
        name: the name.
        kind: what it is taken for: ``transactional id`` or ``group``.
        topic: the internal topic.
        hash: Java's hash of the name, made non-negative.
        count: number of partitions of the topic.
        source: where this number comes from.
        is_available: whether the log of the partition is among the files.
    """

    name: str
    kind: str
    topic: str
    hash: int
    count: int
    source: str
    is_available: bool

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.hash % self.count

    @property
    def rows(self) -> Iterator[Rows]:
        """The row of the table ``name_partitions``."""
        columns = {
            **Place(None, None, self.topic, self.partition)._asdict(),
            "name": [self.name],
            "kind": [self.kind],
            "hash": [self.hash],
            "partition_count": [self.count],
            "count_source": [self.source],
            "available": [self.is_available],
        }
        yield Rows(NAME_PARTITIONS, 1, columns)


def java_hashes(names: Sequence[str]) -> IntArray:
    """Return Java's ``String.hashCode`` of names, made non-negative as ``Utils.abs`` does.

    >>> java_hashes(["id-a", "polygenelubricants"]).tolist()
    [3225647, 0]
    """
    return hashes_of(to_byte_slices(name.encode("utf-8", "surrogatepass") for name in names))


def hashes_of(names: ByteSlices) -> IntArray:
    """Return the same of names in UTF-8."""
    blocks = (names.take(np.arange(start, min(start + BLOCK, len(names)))) for start in range(0, len(names), BLOCK))
    return np.concatenate([np.empty(0, "i8"), *map(_block_hashes, blocks)])


def _block_hashes(names: ByteSlices) -> IntArray:
    data, bounds = joined_bytes(names)
    order = np.argsort(-names.sizes, kind="stable")
    starts, longer = bounds[order], len(names) - np.cumsum(np.bincount(names.sizes))
    by_size = np.zeros(len(names), "u8")
    for place, count in enumerate(longer[:-1].tolist()):  # the number of names that have a character there
        by_size[:count] = by_size[:count] * np.uint64(FACTOR) + data[starts[:count] + place]
    sums = np.empty(len(names), "u8")
    sums[order] = by_size
    is_ascii = data <= MAX_ASCII
    if not is_ascii.all():
        others = np.concatenate([[0], np.cumsum(~is_ascii)])[bounds]
        for row in np.flatnonzero(others[1:] > others[:-1]).tolist():
            sums[row] = _hash(data[bounds[row] : bounds[row + 1]].tobytes())
    numbers = (sums % np.uint64(HASH_RANGE)).astype("i8")
    signed = np.where(numbers >= SIGN_BIT, numbers - HASH_RANGE, numbers)
    return np.where(signed == -SIGN_BIT, 0, np.abs(signed))


def _hash(name: bytes) -> int:
    """Return the hash of a name by its UTF-16 units; its lowest 32 bits count."""
    total = 0
    for unit in memoryview(name.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")).cast("H"):
        total = (total * FACTOR + unit) % HASH_RANGE
    return total


def likely_count(available: Sequence[int], hashes: IntArray, partitions: IntArray) -> int | None:
    """Return the number of partitions that fits most names, None if none fits more than half of them.

    Args:
        available: numbers of the available partitions.
        hashes: hashes of the names.
        partitions: the partition that contains each name.
    """
    least = max(available, default=0) + 1
    candidates = [count for count in (len(set(available)), DEFAULT_PARTITIONS) if count >= least]
    fits = {count: int((hashes % count == partitions).sum()) for count in candidates}
    best = max(fits, key=lambda count: fits[count], default=None)
    return best if best is not None and 2 * fits[best] > len(hashes) else None
