"""The partition of an internal topic that a transactional id or a group belongs to.

Rule: ``TransactionStateManager.partitionFor`` and ``GroupCoordinatorService.partitionFor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kforensics.parsers.format.array_types import IntArray

__all__ = ["DEFAULT_PARTITIONS", "java_hashes", "likely_count"]

# Kafka's default for transaction.state.log.num.partitions and offsets.topic.num.partitions.
DEFAULT_PARTITIONS = 50
SIGN_BIT, HASH_RANGE = 1 << 31, 1 << 32


def java_hashes(names: Sequence[str]) -> IntArray:
    """Return Java's ``String.hashCode`` of names, made non-negative as ``Utils.abs`` does.

    >>> java_hashes(["id-a", "polygenelubricants"]).tolist()
    [3225647, 0]
    """
    return np.array([_non_negative_hash(name) for name in names], "i8")


def _non_negative_hash(name: str) -> int:
    units = np.frombuffer(name.encode("utf-16-le", "surrogatepass"), "<u2").astype("u8")
    number = int((units * _powers(len(units))).sum() % HASH_RANGE)
    signed = number - HASH_RANGE if number >= SIGN_BIT else number
    return 0 if signed == -SIGN_BIT else abs(signed)


@cache
def _powers(length: int) -> IntArray:
    return np.array([pow(31, exponent, HASH_RANGE) for exponent in range(length - 1, -1, -1)], "u8")


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
