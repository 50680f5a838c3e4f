"""The segments that are read, written once by Kafka's own classes into ``.lab/bench/``."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks import kafka
from lab.errors import LabError
from lab.places import CACHE
from lab.progress import say

START_UP = "start-up"
FOLDER = CACHE / "bench"
KINDS = ("plain", "tiny", "lz4", "zstd", "gzip", "snappy", "txn", "v0", "v1", "v1-gzip")
_FACTS = "facts.json"
_TWO_BATCHES = 20_000


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment and what its writer said of it.

    Attributes:
        name: kind of segment, or ``start-up``.
        path: the log file.
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
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size

    def into_page_cache(self) -> None:
        """Read the file once, so that no program pays for the disk."""
        with self.path.open("rb") as file:
            while file.read(1 << 20):
                pass


def segment(kind: str, megabytes: int) -> Segment:
    """The segment with so many MB of uncompressed batches; it is written if it is not there.

    Raises:
        LabError: it could not be written.
    """
    return _made(kind, kind, megabytes * 1_000_000, FOLDER / f"{kind}-{megabytes}")


def start_up_segment() -> Segment:
    """A segment of two batches, where a program has nothing to do but start."""
    return _made(START_UP, "plain", _TWO_BATCHES, FOLDER / START_UP)


def _made(name: str, kind: str, size: int, folder: Path) -> Segment:
    if not (folder / _FACTS).exists():
        _write(kind, size, folder)
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    path = folder / "00000000000000000000.log"
    return Segment(name, path, facts["records"], facts["batches"], facts["uncompressed"])


def _write(kind: str, size: int, folder: Path) -> None:
    say(f"writing {folder.name}, {size / 1e6:g} MB before compression")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [*kafka.program("Write"), kind, str(folder), str(size)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise LabError(f"Kafka's classes could not write {folder.name}:\n{outcome.stderr[-2000:]}")
    # Last, so that an interrupted writer leaves nothing that looks whole.
    (folder / _FACTS).write_text(outcome.stdout, encoding="utf-8")
