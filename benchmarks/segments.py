"""The segments and partitions that are read, written by Kafka's own classes into ``.lab/bench/``."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import kafka
from lab.errors import LabError
from lab.places import CACHE
from lab.progress import say

START_UP = "start-up"
FOLDER = CACHE / "bench"
KINDS = ("plain", "tiny", "lz4", "zstd", "gzip", "snappy", "txn", "v0", "v1", "v1-gzip")
PRODUCERS = ("once", "in-turn", "at-once")
"""How very many producers of one partition write."""
_FACTS = "facts.json"
_FIRST = "00000000000000000000.log"
_TWO_BATCHES = 20_000
_ROOM_TO_LEAVE = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment, or a partition of several, and what the writer said of it.

    Attributes:
        name: kind of segment, or ``start-up``.
        path: the log file, of a partition the folder.
        records: records in it, markers included.
        batches: batches in it.
        uncompressed: bytes of all batches before compression.
    """

    name: str
    path: Path
    records: int
    batches: int
    uncompressed: int

    @property
    def folder(self) -> Path:
        """Where the log lies with its indexes."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def logs(self) -> list[Path]:
        """Its log files, in their order."""
        return sorted(self.path.glob("*.log")) if self.path.is_dir() else [self.path]

    @property
    def size(self) -> int:
        """Bytes of its log."""
        return sum(path.stat().st_size for path in self.logs)

    def into_page_cache(self) -> None:
        """Read the log once, so that no program pays for the disk."""
        for path in self.logs:
            with path.open("rb") as file:
                while file.read(1 << 20):
                    pass


def segment(kind: str, megabytes: int) -> Segment:
    """The segment with so many MB of uncompressed batches; it is written if it is not there.

    Raises:
        LabError: it could not be written.
    """
    folder = FOLDER / f"{kind}-{megabytes}"
    return _read(kind, _made(folder, "Write", kind, str(folder), str(megabytes * 1_000_000), "1") / _FIRST)


def start_up_segment() -> Segment:
    """A segment of two batches, where a program has nothing to do but start."""
    folder = FOLDER / START_UP
    return _read(START_UP, _made(folder, "Write", "plain", str(folder), str(_TWO_BATCHES), "1") / _FIRST)


@contextmanager
def partition(kind: str, megabytes: int, count: int) -> Iterator[Segment]:
    """A partition of so many segments, which begins with the one of that kind; removed at the end.

    Args:
        kind: one of KINDS.
        megabytes: of uncompressed batches in each segment.
        count: segments.

    Raises:
        LabError: it could not be written, or there is no room for it.
    """
    check_room(megabytes * count)
    folder = FOLDER / f"{kind}-{megabytes}-{count}"
    try:
        yield _read(
            f"{kind}, {count} segments",
            _made(folder, "Write", kind, str(folder), str(megabytes * 1_000_000), str(count)),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def many_producers(kind: str, count: int) -> Segment:
    """A segment to which so many producers wrote one batch or three; it is written if it is not there.

    Args:
        kind: one of PRODUCERS.
        count: producers.

    Raises:
        LabError: it could not be written.
    """
    folder = FOLDER / f"producers-{kind}-{count}"
    return _read(f"{count} producers, {kind}", _made(folder, "Producers", kind, str(folder), str(count)) / _FIRST)


def check_room(megabytes: int) -> None:
    """Refuse to write more than fits.

    Raises:
        LabError: so much, and some more, is not free.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(FOLDER).free
    if free < megabytes * 1_000_000 + _ROOM_TO_LEAVE:
        raise LabError(f"{free / 1e9:.0f} GB are free under .lab/bench, too few; ask for less.")


def _read(name: str, path: Path) -> Segment:
    folder = path if path.is_dir() else path.parent
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    return Segment(name, path, facts["records"], facts["batches"], facts["uncompressed"])


def _made(folder: Path, program: str, *arguments: str) -> Path:
    """The folder that a Java program fills, once."""
    if not (folder / _FACTS).exists():
        say(f"writing {folder.name}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        outcome = subprocess.run([*kafka.program(program), *arguments], capture_output=True, text=True, check=False)
        if outcome.returncode != 0:
            raise LabError(f"Kafka's classes could not write {folder.name}:\n{outcome.stderr[-2000:]}")
        # Last, so that an interrupted writer leaves nothing that looks whole.
        (folder / _FACTS).write_text(outcome.stdout, encoding="utf-8")
    return folder
