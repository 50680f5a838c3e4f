from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from kforensics.forensics.keys import key_rows
from kforensics.forensics.keys.key_rows import KEY_ROW, NO_MINIMUM, KeyAggregator, KeyRowArray, KeyRows, share_bounds

Known = dict[tuple[int, int, int], tuple[int, ...]]


def _rows(dice: Random, count: int, begin: int) -> Iterator[tuple[int, ...]]:
    for offset in range(begin, begin + count):
        identity, time = (dice.randrange(60) - 30) << 57, dice.choice([-1, offset * 10])
        yield (identity, (identity >> 57) % 7, dice.randrange(3), 1, offset, offset * 100, 2 * offset, time, time)


def _array(rows: list[tuple[int, ...]]) -> KeyRowArray:
    array = np.array(rows, KEY_ROW)
    array["first_timestamp"][array["first_timestamp"] < 0] = NO_MINIMUM
    return array


def _expected(rows: list[tuple[int, ...]]) -> Known:
    known: Known = {}
    for identity, murmur, producer, records, *others in rows:
        first, position, tagged, begun, ended = others
        begun = NO_MINIMUM if begun < 0 else begun
        before = known.get((identity, murmur, producer), (0, NO_MINIMUM, NO_MINIMUM, -1, NO_MINIMUM, -1))
        known[identity, murmur, producer] = (
            before[0] + records,
            min(before[1], first),
            min(before[2], position),
            max(before[3], tagged),
            min(before[4], begun),
            max(before[5], ended),
        )
    return known


def _known(found: KeyRows, least: int, shares: int = 1) -> Known:
    parts = [found.between(*share_bounds(share, shares)).tolist() for share in range(shares)]
    known = {row[:3]: row[3:] for part in parts for row in part}
    assert len(known) == sum(map(len, parts))
    # Not every record of a key is kept.
    assert len(found) <= max(2 * len(known), least) + key_rows.GATHERED
    return known


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("room", "least"), [(1 << 20, 1 << 20), (9_000, 150)], ids=["in-memory", "in-files"])
def test_rows_of_a_key_and_producer_become_one(
    seed: int, room: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rows, "GATHERED", 100)
    dice, gathering = Random(seed), KeyAggregator(room, least)  # noqa: S311  # dice for tests
    every: list[tuple[int, ...]] = []
    for _ in range(40):
        rows = [*_rows(dice, dice.randrange(40), len(every))]
        every += rows
        gathering.add(_array(rows))
    found = gathering.finish()
    assert found.is_in_memory == (room > 100_000)
    for shares in (1, 5, 3_000):
        assert _known(found, least, shares) == _expected(every)


@pytest.mark.parametrize("room", [1 << 20, 2_000])
@pytest.mark.parametrize("size", [1, 30, 500])
def test_the_lowest_identities_are_a_sample(size: int, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_rows, "GATHERED", 30)
    dice, gathering = Random(size), KeyAggregator(room)  # noqa: S311  # dice for tests
    rows = [(dice.getrandbits(64) - (1 << 63), 1, 1, 1, 0, 0, 0, 0, 0) for _ in range(200)]
    for row in rows:
        gathering.add(_array([row]))
    found = gathering.finish()
    assert found.lowest(size)["identity"].tolist() == sorted(row[0] for row in rows)[:size]
    assert len(found) == 200


def test_different_rows_with_the_same_sort_number_are_not_merged() -> None:
    """Rows are sorted by one number computed from identity and producer."""
    alike = [(7, 1, 1), (7 + int(key_rows.ODD), 1, 0), (7, 2, 1)]
    rows = np.array([(*name, 1, 0, 0, 0, 0, 0) for name in alike * 5], KEY_ROW)
    counts: dict[tuple[int, ...], int] = {}
    for row in key_rows.merged_rows(rows).tolist():
        counts[row[:3]] = counts.get(row[:3], 0) + row[3]
    assert counts == dict.fromkeys(alike, 5)


def test_without_rows_the_result_is_empty() -> None:
    empty = KeyAggregator().finish()
    assert (len(empty), len(empty.lowest(10)), len(empty.between(-5, 5))) == (0, 0, 0)


@pytest.mark.parametrize("shares", [1, 3, 7])
def test_shares_contain_every_key_once(shares: int) -> None:
    bounds = [share_bounds(share, shares) for share in range(shares)]
    assert (bounds[0][0], bounds[-1][1]) == (-(1 << 63), (1 << 63) - 1)
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(bounds))
