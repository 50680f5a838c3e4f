"""The join shared out by producer id, and put together again.

Whatever a marker can be joined with has its producer id. What coordinators know of ids and sets of partitions all
shares need; transactions and markers, of which there may be many, are divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kforensics.forensics.coordinators.partition_markers import MARK, Markers
from kforensics.forensics.coordinators.transactions.histories import Coordinators
from kforensics.forensics.coordinators.transactions.marker_join import Joined
from kforensics.forensics.coordinators.transactions.transaction_partitions import PART
from kforensics.forensics.core.record_arrays import picked
from kforensics.forensics.core.record_types import Records

__all__ = ["Share", "put_together", "shares_of"]


@dataclass(frozen=True, slots=True)
class Share:
    """What concerns some producer ids; ``joined`` takes both.

    Attributes:
        coordinators: with the transactions of those.
        markers: of all partitions, those of them.
        which: which transactions of the whole these are.
    """

    coordinators: Coordinators
    markers: tuple[Markers, ...]
    which: Records


def shares_of(coordinators: Coordinators, supplied: Sequence[Markers], count: int) -> Iterator[Share]:
    """Yield so many shares.

    Args:
        coordinators: what is known of transactions.
        supplied: one for each partition.
        count: how many shares.
    """
    for share in range(count):
        which = np.flatnonzero(coordinators.instances["producer_id"] % count == share)
        mine = replace(coordinators, instances=picked(coordinators.instances, which))
        yield Share(mine, tuple(_some(markers, share, count) for markers in supplied), which)


def _some(markers: Markers, share: int, count: int) -> Markers:
    mine = markers.marks["producer_id"] % count == share
    return replace(markers, marks=picked(markers.marks, mine))


def put_together(supplied: Sequence[Markers], found: Iterable[tuple[Records, Joined]]) -> Joined:
    """Return the join of the whole.

    Args:
        supplied: one for each partition, whole.
        found: of each share which transactions it had, and its join.

    Raises:
        ValueError: there is no share.
    """
    parts, marks, roles = [np.empty(0, PART)], [np.empty(0, MARK)], [np.empty(0, "i1")]
    last, before = None, 0
    for which, join in found:
        some = join.parts.copy()
        some["instance"] = which[some["instance"]]
        some["mark"] += np.where(some["mark"] >= 0, before, 0)
        before += len(join.marks)
        parts.append(some)
        marks.append(join.marks)
        roles.append(join.roles)
        last = join
    if last is None:
        raise ValueError("no share was joined")
    numbers = {name: number for number, name in enumerate(last.partitions)}
    both = np.concatenate(parts)
    both = both[np.lexsort((both["partition"], both["instance"]))]
    markers = {numbers[one.name]: one for one in supplied}
    return Joined(last.partitions, markers, np.concatenate(marks), both, np.concatenate(roles))
