from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from kforensics.forensics.keys import key_rows
from kforensics.forensics.keys.key_rows import KEY, LATER, KeyGathering, share_bounds
from kforensics.forensics.replay.results import Records
from kforensics.forensics.sorting import Sorted

Known = dict[tuple[int, int, int], tuple[int, ...]]


def _rows(dice: Random, count: int, begin: int) -> Iterator[tuple[int, ...]]:
    for offset in range(begin, begin + count):
        identity, time = dice.randrange(60) - 30, dice.choice([-1, offset * 10])
        yield (identity, abs(identity) % 7, dice.randrange(3), 1, offset, offset * 100, 2 * offset, time, time)


def _array(rows: list[tuple[int, ...]]) -> Records:
    found = np.array(rows, KEY)
    found["first_timestamp"][found["first_timestamp"] < 0] = LATER
    return found


def _plainly(rows: list[tuple[int, ...]]) -> Known:
    known: Known = {}
    for identity, murmur, producer, records, *others in rows:
        first, place, mark, begun, ended = others
        begun = LATER if begun < 0 else begun
        before = known.get((identity, murmur, producer), (0, LATER, LATER, -1, LATER, -1))
        known[identity, murmur, producer] = (
            before[0] + records,
            min(before[1], first),
            min(before[2], place),
            max(before[3], mark),
            min(before[4], begun),
            max(before[5], ended),
        )
    return known


def _known(found: Sorted) -> Known:
    rows = np.concatenate([np.empty(0, KEY), *found]).tolist()
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    known = {row[:3]: row[3:] for row in rows}
    assert len(known) == len(rows)
    return known


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("room", "least"), [(1 << 20, 1 << 20), (2_000, 50)], ids=["in-memory", "in-files"])
def test_rows_of_a_key_and_producer_become_one(
    seed: int, room: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rows, "GATHERED", 100)
    dice, gathering = Random(seed), KeyGathering(room, least)  # noqa: S311  # dice for tests
    every: list[tuple[int, ...]] = []
    for _ in range(40):
        rows = [*_rows(dice, dice.randrange(40), len(every))]
        every += rows
        gathering.add(_array(rows))
    found = gathering.finish()
    assert _known(found) == _plainly(every)
    assert found.is_in_memory == (room > 10_000)


def test_nothing_gathered_is_nothing() -> None:
    assert len(KeyGathering().finish()) == 0


@pytest.mark.parametrize("shares", [1, 3, 7])
def test_shares_hold_every_key_once(shares: int) -> None:
    bounds = [share_bounds(share, shares) for share in range(shares)]
    assert (bounds[0][0], bounds[-1][1]) == (-(1 << 63), (1 << 63) - 1)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(bounds))
