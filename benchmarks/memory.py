"""``python -m benchmarks.memory``: how much memory commands use for files far larger than that."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from benchmarks import bars, large, peers, segments
from benchmarks.large import Group
from benchmarks.measure import Run, run_once
from benchmarks.peers import AUDIT, LSO, PRODUCERS, TRANSACTIONS, Peer
from benchmarks.tables import aligned
from lab.errors import LabError
from lab.progress import say

_DUMP, _VERDICTS, _PRODUCERS = _PARTS = ("dump", "verdicts", "producers")
_HEADINGS = ("MB", "seconds", "peak MB", "times small", "bar holds")


@dataclass(frozen=True, slots=True)
class _Taken:
    """The memory and time a command took for a file.

    Attributes:
        command: its name.
        file: kind of file.
        megabytes: of log in it.
        run: the process.
        small: peak memory of the smallest file of the same group.
        many_producers: whether it has to keep the state of very many producers.
    """

    command: str
    file: str
    megabytes: float
    run: Run
    small: int
    many_producers: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, run every command on each, print the table, remove the files; 1 when something failed."""
    options = _options(arguments)
    try:
        taken = [one for part in options.parts for one in _part(part, options)]
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(_report(taken)))
    return int(any(one.run.failure for one in taken))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description="Measure the memory of commands.")
    help_text = "no file or partition larger than this (default: %(default)s, as large as the requirements say)"
    parser.add_argument("--limit", type=int, default=large.LARGEST_MB, metavar="MB", help=help_text)
    help_text = "how many producers write to one partition (default: %(default)s)"
    parser.add_argument("--producers", type=int, default=1_000_000, metavar="N", help=help_text)
    help_text = f"what to measure, of {', '.join(_PARTS)} (default: all)"
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS, metavar="PART", help=help_text)
    options = parser.parse_args(arguments)
    if options.limit < large.REPEATS:
        parser.error(f"--limit {options.limit} is less than {large.REPEATS}")
    if options.producers < 1:
        parser.error(f"--producers {options.producers} is less than 1")
    return options


def _part(part: str, options: argparse.Namespace) -> Iterator[_Taken]:
    commands = {
        _DUMP: peers.toolkit(),
        _VERDICTS: peers.verdicts(LSO, TRANSACTIONS, PRODUCERS, AUDIT),
        _PRODUCERS: peers.verdicts(LSO, PRODUCERS, AUDIT),
    }[part]
    for files in _groups(part, options):
        with files as group:
            for peer in commands:
                # What a command compiles once it compiles here, and that may take more memory than the command itself.
                run_once(peer, group[0])
                yield from _runs(peer, group, many_producers=part == _PRODUCERS)


def _groups(part: str, options: argparse.Namespace) -> list[AbstractContextManager[Group]]:
    limit: int = options.limit
    groups: dict[str, list[AbstractContextManager[Group]]] = {
        _DUMP: [large.repeated(limit), large.offset_gaps(limit)],
        _VERDICTS: [large.partitions(kind, limit) for kind in ("plain", "txn")],
        _PRODUCERS: [large.producers(kind, options.producers) for kind in segments.PRODUCERS],
    }
    return groups[part]


def _runs(peer: Peer, group: Group, *, many_producers: bool) -> Iterator[_Taken]:
    small = 0
    for file in group:
        run, megabytes = run_once(peer, file), file.size / 1e6
        label = f"{peer.name}, {file.name}, {megabytes:.0f} MB"
        say(f"{label}: {run.seconds:.1f} s, {run.peak / 1e6:.0f} MB {run.failure}".rstrip())
        small = small or run.peak
        yield _Taken(peer.name, file.name, megabytes, run, small, many_producers)


def _report(taken: Sequence[_Taken]) -> Iterator[str]:
    yield "Peak resident memory of whole processes, the largest where there are several, output to the null device."
    for command in dict.fromkeys(one.command for one in taken):
        mine = [one for one in taken if one.command == command]
        yield ""
        yield from aligned([(command, *_HEADINGS), *map(_row, mine)])
        yield from (f"  {one.file}, {one.megabytes:.0f} MB: {one.run.failure}" for one in mine if one.run.failure)


def _row(one: _Taken) -> tuple[str, ...]:
    peak = None if one.run.failure else one.run.peak
    line = bars.memory_line(one.command, one.file, peak, many_producers=one.many_producers)
    return (
        one.file,
        f"{one.megabytes:.0f}",
        f"{one.run.seconds:.1f}",
        f"{one.run.peak / 1e6:.0f}",
        f"{one.run.peak / one.small:.2f}",
        f"{line.verdict} ({line.bar:g})",
    )


if __name__ == "__main__":
    raise SystemExit(main())
