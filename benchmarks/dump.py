"""``python -m benchmarks.dump``: how fast segments are dumped, beside Kafka's own tool in the same run."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import kafka, peers, segments
from benchmarks.measure import Figures, Result, Spread, measure
from benchmarks.segments import Segment
from lab.errors import LabError

_START_UP = "start-up"
_LARGEST = 2_000
_HEADINGS = ("median s", "min-max s", "times faster", "round by round", "MB/s", "peak MB")
_Measured = Sequence[tuple[Segment, Sequence[Result]]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is missing, measure, print the table; 1 when something stands in the way or a program failed."""
    options = _parser().parse_args(arguments)
    try:
        measured = list(_measured(options))
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(_report(options, measured)))
    if options.json:
        options.json.write_text(json.dumps(_as_json(options, measured), indent=2) + "\n", encoding="utf-8")
    return int(any(result.failure for _, results in measured for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dump", description="Measure kforensics dump.")
    told = "MB of batches per segment, before compression (default: %(default)s; the bars are for 1000)"
    parser.add_argument("--size", type=_megabytes, default=50, metavar="MB", help=told)
    told = "how often each program runs (default: %(default)s)"
    parser.add_argument("--rounds", type=_positive, default=3, metavar="N", help=told)
    kinds = [_START_UP, *segments.KINDS]
    told = f"segments to read, of {', '.join(kinds)} (default: all)"
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, metavar="KIND", help=told)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _megabytes(text: str) -> int:
    number = _positive(text)
    if number > _LARGEST:
        raise argparse.ArgumentTypeError(f"{text} MB are more than a segment can hold; the most is {_LARGEST}")
    return number


def _measured(options: argparse.Namespace) -> Iterator[tuple[Segment, list[Result]]]:
    for kind in options.kinds:
        segment = segments.start_up_segment() if kind == _START_UP else segments.segment(kind, options.size)
        yield segment, measure(segment, peers.peers(segment), options.rounds)


def _report(options: argparse.Namespace, measured: _Measured) -> Iterator[str]:
    yield _machine()
    yield f"Whole processes, files in the page cache, rounds: {options.rounds}, Kafka {kafka.VERSION}."
    yield from peers.missing()
    for segment, results in measured:
        yield ""
        size, uncompressed = (f"{round(count / 1e6, 2):g} MB" for count in (segment.size, segment.uncompressed))
        counts = f"{segment.records} records in {segment.batches} batches"
        yield f"{segment.name}: {size} on disk, {uncompressed} before compression, {counts}"
        for job in dict.fromkeys(result.peer.job for result in results):
            yield from _table(job, segment, [result for result in results if result.peer.job == job])


def _machine() -> str:
    load = os.getloadavg()[0]
    place = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {place}, load {load:.1f}."


def _table(job: str, segment: Segment, results: Sequence[Result]) -> Iterator[str]:
    rows = [(job, *_HEADINGS), *(_row(segment, each.peer.name, each.figures) for each in results if each.figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS) + 1)]
    for name, *figures in rows:
        cells = [
            name.ljust(max(widths[0], 42)),
            *(cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)),
        ]
        yield "  " + "  ".join(cells)
    yield from (f"  {result.peer.name} {result.failure}" for result in results if result.failure)


def _row(segment: Segment, name: str, figures: Figures) -> tuple[str, ...]:
    return (
        name,
        f"{figures.seconds.median:.2f}",
        _range(figures.seconds, 2),
        f"{figures.times_faster.median:.1f}" if figures.times_faster else "",
        _range(figures.times_faster, 1) if figures.times_faster else "",
        f"{segment.uncompressed / figures.seconds.median / 1e6:.0f}",
        f"{figures.peak_bytes / 1e6:.0f}",
    )


def _range(spread: Spread, digits: int) -> str:
    return f"{spread.least:.{digits}f}-{spread.most:.{digits}f}"


def _as_json(options: argparse.Namespace, measured: _Measured) -> dict[str, Any]:
    return {
        "schema": 1,
        "machine": _machine(),
        "kafka": kafka.VERSION,
        "size": options.size,
        "rounds": options.rounds,
        "missing": peers.missing(),
        "results": [_figures(segment, result) for segment, results in measured for result in results],
    }


def _figures(segment: Segment, result: Result) -> dict[str, Any]:
    return {
        "segment": segment.name,
        "bytes": segment.size,
        "uncompressed_bytes": segment.uncompressed,
        "records": segment.records,
        "batches": segment.batches,
        "program": result.peer.name,
        "job": result.peer.job,
        "figures": asdict(result.figures) if result.figures else None,
        "failure": result.failure or None,
    }


if __name__ == "__main__":
    raise SystemExit(main())
