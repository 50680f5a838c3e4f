"""The kind of a range in which two replicas differ depends on its offsets and on how far each was cleaned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.replicas.batch_windows import ReplicaBatches
from kforensics.forensics.replicas.differences import BatchMatch, DifferenceKind, align_batches
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, EMPTY_CONTROL_BATCH, NO_CONTROL, BatchColumns
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT
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
        [(DifferenceKind.CLEANED, 3, 4)],  # it may have been fetched from a leader that had cleaned it
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


Fields = dict[str, Any]
USUAL: Fields = {
    "segment": 0,
    "position": 0,
    "size": 100,
    "base_offset": 0,
    "last_offset": 4,
    "count": 5,
    "magic": 2,
    "leader_epoch": 1,
    "attributes": 0,
    "crc_valid": True,
    "max_timestamp": 0,
    "producer_id": 7,
    "producer_epoch": 0,
    "base_sequence": 0,
    "last_sequence": 4,
    "control": NO_CONTROL,
    "coordinator_epoch": -1,
    "exact": True,
}
CLEANED: Fields = {"crc": 2, "size": 80, "count": 2}
MARKER: Fields = {"control": ABORT, "attributes": CONTROL_BIT | TRANSACTIONAL_BIT, "last_offset": 0, "count": 1}
EMPTY_MARKER: Fields = MARKER | {"crc": 2, "control": EMPTY_CONTROL_BATCH, "count": 0}


def batches(*rows: Fields) -> ReplicaBatches:
    """Return batches with some fields that differ from USUAL; their checksum is 1 unless given."""
    columns = BatchColumns.of_rows([tuple((USUAL | row)[name] for name in USUAL) for row in rows])
    return ReplicaBatches(columns, np.array([row.get("crc", 1) for row in rows], "i8"))


def matches_of(one: Fields, other: Fields) -> list[int]:
    """Return the BatchMatch values of two batches, one of each side."""
    return [int(match) for match in align_batches(batches(one), batches(other)).match]


PAIR_CASES: dict[str, tuple[Fields, Fields, int]] = {
    "the same": ({}, {}, BatchMatch.SAME),
    "another position": ({}, {"segment": 3, "position": 70}, BatchMatch.SAME),
    "another leader epoch": ({}, {"leader_epoch": 2}, BatchMatch.LEADER_EPOCH),
    "fewer records": ({}, CLEANED, BatchMatch.PARTIALLY_COMPACTED),
    "a delete horizon": ({}, {"crc": 2}, BatchMatch.PARTIALLY_COMPACTED),
    "another size": ({}, {"size": 101}, BatchMatch.PARTIALLY_COMPACTED),
    "another format": ({}, {"magic": 3}, BatchMatch.PARTIALLY_COMPACTED),
    "an empty marker": (MARKER, EMPTY_MARKER, BatchMatch.PARTIALLY_COMPACTED),
    "a marker with the same outcome": (MARKER, MARKER | {"crc": 2}, BatchMatch.PARTIALLY_COMPACTED),
    "a marker with another outcome": (MARKER, MARKER | {"crc": 2, "control": COMMIT}, BatchMatch.INCOMPATIBLE),
    "a damaged first one": ({"crc_valid": False}, {}, BatchMatch.FIRST_DAMAGED),
    "a damaged second one": ({}, CLEANED | {"crc_valid": False}, BatchMatch.SECOND_DAMAGED),
    "both with the same damage": ({"crc_valid": False}, {"crc_valid": False}, BatchMatch.SAME),
    "another last offset": ({}, CLEANED | {"last_offset": 3}, BatchMatch.INCOMPATIBLE),
    "cleaned, with another leader epoch": ({}, CLEANED | {"leader_epoch": 2}, BatchMatch.INCOMPATIBLE),
    "another producer": ({}, CLEANED | {"producer_id": 8}, BatchMatch.INCOMPATIBLE),
    "another producer epoch": ({}, CLEANED | {"producer_epoch": 1}, BatchMatch.INCOMPATIBLE),
    "another sequence": ({}, CLEANED | {"base_sequence": 1}, BatchMatch.INCOMPATIBLE),
    "part of a transaction": ({}, CLEANED | {"attributes": TRANSACTIONAL_BIT}, BatchMatch.INCOMPATIBLE),
}


@pytest.mark.parametrize(("one", "other", "match"), PAIR_CASES.values(), ids=PAIR_CASES)
def test_batches_at_one_base_offset(one: Fields, other: Fields, match: int) -> None:
    swapped = {BatchMatch.FIRST_DAMAGED: BatchMatch.SECOND_DAMAGED, BatchMatch.SECOND_DAMAGED: BatchMatch.FIRST_DAMAGED}
    assert matches_of(one, other) == [match]
    assert matches_of(other, one) == [swapped.get(match, match)]


SPANS: dict[str, tuple[tuple[int, int], int]] = {
    "before": ((0, 4), BatchMatch.ONE_SIDED),
    "up to its first offset": ((0, 5), BatchMatch.INCOMPATIBLE),
    "around it": ((4, 12), BatchMatch.INCOMPATIBLE),
    "within it": ((6, 7), BatchMatch.INCOMPATIBLE),
    "from its last offset on": ((9, 12), BatchMatch.INCOMPATIBLE),
    "after": ((10, 12), BatchMatch.ONE_SIDED),
}


@pytest.mark.parametrize(("span", "match"), SPANS.values(), ids=SPANS)
def test_batches_that_begin_at_different_offsets(span: tuple[int, int], match: int) -> None:
    """A cleaner does not change batch borders, so batches that overlap have different histories."""
    one, other = {"base_offset": 5, "last_offset": 9}, {"base_offset": span[0], "last_offset": span[1]}
    assert matches_of(one, other) == matches_of(other, one) == [match, match]


def test_batches_are_aligned_by_base_offset() -> None:
    first = batches({"base_offset": 0}, {"base_offset": 5, "last_offset": 5})
    second = batches({"base_offset": 5, "last_offset": 5}, {"base_offset": 6, "last_offset": 6})
    window = align_batches(first, second)
    assert window.offsets.tolist() == [0, 5, 6]
    assert window.match.tolist() == [BatchMatch.ONE_SIDED, BatchMatch.SAME, BatchMatch.ONE_SIDED]
    everywhere = np.arange(3)
    assert [window.batches(side, everywhere).columns.base_offset.tolist() for side in (0, 1)] == [[0, 5], [5, 6]]


def test_a_side_without_batches() -> None:
    assert align_batches(batches(), batches({})).match.tolist() == [BatchMatch.ONE_SIDED]
    assert align_batches(batches(), batches()).match.tolist() == []
