"""What this project requires of its own speed and memory, and whether a run meets it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor

from benchmarks.measure import Measured, Result, Spread
from benchmarks.peers import AUDIT, DUMP, LSO, OPTIONS, PARQUET, PRINT_DATA_LOG, PRODUCERS, TRANSACTIONS
from benchmarks.segments import START_UP

SIZE = 1000
"""MB of batches for which the bars are meant."""

# Bar and aim, in times faster than the first program of the same job. Without an aim, the bar is the only requirement.
_TIMES_FASTER: Mapping[str, Mapping[str, tuple[float, float | None]]] = {
    DUMP: {
        START_UP: (3, 6),
        "plain": (3, 10),
        "txn": (5, 12),
        "tiny": (20, 40),
        "lz4": (2, 10),
        "zstd": (2, 10),
        **dict.fromkeys(("gzip", "snappy", "v0", "v1", "v1-gzip"), (1, None)),
    },
    PRINT_DATA_LOG: {
        **dict.fromkeys(("plain", "txn", "tiny", "lz4"), (15, 25)),
        "zstd": (10, 15),
        **dict.fromkeys(("gzip", "snappy", "v0", "v1", "v1-gzip"), (1, None)),
    },
    PARQUET: dict.fromkeys(("plain", "txn", "tiny", "lz4", "zstd"), (8, 15)),
    LSO: {"plain": (1.5, None), "txn": (3, None), "tiny": (8, None)},
    TRANSACTIONS: {"plain": (1.5, None), "txn": (3, None), "tiny": (8, None)},
    AUDIT: {"txn": (2, None), "tiny": (5, None)},
}
# Bar and aim, for each process of a command.
_PEAK_MB: Mapping[str, tuple[float, float | None]] = {
    **dict.fromkeys((DUMP, PRINT_DATA_LOG, PARQUET), (200, 120)),
    **dict.fromkeys((LSO, TRANSACTIONS, PRODUCERS, AUDIT), (300, None)),
}
# Times the duration of plain printing that a dump with an option may take at most: JSON and CSV of records, and others.
_RECORD_TEXT_SLOWDOWN, _SLOWDOWN = 5.0, 3.0
_SLOWER = "x plain"
_OPTION_PEAK_MB = 200
_MANY_PRODUCERS_PEAK_MB: tuple[float, float | None] = (1000, None)
_TWO_PROCESSES = (1.7, None)


@dataclass(frozen=True, slots=True)
class Line:
    """A requirement and what a run reached.

    Attributes:
        program: the command of the toolkit.
        segment: kind of segment; for memory the one on which the command took the most.
        unit: ``x`` for times faster, ``x plain`` for times the duration of plain printing, ``MB`` for peak memory.
        bar: the requirement.
        aim: the goal beyond it, if any.
        reached: the value of this run; None if the program, or the one it is compared with, failed.
        by_round: the least and the most of the ratios within a round.
    """

    program: str
    segment: str
    unit: str
    bar: float
    aim: float | None
    reached: float | None
    by_round: tuple[float, float] | None = None

    @property
    def holds(self) -> bool:
        """Whether the bar is reached."""
        return self._meets(self.bar)

    @property
    def verdict(self) -> str:
        """The line's last word in the table."""
        if self.reached is None:
            return "failed"
        if self.aim is not None and self._meets(self.aim):
            return "yes, and the aim"
        return "yes" if self.holds else "no"

    def _meets(self, value: float) -> bool:
        if self.reached is None:
            return False
        return self.reached >= value if self.unit == "x" else self.reached <= value


def lines(measured: Measured) -> list[Line]:
    """A line per requirement on what was measured: the ratios in their defined order, then the memory per command."""
    results = {
        (segment.name, result.peer.name): result
        for segment, segments in measured
        for result in segments
        if result.peer.job != OPTIONS
    }
    ratios = [
        _ratio_line(program, segment, requirement, results[segment, program])
        for program, requirements in _TIMES_FASTER.items()
        for segment, requirement in requirements.items()
        if (segment, program) in results
    ]
    return [*ratios, *_option_lines(measured), *_memory_lines(results)]


def _option_lines(measured: Measured) -> Iterator[Line]:
    """A line per option of a dump: how long it takes, against plain printing in the same rounds, and its memory."""
    for segment, results in measured:
        for result in results:
            if result.peer.job != OPTIONS or result.peer.base:
                continue
            is_text = any(f"--records --format {name}" in result.peer.name for name in ("ndjson", "json", "csv"))
            bar = _RECORD_TEXT_SLOWDOWN if is_text else _SLOWDOWN
            ratio = result.metrics.times_faster if result.metrics else None
            if result.metrics is None or ratio is None:
                yield Line(result.peer.name, segment.name, _SLOWER, bar, None, reached=None)
                continue
            by_round = (1 / ratio.most, 1 / ratio.least)
            yield Line(result.peer.name, segment.name, _SLOWER, bar, None, 1 / ratio.median, by_round)
            yield Line(result.peer.name, segment.name, "MB", _OPTION_PEAK_MB, None, result.metrics.peak_bytes / 1e6)


def _ratio_line(program: str, segment: str, requirement: tuple[float, float | None], result: Result) -> Line:
    ratio: Spread | None = result.metrics.times_faster if result.metrics else None
    if ratio is None:
        return Line(program, segment, "x", *requirement, reached=None)
    return Line(program, segment, "x", *requirement, reached=ratio.median, by_round=(ratio.least, ratio.most))


def _memory_lines(results: Mapping[tuple[str, str], Result]) -> Iterator[Line]:
    for program in _PEAK_MB:
        peaks = {
            segment: result.metrics.peak_bytes
            for (segment, name), result in results.items()
            if name == program and result.metrics
        }
        if peaks:
            segment = max(peaks, key=peaks.__getitem__)
            yield memory_line(program, segment, peaks[segment])


def memory_line(program: str, segment: str, peak: int | None, *, many_producers: bool = False) -> Line:
    """The requirement on peak memory, and whether it is met.

    Args:
        program: the command.
        segment: kind of segment.
        peak: bytes of the largest process; None if the program failed.
        many_producers: whether a million producers wrote, whose state has to be kept.
    """
    requirement = _MANY_PRODUCERS_PEAK_MB if many_producers else _PEAK_MB[program]
    bar, aim = requirement
    return Line(program, segment, "MB", bar, aim, None if peak is None else peak / 1e6)


def processes_line(segment: str, result: Result) -> Line:
    """The required speed-up of an audit with two processes over one."""
    return _ratio_line(result.peer.name, segment, _TWO_PROCESSES, result)


def rows(results: Sequence[Line]) -> Iterator[tuple[str, ...]]:
    """The table of the bars, its headings first."""
    yield ("bars", "segment", "bar", "aim", "reached", "round by round", "bar holds")
    for line in results:
        yield (
            line.program,
            line.segment,
            _required(line.bar, line.unit),
            _required(line.aim, line.unit),
            _reached(line.reached, line.unit),
            "-".join(map(_ratio, line.by_round)) if line.by_round else "",
            line.verdict,
        )


def _required(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:g}x" if unit == "x" else f"{value:g} {unit}"


def _reached(value: float | None, unit: str) -> str:
    """Rounded toward the worse, so that what misses its bar by a hair does not look as if it had reached it."""
    if value is None:
        return "-"
    if unit == _SLOWER:
        return f"{ceil(value * 100) / 100:.2f} {unit}"
    return f"{_ratio(value)}x" if unit == "x" else f"{ceil(value)} {unit}"


def _ratio(value: float) -> str:
    return f"{floor(value * 100) / 100:.2f}"
