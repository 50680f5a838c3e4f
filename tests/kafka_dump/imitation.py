"""Helpers for the tests of index lines: imitated runs over indexes and snapshots, and golden runs to compare with."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kforensics.kafka_dump.index_lines import imitated_index, imitated_time_index, imitated_transaction_index
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.snapshot_lines import imitated_snapshot
from kforensics.kafka_dump.styles import STYLES, DumpStyle
from kforensics.kafka_dump.summaries import Summaries
from kforensics.kafka_dump.tool_options import IndexOptions
from kforensics.parsers.format.rows import Damage
from lab.golden import GoldenRun, read_golden
from lab.golden.sandbox import DIRECTORY

SUFFIXES = (".index", ".timeindex", ".snapshot", ".txnindex")

ToolOutput = tuple[int, str, str]


def run(files: list[str], options: IndexOptions, style: DumpStyle, directory: str) -> ToolOutput:
    """Return exit code, stdout and stderr of a run over indexes and snapshots in a working directory."""
    out: list[str] = []
    err: list[str] = []
    summaries = Summaries(directory)
    try:
        for path in files:
            out.append(f"Dumping {path}\n")
            for piece in lines(path, options, style, summaries):
                err.append(piece.detail + "\n") if isinstance(piece, Damage) else out.append(piece)
    except JavaError as error:
        err += [line + "\n" for line in error.stderr_lines()]
        return 1, "".join(out), "".join(err)
    err += [line + "\n" for line in summaries.lines(style)]
    return 0, "".join(out), "".join(err)


def lines(path: str, options: IndexOptions, style: DumpStyle, summaries: Summaries) -> Iterator[str | Damage]:
    """Return what is printed for one file."""
    suffix = Path(path).suffix
    if suffix == ".index":
        return imitated_index(path, options, style, summaries)
    if suffix == ".timeindex":
        return imitated_time_index(path, options, style, summaries)
    if suffix == ".snapshot":
        return imitated_snapshot(path, style)
    return imitated_transaction_index(path, summaries)


def parse(arguments: tuple[str, ...]) -> tuple[list[str], IndexOptions] | None:
    """Return the files and the options of a command line, or None if it has other options."""
    if arguments[:1] != ("--files",) or len(arguments) < 2:
        return None
    files, rest = [name for name in arguments[1].split(",") if name], list(arguments[2:])
    size = IndexOptions().max_message_size
    if "--max-message-size" in rest:
        position = rest.index("--max-message-size")
        if not rest[position + 1].lstrip("-").isdigit():
            return None
        size = int(rest[position + 1])
        del rest[position : position + 2]
    if set(rest) - {"--verify-index-only", "--index-sanity-check", "--deep-iteration"}:
        return None
    return files, IndexOptions("--verify-index-only" in rest, "--index-sanity-check" in rest, size)


@cache
def golden_runs(path: Path) -> list[GoldenRun]:
    """Return the runs of a golden file."""
    return read_golden(path)


def check_goldens(sample_logs: Path, style: DumpStyle, suffixes: tuple[str, ...], least_files: int = 1) -> int:
    """Compare all golden runs over files with these suffixes, and return their number.

    Args:
        sample_logs: the folder of the samples.
        style: the release to imitate.
        suffixes: the suffixes of the files.
        least_files: how many files a run must have.
    """
    count, directory = 0, Path.cwd()
    try:
        for golden in sorted((sample_logs / "golden").glob("*.json.xz")):
            os.chdir(sample_logs / golden.name.removesuffix(".json.xz"))
            for expected in golden_runs(golden):
                command = parse(expected.arguments)
                if expected.tool != style.release or command is None or len(command[0]) < least_files:
                    continue
                if all(name.endswith(suffixes) for name in command[0]):
                    output = run(*command, style, str(DIRECTORY))
                    assert output == (expected.exit, expected.stdout, expected.stderr), (
                        golden.name,
                        expected.arguments,
                    )
                    count += 1
    finally:
        os.chdir(directory)
    assert count, "no golden run"
    return count


ALL_STYLES = list(STYLES.values())
