from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.kafka_dump.compared_files import BatchSearch, LogEnd, base_offset, sibling
from kforensics.kafka_dump.file_records import FileRecords
from kforensics.kafka_dump.forward_log import ForwardLog, is_thinned
from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.kafka_dump.segments import batch

BATCHES = [batch(base) for base in (0, 3, 6, 9, 12)]
SIZE = len(BATCHES[0])
LOG = b"".join(BATCHES)
POSITIONS = st.sampled_from([-1, *range(0, len(LOG) + 1, SIZE), 7, SIZE + 15, len(LOG) + 1])
QUESTIONS = st.lists(st.tuples(POSITIONS, st.integers(-2, 16)), max_size=12)
LOGS = st.sampled_from([LOG, LOG + bytes(18), LOG[:-3], LOG[: 2 * SIZE] + bytes(SIZE) + LOG[3 * SIZE :], b""])

Answer = tuple[str, int | None]


def answer(found: object) -> Answer:
    return ("found", found.last_offset if isinstance(found, Batch) else None)


def naive_find(records: FileRecords, position: int, offset: int) -> Answer:
    """Search anew, as the tool does."""
    try:
        batches = records.slice(position, 2**31 - 1).batches()
        return answer(next((each for each in batches if each.last_offset >= offset), None))
    except JavaError as error:
        return (str(error), None)


@given(LOGS, QUESTIONS)
def test_search_remembers_without_a_difference(log: bytes, questions: list[tuple[int, int]]) -> None:
    """Going on from the last find gives what a new search would have given, errors included."""
    records = FileRecords(BytesSource(log, "/l"))
    search = BatchSearch(records)
    for position, offset in questions:
        try:
            got = answer(search.find(position, offset))
        except JavaError as error:
            got = (str(error), None)
        assert got == naive_find(records, position, offset)


@given(LOGS, st.lists(POSITIONS, max_size=12))
def test_end_remembers_without_a_difference(log: bytes, positions: list[int]) -> None:
    """What is known of a log's end holds for later positions on the same chain of batches, and for no others."""
    records = FileRecords(BytesSource(log, "/l"))
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
    """Positions and offsets are found, also behind damage and backwards."""
    log = ForwardLog(BytesSource(LOG[:SIZE] + b"\xff" * SIZE + LOG[2 * SIZE :]))
    assert [answer(log.at(n * SIZE))[1] for n in range(5)] == [2, None, 8, 11, 14]
    assert log.at(SIZE // 2) is None
    assert answer(log.at(0)) == ("found", 2)
    assert answer(log.reaching(4)) == ("found", 8)
    assert log.reaching(99) is None
    log.restart()
    assert answer(log.reaching(-5)) == ("found", 2)
    assert not log.exhausted


@pytest.mark.parametrize(("kept", "thinned"), [(3, False), (2, True), (0, True)])
def test_thinned(kept: int, *, thinned: bool) -> None:
    """A batch with fewer records than offsets lost some to compaction."""
    (row,) = walk(BytesSource(batch(0, kept=kept)))
    assert isinstance(row, Batch)
    assert is_thinned(row) == thinned


@pytest.mark.parametrize(
    ("path", "number"),
    [("a/0100.log", 100), ("-5.index", -5), ("+7.x.y", 7), ("9223372036854775807.log", 2**63 - 1)]
    + [(name, None) for name in ("x.log", ".log", "9223372036854775808.log", "1_0.log", " 1.log", "9" * 200)],
)
def test_base_offset(path: str, number: int | None) -> None:
    """The number is what Long.parseLong reads up to the first dot."""
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
def test_sibling(path: str, log: str) -> None:
    """The log lies in the same folder under the name up to the first dot."""
    assert sibling(path, ".log") == log
