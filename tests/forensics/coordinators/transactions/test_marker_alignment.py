"""The assignment of markers to transactions of one epoch."""

from __future__ import annotations

import numpy as np
import pytest

from kforensics.forensics.coordinators.transactions.marker_alignment import (
    Alignment,
    TransactionEnds,
    align_markers,
)
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome

SKEW = 5_000
A, C = TransactionOutcome.ABORTED, TransactionOutcome.COMMITTED


def align(
    ends: list[tuple[int, int, TransactionOutcome]],
    markers: list[tuple[int, TransactionOutcome]],
    *,
    optional: tuple[int, ...] = (),
    not_required: tuple[int, ...] = (),
    superseded: tuple[int, ...] = (),
    earlier_ends: bool = False,
) -> Alignment:
    """Return which of some markers (time, outcome) belong to which ends (decided, completed, outcome)."""
    decided, completed, outcomes = (np.array(column, "i8") for column in zip(*ends, strict=True))
    times = np.array([time for time, _ in markers], "i8")
    marker_outcomes = np.array([outcome for _, outcome in markers], "i8")
    is_optional = np.isin(np.arange(len(markers)), optional)
    is_superseded = np.isin(np.arange(len(ends)), superseded)
    is_required = ~np.isin(np.arange(len(ends)), not_required) & ~is_superseded
    transaction_ends = TransactionEnds(decided, completed, outcomes, is_required, is_superseded)
    return align_markers(transaction_ends, times, marker_outcomes, is_optional, SKEW, earlier_ends=earlier_ends)


THREE = [(10, 20, C), (30, 40, A), (50, 60, C)]


def test_one_marker_for_each_end() -> None:
    """Clocks may differ by more than transactions last."""
    for shift in (-SKEW, 0, SKEW):
        alignment = align(THREE, [(15 + shift, C), (35 + shift, A), (55 + shift, C)])
        assert (alignment.markers.tolist(), alignment.is_exact) == ([0, 1, 2], True)


def test_a_duplicate_marker() -> None:
    alignment = align(THREE, [(15, C), (16, C), (35, A), (55, C)], optional=(1,))
    assert (alignment.markers.tolist(), alignment.is_exact) == ([0, 2, 3], True)


@pytest.mark.parametrize("not_required", [(), (0, 1)])
def test_markers_that_were_long_after_ends_whose_own_may_be_absent(not_required: tuple[int, ...]) -> None:
    """Seen on 3.7.2: the topic was created again, and the coordinator's log was copied before the markers.

    Where the ends' own markers must be present, the first with their outcome is the best there is.
    """
    later = [(20_000, A), (21_000, C), (22_000, C), (23_000, A)]
    alignment = align([(10, 20, C), (30, 40, C)], later, not_required=not_required, earlier_ends=True)
    assert alignment.markers.tolist() == ([-1, -1] if not_required else [-1, 1])
    assert not alignment.is_exact


def test_an_end_whose_marker_may_not_have_been_sent() -> None:
    alignment = align(THREE, [(35, A), (55, C)], not_required=(0,))
    assert (alignment.markers.tolist(), alignment.is_missing.tolist(), alignment.is_exact) == (
        [-1, 0, 1],
        [False] * 3,
        True,
    )
    alignment = align(THREE, [(15, C), (35, A), (55, C)], not_required=(0,))
    assert (alignment.markers.tolist(), alignment.is_exact) == ([0, 1, 2], True)


@pytest.mark.parametrize(("not_required", "outcome", "marker"), [((), A, 0), ((0,), A, -1), ((0,), C, 0)])
def test_the_only_marker_is_not_assigned_to_an_end_that_may_have_none(
    not_required: tuple[int, ...], outcome: TransactionOutcome, marker: int
) -> None:
    """It may belong to an earlier transaction that the cleaner removed from the coordinator's log."""
    assert align([(10, 20, C)], [(5, outcome)], not_required=not_required).markers.tolist() == [marker]


def test_a_missing_marker() -> None:
    alignment = align(THREE, [(15, C), (55, C)])
    assert (alignment.markers.tolist(), alignment.is_missing.tolist(), alignment.is_exact) == (
        [0, -1, 1],
        [False, True, False],
        False,
    )


def test_one_is_missing_and_it_is_unknown_which() -> None:
    """The leader's clock is slow, so a marker seems to belong to the transaction before its own."""
    alignment = align([(10, 20, C), (30, 40, C), (50, 60, C)], [(15, C), (29, C), (70, C), (71, C)])
    assert (alignment.markers.tolist(), alignment.is_exact) == ([0, -1, 2], False)
    assert not alignment.is_missing.any()


