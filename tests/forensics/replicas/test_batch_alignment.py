"""How two batches at the same base offset compare, and what a cleaner cannot have made of one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kforensics.forensics.replicas.batch_alignment import Verdict, aligned
from kforensics.forensics.replicas.side_by_side import Batches
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, NO_CONTROL, SHELL, BatchColumns
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT

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


def batches(*rows: Fields) -> Batches:
    """Return batches that differ from a usual one; their checksum is 1 unless given."""
    columns = BatchColumns.of_rows([tuple((USUAL | row)[name] for name in USUAL) for row in rows])
    return Batches(columns, np.array([row.get("crc", 1) for row in rows], "i8"))


def verdict_of(one: Fields, other: Fields) -> list[int]:
    """Return the verdicts on two batches, one of each side."""
    return [int(found) for found in aligned(batches(one), batches(other)).verdict]


CASES: dict[str, tuple[Fields, Fields, int]] = {
    "the same": ({}, {}, Verdict.SAME),
    "elsewhere in the file": ({}, {"segment": 3, "position": 70}, Verdict.SAME),
    "another leader epoch": ({}, {"leader_epoch": 2}, Verdict.LEADER_EPOCH),
    "fewer records": ({}, CLEANED, Verdict.THINNED),
    "a delete horizon": ({}, {"crc": 2}, Verdict.THINNED),
    "another size": ({}, {"size": 101}, Verdict.THINNED),
    "another format": ({}, {"magic": 3}, Verdict.THINNED),
    "an empty marker": (MARKER, MARKER | {"crc": 2, "control": SHELL, "count": 0}, Verdict.THINNED),
    "a marker that says the same": (MARKER, MARKER | {"crc": 2}, Verdict.THINNED),
    "a marker that says something else": (MARKER, MARKER | {"crc": 2, "control": COMMIT}, Verdict.OTHER),
    "a damaged one": ({"crc_valid": False}, {}, Verdict.FIRST_DAMAGED),
    "a damaged other one": ({}, CLEANED | {"crc_valid": False}, Verdict.SECOND_DAMAGED),
    "both damaged alike": ({"crc_valid": False}, {"crc_valid": False}, Verdict.SAME),
    "another last offset": ({}, CLEANED | {"last_offset": 3}, Verdict.OTHER),
    "cleaned, with another leader epoch": ({}, CLEANED | {"leader_epoch": 2}, Verdict.OTHER),
    "another producer": ({}, CLEANED | {"producer_id": 8}, Verdict.OTHER),
    "another producer epoch": ({}, CLEANED | {"producer_epoch": 1}, Verdict.OTHER),
    "another sequence": ({}, CLEANED | {"base_sequence": 1}, Verdict.OTHER),
    "part of a transaction": ({}, CLEANED | {"attributes": TRANSACTIONAL_BIT}, Verdict.OTHER),
}


@pytest.mark.parametrize(("one", "other", "verdict"), CASES.values(), ids=CASES)
def test_batches_at_one_base_offset(one: Fields, other: Fields, verdict: int) -> None:
    turned = {Verdict.FIRST_DAMAGED: Verdict.SECOND_DAMAGED, Verdict.SECOND_DAMAGED: Verdict.FIRST_DAMAGED}
    assert verdict_of(one, other) == [verdict]
    assert verdict_of(other, one) == [turned.get(verdict, verdict)]


SPANS: dict[str, tuple[tuple[int, int], int]] = {
    "before": ((0, 4), Verdict.ONE_SIDED),
    "up to its first offset": ((0, 5), Verdict.OTHER),
    "around it": ((4, 12), Verdict.OTHER),
    "within it": ((6, 7), Verdict.OTHER),
    "from its last offset on": ((9, 12), Verdict.OTHER),
    "behind": ((10, 12), Verdict.ONE_SIDED),
}


@pytest.mark.parametrize(("span", "verdict"), SPANS.values(), ids=SPANS)
def test_batches_that_begin_at_different_offsets(span: tuple[int, int], verdict: int) -> None:
    """A cleaner moves no borders, so batches that share offsets are of different histories."""
    one, other = {"base_offset": 5, "last_offset": 9}, {"base_offset": span[0], "last_offset": span[1]}
    assert verdict_of(one, other) == verdict_of(other, one) == [verdict, verdict]


def test_every_batch_stands_at_its_offset() -> None:
    first = batches({"base_offset": 0}, {"base_offset": 5, "last_offset": 5})
    second = batches({"base_offset": 5, "last_offset": 5}, {"base_offset": 6, "last_offset": 6})
    found = aligned(first, second)
    assert found.offsets.tolist() == [0, 5, 6]
    assert found.verdict.tolist() == [Verdict.ONE_SIDED, Verdict.SAME, Verdict.ONE_SIDED]
    everywhere = np.arange(3)
    assert [found.batches(side, everywhere).columns.base_offset.tolist() for side in (0, 1)] == [[0, 5], [5, 6]]


def test_a_side_without_batches() -> None:
    assert aligned(batches(), batches({})).verdict.tolist() == [Verdict.ONE_SIDED]
    assert aligned(batches(), batches()).verdict.tolist() == []
