"""The programs that are measured: the toolkit's commands, Kafka's dump tool, recovery and Java reader, aiokafka."""

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
OPTIONS = "options"
JOBS = (BATCHES, RECORDS, STATE, OPTIONS)
TOOLKIT = "kforensics"
DUMP = f"{TOOLKIT} dump"
PRINT_DATA_LOG = f"{DUMP} --print-data-log"
PARQUET = f"{DUMP} --records --format parquet"
LSO = f"{TOOLKIT} lso"
TRANSACTIONS = f"{TOOLKIT} transactions"
PRODUCERS = f"{TOOLKIT} producers"
AUDIT = f"{TOOLKIT} audit"
STATE_KINDS = ("plain", "tiny", "txn")
"""Segments that are recovered: the others would only show what dumping them already shows about their codec."""
OPTION_KINDS = ("txn", "tiny")
"""Segments that are dumped with every option."""
_FILTERS = (
    "--offset 1000:",
    "--time 1:",
    "--producer-id 1",
    "--transactional",
    "--no-control",
    "--key 1",
    "--key [0-4]$",
    "--isolation read_committed",
    "--aborted",
    "--limit 1000000000",
)
_PAYLOADS = ("--key-format hex", "--value-format base64", "--redact")
_ROWS = tuple(f"--{table} --format {name}" for table in ("records", "batches") for name in ("ndjson", "json", "csv"))
OPTION_ROWS = (
    *(f"--print-data-log {option}" for option in (*_FILTERS, *_PAYLOADS)),
    *_ROWS,
    *(f"--records --format {name}" for name in ("parquet", "arrow")),
    *(
        f"--records --format {name} {option}"
        for name in ("ndjson", "parquet")
        for option in ("--isolation read_committed", "--transactional", "--key 1", "--redact")
    ),
)
"""The options of a dump that are compared with plain printing."""
_DUMP_LOG = "kafka-dump-log"
_AS_PARQUET = ("--records", "--format", "parquet")
_AIOKAFKA = Path(__file__).with_name("read_with_aiokafka.py")


@dataclass(frozen=True, slots=True)
class Peer:
    """A program and the job it does.

    Attributes:
        name: what the table calls it.
        job: one of JOBS; programs with one job are compared with each other.
        command_line: the command without its input, which comes last.
        counts: whether it prints JSON with the number of records it read.
        base: whether the others of this job are compared with it.
        reads_folder: whether it reads the folder, sidecar files included, not only the log.
    """

    name: str
    job: str
    command_line: tuple[str, ...]
    counts: bool = False
    base: bool = False
    reads_folder: bool = False

    def command(self, segment: Segment) -> list[str]:
        """What to run for this segment."""
        return [*self.command_line, str(segment.folder if self.reads_folder else segment.path)]


def peers(segment: Segment, *, jobs: Collection[str] = JOBS, readers: bool = True) -> list[Peer]:
    """The programs that read this segment, Kafka's own first in each job.

    Args:
        segment: what they read.
        jobs: what they do.
        readers: whether to include those that print nothing.
    """
    wanted = [*_dumps(BATCHES)]
    if segment.name != START_UP:
        wanted += [*(_readers(BATCHES) if readers else ()), *_dumps(RECORDS), *(_readers(RECORDS) if readers else ())]
    if segment.name in STATE_KINDS:
        wanted += _state()
    if segment.name in OPTION_KINDS:
        wanted += options()
    return [peer for peer in wanted if peer.job in jobs]


def options() -> list[Peer]:
    """Plain printing, and a dump with each of the options."""
    plain, *others = ("--print-data-log", *OPTION_ROWS)
    dump = (command(), "dump", "--quiet", "--fail-on", "never")
    return [
        Peer(f"{DUMP} {plain}", OPTIONS, (*dump, plain), base=True),
        *(Peer(f"{DUMP} {words}", OPTIONS, (*dump, *words.split())) for words in others),
    ]


def toolkit() -> list[Peer]:
    """The commands that dump to standard output; damage does not change their exit code."""
    dump = (command(), "dump", "--fail-on", "never")
    return [
        Peer(DUMP, BATCHES, dump),
        Peer(PRINT_DATA_LOG, RECORDS, (*dump, "--print-data-log")),
        Peer(PARQUET, RECORDS, (*dump, *_AS_PARQUET)),
    ]


def verdicts(*names: str) -> list[Peer]:
    """The commands that evaluate a log; findings do not change their exit code.

    Args:
        names: LSO, TRANSACTIONS, PRODUCERS or AUDIT.
    """
    return [evaluating(name, STATE) for name in names]


def evaluating(name: str, job: str, *options: str, base: bool = False) -> Peer:
    """A command that evaluates a log; findings do not change its exit code.

    Args:
        name: LSO, TRANSACTIONS, PRODUCERS or AUDIT.
        job: programs with the same job are compared with each other.
        options: options of the command, which the table shows.
        base: whether the others of this job are compared with it.
    """
    command_line = (command(), name.removeprefix(f"{TOOLKIT} "), "--quiet", "--fail-on", "never", *options)
    return Peer(" ".join([name, *options]), job, command_line, base=base, reads_folder=True)


def missing() -> list[str]:
    """A sentence for each program that is not installed."""
    if find_spec("aiokafka") is None:
        return ["aiokafka is not installed in this environment, so it was left out; pip install aiokafka adds it."]
    return []


def command() -> str:
    """The toolkit's command.

    Raises:
        LabError: it is not installed next to this interpreter.
    """
    path = Path(sys.executable).with_name(TOOLKIT)
    if not path.exists():
        raise LabError(f"There is no command kforensics next to {sys.executable}: install the package, or make bench.")
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
