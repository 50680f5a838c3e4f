"""Who is measured: the commands of the toolkit, Kafka's dump tool, its recovery, its Java reader, aiokafka."""

import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks import kafka
from benchmarks.segments import FOLDER, START_UP, Segment
from lab.errors import LabError

BATCHES = "batches"
RECORDS = "records"
STATE = "state"
JOBS = (BATCHES, RECORDS, STATE)
TOOLKIT = "kforensics"
DUMP = f"{TOOLKIT} dump"
PRINT_DATA_LOG = f"{DUMP} --print-data-log"
PARQUET = f"{DUMP} --records --format parquet"
LSO = f"{TOOLKIT} lso"
TRANSACTIONS = f"{TOOLKIT} transactions"
PRODUCERS = f"{TOOLKIT} producers"
AUDIT = f"{TOOLKIT} audit"
STATE_KINDS = ("plain", "tiny", "txn")
"""Segments that are recovered: the others would say of the codec what dumping them says."""
_DUMP_LOG = "kafka-dump-log"
_AS_PARQUET = ("--records", "--format", "parquet")
_AIOKAFKA = Path(__file__).with_name("read_with_aiokafka.py")


@dataclass(frozen=True, slots=True)
class Peer:
    """A program and the job it does.

    Attributes:
        name: what the table calls it.
        job: one of JOBS; programs with one job are compared with each other.
        words: the command but for what it reads, which comes last.
        counts: whether it prints JSON with the number of records it met.
        base: whether the others of this job are compared with it.
        beside: whether it reads what lies beside the log, too.
    """

    name: str
    job: str
    words: tuple[str, ...]
    counts: bool = False
    base: bool = False
    beside: bool = False

    def command(self, segment: Segment) -> list[str]:
        """What to run for this segment."""
        return [*self.words, str(segment.folder if self.beside else segment.path)]


def peers(segment: Segment, *, jobs: Collection[str] = JOBS, readers: bool = True) -> list[Peer]:
    """Those that read this segment, Kafka's own program first in each job.

    Args:
        segment: what they read.
        jobs: what they do.
        readers: whether those that print nothing come along.
    """
    wanted = [*_dumps(BATCHES)]
    if segment.name != START_UP:
        wanted += [*(_readers(BATCHES) if readers else ()), *_dumps(RECORDS), *(_readers(RECORDS) if readers else ())]
    if segment.name in STATE_KINDS:
        wanted += _state()
    return [peer for peer in wanted if peer.job in jobs]


def toolkit() -> list[Peer]:
    """The commands that dump, with nothing but standard output to write to, content with damage."""
    dump = (command(), "dump", "--fail-on", "never")
    return [
        Peer(DUMP, BATCHES, dump),
        Peer(PRINT_DATA_LOG, RECORDS, (*dump, "--print-data-log")),
        Peer(PARQUET, RECORDS, (*dump, *_AS_PARQUET)),
    ]


def verdicts(*names: str) -> list[Peer]:
    """The commands that judge, content with what they find.

    Args:
        names: LSO, TRANSACTIONS, PRODUCERS or AUDIT.
    """
    return [judging(name, STATE) for name in names]


def judging(name: str, job: str, *words: str, base: bool = False) -> Peer:
    """A command that judges, content with what it finds.

    Args:
        name: LSO, TRANSACTIONS, PRODUCERS or AUDIT.
        job: with whom it is compared.
        words: options, which the table shows.
        base: whether the others of this job are compared with it.
    """
    asked = (command(), name.removeprefix(f"{TOOLKIT} "), "--quiet", "--fail-on", "never", *words)
    return Peer(" ".join([name, *words]), job, asked, base=base, beside=True)


def missing() -> list[str]:
    """A sentence for each peer that is not there."""
    if find_spec("aiokafka") is None:
        return ["aiokafka is not installed in this environment, so it was left out; pip install aiokafka adds it."]
    return []


def command() -> str:
    """The toolkit's command.

    Raises:
        LabError: it is not installed beside this interpreter.
    """
    path = Path(sys.executable).with_name(TOOLKIT)
    if not path.exists():
        raise LabError(f"There is no command kforensics beside {sys.executable}: install the package, or make bench.")
    return str(path)


def _dumps(job: str) -> list[Peer]:
    dump_log, dump = kafka.dump_log(), (command(), "dump")
    if job == BATCHES:
        return [Peer(_DUMP_LOG, job, (*dump_log, "--files"), base=True), Peer(DUMP, job, dump)]
    return [
        Peer(f"{_DUMP_LOG} --print-data-log", job, (*dump_log, "--print-data-log", "--files"), base=True),
        Peer(PRINT_DATA_LOG, job, (*dump, "--print-data-log")),
        Peer(PARQUET, job, (*dump, *_AS_PARQUET)),
    ]


def _readers(job: str) -> list[Peer]:
    readers = [Peer("Kafka's Java reader", job, (*kafka.program("Read"), job), counts=True)]
    if not missing():
        readers.append(Peer("aiokafka", job, (sys.executable, str(_AIOKAFKA), job), counts=True))
    return readers


def _state() -> list[Peer]:
    recover = Peer("LogSegment.recover", STATE, kafka.recovery(FOLDER), counts=True, base=True)
    return [recover, *verdicts(LSO, TRANSACTIONS, AUDIT)]
