from __future__ import annotations

import numpy as np
import pytest

from kforensics.forensics.coordinators.transactions.marker_alignment import Aligned, Ends, aligned
from kforensics.forensics.core.record_types import NO_TIME, Ending

SKEW = 5_000
A, C = Ending.ABORTED, Ending.COMMITTED


def align(
    ends: list[tuple[int, int, Ending]],
    marks: list[tuple[int, Ending]],
    *,
    spare: tuple[int, ...] = (),
    unsure: tuple[int, ...] = (),
    begins_late: bool = False,
) -> Aligned:
    """Return which of some markers (time, ending) belong to which ends (decided, completed, ending)."""
    decided, completed, endings = (np.array(column, "i8") for column in zip(*ends, strict=True))
    times = np.array([time for time, _ in marks], "i8")
    says = np.array([ending for _, ending in marks], "i8")
    is_spare = np.isin(np.arange(len(marks)), spare)
    told = Ends(decided, completed, endings, ~np.isin(np.arange(len(ends)), unsure))
    return aligned(told, times, says, is_spare, SKEW, begins_late=begins_late)


THREE = [(10, 20, C), (30, 40, A), (50, 60, C)]


def test_as_many_as_there_should_be() -> None:
    """Clocks may differ by more than transactions last."""
    for shift in (-SKEW, 0, SKEW):
        found = align(THREE, [(15 + shift, C), (35 + shift, A), (55 + shift, C)])
        assert (found.marks.tolist(), found.is_exact) == ([0, 1, 2], True)


def test_one_sent_again() -> None:
    found = align(THREE, [(15, C), (16, C), (35, A), (55, C)], spare=(1,))
    assert (found.marks.tolist(), found.is_exact) == ([0, 2, 3], True)


def test_one_that_may_not_have_been_sent() -> None:
    found = align(THREE, [(35, A), (55, C)], unsure=(0,))
    assert (found.marks.tolist(), found.is_missing.tolist(), found.is_exact) == ([-1, 0, 1], [False] * 3, True)
    found = align(THREE, [(15, C), (35, A), (55, C)], unsure=(0,))
    assert (found.marks.tolist(), found.is_exact) == ([0, 1, 2], True)


@pytest.mark.parametrize(("unsure", "ending", "mark"), [((), A, 0), ((0,), A, -1), ((0,), C, 0)])
def test_the_only_marker_is_not_that_of_an_end_that_may_have_none(
    unsure: tuple[int, ...], ending: Ending, mark: int
) -> None:
    """It may be of a transaction before, which the cleaner took from the coordinator's log."""
    assert align([(10, 20, C)], [(5, ending)], unsure=unsure).marks.tolist() == [mark]


def test_one_is_missing() -> None:
    found = align(THREE, [(15, C), (55, C)])
    assert (found.marks.tolist(), found.is_missing.tolist(), found.is_exact) == (
        [0, -1, 1],
        [False, True, False],
        False,
    )


def test_one_is_missing_and_nobody_can_tell_which() -> None:
    """The clock of the leader is behind, so that a marker seems to be of the transaction before its own."""
    found = align([(10, 20, C), (30, 40, C), (50, 60, C)], [(15, C), (29, C), (70, C), (71, C)])
    assert (found.marks.tolist(), found.is_exact) == ([0, -1, 2], False)
    assert not found.is_missing.any()


def test_one_says_the_contrary() -> None:
    found = align(THREE, [(15, C), (35, C), (55, C)])
    assert (found.marks.tolist(), found.is_exact) == ([0, 1, 2], False)
    assert not found.is_missing.any()


@pytest.mark.parametrize(("time", "is_its_own"), [(35, True), (41, False)])
def test_an_abort_by_an_operator(time: int, is_its_own: bool) -> None:
    """In the time of a transaction without another marker it decided that one."""
    ends = [(10, 20, C), (30, 40, C), (50, 60, C)]
    found = align(ends, [(15, C), (time, A), (55, C)], spare=(1,))
    assert found.marks.tolist() == [0, 1 if is_its_own else -1, 2]
    assert found.is_missing.tolist() == [False, not is_its_own, False]


def test_a_single_end_takes_what_there_is() -> None:
    found = align([(10, 20, C)], [(15, A)])
    assert (found.marks.tolist(), found.is_exact) == ([0], True)


def test_an_end_that_is_not_complete_waits() -> None:
    found = align([(10, 20, C), (30, NO_TIME, A)], [(15, C), (1_000_000, A)])
    assert (found.marks.tolist(), found.is_exact) == ([0, 1], True)
    found = align([(10, 20, C), (30, 40, A)], [(15, C), (1_000_000, A)])
    assert not found.is_exact


def test_none_at_all() -> None:
    found = align(THREE, [])
    assert (found.marks.tolist(), found.is_missing.tolist()) == ([-1] * 3, [True] * 3)


def test_a_log_of_markers_that_begins_later() -> None:
    """Clocks that differ do not matter then: the last ones belong together."""
    ends = [(20 * number, 20 * number + 10, C if number % 3 else A) for number in range(20)]
    for shift in (-3_000, 0, 3_000):
        marks = [(20 * number + 5 + shift, C if number % 3 else A) for number in range(7, 20)]
        found = align(ends, marks, unsure=tuple(range(9)))
        assert (found.marks.tolist(), found.is_exact) == ([*[-1] * 7, *range(13)], True)
        assert not found.is_missing.any()


def test_a_log_of_ends_that_begins_later() -> None:
    ends = [(20 * number, 20 * number + 10, C if number % 3 else A) for number in range(7, 20)]
    for shift in (-3_000, 0, 3_000):
        marks = [(20 * number + 5 + shift, C if number % 3 else A) for number in range(20)]
        found = align(ends, marks, begins_late=True)
        assert (found.marks.tolist(), found.is_exact) == (list(range(7, 20)), True)


def test_an_end_that_must_have_a_marker_is_not_left_out() -> None:
    found = align(THREE, [(35, A), (55, C)])
    assert (found.is_missing.tolist(), found.is_exact) == ([True, False, False], False)


def test_a_marker_from_long_after_the_first_end_is_not_left_out() -> None:
    ends = [(10, 20, C), (20_000, 20_010, C)]
    found = align(ends, [(15, C), (10_000, C), (20_005, C)], begins_late=True)
    assert (found.marks.tolist(), found.is_exact) == ([0, 2], False)
