"""Candidates: every valid batch is one, hardly anything else is, and each byte is searched once."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import BytesSource, Window
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.log import resync
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.resync import Candidates, zeros_end
from tests.command import SAMPLES, dump, run
from tests.parsers.builders import (
    CODECS,
    GZIP,
    batch,
    batch_of,
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


BATCHES = [batch_of(record(value=bytes(9)), base_offset=offset) for offset in range(5)]
SAMPLE = SAMPLES / "transactions-v2" / "broker-1" / "committed-0"


def torn(batches: list[bytes], missing: int) -> bytes:
    """Return a log whose second batch lacks its last bytes."""
    return b"".join([batches[0], batches[1][:-missing], *batches[2:]])


@pytest.mark.parametrize("missing", [1, 2, 5])
def test_both_batches_are_read_and_the_torn_one_is_named(missing: int) -> None:
    assert BATCHES[1].endswith(BATCHES[2][:missing])
    rows = list(walk(BytesSource(torn(BATCHES, missing))))
    read = [row for row in rows if isinstance(row, Batch)]
    assert [(row.base_offset, row.crc_valid) for row in read] == [(offset, True) for offset in range(5)]
    (damage,) = (row for row in rows if isinstance(row, Damage))
    second, third = read[1:3]
    assert (damage.reason, damage.inside_batch) == ("truncated", second.position)
    assert (damage.start, damage.end) == (third.position, third.position + missing)
    assert f"{second.size} bytes, of which {second.size - missing} are there" in damage.detail


def test_a_torn_batch_whose_end_differs_is_damage_and_nothing_else() -> None:
    batches = [*BATCHES[:1], batch_of(record(value=b"x" * 9), base_offset=1), *BATCHES[2:]]
    rows = list(walk(BytesSource(torn(batches, 3))))
    assert [row.base_offset for row in rows if isinstance(row, Batch)] == [0, 2, 3, 4]
    assert [row.inside_batch for row in rows if isinstance(row, Damage)] == [None]


def test_a_value_that_ends_like_a_batch_begins_is_no_damage() -> None:
    """The innocent look-alike: a whole batch, or the start of one, as a value, followed by sound batches or by none."""
    for value in (BATCHES[2], BATCHES[2][:40], BATCHES[2][:-1]):
        sound = batch_of(record(value=value), base_offset=1)
        for data in (BATCHES[0] + sound + BATCHES[2], BATCHES[0] + sound):
            assert all(isinstance(row, Batch) for row in walk(BytesSource(data)))
        rows = list(walk(BytesSource(BATCHES[0] + sound + b"\xee" * 90 + BATCHES[2])))
        assert [row.inside_batch for row in rows if isinstance(row, Damage)] == [None]
        rows = list(walk(BytesSource(BATCHES[0] + sound + bytes(90))))
        assert [row.reason for row in rows if isinstance(row, Damage)] == ["zero-tail"]


@pytest.mark.parametrize("is_compiled", [False, True], ids=["python", "kernels"])
def test_columns_have_the_same_batches_and_the_same_damage(is_compiled: bool) -> None:
    kernels, data, damage = load_kernels() if is_compiled else None, torn(BATCHES, 1), list[Damage]()
    assert (kernels is not None) == is_compiled
    chunks = list(batch_chunks(BytesSource(data), 0, damage.append, lambda _size: kernels))
    assert [offset for chunk in chunks for offset in chunk.base_offset.tolist()] == [0, 1, 2, 3, 4]
    assert damage == [row for row in walk(BytesSource(data)) if isinstance(row, Damage)]


def test_a_log_of_a_real_broker_is_read_past_the_torn_batch(tmp_path: Path) -> None:
    """Only the last byte is missing, a zero: the number of headers of the last record."""
    folder = Path(shutil.copytree(SAMPLE.parent, tmp_path / "broker-1")) / SAMPLE.name
    (log,) = folder.glob("*.log")
    data = log.read_bytes()
    first = next(row for row in walk(BytesSource(data)) if isinstance(row, Batch))
    assert data[first.size - 1] == data[first.size] == 0
    sound = [line for line in dump(log).lines if line.startswith("baseOffset")]
    log.write_bytes(data[: first.size - 1] + data[first.size :])
    ended = dump(log)
    assert ended.code == 1
    assert f"({1} bytes) of the batch at 0x0 belong to the next one, truncated" in ended.err
    offsets = [line.split(" position:")[0] for line in ended.lines if line.startswith("baseOffset")]
    assert offsets == [line.split(" position:")[0] for line in sound]
    text = run("verify", folder).text
    assert "error    batch-truncated: Torn batch at position 0" in text
    assert "batch-length-invalid" not in text
