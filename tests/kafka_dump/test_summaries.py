from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.kafka_dump.styles import PLAIN_STYLE, STYLES, DumpStyle
from kforensics.kafka_dump.summaries import Summaries
from tests.kafka_dump.imitation import ALL_STYLES, SUFFIXES, check_goldens

S, J = STYLES["4.2"], STYLES["4.3"]


@pytest.mark.slow
@pytest.mark.parametrize("style", ALL_STYLES, ids=lambda style: style.name)
def test_goldens_of_several_files(
    sample_logs: Path, style: DumpStyle, record_property: Callable[[str, object], None]
) -> None:
    """Every golden run over several indexes, their summaries included, is imitated byte for byte."""
    record_property("runs", check_goldens(sample_logs, style, SUFFIXES, least_files=2))


@pytest.mark.parametrize("style", [*ALL_STYLES, PLAIN_STYLE, None], ids=lambda style: style.name if style else "none")
def test_empty_summaries(style: DumpStyle | None) -> None:
    """Without entries nothing is printed."""
    assert Summaries("/d").lines(style) == []


def test_order_of_sections() -> None:
    """Mismatches come before time indexes, and gaps last, in whatever order they were added."""
    summaries = Summaries("/d")
    summaries.gap("a.log", 3, 5)
    summaries.not_found("a.timeindex", 1, -1)
    summaries.out_of_order("a.timeindex", 1, 2)
    summaries.timestamp_mismatch("a.timeindex", 1, 2)
    summaries.mismatch("a.index", 1, 2)
    summaries.note("and this")
    assert summaries.lines(S) == [
        "Mismatches in :/d/a.index",
        "  Index offset: 1, log offset: 2",
        "Found timestamp mismatch in :/d/a.timeindex",
        "  Index timestamp: 1, log timestamp: 2",
        "Found out of order timestamp in :/d/a.timeindex",
        "  Index timestamp: 1, Previously indexed timestamp: 2",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 1, found log offset: -1",
        "Non-consecutive offsets in /d/a.log",
        "  3 is followed by 5",
        "and this",
    ]


def test_order_of_gaps() -> None:
    """Scala prints the newest first, Java sorts and keeps one per offset, the plain style keeps the order."""
    summaries = Summaries("/d")
    for first, second in ((7, 9), (3, 5), (7, 11)):
        summaries.gap("a.log", first, second)

    def pairs(style: DumpStyle | None) -> list[str]:
        return [line.strip() for line in summaries.lines(style)[1:]]

    assert pairs(S) == ["7 is followed by 11", "3 is followed by 5", "7 is followed by 9"]
    assert pairs(J) == ["3 is followed by 5", "7 is followed by 11"]
    assert pairs(None) == ["7 is followed by 9", "3 is followed by 5", "7 is followed by 11"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [("a", "/d/a"), ("./a//b/", "/d/./a/b"), ("../a", "/d/../a"), ("/a/b", "/a/b"), ("s3://b/a", "s3://b/a")],
)
def test_absolute(path: str, shown: str) -> None:
    """Dots are kept and doubled slashes removed, as in java.io.File."""
    assert Summaries("/d/").absolute(path) == shown


PATHS = [f"/logs/t-0/{number:020}.index" for number in range(1000, 1013)]


def files(summaries: Summaries, style: DumpStyle) -> list[str]:
    """Return the files in the order of their headings."""
    return [line.partition(":")[2] for line in summaries.lines(style) if not line.startswith(" ")]


def test_thirteen_files_make_javas_table_grow() -> None:
    """ComputeIfAbsent does not grow it for the thirteenth file, but for the next pair of any file."""
    summaries = Summaries("/")
    for path in PATHS:
        summaries.mismatch(path, 1, 2)
    before = files(summaries, J)
    summaries.mismatch(PATHS[0], 3, 4)
    assert sorted(before) == sorted(files(summaries, J)) == PATHS
    assert before != files(summaries, J)


def test_eleven_files_make_scalas_table_grow() -> None:
    """Mismatches are put into it for every pair, so that the next pair makes it grow; timestamps are not."""
    summaries, times = Summaries("/"), Summaries("/")
    for path in PATHS[:11]:
        summaries.mismatch(path, 1, 2)
        times.timestamp_mismatch(path, 1, 2)
    before = files(summaries, S)
    assert sorted(before) == PATHS[:11]
    assert files(times, S) == before
    summaries.mismatch(PATHS[10], 3, 4)
    times.timestamp_mismatch(PATHS[10], 3, 4)
    assert files(summaries, S) != before
    assert files(times, S) == before


def test_files_in_one_bucket() -> None:
    """In one bucket Java has the later file first, Scala the smaller hash code."""
    summaries = Summaries("/")
    for path in ("/AaBB", "/BBAa", "/AaAa"):
        summaries.gap(path, 1, 3)
    assert [line[28:] for line in summaries.lines(J)[::2]] == ["AaAa", "BBAa", "AaBB"]
