"""What kind a range is in which two replicas differ, by where it lies and how far each was cleaned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.replicas.differences import Kind
from tests.forensics.forge import Segments
from tests.forensics.replicas.replicas import compare, forged

Side = tuple[Segments, dict[str, Any]]
COMPACTED = {"compacted": True}
WHOLE: dict[int, str] = {0: "plain @0-1; plain @2; plain @3-4", 5: "plain @5", 6: "plain @6"}

CASES: dict[str, tuple[Side, Side, list[tuple[Kind, int, int]]]] = {
    "the same": ((WHOLE, {}), (WHOLE, {}), []),
    "a later start": ((WHOLE, {}), ({5: "plain @5", 6: "plain @6"}, {}), [(Kind.BEFORE_START, 0, 4)]),
    "an earlier end": ((WHOLE, {}), ({0: WHOLE[0]}, {}), [(Kind.BEHIND, 5, 6)]),
    "both": ((WHOLE, {}), ({5: "plain @5"}, {}), [(Kind.BEFORE_START, 0, 4), (Kind.BEHIND, 6, 6)]),
    "a segment less": ((WHOLE, {}), ({0: WHOLE[0], 6: "plain @6"}, {}), [(Kind.MISSING, 5, 5)]),
    "cleaned": ((WHOLE, {}), ({0: "plain @3-4", 5: "plain @5", 6: "plain @6"}, COMPACTED), [(Kind.CLEANED, 0, 2)]),
    "cleaned in parts": (
        (WHOLE, {}),
        ({0: "plain @0-1; plain @3-4 cnt 1", 5: "plain @5", 6: "plain @6"}, COMPACTED),
        [(Kind.CLEANED, 2, 4)],
    ),
    "cleaned, and ended earlier": (
        ({**WHOLE, 7: "plain @7"}, COMPACTED),
        ({0: "plain @3-4", 5: "plain @5"}, {"first_dirty": 6}),
        [(Kind.CLEANED, 0, 2), (Kind.BEHIND, 6, 7)],
    ),
    "a segment less at the one that was not cleaned": (
        ({0: "plain @0-1", 5: "plain @5", 6: "plain @6"}, {}),
        ({0: "plain @0-1; plain @3-4", 5: "plain @5", 6: "plain @6"}, COMPACTED),
        [(Kind.MISSING, 3, 4)],
    ),
    "cleaned, with another batch": (
        (WHOLE, {}),
        ({0: "plain @0-1; D 1 0 0-0 @2 N; plain @3-4", 5: "plain @5", 6: "plain @6"}, COMPACTED),
        [(Kind.DIVERGED, 2, 2)],
    ),
}


@pytest.mark.parametrize(("one", "other", "kinds"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
def test_kinds_of_ranges(
    tmp_path: Path, one: Side, other: Side, kinds: list[tuple[Kind, int, int]], turned: bool
) -> None:
    forged(tmp_path, *((other, one) if turned else (one, other)))
    found = compare(tmp_path).differences
    assert [(difference.kind, difference.first_offset, difference.last_offset) for difference in found] == kinds


def test_nobody_is_overruled_by_a_leader_that_it_has_not_heard_of(tmp_path: Path) -> None:
    """A follower that lags behind an election will fetch what it lacks."""
    forged(tmp_path, ("plain @0", {}), ("plain @0; plain @1", {"leader_epochs": {0: 0, 1: 1}}))
    comparison = compare(tmp_path)
    (found,) = comparison.differences
    assert found.kind is Kind.BEHIND
    assert comparison.loser(found) is None
    assert comparison.branches == ()
