from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kforensics.parsers.format import byte_slices
from kforensics.parsers.format.byte_slices import (
    ByteSlices,
    SliceNumbers,
    concatenate_slices,
    distinct_slices,
    equal_slices,
    to_byte_slices,
    with_slices,
)

VALUES = [b"one", None, b"", b"two", b"one", None, b"two"]


def test_slices_by_row() -> None:
    slices = to_byte_slices(VALUES)
    assert [slices.get(row) for row in range(len(slices))] == VALUES
    assert [slices.take(np.array([4, 1])).get(row) for row in range(2)] == [b"one", None]


def test_codes_follow_the_order_of_first_occurrence() -> None:
    encoded = distinct_slices(to_byte_slices(VALUES))
    assert (encoded.values, encoded.codes.tolist()) == ([b"one", b"", b"two"], [0, -1, 1, 2, 0, -1, 2])
    assert distinct_slices(to_byte_slices([])).values == []
    assert distinct_slices(to_byte_slices([None])).codes.tolist() == [-1]


@pytest.mark.parametrize("seed", range(5))
def test_slices_at_any_position(seed: int) -> None:
    """Out of order, overlapping and of many sizes: equal bytes have equal codes, different bytes different ones."""
    dice = Random(seed)  # noqa: S311  # for bytes
    data = np.frombuffer(bytes(dice.choices(b"ab", k=60)) + bytes(8), "u1")
    ranges = [(dice.randrange(50), dice.choice((-1, 0, 1, 2, 2, 3, 9))) for _ in range(200)]
    starts, sizes = (np.array(column) for column in zip(*ranges, strict=True))
    slices = ByteSlices(data, starts, sizes)
    encoded = distinct_slices(slices)
    values = [None if code < 0 else encoded.values[code] for code in encoded.codes.tolist()]
    assert values == [slices.get(row) for row in range(len(slices))]
    assert len(set(encoded.values)) == len(encoded.values)


def test_concatenated_columns() -> None:
    columns = [to_byte_slices(VALUES), to_byte_slices([]), to_byte_slices([b"three"]).copy()]
    joined = concatenate_slices(columns)
    assert [joined.get(row) for row in range(len(joined))] == [*VALUES, b"three"]
    assert joined.take(np.array([0, 7])).numbers(">i2", 1).tolist() == [0x6E65, 0x6872]


def test_byte_strings_are_numbered_in_the_order_in_which_they_are_added() -> None:
    dice, numbers, expected = Random(5), SliceNumbers(), dict[bytes, int]()  # noqa: S311  # for bytes
    for count in (0, 1, 3, 5000, 200, 20_000):
        added = [dice.randbytes(dice.choice((0, 1, 2, 7, 8, 9, 40))) for _ in range(count)]
        added += dice.choices(added, k=count // 2)
        assert numbers.add(to_byte_slices(added)).tolist() == [
            expected.setdefault(value, len(expected)) for value in added
        ]
    slices = numbers.slices
    assert [slices.get(row) for row in range(len(numbers))] == list(expected)


def test_byte_strings_with_equal_hashes_have_numbers_of_their_own() -> None:
    """Swapped words, each changed by what its place adds to it, have the same sum."""
    numbers = SliceNumbers()
    first, second = byte_slices._mixed(np.arange(2, dtype="u8") + numbers._seed).tolist()
    values = []
    for number in range(100):
        words = number, 7 * number + 1
        swapped = words[1] ^ first ^ second, words[0] ^ first ^ second
        values += [np.array(pair, "u8").tobytes() for pair in (words, swapped)]
    hashes = byte_slices._hashes(to_byte_slices(values), numbers._seed)
    assert (hashes[::2] == hashes[1::2]).all()
    for _ in range(2):
        assert numbers.add(to_byte_slices(values)).tolist() == list(range(200))


def test_equal_slices_and_replaced_ones() -> None:
    values = [b"one", b"", b"two", b"two"]
    slices, others = to_byte_slices(values), to_byte_slices([b"one", b"", b"tww", b"tw"])
    assert equal_slices(slices, others).tolist() == [True, True, False, False]
    assert equal_slices(slices, with_slices(others, [2, 3], [b"two", b"two"])).all()
