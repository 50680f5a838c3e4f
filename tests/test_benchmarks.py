from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import bars, peers, segments
from benchmarks.measure import Figures, Result, Run, Spread
from benchmarks.peers import DUMP, PARQUET, PRINT_DATA_LOG, Peer
from benchmarks.segments import Segment
from benchmarks.tables import aligned


def segment(name: str) -> Segment:
    return Segment(name, Path("0.log"), records=1, batches=1, uncompressed=1)


@pytest.fixture
def lines() -> list[bars.Line]:
    measured = [
        (segment("start-up"), [result(DUMP, 2.999, peak_mb=40)]),
        (
            segment("plain"),
            [
                result("kafka-dump-log", 1, peak_mb=900),
                result(DUMP, 3, peak_mb=120),
                result(PRINT_DATA_LOG, 25, peak_mb=121),
                result(PARQUET, None, peak_mb=200.1),
            ],
        ),
        (segment("v1"), [result(DUMP, 1, peak_mb=100), result(PRINT_DATA_LOG, 9)]),
    ]
    return bars.lines(measured)


def result(program: str, ratio: float | None, peak_mb: float | None = None) -> Result:
    peer, run = Peer(program, peers.BATCHES, ()), Run(1.0, 1)
    if peak_mb is None:
        return Result(peer, run, None, "ended with exit code 3.")
    faster = None if ratio is None else Spread(ratio, ratio - 0.5, ratio + 0.5)
    return Result(peer, run, Figures(Spread(1, 1, 1), faster, int(peak_mb * 1e6)))


def test_every_demand_on_what_was_measured_has_a_line(lines: list[bars.Line]) -> None:
    """Kafka's tool has no bar, a segment that was not read has no line, a program that failed has one."""
    assert [(line.program, line.segment, line.bar, line.aim, line.verdict) for line in lines] == [
        (DUMP, "start-up", 3, 6, "no"),
        (DUMP, "plain", 3, 10, "yes"),
        (DUMP, "v1", 1, None, "yes"),
        (PRINT_DATA_LOG, "plain", 15, 25, "yes, and the aim"),
        (PRINT_DATA_LOG, "v1", 1, None, "failed"),
        (PARQUET, "plain", 8, 15, "failed"),
        (DUMP, "plain", 200, 120, "yes, and the aim"),
        (PRINT_DATA_LOG, "plain", 200, 120, "yes"),
        (PARQUET, "plain", 200, 120, "no"),
    ]


def test_table_of_the_bars_shows_what_was_reached(lines: list[bars.Line]) -> None:
    """What misses its bar by a hair does not look as if it had reached it."""
    shown = [list(row[1:]) for row in bars.rows(lines)]
    assert shown[1] == ["start-up", "3x", "6x", "2.99x", "2.49-3.49", "no"]
    assert shown[3] == ["v1", "1x", "-", "1.00x", "0.50-1.50", "yes"]
    assert shown[5] == ["v1", "1x", "-", "-", "", "failed"]
    assert shown[9] == ["plain", "200 MB", "120 MB", "201 MB", "", "no"]


def test_bars_name_segments_that_can_be_written() -> None:
    known = {segments.START_UP, *segments.KINDS}
    assert {kind for demands in bars._TIMES_FASTER.values() for kind in demands} == known


def test_every_aim_lies_beyond_its_bar() -> None:
    demands = [demand for demands in bars._TIMES_FASTER.values() for demand in demands.values()]
    assert all(aim is None or aim > bar for bar, aim in demands)


def test_columns_are_aligned() -> None:
    shown = list(aligned([("a", "1"), ("b", "1000")]))
    assert all(len(one) == len(other) for one, other in pairwise(shown))
    assert shown[0].endswith("     1")
