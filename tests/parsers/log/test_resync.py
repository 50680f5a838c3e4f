"""Candidates: every valid batch is one, hardly anything else is, and each byte is searched once."""

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
    return list(Candidates(Window(BytesSource(data))).between(position))


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize(
    "before", [0, 1, 17, 1000, resync.SEARCH_CHUNK - 30, resync.SEARCH_CHUNK, resync.SEARCH_CHUNK + 1]
)
def test_a_valid_batch_is_a_candidate_at_any_position(name: str, before: int) -> None:
    """Also across a chunk boundary and at the end of the file."""
    noise = random.Random(before).randbytes(before)  # noqa: S311 - dice for a test
    assert candidates(noise + SOUND[name]).count(before) == 1
    assert before in candidates(noise + SOUND[name] + b"\xee" * 100)


@pytest.mark.parametrize("name", SOUND)
def test_a_truncated_batch_is_not_a_candidate(name: str) -> None:
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
def test_invalid_fields_are_not_a_candidate(fields: dict[str, int]) -> None:
    data = batch(record(), record(1), **fields)
    assert candidates(data + bytes(99)) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_key_and_value_of_an_old_message_must_fill_it(magic: int) -> None:
    data = bytearray(message(magic=magic))
    assert 0 in candidates(bytes(data))
    data[-2] += 1
    assert candidates(bytes(data) + bytes(40)) == []


def test_candidates_come_in_order_from_the_position_on() -> None:
    parts = [*batches(3), *legacy_segment(0), *legacy_segment(1, GZIP)]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts))]
    positions = candidates(b"".join(parts))
    assert positions == sorted(positions)
    assert set(starts) <= set(positions)
    assert candidates(b"".join(parts), starts[2]) == [position for position in positions if position >= starts[2]]


def test_noise_has_few_candidates() -> None:
    noise = random.Random(1).randbytes(1 << 20)  # noqa: S311 - dice for a test
    assert len(candidates(noise)) < 40


@given(before=st.integers(0, 9000), zeros=st.integers(0, 9000), after=st.integers(0, 9))
def test_zeros_end_at_the_first_other_byte(before: int, zeros: int, after: int) -> None:
    window = Window(BytesSource(b"\xee" * before + bytes(zeros) + b"\xee" * after))
    assert zeros_end(window, before) == before + zeros
