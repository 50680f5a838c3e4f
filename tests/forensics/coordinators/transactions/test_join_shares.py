from __future__ import annotations

import pickle
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.coordinators.transactions.histories import Coordinators
from kforensics.forensics.coordinators.transactions.join_shares import put_together, shares_of
from kforensics.forensics.coordinators.transactions.marker_join import Joined, joined
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.clusters import SOON, history_under
from tests.forensics.coordinators.random_clusters import story

RULES = Rules(SOON)


def whole(folder: Path) -> tuple[Coordinators, list[Markers]]:
    cases = [examine(one, RULES) for one in partitions_under(folder) if one.place.topic != "__transaction_state"]
    return Coordinators.of([history_under(folder)]), [Markers.of(case) for case in cases]


def told(join: Joined) -> list[tuple[object, ...]]:
    """Return every part with its marker, and every marker with its role."""
    marks = [tuple(mark) for mark in join.marks.tolist()]
    parts = [(*row[:3], row[4], marks[row[3]] if row[3] >= 0 else None) for row in join.parts.tolist()]
    return [*parts, *sorted(zip(marks, join.roles.tolist(), strict=True))]


def by_shares(coordinators: Coordinators, markers: list[Markers], count: int) -> Joined:
    found: list[tuple[Records, Joined]] = []
    for share in shares_of(coordinators, markers, count):
        travelled = pickle.loads(pickle.dumps(share))  # noqa: S301  # made here
        found.append((travelled.which, joined(travelled.coordinators, travelled.markers, RULES)))
    return put_together(markers, found)


@pytest.mark.parametrize("count", [1, 2, 7])
@pytest.mark.parametrize("version", [0, 2])
def test_any_number_of_shares_gives_the_same(version: int, count: int, tmp_path: Path) -> None:
    dice = Random(count)  # noqa: S311  # a test may be told by its seed
    told_of = story(dice, version=version, length=60, sent_twice=0.1)
    name, index = told_of.markers()[9]
    del told_of.logs[name][index]
    told_of.forge(tmp_path)
    coordinators, markers = whole(tmp_path)
    assert told(by_shares(coordinators, markers, count)) == told(joined(coordinators, markers, RULES))


@pytest.mark.parametrize("scenario", ["transactions-v0", "transactions-v2", "legacy-2.7", "compaction"])
def test_real_clusters_too(scenario: str) -> None:
    (folder,) = (SAMPLES / scenario).glob("broker-*")
    coordinators, markers = whole(folder)
    found = by_shares(coordinators, markers, 3)
    assert told(found) == told(joined(coordinators, markers, RULES))
    assert len(found.parts) > 0
    assert [len(one.marks) for one in found.markers.values()] == [len(one.marks) for one in markers]


def test_no_share_is_no_join() -> None:
    with pytest.raises(ValueError, match="no share"):
        put_together([], [])


def test_a_share_has_only_its_producers() -> None:
    coordinators, markers = whole(SAMPLES / "transactions-v2" / "broker-1")
    for number, share in enumerate(shares_of(coordinators, markers, 4)):
        ids = [share.coordinators.instances["producer_id"], *(one.marks["producer_id"] for one in share.markers)]
        assert (np.concatenate(ids) % 4 == number).all()
