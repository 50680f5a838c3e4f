"""What the tests of the index lines share: one run over such files, and the golden runs to compare it with."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kforensics.kafka_dump.compared_files import IndexOptions
from kforensics.kafka_dump.index_lines import imitated_index
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.snapshot_lines import imitated_snapshot
from kforensics.kafka_dump.styles import STYLES, Style
from kforensics.kafka_dump.summaries import Summaries
from kforensics.kafka_dump.time_index_lines import imitated_time_index
from kforensics.kafka_dump.transaction_index_lines import imitated_transaction_index
from kforensics.parsers.format.rows import Damage
from lab.golden import GoldenRun, read_golden
from lab.golden.sandbox import DIRECTORY

SUFFIXES = (".index", ".timeindex", ".snapshot", ".txnindex")

Told = tuple[int, str, str]


def run(files: list[str], options: IndexOptions, style: Style, directory: str) -> Told:
    """Return exit code, stdout and stderr of a run over indexes and snapshots, from the working directory."""
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


def lines(path: str, options: IndexOptions, style: Style, summaries: Summaries) -> Iterator[str | Damage]:
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
    """Return files and options of a command line, None if it is about something else."""
    words = list(arguments)
    if words[:1] != ["--files"] or len(words) < 2:
        return None
    files, rest = [name for name in words[1].split(",") if name], words[2:]
    size = IndexOptions().max_message_size
    if "--max-message-size" in rest:
        at = rest.index("--max-message-size")
        if not rest[at + 1].lstrip("-").isdigit():
            return None
        size = int(rest[at + 1])
        del rest[at : at + 2]
    if set(rest) - {"--verify-index-only", "--index-sanity-check", "--deep-iteration"}:
        return None
    return files, IndexOptions("--verify-index-only" in rest, "--index-sanity-check" in rest, size)


@cache
def golden_runs(path: Path) -> list[GoldenRun]:
    """Return the runs of a golden file."""
    return read_golden(path)


def check_goldens(sample_logs: Path, style: Style, suffixes: tuple[str, ...], least_files: int = 1) -> int:
    """Compare with every golden run over so many files, all of these suffixes; return how many there were."""
    count, here = 0, Path.cwd()
    try:
        for golden in sorted((sample_logs / "golden").glob("*.json.xz")):
            os.chdir(sample_logs / golden.name.removesuffix(".json.xz"))
            for told in golden_runs(golden):
                asked = parse(told.arguments)
                if told.tool != style.release or asked is None or len(asked[0]) < least_files:
                    continue
                if all(name.endswith(suffixes) for name in asked[0]):
                    got = run(*asked, style, str(DIRECTORY))
                    assert got == (told.exit, told.stdout, told.stderr), (golden.name, told.arguments)
                    count += 1
    finally:
        os.chdir(here)
    assert count, "no golden run"
    return count


ALL_STYLES = list(STYLES.values())
