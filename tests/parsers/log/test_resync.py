"""Candidates: every sound batch is one, hardly anything else is, and each byte is looked at once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.files.window import Window
from kforensics.parsers.log import resync
from kforensics.parsers.log.resync import Candidates, zeros_end
from tests.parsers.builders import (
    CODECS,
    GZIP,
    batch,
    batches,
    legacy_segment,
    message,
    record,
    wrapped_set,
)

SOUND = {
    **{f"v2 {name}": batches(1, codec=codec)[0] for name, codec in CODECS.items()},
    "v2 emptied": batch(producer_id=9, producer_epoch=1, base_sequence=5, last_offset_delta=9, attributes=0x10),
    "v2 control": batch(record(), attributes=0x30),
    "v2 horizon": batch(record(), attributes=0x48),
    "v0": message(magic=0),
    "v0 nulls": message(key=None, value=None, magic=0),
    "v1": message(),
    "v1 append time": message(attributes=8),
    "v0 wrapper": wrapped_set(0, GZIP, 3),
    "v1 wrapper": wrapped_set(1, GZIP, 3),
    "v1 large": message(value=bytes(range(256)) * 4000),
    "v1 large key": message(key=bytes(range(256)) * 4000),
}


def candidates(data: bytes, position: int = 0) -> list[int]:
    """Return all candidates of a log."""
    return list(Candidates(Window(BytesSource(data))).behind(position))


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("before", [0, 1, 17, 1000, resync.PIECE - 30, resync.PIECE, resync.PIECE + 1])
def test_a_sound_batch_is_a_candidate_wherever_it_stands(name: str, before: int) -> None:
    """Also across the seam of two pieces, and as the last thing in the file."""
    noise = random.Random(before).randbytes(before)  # noqa: S311 - dice for a test
    assert candidates(noise + SOUND[name]).count(before) == 1
    assert before in candidates(noise + SOUND[name] + b"\xee" * 100)


@pytest.mark.parametrize("name", SOUND)
def test_a_batch_that_is_cut_is_no_candidate(name: str) -> None:
    data = SOUND[name]
    assert all(0 not in candidates(data[:length]) for length in range(max(0, len(data) - 80), len(data)))


@pytest.mark.parametrize(
    "fields",
    [
        {"magic": 3},
        {"magic": -1},
        {"base_offset": -1},
        {"attributes": 5},
        {"attributes": 0x80},
        {"attributes": 0x100},
        {"last_offset_delta": -1, "count": 0},
        {"count": -1},
        {"count": 3},
        {"producer_id": -2},
        {"producer_epoch": -2},
        {"base_sequence": -2},
        {"length": 48},
    ],
    ids=str,
)
def test_fields_that_make_no_sense_are_no_candidate(fields: dict[str, int]) -> None:
    data = batch(record(), record(1), **fields)
    assert candidates(data + bytes(99)) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_lengths_of_an_old_message_must_fill_it(magic: int) -> None:
    data = bytearray(message(magic=magic))
    assert 0 in candidates(bytes(data))
    data[-2] += 1
    assert candidates(bytes(data) + bytes(40)) == []


def test_candidates_come_in_order_and_from_the_position_on() -> None:
    parts = [*batches(3), *legacy_segment(0), *legacy_segment(1, GZIP)]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts))]
    found = candidates(b"".join(parts))
    assert found == sorted(found)
    assert set(starts) <= set(found)
    assert candidates(b"".join(parts), starts[2]) == [at for at in found if at >= starts[2]]


def test_noise_has_few_candidates() -> None:
    noise = random.Random(1).randbytes(1 << 20)  # noqa: S311 - dice for a test
    assert len(candidates(noise)) < 40


@given(before=st.integers(0, 9000), zeros=st.integers(0, 9000), behind=st.integers(0, 9))
def test_zeros_end_where_something_else_begins(before: int, zeros: int, behind: int) -> None:
    window = Window(BytesSource(b"\xee" * before + bytes(zeros) + b"\xee" * behind))
    assert zeros_end(window, before) == before + zeros