def test_a_marker_with_the_other_outcome() -> None:
    alignment = align(THREE, [(15, C), (35, C), (55, C)])
    assert (alignment.markers.tolist(), alignment.is_exact) == ([0, 1, 2], False)
    assert not alignment.is_missing.any()


@pytest.mark.parametrize(("time", "is_its_own"), [(35, True), (41, False)])
def test_an_abort_by_an_operator(time: int, is_its_own: bool) -> None:
    """If it is in the time of a transaction without another marker, it ended that one."""
    ends = [(10, 20, C), (30, 40, C), (50, 60, C)]
    alignment = align(ends, [(15, C), (time, A), (55, C)], optional=(1,))
    assert alignment.markers.tolist() == [0, 1 if is_its_own else -1, 2]
    assert alignment.is_missing.tolist() == [False, not is_its_own, False]


def test_a_single_end_takes_the_only_marker() -> None:
    alignment = align([(10, 20, C)], [(15, A)])
    assert (alignment.markers.tolist(), alignment.is_exact) == ([0], True)


def test_an_end_that_is_not_complete_has_no_latest_time() -> None:
    alignment = align([(10, 20, C), (30, NO_TIME, A)], [(15, C), (1_000_000, A)])
    assert (alignment.markers.tolist(), alignment.is_exact) == ([0, 1], True)
    alignment = align([(10, 20, C), (30, 40, A)], [(15, C), (1_000_000, A)])
    assert not alignment.is_exact


@pytest.mark.parametrize("not_required", [(), (0,)])
def test_markers_after_an_end_without_a_complete_record(not_required: tuple[int, ...]) -> None:
    """Seen on 4.3.1: the cleaner had removed what followed the Prepare record, and remote storage had the end's marker.

    Where nothing is missing, no other transaction can have ended there.
    """
    alignment = align([(10, NO_TIME, A)], [(4_870, C), (5_467, C)], not_required=not_required, earlier_ends=True)
    assert alignment.markers.tolist() == ([-1] if not_required else [1])


def test_no_markers_at_all() -> None:
    alignment = align(THREE, [])
    assert (alignment.markers.tolist(), alignment.is_missing.tolist()) == ([-1] * 3, [True] * 3)


def test_a_log_of_markers_that_begins_later() -> None:
    """Different clocks do not matter then: the last ends and markers belong together."""
    ends = [(20 * number, 20 * number + 10, C if number % 3 else A) for number in range(20)]
    for shift in (-3_000, 0, 3_000):
        markers = [(20 * number + 5 + shift, C if number % 3 else A) for number in range(7, 20)]
        alignment = align(ends, markers, not_required=tuple(range(9)))
        assert (alignment.markers.tolist(), alignment.is_exact) == ([*[-1] * 7, *range(13)], True)
        assert not alignment.is_missing.any()


def test_a_log_of_ends_that_begins_later() -> None:
    ends = [(20 * number, 20 * number + 10, C if number % 3 else A) for number in range(7, 20)]
    for shift in (-3_000, 0, 3_000):
        markers = [(20 * number + 5 + shift, C if number % 3 else A) for number in range(20)]
        alignment = align(ends, markers, earlier_ends=True)
        assert (alignment.markers.tolist(), alignment.is_exact) == (list(range(7, 20)), True)


def test_an_end_that_must_have_a_marker_is_not_skipped() -> None:
    alignment = align(THREE, [(35, A), (55, C)])
    assert (alignment.is_missing.tolist(), alignment.is_exact) == ([True, False, False], False)


def test_a_marker_from_long_after_the_first_end_is_not_skipped() -> None:
    ends = [(10, 20, C), (20_000, 20_010, C)]
    alignment = align(ends, [(15, C), (10_000, C), (20_005, C)], earlier_ends=True)
    assert (alignment.markers.tolist(), alignment.is_exact) == ([0, 2], False)


@pytest.mark.parametrize(("is_superseded", "assigned"), [(False, [0, 1]), (True, [0, -1])])
def test_an_abort_is_of_a_decision_rather_than_of_an_operator(is_superseded: bool, assigned: list[int]) -> None:
    """The log of a running broker may have been copied before the marker was written; but there it is.

    A decision that was superseded is not known to have sent any.
    """
    superseded, not_required = ((1,), ()) if is_superseded else ((), (1,))
    ends, markers = [(10, 20, C), (30, 40, A)], [(15, C), (35, A)]
    alignment = align(ends, markers, optional=(1,), not_required=not_required, superseded=superseded)
    assert alignment.markers.tolist() == assigned
