"""A torn batch and the sound batch that begins inside it are both read, and told apart from their look-alikes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.log.batches import walk
from tests.command import SAMPLES, dump, run
from tests.parsers.builders import batch_of, record

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
