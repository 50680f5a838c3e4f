"""Properties of rows."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from kforensics.parsers.format.rows import Damage, Failure, Record
from kforensics.parsers.log.batch_headers import batch_header
from tests.parsers.builders import batch


@pytest.mark.parametrize(
    ("failure", "detail"),
    [
        (Failure("crc", "a.B", "text"), "text"),
        (Failure("crc", "a.B", None), "a.B"),
        (Failure("crc", "a.B", "text", (("c.D", "cause"), ("e.F", None))), "text: cause: e.F"),
    ],
)
def test_the_detail_of_a_failure_names_its_causes(failure: Failure, detail: str) -> None:
    assert failure.detail == detail


@pytest.mark.parametrize(
    "row",
    [batch_header(batch(), 0), Damage(0, 1, "crc", "x"), Record(0, 0, 0, b"k", None, ((b"h", None),))],
    ids=["batch", "damage", "record"],
)
def test_rows_can_be_pickled(row: object) -> None:
    assert pickle.loads(pickle.dumps(row)) == row  # noqa: S301 - our own bytes


def test_batches_and_damage_are_immutable() -> None:
    row = batch_header(batch(), 0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.position = 1  # type: ignore[misc]  # what this test checks
