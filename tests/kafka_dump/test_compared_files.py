from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.kafka_dump.compared_files import (
    BatchSearch,
    ForwardLog,
    LogEnd,
    base_offset,
    is_partially_compacted,
    sibling_path,
)
from kforensics.kafka_dump.file_records import SegmentRange
from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.kafka_dump.segments import batch

BATCHES = [batch(base) for base in (0, 3, 6, 9, 12)]
SIZE = len(BATCHES[0])
LOG = b"".join(BATCHES)
POSITIONS = st.sampled_from([-1, *range(0, len(LOG) + 1, SIZE), 7, SIZE + 15, len(LOG) + 1])
LOOKUPS = st.lists(st.tuples(POSITIONS, st.integers(-2, 16)), max_size=12)
LOGS = st.sampled_from([LOG, LOG + bytes(18), LOG[:-3], LOG[: 2 * SIZE] + bytes(SIZE) + LOG[3 * SIZE :], b""])

Result = tuple[str, int | None]


def result(batch: object) -> Result:
    return ("found", batch.last_offset if isinstance(batch, Batch) else None)


def naive_find(records: SegmentRange, position: int, offset: int) -> Result:
    """Search from the position, as the tool does."""
    try:
        batches = records.slice(position, 2**31 - 1).batches()
        return result(next((batch for batch in batches if batch.last_offset >= offset), None))
    except JavaError as error:
        return (str(error), None)


@given(LOGS, LOOKUPS)
def test_a_continued_search_equals_a_new_one(log: bytes, lookups: list[tuple[int, int]]) -> None:
    """Continuing after the last result gives what a new search gives, errors included."""
    records = SegmentRange(BytesSource(log, "/l"))
    search = BatchSearch(records)
    for position, offset in lookups:
        try:
            got = result(search.find(position, offset))
        except JavaError as error:
            got = (str(error), None)
        assert got == naive_find(records, position, offset)


@given(LOGS, st.lists(POSITIONS, max_size=12))
def test_a_remembered_end_equals_a_new_check(log: bytes, positions: list[int]) -> None:
    """The result for a position is valid for later positions on the same chain of batches, and for no others."""
    records = SegmentRange(BytesSource(log, "/l"))
    end = LogEnd(records)
    for position in positions:
        expected, got = "clean", "clean"
        try:
            list(records.slice(position, 2**31 - 1).batches())
        except JavaError as error:
            expected = str(error)
        try:
            end.check(position)
        except JavaError as error:
            got = str(error)
        assert got == expected


def test_forward_log_finds_positions_and_offsets() -> None:
    """Positions and offsets are found, also after damage and backwards."""
    log = ForwardLog(BytesSource(LOG[:SIZE] + b"\xff" * SIZE + LOG[2 * SIZE :]))
    assert [result(log.at(n * SIZE))[1] for n in range(5)] == [2, None, 8, 11, 14]
    assert log.at(SIZE // 2) is None
    assert result(log.at(0)) == ("found", 2)
    assert result(log.reaching(4)) == ("found", 8)
    assert log.reaching(99) is None
    log.restart()
    assert result(log.reaching(-5)) == ("found", 2)
    assert not log.exhausted


@pytest.mark.parametrize(("kept", "expected"), [(3, False), (2, True), (0, True)])
def test_partially_compacted(kept: int, *, expected: bool) -> None:
    """Compaction removed records from a batch with fewer records than offsets."""
    (row,) = walk(BytesSource(batch(0, kept=kept)))
    assert isinstance(row, Batch)
    assert is_partially_compacted(row) == expected


@pytest.mark.parametrize(
    ("path", "number"),
    [("a/0100.log", 100), ("-5.index", -5), ("+7.x.y", 7), ("9223372036854775807.log", 2**63 - 1)]
    + [(name, None) for name in ("x.log", ".log", "9223372036854775808.log", "1_0.log", " 1.log", "9" * 200)],
)
def test_base_offset(path: str, number: int | None) -> None:
    """The number is what Long.parseLong returns for the name up to the first dot."""
    if number is not None:
        assert base_offset(path) == number
        return
    name = Path(path).name.split(".")[0]
    with pytest.raises(JavaError) as raised:
        base_offset(path)
    assert str(raised.value) == f'java.lang.NumberFormatException: For input string: "{name}"'


@pytest.mark.parametrize(
    ("path", "log"), [("7.index", "7.log"), ("a/b/7.x.index", "a/b/7.log"), ("/7.index", "/7.log")]
)
def test_sibling_path(path: str, log: str) -> None:
    """The log is in the same folder and has the same name up to the first dot."""
    assert sibling_path(path, ".log") == log
