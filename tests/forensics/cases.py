"""Cases to try checks on: partitions of the samples, and forged ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.files.discover import FoundFile, discover
from lab.places import SAMPLES
from tests.forensics.events import NOW

__all__ = ["HOUR", "SAMPLES", "case_in", "case_of", "each_sample", "partitions_under", "random_log"]

HOUR = 3_600_000
PRODUCERS = 5
# What no broker wrote.
MADE_UP = ("damaged", "every-record")


def partitions_under(folder: Path) -> list[Partition]:
    """Return the partitions under a folder."""
    return partitions_of(row for row in discover([str(folder)]) if isinstance(row, FoundFile))


def case_of(folder: Path, *, as_of_ms: int = NOW + HOUR // 2, noters: Sequence[Noter] = ()) -> Case:
    """Return the case of the one partition in a log directory."""
    (partition,) = partitions_under(folder)
    return case_in(partition, as_of_ms=as_of_ms, noters=noters)


def case_in(partition: Partition, *, as_of_ms: int = NOW + HOUR // 2, noters: Sequence[Noter] = ()) -> Case:
    """Return the case of a partition."""
    return examine(partition, Rules(as_of_ms), noters)


def _samples() -> Iterator[Partition]:
    for scenario in sorted(SAMPLES.glob("*/pedigree.json")):
        if scenario.parent.name not in MADE_UP:
            yield from partitions_under(scenario.parent)


def each_sample() -> pytest.MarkDecorator:
    """Return a mark that has a test take ``partition``, each of those that real brokers wrote."""
    found = [pytest.param(one, id=str(Path(one.folder).relative_to(SAMPLES))) for one in _samples()]
    return pytest.mark.parametrize("partition", found)


def random_log(dice: Random, longest: int) -> str:
    """Return a log as a leader writes it: producers 1 to 5 are transactional, 6 to 10 are not.

    Args:
        dice: what decides.
        longest: it has fewer batches.
    """
    parts, at = [], 0
    for _ in range(dice.randrange(longest)):
        producer, kind = dice.randrange(1, PRODUCERS + 1), dice.choice("TTTTNMMMP")
        last = at + (0 if kind == "M" else dice.randrange(4))
        if kind == "M":
            parts.append(f"M {producer} 0 {dice.choice('ACA')} 1 @{at}")
        elif kind == "P":
            parts.append(f"plain @{at}-{last}")
        else:
            parts.append(f"D {producer if kind == 'T' else producer + PRODUCERS} 0 0-{last - at} @{at}-{last} {kind}")
        at = last + 1
    return "; ".join(parts)
