"""The join of transactions and markers can be split by producer id."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kforensics.forensics.coordinators.partition_markers import TRANSACTION_MARKER, PartitionMarkers
from kforensics.forensics.coordinators.transactions.history import Coordinators
from kforensics.forensics.coordinators.transactions.join_totals import JoinTotals
from kforensics.forensics.coordinators.transactions.marker_join import MarkerJoin, join_markers
from kforensics.forensics.coordinators.transactions.transaction_partitions import TRANSACTION_PARTITION
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.parsers.format.array_types import IntArray
from tests.forensics.coordinators.clusters import SOON, history_under
from tests.forensics.coordinators.random_clusters import story
from tests.forensics.partition_states import SAMPLES, partitions_under

RULES = Rules(SOON)


@dataclass(frozen=True, slots=True)
class JoinShare:
    """The transactions and markers of some producer ids.

    Attributes:
        coordinators: the coordinators with these transactions only.
        markers: the markers of all partitions, those of these producers only.
        indexes: indexes of the transactions among all.
    """

    coordinators: Coordinators
    markers: tuple[PartitionMarkers, ...]
    indexes: IntArray


def split(coordinators: Coordinators, markers: Sequence[PartitionMarkers], count: int) -> Iterator[JoinShare]:
    """Yield a number of shares."""
    for share in range(count):
        indexes = np.flatnonzero(coordinators.transactions["producer_id"] % count == share)
        some = replace(coordinators, transactions=take_rows(coordinators.transactions, indexes))
        yield JoinShare(some, tuple(_of_share(partition, share, count) for partition in markers), indexes)


def _of_share(partition: PartitionMarkers, share: int, count: int) -> PartitionMarkers:
    is_of_share = partition.markers["producer_id"] % count == share
    return replace(partition, markers=take_rows(partition.markers, is_of_share))


def combined(supplied: Sequence[PartitionMarkers], joins: Iterable[tuple[IntArray, MarkerJoin]]) -> MarkerJoin:
    """Return the join of the whole.

    Args:
        supplied: the markers of each partition, whole.
        joins: the indexes of the transactions of each share, and its join.
    """
    listed, markers, roles = (
        [np.empty(0, TRANSACTION_PARTITION)],
        [np.empty(0, TRANSACTION_MARKER)],
        [np.empty(0, "i1")],
    )
    totals: list[JoinTotals] = []
    last, marker_count = None, 0
    for indexes, join in joins:
        rows = join.transaction_partitions.copy()
        rows["transaction"] = indexes[rows["transaction"]]
        rows["marker"] += np.where(rows["marker"] >= 0, marker_count, 0)
        marker_count += len(join.markers)
        listed.append(rows)
        markers.append(take_rows(join.markers, np.arange(len(join.markers))))
        roles.append(join.roles)
        totals.append(join.totals.renumbered(indexes))
        last = join
    if last is None:
        raise ValueError("no share was joined")
    numbers = {name: number for number, name in enumerate(last.partitions)}
    every = np.concatenate(listed)
    every = every[np.lexsort((every["partition"], every["transaction"]))]
    by_partition = {numbers[partition.name]: partition for partition in supplied}
    every_marker, every_role = np.concatenate(markers), np.concatenate(roles)
    return MarkerJoin(last.partitions, by_partition, every_marker, every, every_role, JoinTotals.merged(totals))


def whole(folder: Path) -> tuple[Coordinators, list[PartitionMarkers]]:
    partitions = (one for one in partitions_under(folder) if one.place.topic != "__transaction_state")
    markers = [PartitionMarkers.of(examine(partition, RULES)) for partition in partitions]
    return Coordinators.of([history_under(folder)]), markers


def contents(join: MarkerJoin) -> list[tuple[object, ...]]:
    """Return every listed partition with its marker, and every marker with its role."""
    markers = [tuple(marker) for marker in take_rows(join.markers, np.arange(len(join.markers))).tolist()]
    rows = join.transaction_partitions.tolist()
    listed = [(*row[:3], row[4], markers[row[3]] if row[3] >= 0 else None) for row in rows]
    totals = [row for rows in astuple(join.totals) for row in rows.tolist()]
    return [*listed, *sorted(zip(markers, join.roles.tolist(), strict=True)), *totals]


def joined_by_share(coordinators: Coordinators, markers: list[PartitionMarkers], count: int) -> MarkerJoin:
    joins: list[tuple[IntArray, MarkerJoin]] = []
    for share in split(coordinators, markers, count):
        received = pickle.loads(pickle.dumps(share))  # noqa: S301  # made here
        joins.append((received.indexes, join_markers(received.coordinators, received.markers, RULES)))
    return combined(markers, joins)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("version", [0, 2])
def test_any_number_of_shares_gives_the_same(version: int, count: int, tmp_path: Path) -> None:
    dice = Random(count)  # noqa: S311  # reproducible
    cluster = story(dice, version=version, length=60, sent_twice=0.1)
    name, index = cluster.markers()[9]
    del cluster.logs[name][index]
    cluster.forge(tmp_path)
    coordinators, markers = whole(tmp_path)
    expected = contents(join_markers(coordinators, markers, RULES))
    assert contents(joined_by_share(coordinators, markers, count)) == expected


@pytest.mark.parametrize("scenario", ["transactions-v0", "transactions-v2", "legacy-2.7", "compaction"])
def test_real_clusters_too(scenario: str) -> None:
    (folder,) = (SAMPLES / scenario).glob("broker-*")
    coordinators, markers = whole(folder)
    join = joined_by_share(coordinators, markers, 3)
    assert contents(join) == contents(join_markers(coordinators, markers, RULES))
    assert len(join.transaction_partitions) > 0
    counts = [len(partition.markers) for partition in markers]
    assert [len(partition.markers) for partition in join.by_partition.values()] == counts


def test_no_share_is_no_join() -> None:
    with pytest.raises(ValueError, match="no share"):
        combined([], [])


def test_a_share_has_only_its_producers() -> None:
    coordinators, markers = whole(SAMPLES / "transactions-v2" / "broker-1")
    for number, share in enumerate(split(coordinators, markers, 4)):
        of_markers = [partition.markers["producer_id"] for partition in share.markers]
        ids = [share.coordinators.transactions["producer_id"], *of_markers]
        assert (np.concatenate(ids) % 4 == number).all()
