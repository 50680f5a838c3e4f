"""`make test` tries a part of what takes minutes, `make thorough` all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
IS_THOROUGH = bool(os.environ.get("KFORENSICS_THOROUGH"))


def some(values: Sequence[T], every: int = 7, first: int = 0) -> Sequence[T]:
    """Return one of so many values, all of them in a thorough run.

    Seven is no divisor of eight: of all bits of a file, each of the eight in a byte is tried, every seven bytes. Tests
    of the same samples begin with different ones, so that each sample is tried by some of them.
    """
    return values if IS_THOROUGH else values[first::every]


# One sample of each kind: transactions of each version, a cluster with transactions, one with replicas that diverged,
# damaged and legacy logs, compacted and remote ones, a crash, duplicates, and every kind of record.
OF_EACH_KIND = (
    "classic-transaction",
    "compaction",
    "consume-transform-produce",
    "crash-before-recovery",
    "damaged",
    "duplicates",
    "every-record",
    "legacy-2.7",
    "legacy-magic-0",
    "remote-storage",
    "replication",
    "transactions-v0",
    "transactions-v1",
    "transactions-v2",
)


def of_each_kind(names: Sequence[str]) -> Sequence[str]:
    """Return the samples of ``OF_EACH_KIND`` that are among those named, all of them in a thorough run."""
    return names if IS_THOROUGH else [name for name in names if name in OF_EACH_KIND]


def share(number: int, part: int) -> int:
    """Return a part of a number of cases, all of them in a thorough run."""
    return number if IS_THOROUGH else max(1, number // part)
