"""``python -m benchmarks.duplicates``: how fast records are hashed, and duplicates found."""

import argparse
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks import segments
from benchmarks.segments import FOLDER, Segment
from benchmarks.tables import aligned
from kforensics.forensics.duplicates.content_duplicates import DEFAULT_MEMORY, content_duplicates
from kforensics.forensics.duplicates.record_reader import RecordReader, hidden_transactions
from kforensics.parsers.columns.hash_columns import hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.log.batches import batch_bytes, walk
from lab.errors import LabError
from lab.progress import say

_KINDS = ("plain", "tiny", "txn", "lz4", "zstd")
_HEADINGS = ("on one core", "seconds of it", "million records/s", "rows", "peak MB")
_HEADER = fixed_layout(BATCH_HEADER)

_Work = Callable[[], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each kind of segment, print the table; 1 when something failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.duplicates", description="Measure the search.")
    parser.add_argument("--size", type=int, default=1000, metavar="MB", help="of each segment (default: %(default)s)")
    size = parser.parse_args(arguments).size
    try:
        print("\n".join(aligned([_HEADINGS, *_measured(size)])))
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _measured(size: int) -> Iterator[tuple[str, ...]]:
    for kind in _KINDS:
        segment = segments.segment(kind, size)
        segment.into_page_cache()
        yield _row(f"{kind}: hash", segment.records, partial(_hashed, str(segment.path)))
        yield _row(f"{kind}: search, no duplicates", segment.records, partial(_searched, [str(segment.path)]))
    segment = segments.segment("plain", size)
    with _written_again(segment) as path:
        both = [str(segment.path), str(path)]
        for memory in (DEFAULT_MEMORY, DEFAULT_MEMORY // 8):
            name = f"plain: search, all duplicates, {memory >> 20} MB"
            yield _row(name, 2 * segment.records, partial(_searched, both, memory))


def _row(name: str, records: int, work: _Work) -> tuple[str, ...]:
    """Do the work in a process of its own."""
    say(name)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        seconds, rows, peak = pool.submit(_timed, work).result()
    return name, f"{seconds:.2f}", f"{records / seconds / 1e6:.1f}", str(rows), f"{peak >> 10}"


def _timed(work: _Work) -> tuple[float, int, int]:
    _compiled(0)
    start = time.process_time()
    rows = work()
    return time.process_time() - start, rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _compiled(_size: int) -> Kernels:
    kernels = load_kernels()
    if kernels is None:
        raise LabError("there are no kernels to measure")
    return kernels


def _hashed(path: str) -> int:
    with open_source(path) as source:
        return sum(len(chunk) for chunk in hash_chunks(source, say_nothing, _compiled, workers=0))


def _searched(paths: Sequence[str], memory: int = DEFAULT_MEMORY) -> int:
    reading = RecordReader(paths, hidden_transactions(None), kernels=_compiled, workers=0)
    return sum(len(rows) for rows in content_duplicates(reading, say_nothing, memory=memory))


def say_nothing(*_damage: object) -> None:
    """There is no damage in these segments."""


@contextmanager
def _written_again(segment: Segment) -> Iterator[Path]:
    """A second segment with the same records at the following offsets, by one other producer."""
    folder = FOLDER / "written-again"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / segment.path.name
    try:
        with open_source(segment.path) as source, path.open("wb") as file:
            for row in walk(source):
                if isinstance(row, Batch):
                    file.write(_by_another(batch_bytes(source, row), segment.records))
        yield path
    finally:
        shutil.rmtree(folder)


def _by_another(data: bytes, offsets: int) -> bytes:
    fields = dict(zip(_HEADER.names, _HEADER.unpack_from(data), strict=True))
    fields |= {"base_offset": fields["base_offset"] + offsets, "producer_id": 1_000_000, "producer_epoch": 0}
    changed = bytes(BATCH_HEADER.build(fields)) + data[_HEADER.size :]
    end = _HEADER.end_of("crc")
    return changed[: end - 4] + crc32c(changed[end:]).to_bytes(4, "big") + changed[end:]


if __name__ == "__main__":
    sys.exit(main())
