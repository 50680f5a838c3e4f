"""Who is measured: the commands of the toolkit, Kafka's dump tool, Kafka's Java reader, aiokafka."""

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks import kafka
from benchmarks.segments import FOLDER, Segment
from lab.errors import LabError

BATCHES = "batches"
RECORDS = "records"
_DUMP_LOG = "kafka-dump-log"
_AIOKAFKA = Path(__file__).with_name("read_with_aiokafka.py")


@dataclass(frozen=True, slots=True)
class Peer:
    """A program and the job it does.

    Attributes:
        name: what the table calls it.
        job: ``batches`` or ``records``; programs with one job are compared with each other.
        before: the command up to the file.
        after: the command from after the file.
        counts: whether it prints JSON with the number of records it met.
        base: whether the others of this job are compared with it.
    """

    name: str
    job: str
    before: tuple[str, ...]
    after: tuple[str, ...] = ()
    counts: bool = False
    base: bool = False

    def command(self, path: Path) -> list[str]:
        """What to run for this file."""
        return [*self.before, str(path), *self.after]


def peers(segment: Segment) -> list[Peer]:
    """Those that read this segment, Kafka's dump tool first in each job."""
    dump_log = kafka.dump_log()
    batch_lines = [
        Peer(_DUMP_LOG, BATCHES, (*dump_log, "--files"), base=True),
        Peer("kforensics dump", BATCHES, (_kforensics(), "dump")),
    ]
    if segment.name == "start-up":
        return batch_lines
    record_lines = [
        Peer(f"{_DUMP_LOG} --print-data-log", RECORDS, (*dump_log, "--print-data-log", "--files"), base=True),
        Peer("kforensics dump --print-data-log", RECORDS, (_kforensics(), "dump", "--print-data-log")),
        Peer("kforensics dump --records --format parquet", RECORDS, (_kforensics(), "dump"), _PARQUET),
    ]
    return [*batch_lines, *_readers(BATCHES), *record_lines, *_readers(RECORDS)]


def missing() -> list[str]:
    """A sentence for each peer that is not there."""
    if find_spec("aiokafka") is None:
        return ["aiokafka is not installed in this environment, so it was left out; pip install aiokafka adds it."]
    return []


_PARQUET = ("--records", "--format", "parquet", "--output", str(FOLDER / "records.parquet"))


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
