"""``python -m benchmarks.speed``: how fast segments are dumped and checked, compared with Kafka's own programs."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import agreement, bars, kafka, peers, segments
from benchmarks.measure import Measured, Metrics, Result, Spread, measure
from benchmarks.segments import START_UP, Segment
from benchmarks.tables import aligned
from lab.errors import LabError

_LARGEST = 2_000
_HEADINGS = ("median s", "min-max s", "times faster", "round by round", "MB/s", "peak MB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is missing, measure, print the table; 1 if a prerequisite is missing or a program failed."""
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="Measure kforensics.")
    help_text = f"MB of batches per segment, before compression (default: %(default)s; the bars are for {bars.SIZE})"
    parser.add_argument("--size", type=_megabytes, default=50, metavar="MB", help=help_text)
    help_text = "how often each program runs (default: %(default)s)"
    parser.add_argument("--rounds", type=_positive, default=3, metavar="N", help=help_text)
    kinds = [START_UP, *segments.KINDS]
    help_text = f"segments to read, of {', '.join(kinds)} (default: all)"
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, metavar="KIND", help=help_text)
    help_text = f"what is done, of {', '.join(peers.JOBS)} (default: all)"
    parser.add_argument(
        "--jobs", nargs="+", choices=peers.JOBS, default=list(peers.JOBS), metavar="JOB", help=help_text
    )
    help_text = "leave out Kafka's Java reader and aiokafka, against which no bar is set"
    parser.add_argument("--no-readers", dest="readers", action="store_false", help=help_text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file too")
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
        segment = segments.start_up_segment() if kind == START_UP else segments.segment(kind, options.size)
        wanted = peers.peers(segment, jobs=options.jobs, readers=options.readers)
        if wanted:
            yield segment, _compared_with_kafka(segment, measure(segment, wanted, options.rounds))


def _compared_with_kafka(segment: Segment, results: list[Result]) -> list[Result]:
    """Mark commands that disagree with Kafka as failed, however fast they are."""
    if all(result.peer.job != peers.STATE for result in results):
        return results
    wrong = agreement.disagreement(segment)
    return [_failed(result, wrong) if wrong and result.peer.reads_folder else result for result in results]


def _failed(result: Result, why: str) -> Result:
    return replace(result, metrics=None, failure=result.failure or why)


def _report(options: argparse.Namespace, measured: Measured) -> Iterator[str]:
    yield _machine()
    yield f"Whole processes, files in the page cache, rounds: {options.rounds}, Kafka {kafka.VERSION}."
    yield from _left_out(options)
    for segment, results in measured:
        yield ""
        size, uncompressed = (f"{round(count / 1e6, 2):g} MB" for count in (segment.size, segment.uncompressed))
        counts = f"{segment.records} records in {segment.batches} batches"
        yield f"{segment.name}: {size} on disk, {uncompressed} before compression, {counts}"
        for job in dict.fromkeys(result.peer.job for result in results):
            yield from _table(job, segment, [result for result in results if result.peer.job == job])
    yield from _bars(options, bars.lines(measured))


def _left_out(options: argparse.Namespace) -> list[str]:
    return peers.missing() if options.readers else ["Kafka's Java reader and aiokafka were left out, as requested."]


def _bars(options: argparse.Namespace, lines: Sequence[bars.Line]) -> Iterator[str]:
    yield ""
    note = "" if options.size == bars.SIZE else f" They are meant for --size {bars.SIZE}; this is {options.size}."
    yield f"bars: {sum(line.holds for line in lines)} of {len(lines)} hold.{note}"
    yield from aligned(bars.rows(lines))


def _machine() -> str:
    load = os.getloadavg()[0]
    place = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {place}, load {load:.1f}."


def _table(job: str, segment: Segment, results: Sequence[Result]) -> Iterator[str]:
    yield from aligned(
        [
            (job, *_HEADINGS),
            *(_row(segment, each.peer.name, each.metrics) for each in results if each.metrics),
        ]
    )
    yield from (f"  {result.peer.name} {result.failure}" for result in results if result.failure)
    for result in results:
        if result.peer.name.startswith(peers.TOOLKIT):
            first = f"{result.first_run.seconds:.2f} s, {result.first_run.peak / 1e6:.0f} MB"
            yield f"  first run of {result.peer.name}, not counted: {first}"


def _row(segment: Segment, name: str, metrics: Metrics) -> tuple[str, ...]:
    return (
        name,
        f"{metrics.seconds.median:.2f}",
        _range(metrics.seconds, 2),
        f"{metrics.times_faster.median:.1f}" if metrics.times_faster else "",
        _range(metrics.times_faster, 1) if metrics.times_faster else "",
        f"{segment.uncompressed / metrics.seconds.median / 1e6:.0f}",
        f"{metrics.peak_bytes / 1e6:.0f}",
    )


def _range(spread: Spread, digits: int) -> str:
    return f"{spread.least:.{digits}f}-{spread.most:.{digits}f}"


def _as_json(options: argparse.Namespace, measured: Measured) -> dict[str, Any]:
    return {
        "schema": 1,
        "machine": _machine(),
        "kafka": kafka.VERSION,
        "size": options.size,
        "rounds": options.rounds,
        "missing": _left_out(options),
        "results": [_result_json(segment, result) for segment, results in measured for result in results],
        "bars": [asdict(line) | {"holds": line.holds} for line in bars.lines(measured)],
    }


def _result_json(segment: Segment, result: Result) -> dict[str, Any]:
    return {
        "segment": segment.name,
        "bytes": segment.size,
        "uncompressed_bytes": segment.uncompressed,
        "records": segment.records,
        "batches": segment.batches,
        "program": result.peer.name,
        "job": result.peer.job,
        "first_run": asdict(result.first_run),
        "figures": asdict(result.metrics) if result.metrics else None,
        "failure": result.failure or None,
    }


if __name__ == "__main__":
    raise SystemExit(main())
