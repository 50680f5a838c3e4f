"""``python -m benchmarks.memory``: how much memory the dump takes of files far larger than the memory."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import bars, peers, segments
from benchmarks.measure import Run, run_once
from benchmarks.peers import Peer
from benchmarks.segments import FOLDER, Segment
from benchmarks.tables import aligned
from lab.errors import LabError
from lab.progress import say

_SPARSE_MB, _REPEATED_MB = 100_000, 8_000
_REPEATS = 8
_ROOM_TO_LEAVE = 2_000_000_000
_HEADINGS = ("seconds", "peak MB", "times small", "bar holds")

_Pair = tuple[Segment, Segment]
_Measured = tuple[Peer, _Pair, tuple[Run, Run]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, run every command on each, print the table, remove the files; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description="Measure the memory of a dump.")
    told = "no file larger than this (default: %(default)s, which means: as large as the goals say)"
    parser.add_argument("--limit", type=int, default=_SPARSE_MB, metavar="MB", help=told)
    limit = parser.parse_args(arguments).limit
    if limit < _REPEATS:
        parser.error(f"--limit {limit} is less than {_REPEATS}")
    try:
        with _pairs(limit) as pairs:
            measured = list(_measured(pairs))
            report = list(_report(measured))
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(report))
    return int(any(run.failure for _, _, runs in measured for run in runs))


@contextmanager
def _pairs(limit: int) -> Iterator[list[_Pair]]:
    """A segment and the same repeated to a large file, a small hole behind a few batches and a vast one."""
    repeated = min(_REPEATED_MB, limit)
    plain = segments.segment("plain", repeated // _REPEATS)
    folder = FOLDER / "memory"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield [
            (plain, _repeated(plain, folder / "repeated")),
            (_hole(repeated // _REPEATS, folder / "small"), _hole(min(_SPARSE_MB, limit), folder / "sparse")),
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _repeated(plain: Segment, folder: Path) -> Segment:
    free = shutil.disk_usage(FOLDER).free
    if free < plain.size * _REPEATS + _ROOM_TO_LEAVE:
        raise LabError(f"{free / 1e9:.0f} GB are free under .lab/bench, too few; a smaller --limit needs less.")
    path = _log(folder)
    say(f"writing {plain.size * _REPEATS / 1e6:.0f} MB")
    with path.open("wb") as out:
        for _ in range(_REPEATS):
            with plain.path.open("rb") as file:
                shutil.copyfileobj(file, out, 1 << 20)
    counts = (count * _REPEATS for count in (plain.records, plain.batches, plain.uncompressed))
    return Segment(f"plain, {_REPEATS} times", path, *counts)


def _hole(megabytes: int, folder: Path) -> Segment:
    start = segments.start_up_segment()
    path = _log(folder)
    shutil.copyfile(start.path, path)
    with path.open("r+b") as file:
        file.truncate(megabytes * 1_000_000)
    return Segment("two batches and a hole", path, start.records, start.batches, start.uncompressed)


def _log(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder / "00000000000000000000.log"


def _measured(pairs: Sequence[_Pair]) -> Iterator[_Measured]:
    for peer in peers.toolkit():
        # What a command compiles once it compiles here, and that may take more memory than the command itself.
        for small, _ in pairs:
            run_once(peer, small)
        for small, large in pairs:
            yield peer, (small, large), (_run(peer, small), _run(peer, large))


def _run(peer: Peer, file: Segment) -> Run:
    run = run_once(peer, file)
    told = f"{peer.name}, {file.name}, {file.size / 1e6:.0f} MB"
    say(f"{told}: {run.seconds:.1f} s, {run.peak / 1e6:.0f} MB {run.failure}".rstrip())
    return run


def _report(measured: Sequence[_Measured]) -> Iterator[str]:
    yield "Peak resident memory of whole processes, output to the null device."
    for name in dict.fromkeys(peer.name for peer, _, _ in measured):
        mine = [(files, runs) for peer, files, runs in measured if peer.name == name]
        yield ""
        yield from aligned(
            [(name, "MB", *_HEADINGS), *(row for files, runs in mine for row in _rows(name, files, runs))]
        )
        failed = ((file, run) for files, runs in mine for file, run in zip(files, runs, strict=True) if run.failure)
        yield from (f"  {file.name}, {file.size / 1e6:.0f} MB: {run.failure}" for file, run in failed)


def _rows(name: str, files: _Pair, runs: tuple[Run, Run]) -> Iterator[tuple[str, ...]]:
    for file, run in zip(files, runs, strict=True):
        yield (
            file.name,
            f"{file.size / 1e6:.0f}",
            f"{run.seconds:.1f}",
            f"{run.peak / 1e6:.0f}",
            f"{run.peak / runs[0].peak:.2f}",
            bars.memory_line(name, file.name, None if run.failure else run.peak).verdict,
        )


if __name__ == "__main__":
    raise SystemExit(main())
