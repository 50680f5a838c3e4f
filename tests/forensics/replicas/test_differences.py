"""The kind of a range in which two replicas differ depends on its offsets and on how far each was cleaned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.replicas.differences import DifferenceKind
from tests.forensics.forge import Segments
from tests.forensics.replicas.replicas import compare, forged

Side = tuple[Segments, dict[str, Any]]
COMPACTED = {"compacted": True}
WHOLE: dict[int, str] = {0: "plain @0-1; plain @2; plain @3-4", 5: "plain @5", 6: "plain @6"}

CASES: dict[str, tuple[Side, Side, list[tuple[DifferenceKind, int, int]]]] = {
    "the same": ((WHOLE, {}), (WHOLE, {}), []),
    "a later start": ((WHOLE, {}), ({5: "plain @5", 6: "plain @6"}, {}), [(DifferenceKind.BEFORE_START, 0, 4)]),
    "an earlier end": ((WHOLE, {}), ({0: WHOLE[0]}, {}), [(DifferenceKind.BEHIND, 5, 6)]),
    "both": ((WHOLE, {}), ({5: "plain @5"}, {}), [(DifferenceKind.BEFORE_START, 0, 4), (DifferenceKind.BEHIND, 6, 6)]),
    "a segment less": ((WHOLE, {}), ({0: WHOLE[0], 6: "plain @6"}, {}), [(DifferenceKind.MISSING, 5, 5)]),
    "cleaned": (
        (WHOLE, {}),
        ({0: "plain @3-4", 5: "plain @5", 6: "plain @6"}, COMPACTED),
        [(DifferenceKind.CLEANED, 0, 2)],
    ),
    "cleaned in parts": (
        (WHOLE, {}),
        ({0: "plain @0-1; plain @3-4 cnt 1", 5: "plain @5", 6: "plain @6"}, COMPACTED),
        [(DifferenceKind.CLEANED, 2, 4)],
    ),
    "cleaned, and ended earlier": (
        ({**WHOLE, 7: "plain @7"}, COMPACTED),
        ({0: "plain @3-4", 5: "plain @5"}, {"first_dirty": 6}),
        [(DifferenceKind.CLEANED, 0, 2), (DifferenceKind.BEHIND, 6, 7)],
    ),
    "a segment less at the one that was not cleaned": (
        ({0: "plain @0-1", 5: "plain @5", 6: "plain @6"}, {}),
        ({0: "plain @0-1; plain @3-4", 5: "plain @5", 6: "plain @6"}, COMPACTED),
        [(DifferenceKind.MISSING, 3, 4)],
    ),
    "cleaned, with another batch": (
        (WHOLE, {}),
        ({0: "plain @0-1; D 1 0 0-0 @2 N; plain @3-4", 5: "plain @5", 6: "plain @6"}, COMPACTED),
        [(DifferenceKind.DIVERGED, 2, 2)],
    ),
}


@pytest.mark.parametrize(("one", "other", "kinds"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("swapped", [False, True], ids=["", "swapped"])
def test_kinds_of_ranges(
    tmp_path: Path, one: Side, other: Side, kinds: list[tuple[DifferenceKind, int, int]], swapped: bool
) -> None:
    forged(tmp_path, *((other, one) if swapped else (one, other)))
    differences = compare(tmp_path).differences
    assert [(difference.kind, difference.first_offset, difference.last_offset) for difference in differences] == kinds


def test_a_lagging_follower_is_not_overruled_by_a_leader_it_does_not_know(tmp_path: Path) -> None:
    """A follower that has not seen an election yet will fetch the missing batches."""
    forged(tmp_path, ("plain @0", {}), ("plain @0; plain @1", {"leader_epochs": {0: 0, 1: 1}}))
    comparison = compare(tmp_path)
    (difference,) = comparison.differences
    assert difference.kind is DifferenceKind.BEHIND
    assert comparison.loser(difference) is None
    assert comparison.branches == ()
