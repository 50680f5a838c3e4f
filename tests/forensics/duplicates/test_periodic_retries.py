"""Which retries are content that recurs, against one loop over all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kforensics.forensics.core.external_sort import ExternalSort
from kforensics.forensics.duplicates import periodic_retries
from kforensics.forensics.duplicates.content_pairs import DUPLICATE_RUN, DuplicateRunArray
from kforensics.forensics.duplicates.duplicate_rows import DuplicateLevel, DuplicateReason
from kforensics.forensics.duplicates.periodic_retries import NO_OTHER_REASON, Retries
from kforensics.forensics.duplicates.repetition import Repetition

MANY_COPIES, MANY_COPIES_ALONE = 10, 2
TOGETHER = 100
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
    runs["is_several"] = dice.random(count) < 0.1
    runs["low"] = dice.integers(0, 20, count)
    runs["second_timestamp"] = dice.integers(999, 1002, count)
    return runs


def repetition_of(repeats: int, repeated: int, records: int, is_within_batches: bool = False) -> Repetition:
    """Return the same repetition for both kinds of timestamps."""
    repetition = Repetition(0, 100_000)
    repetition.repeats[:], repetition.repeated[:], repetition.records[:] = repeats, repeated, records
    repetition.has_repeats_within_batches = is_within_batches
    return repetition


# Nothing is repeated beside the retries; much is; that much is known from few repeats only.
REPETITIONS = (
    repetition_of(4, 4, 10_000),
    repetition_of(60, 55, 200),
    repetition_of(60, 55, 120),
    repetition_of(60, 55, 120, True),
)


def expected_reasons(runs: DuplicateRunArray, repetition: Repetition) -> list[int]:
    """Return the reasons of the retries among some runs, looking each one's previous copy up among all."""
    retries = runs[runs["level"] == DuplicateLevel.CONTENT_RETRY]
    first, second, span = (retries[name].tolist() for name in ("first", "second", "span"))
    copies, together = _expected_copies(first, second, span), _expected_together(retries)
    share = repetition.repeated[0] / (repetition.records[0] - repetition.repeats[0])
    reasons: list[int] = []
    for run, is_varied in enumerate(retries["is_varied"].tolist()):
        is_directly_after = second[run] == first[run] + span[run]
        others = repetition.repeats[0] - (second[run] - first[run] + (copies[run] - 1) * span[run])
        is_of_clock = retries["why"][run] == DuplicateReason.RETRY_SAME_TIME
        is_of_clock &= retries["second_timestamp"][run] != 1000 and (is_varied or together[run])
        is_usual = share >= (0.5 if is_of_clock else 0.3) and others >= 10
        is_single = not is_varied and not retries["is_several"][run] and not together[run]
        if retries["why"][run] == DuplicateReason.RETRY_SAME_TIME:
            is_clock = retries["second_timestamp"][run] != 1000
            is_endless = copies[run] > MANY_COPIES and is_varied and is_directly_after and is_clock
            is_periodic = copies[run] > MANY_COPIES and not is_endless
            is_usual = is_usual and not is_endless
            is_single = is_single and repetition.has_repeats_within_batches and not is_endless
        else:
            limit = MANY_COPIES if together[run] else (MANY_COPIES_ALONE if is_varied else 1)
            is_periodic = copies[run] > limit
            is_single = is_single and not is_directly_after
        known = {
            int(DuplicateReason.USUAL): is_usual,
            int(DuplicateReason.PERIODIC): is_periodic,
            int(DuplicateReason.SINGLE): is_single,
            NO_OTHER_REASON: True,
        }
        reasons.append(next(reason for reason, holds in known.items() if holds))
    return reasons


def _expected_copies(first: list[int], second: list[int], span: list[int]) -> list[int]:
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
    return [one + other + 1 for one, other in zip(before, after, strict=True)]


def _expected_together(retries: DuplicateRunArray) -> list[bool]:
    together: list[bool] = (retries["is_several"] & retries["is_varied"]).tolist()
    for run, (one, other) in enumerate(itertools.pairwise(retries)):
        is_near = max(abs(other["first"] - one["first"]), abs(other["second"] - one["second"])) <= TOGETHER
        if one["low"] != other["low"] and other["first"] < one["second"] and is_near:
            together[run] = together[run + 1] = True
    return together


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("repetition", REPETITIONS, ids=["rare", "often", "usual", "within batches"])
def test_chains_of_copies_are_counted_across_pages(
    seed: int, spilled: bool, repetition: Repetition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether all retries are in memory, or in a file in pages of 32."""
    if spilled:
        small = lambda dtype, key: ExternalSort(dtype, key, **SMALL_PAGES)  # noqa: E731  # it is replaced once
        monkeypatch.setattr(periodic_retries, "ExternalSort", small)
    runs, retries = random_runs(seed), Retries()
    for part in np.array_split(runs, 5):
        retries.add(part)
    assert retries.reasons(repetition).tolist() == expected_reasons(runs, repetition)


def test_runs_may_come_in_any_order() -> None:
    runs = random_runs(8)
    shuffled = runs[np.random.default_rng(8).permutation(len(runs))]
    ordered, unordered = Retries(), Retries()
    ordered.add(runs)
    unordered.add(shuffled)
    retries = (rows["second"][rows["level"] == DuplicateLevel.CONTENT_RETRY] for rows in (runs, shuffled))
    expected, found = (
        set(second[found_of.reasons(REPETITIONS[0]) != NO_OTHER_REASON].tolist())
        for second, found_of in zip(retries, (ordered, unordered), strict=True)
    )
    assert found == expected
    assert 0 < len(expected) < len(runs)
