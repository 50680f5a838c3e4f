"""Which retries recur too often, against one loop over all of them."""

from __future__ import annotations

import numpy as np
import pytest

from kforensics.forensics.core.external_sort import ExternalSort
from kforensics.forensics.duplicates import periodic_retries
from kforensics.forensics.duplicates.content_pairs import DUPLICATE_RUN, DuplicateRunArray
from kforensics.forensics.duplicates.duplicate_rows import DuplicateLevel, DuplicateReason
from kforensics.forensics.duplicates.periodic_retries import Retries

MANY_COPIES = 10
SMALL_PAGES = {"room": 2000, "size": 32}


def random_runs(seed: int) -> DuplicateRunArray:
    """Return runs in the order of their later copies, those of one view without overlap; many repeat one content."""
    dice = np.random.default_rng(seed)
    count = int(dice.integers(0, 800))
    runs = np.zeros(count, DUPLICATE_RUN)
    runs["span"] = dice.integers(1, 4, count)
    ends = np.cumsum(runs["span"] + dice.choice([0, 0, 0, 1, 5], count)) + int(dice.integers(3, 60))
    runs["second"] = ends - runs["span"]
    distance = np.where(dice.random(count) < 0.7, dice.choice([3, 6, 9, 15]), dice.integers(1, 40, count))
    runs["first"] = runs["second"] - np.maximum(distance, runs["span"])
    runs["level"] = dice.choice([DuplicateLevel.CONTENT_RETRY, DuplicateLevel.CONTENT], count, p=[0.8, 0.2])
    runs["why"] = dice.choice([DuplicateReason.RETRY_SAME_TIME, DuplicateReason.RETRY_WHOLE_BATCH], count)
    runs["is_varied"] = dice.random(count) < 0.5
    runs["second_timestamp"] = dice.integers(999, 1002, count)
    return runs


def expected_periodic(runs: DuplicateRunArray) -> list[bool]:
    """Return which of the retries among some runs are periodic, looking each one's previous copy up among all."""
    retries = runs[runs["level"] == DuplicateLevel.CONTENT_RETRY]
    first, second, span = (retries[name].tolist() for name in ("first", "second", "span"))
    previous = [
        next((j for j in range(i - 1, -1, -1) if second[j] < first[i] + span[i]), None) for i in range(len(first))
    ]
    previous = [
        j if j is not None and second[j] + span[j] > start else None for j, start in zip(previous, first, strict=True)
    ]
    before, after = [0] * len(first), [0] * len(first)
    for run, earlier in enumerate(previous):
        before[run] = 0 if earlier is None else min(before[earlier] + 1, MANY_COPIES)
    for run in range(len(first) - 1, -1, -1):
        earlier = previous[run]
        if earlier is not None:
            after[earlier] = max(after[earlier], min(after[run] + 1, MANY_COPIES))
    periodic = []
    for run, is_varied in enumerate(retries["is_varied"].tolist()):
        copies = before[run] + after[run] + 1
        is_directly_after = second[run] == first[run] + span[run]
        if retries["why"][run] == DuplicateReason.RETRY_SAME_TIME:
            periodic.append(
                copies > 10 and not (is_varied and is_directly_after and retries["second_timestamp"][run] != 1000)
            )
        else:
            periodic.append(copies > 2 or (not is_varied and (copies > 1 or not is_directly_after)))
    return periodic


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("spilled", [False, True])
def test_chains_of_copies_are_counted_across_pages(seed: int, spilled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all retries are in memory, or in a file in pages of 32."""
    if spilled:
        small = lambda dtype, key: ExternalSort(dtype, key, **SMALL_PAGES)  # noqa: E731  # it is replaced once
        monkeypatch.setattr(periodic_retries, "ExternalSort", small)
    runs, retries = random_runs(seed), Retries()
    for part in np.array_split(runs, 5):
        retries.add(part)
    assert retries.are_periodic().tolist() == expected_periodic(runs)


def test_runs_may_come_in_any_order() -> None:
    runs = random_runs(8)
    shuffled = runs[np.random.default_rng(8).permutation(len(runs))]
    ordered, unordered = Retries(), Retries()
    ordered.add(runs)
    unordered.add(shuffled)
    retries = (rows["second"][rows["level"] == DuplicateLevel.CONTENT_RETRY] for rows in (runs, shuffled))
    expected, found = (
        set(second[periodic.are_periodic()].tolist())
        for second, periodic in zip(retries, (ordered, unordered), strict=True)
    )
    assert found == expected
    assert 0 < len(expected) < len(runs)
