"""Partition states to run checks on: from sample partitions, and from forged ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.discover import FoundFile, discover
from lab.places import SAMPLES
from tests.forensics.batch_notation import NOW
from tests.forensics.with_partitions import Test, with_partitions

__all__ = ["HOUR", "SAMPLES", "each_sample", "partitions_under", "random_leader_log", "state_of", "state_under"]

HOUR = 3_600_000
PRODUCERS = 5
# Samples that no broker wrote.
MADE_UP = ("damaged", "every-record")


def partitions_under(folder: Path) -> list[Partition]:
    """Return the partitions in a folder and its subfolders."""
    return partitions_of(row for row in discover([str(folder)]) if isinstance(row, FoundFile))


def state_under(
    folder: Path, *, as_of_ms: int = NOW + HOUR // 2, collectors: Sequence[Collector] = ()
) -> PartitionState:
    """Return the state of the only partition in a log directory."""
    (partition,) = partitions_under(folder)
    return state_of(partition, as_of_ms=as_of_ms, collectors=collectors)


def state_of(
    partition: Partition, *, as_of_ms: int = NOW + HOUR // 2, collectors: Sequence[Collector] = ()
) -> PartitionState:
    """Return the state of a partition."""
    return examine(partition, Rules(as_of_ms), collectors)


@cache
def _samples() -> tuple[Partition, ...]:
    scenarios = (pedigree.parent for pedigree in sorted(SAMPLES.glob("*/pedigree.json")))
    written = (folder for folder in scenarios if folder.name not in MADE_UP)
    return tuple(partition for folder in written for partition in partitions_under(folder))


def each_sample() -> Callable[[Test], Test]:
    """Return a decorator that runs a test with each sample ``partition`` that a real broker wrote."""
    return with_partitions((str(Path(sample.folder).relative_to(SAMPLES)), sample) for sample in _samples())


def random_leader_log(dice: Random, longest: int) -> str:
    """Return a random log as a leader writes it: producers 1 to 5 are transactional, 6 to 10 are not.

    Args:
        dice: random numbers.
        longest: upper bound of the number of batches, exclusive.
    """
    parts, offset = [], 0
    for _ in range(dice.randrange(longest)):
        producer, kind = dice.randrange(1, PRODUCERS + 1), dice.choice("TTTTNMMMP")
        last = offset + (0 if kind == "M" else dice.randrange(4))
        if kind == "M":
            parts.append(f"M {producer} 0 {dice.choice('ACA')} 1 @{offset}")
        elif kind == "P":
            parts.append(f"plain @{offset}-{last}")
        else:
            parts.append(
                f"D {producer if kind == 'T' else producer + PRODUCERS} 0 0-{last - offset} @{offset}-{last} {kind}"
            )
        offset = last + 1
    return "; ".join(parts)
