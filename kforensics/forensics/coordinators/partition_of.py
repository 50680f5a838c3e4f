"""Which partition of an internal topic a name leads to.

Rule: ``TransactionStateManager.partitionFor`` and ``GroupCoordinatorService.partitionFor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kforensics.forensics.core.record_types import Records

__all__ = ["DEFAULT_PARTITIONS", "java_hashes", "likely_count"]

# Kafka's default for transaction.state.log.num.partitions, and for offsets.topic.num.partitions.
DEFAULT_PARTITIONS = 50
SIGN, WORD = 1 << 31, 1 << 32


def java_hashes(names: Sequence[str]) -> Records:
    """Return what Java's ``String.hashCode`` gives for names, made positive as ``Utils.abs`` does.

    >>> java_hashes(["id-a", "polygenelubricants"]).tolist()
    [3225647, 0]
    """
    return np.array([_positive(name) for name in names], "i8")


def _positive(name: str) -> int:
    units = np.frombuffer(name.encode("utf-16-le", "surrogatepass"), "<u2").astype("u8")
    number = int((units * _powers(len(units))).sum() % WORD)
    signed = number - WORD if number >= SIGN else number
    return 0 if signed == -SIGN else abs(signed)


@cache
def _powers(length: int) -> Records:
    return np.array([pow(31, exponent, WORD) for exponent in range(length - 1, -1, -1)], "u8")


def likely_count(captured: Sequence[int], hashes: Records, found: Records) -> int | None:
    """Return the number of partitions that most names go with, None if there is none that most do.

    Args:
        captured: numbers of the partitions on hand.
        hashes: of the names.
        found: the partition in which each was found.
    """
    least = max(captured, default=0) + 1
    choices = [count for count in (len(set(captured)), DEFAULT_PARTITIONS) if count >= least]
    fit = {count: int((hashes % count == found).sum()) for count in choices}
    best = max(fit, key=lambda count: fit[count], default=None)
    return best if best is not None and 2 * fit[best] > len(hashes) else None
