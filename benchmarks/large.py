"""Files far larger than the memory limit of a command, each with a smaller one of its kind to compare with."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import segments
from benchmarks.segments import FOLDER, Segment
from lab.progress import say

REPEATS = 8
_FOLDER = FOLDER / "memory"
_SPARSE_MB, _LARGE_MB = 100_000, 8_000

LARGEST_MB = _SPARSE_MB
Group = Sequence[Segment]
"""Files that are compared with each other, the smallest first."""


@contextmanager
def repeated(limit: int) -> Iterator[Group]:
    """A segment, and its bytes eight times over in one file; its offsets start again seven times.

    Args:
        limit: MB of the larger file, at most.

    Raises:
        LabError: there is no room, or the segment could not be written.
    """
    plain = segments.segment("plain", _small(limit))
    segments.check_room(_small(limit) * REPEATS)
    with _made("repeated") as path:
        say(f"writing {plain.size * REPEATS / 1e6:.0f} MB")
        with path.open("wb") as out:
            for _ in range(REPEATS):
                with plain.path.open("rb") as file:
                    shutil.copyfileobj(file, out, 1 << 20)
        counts = (count * REPEATS for count in (plain.records, plain.batches, plain.uncompressed))
        yield plain, Segment(f"plain, {REPEATS} times", path, *counts)


@contextmanager
def offset_gaps(limit: int) -> Iterator[Group]:
    """Two sparse files of a few batches and zeros: one small, one very large.

    Args:
        limit: MB of the larger file, at most.

    Raises:
        LabError: the batches could not be written.
    """
    with _made("small") as small, _made("sparse") as sparse:
        yield _sparse(small, _small(limit)), _sparse(sparse, min(_SPARSE_MB, limit))


@contextmanager
def partitions(kind: str, limit: int) -> Iterator[Group]:
    """A segment, and a partition that goes on for eight of that size.

    Args:
        kind: of segment.
        limit: MB of the partition, at most.

    Raises:
        LabError: there is no room, or they could not be written.
    """
    with segments.partition(kind, _small(limit), REPEATS) as partition:
        yield segments.segment(kind, _small(limit)), partition


@contextmanager
def producers(kind: str, count: int) -> Iterator[Group]:
    """A segment to which ten producers wrote, and one to which very many did.

    Args:
        kind: what they wrote, one of ``segments.PRODUCERS``.
        count: how many they are.

    Raises:
        LabError: they could not be written.
    """
    yield segments.many_producers(kind, 10), segments.many_producers(kind, count)


def _small(limit: int) -> int:
    return min(_LARGE_MB, limit) // REPEATS


@contextmanager
def _made(name: str) -> Iterator[Path]:
    folder = _FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder / "00000000000000000000.log"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sparse(path: Path, megabytes: int) -> Segment:
    start = segments.start_up_segment()
    shutil.copyfile(start.path, path)
    with path.open("r+b") as file:
        file.truncate(megabytes * 1_000_000)
    return Segment("two batches and a hole", path, start.records, start.batches, start.uncompressed)
