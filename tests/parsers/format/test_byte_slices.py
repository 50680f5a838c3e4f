from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kforensics.parsers.format.byte_slices import Pieces, distinct, joined_pieces, pieces_of

FOUND = [b"one", None, b"", b"two", b"one", None, b"two"]


def test_pieces_by_their_rows() -> None:
    pieces = pieces_of(FOUND)
    assert [pieces.at(row) for row in range(len(pieces))] == FOUND
    assert [pieces.taken(np.array([4, 1])).at(row) for row in range(2)] == [b"one", None]


def test_each_piece_has_a_number_by_which_it_first_comes() -> None:
    found = distinct(pieces_of(FOUND))
    assert (found.words, found.codes.tolist()) == ([b"one", b"", b"two"], [0, -1, 1, 2, 0, -1, 2])
    assert distinct(pieces_of([])).words == []
    assert distinct(pieces_of([None])).codes.tolist() == [-1]


@pytest.mark.parametrize("seed", range(5))
def test_pieces_that_lie_anywhere(seed: int) -> None:
    """Out of order, over one another, of many sizes: what is the same has the same number, and nothing else has."""
    dice = Random(seed)  # noqa: S311  # for bytes
    data = np.frombuffer(bytes(dice.choices(b"ab", k=60)) + bytes(8), "u1")
    places = [(dice.randrange(50), dice.choice((-1, 0, 1, 2, 2, 3, 9))) for _ in range(200)]
    starts, sizes = (np.array(column) for column in zip(*places, strict=True))
    pieces = Pieces(data, starts, sizes)
    found = distinct(pieces)
    words = [None if code < 0 else found.words[code] for code in found.codes.tolist()]
    assert words == [pieces.at(row) for row in range(len(pieces))]
    assert len(set(found.words)) == len(found.words)


def test_parts_side_by_side() -> None:
    parts = [pieces_of(FOUND), pieces_of([]), pieces_of([b"three"]).copied()]
    joined = joined_pieces(parts)
    assert [joined.at(row) for row in range(len(joined))] == [*FOUND, b"three"]
    assert joined.taken(np.array([0, 7])).numbers(">i2", 1).tolist() == [0x6E65, 0x6872]
