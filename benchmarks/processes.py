"""``python -m benchmarks.processes``: how much faster an audit of one large partition is with two processes."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks import bars, segments
from benchmarks.measure import Result, measure
from benchmarks.peers import AUDIT, evaluating
from benchmarks.tables import aligned
from lab.errors import LabError

_SEGMENTS = 4
_JOB = "audit"
_HEADINGS = ("median s", "min-max s", "peak MB")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the partitions, measure, print the table, remove them; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description="Measure kforensics audit.")
    help_text = f"MB of each of the {_SEGMENTS} segments (default: %(default)s)"
    parser.add_argument("--size", type=int, default=bars.SIZE, metavar="MB", help=help_text)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each runs (default: %(default)s)")
    help_text = "kinds of segment (default: plain txn)"
    default = ("plain", "txn")
    parser.add_argument("--kinds", nargs="+", choices=segments.KINDS, default=default, metavar="KIND", help=help_text)
    parser.add_argument("--records", action="store_true", help="have the audit decode every record too")
    options = parser.parse_args(arguments)
    try:
        measured = {kind: _measured(kind, options) for kind in options.kinds}
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    for kind, results in measured.items():
        print("\n".join(_table(kind, options.size, results)))
    return int(any(result.failure for results in measured.values() for result in results))


def _measured(kind: str, options: argparse.Namespace) -> list[Result]:
    audit = partial(evaluating, AUDIT, _JOB, *(["--records"] if options.records else []))
    with segments.partition(kind, options.size, _SEGMENTS) as partition:
        return measure(partition, [audit("--processes", "1", base=True), audit("--processes", "2")], options.rounds)


def _table(kind: str, megabytes: int, results: Sequence[Result]) -> Iterator[str]:
    name = f"{kind}, {_SEGMENTS} segments of {megabytes} MB"
    yield from aligned([(name, *_HEADINGS), *(_row(result) for result in results if result.metrics)])
    yield from (f"  {result.peer.name} {result.failure}" for result in results if result.failure)
    yield from aligned(bars.rows([bars.processes_line(kind, result) for result in results if not result.peer.base]))
    yield ""


def _row(result: Result) -> tuple[str, ...]:
    if result.metrics is None:
        return result.peer.name, "", "", ""
    seconds = result.metrics.seconds
    between = f"{seconds.least:.2f}-{seconds.most:.2f}"
    return result.peer.name, f"{seconds.median:.2f}", between, f"{result.metrics.peak_bytes / 1e6:.0f}"


if __name__ == "__main__":
    raise SystemExit(main())
