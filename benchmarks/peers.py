"""Who is measured: the commands of the toolkit, Kafka's dump tool, Kafka's Java reader, aiokafka."""

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks import kafka
from benchmarks.segments import START_UP, Segment
from lab.errors import LabError

BATCHES = "batches"
RECORDS = "records"
DUMP = "kforensics dump"
PRINT_DATA_LOG = f"{DUMP} --print-data-log"
PARQUET = f"{DUMP} --records --format parquet"
_DUMP_LOG = "kafka-dump-log"
_AS_PARQUET = ("--records", "--format", "parquet")
_AIOKAFKA = Path(__file__).with_name("read_with_aiokafka.py")


@dataclass(frozen=True, slots=True)
class Peer:
    """A program and the job it does.

    Attributes:
        name: what the table calls it.
        job: ``batches`` or ``records``; programs with one job are compared with each other.
        words: the command but for the file, which comes last.
        counts: whether it prints JSON with the number of records it met.
        base: whether the others of this job are compared with it.
    """

    name: str
    job: str
    words: tuple[str, ...]
    counts: bool = False
    base: bool = False

    def command(self, path: Path) -> list[str]:
        """What to run for this file."""
        return [*self.words, str(path)]


def peers(segment: Segment, *, readers: bool = True) -> list[Peer]:
    """Those that read this segment, Kafka's dump tool first in each job.

    Args:
        segment: what they read.
        readers: whether those that print nothing come along.
    """
    dump_log = kafka.dump_log()
    batch_lines = [
        Peer(_DUMP_LOG, BATCHES, (*dump_log, "--files"), base=True),
        Peer(DUMP, BATCHES, (_kforensics(), "dump")),
    ]
    if segment.name == START_UP:
        return batch_lines
    record_lines = [
        Peer(f"{_DUMP_LOG} --print-data-log", RECORDS, (*dump_log, "--print-data-log", "--files"), base=True),
        Peer(PRINT_DATA_LOG, RECORDS, (_kforensics(), "dump", "--print-data-log")),
        Peer(PARQUET, RECORDS, (_kforensics(), "dump", *_AS_PARQUET)),
    ]
    if not readers:
        return [*batch_lines, *record_lines]
    return [*batch_lines, *_readers(BATCHES), *record_lines, *_readers(RECORDS)]


def toolkit() -> list[Peer]:
    """The commands of the toolkit alone, with nothing but standard output to write to, content with damage."""
    dump = (_kforensics(), "dump", "--fail-on", "never")
    return [
        Peer(DUMP, BATCHES, dump),
        Peer(PRINT_DATA_LOG, RECORDS, (*dump, "--print-data-log")),
        Peer(PARQUET, RECORDS, (*dump, *_AS_PARQUET)),
    ]


def missing() -> list[str]:
    """A sentence for each peer that is not there."""
    if find_spec("aiokafka") is None:
        return ["aiokafka is not installed in this environment, so it was left out; pip install aiokafka adds it."]
    return []


def _readers(job: str) -> list[Peer]:
    readers = [Peer("Kafka's Java reader", job, (*kafka.program("Read"), job), counts=True)]
    if not missing():
        readers.append(Peer("aiokafka", job, (sys.executable, str(_AIOKAFKA), job), counts=True))
    return readers


def _kforensics() -> str:
    path = Path(sys.executable).with_name("kforensics")
    if not path.exists():
        raise LabError(f"There is no command kforensics beside {sys.executable}: install the package, or make bench.")
    return str(path)
