"""What a start does to the files, effect by effect, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage

__all__ = [
    "DIRECTORY_LOST",
    "FILE_DELETED",
    "FILE_WRITTEN",
    "HOUSEKEEPING",
    "ILLEGAL_ARGUMENT",
    "ILLEGAL_STATE",
    "IN_ZOOKEEPER",
    "IO",
    "KAFKA",
    "LOG_CREATED",
    "LOG_EMPTIED",
    "OTHER_CLUSTER",
    "RETENTION_DUE",
    "ROUTINE",
    "RUNTIME",
    "START_UNREAD",
    "Effect",
    "LoadRefusedError",
    "LoadedLog",
    "unreadable_text",
]

# It reads old message formats, and writes none.
RELEASE_WITHOUT_OLD_FORMATS = 4
# What an orderly start does, too: it deletes files that no log needs, and retention goes on.
HOUSEKEEPING, RETENTION_DUE = "housekeeping", "retention-due"
# What only ZooKeeper has, and the start depends on.
IN_ZOOKEEPER = "in-zookeeper"
ROUTINE = (HOUSEKEEPING, RETENTION_DUE, IN_ZOOKEEPER)
FILE_DELETED, FILE_WRITTEN = "file-deleted", "file-written"
LOG_CREATED, LOG_EMPTIED = "log-created", "log-emptied"
# A log start in remote storage that the broker does not read.
START_UNREAD = "start-unread"
OTHER_CLUSTER = "other-cluster"
DIRECTORY_LOST = "directory-lost"
# Exceptions that end the load of a log or the start of a broker; those of one module stand there.
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
IO, MALFORMED_INPUT = "java.io.IOException", "java.nio.charset.MalformedInputException"
KAFKA = "org.apache.kafka.common.KafkaException"
RUNTIME = "java.lang.RuntimeException"


class LoadRefusedError(Exception):
    """A log whose load ends the start of the broker, or takes its log directory offline.

    Attributes:
        exception: class of the exception that the broker logs.
        message: its message.
        path: the file.
        is_storage: whether only the log directory fails, so that a broker with others starts without it.
    """

    def __init__(self, exception: str, message: str, path: str, *, is_storage: bool = False) -> None:
        super().__init__(exception, message, path)
        self.exception, self.message, self.path, self.is_storage = exception, message, path, is_storage

    @property
    def is_foreign(self) -> bool:
        """Whether the broker fails because of a name that is none of its own."""
        return "is not in the form of" in self.message or self.exception.endswith("NumberFormatException")


def unreadable_text(path: str, fault: Damage) -> LoadRefusedError:
    """Return the refusal of a text file that fails its log directory."""
    with open_source(path) as source:
        data = source.read(0, source.size)
    try:
        data.decode()
    except UnicodeDecodeError:
        return LoadRefusedError(MALFORMED_INPUT, "Input length = 1", path, is_storage=True)
    return LoadRefusedError(IO, fault.detail, path, is_storage=True)


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that the start does.

    Attributes:
        kind: what, see ``docs/forecast.md``.
        detail: a sentence.
        silent: whether the broker logs no warning of it.
        offset: from which offset on.
        records: how many offsets are lost or come back, None if that is not known.
        size: how many bytes are read, or cut off.
        path: the file or folder.
        is_unused: whether what is cut off are zeros, as ``log.preallocate`` leaves them.
    """

    kind: str
    detail: str
    silent: bool = False
    offset: int | None = None
    records: int | None = None
    size: int | None = None
    path: str | None = None
    is_unused: bool = False


@dataclass(slots=True)
class LoadedLog:
    """A log as the broker has it after the load.

    Attributes:
        path: the folder.
        log_start: its first offset.
        log_end: the offset after its last record.
        open_transactions: first offsets of the transactions that the broker takes for open, by producer id.
        producers: ids of the producers that it remembers.
        effects: what the load does.
        may_forget: whether the broker forgets all producers, with their open transactions, if the topic still has
            message format 0 or 1, which no file here shows: its log ends in it.
    """

    path: str
    log_start: int = 0
    log_end: int = 0
    open_transactions: dict[int, int] = field(default_factory=dict)
    producers: set[int] = field(default_factory=set)
    effects: list[Effect] = field(default_factory=list)
    may_forget: bool = False

    def note_format(self, batches_since: Callable[[int], Iterable[Batch]], release: str) -> None:
        """Set whether the broker may forget its open transactions. Rule: ``UnifiedLog.rebuildProducerState`` up to 3.9.

        Args:
            batches_since: returns the batches from an offset to the end of the log.
            release: the release whose rules count.
        """
        if self.open_transactions and int(release.partition(".")[0]) < RELEASE_WITHOUT_OLD_FORMATS:
            for batch in batches_since(min(self.open_transactions.values())):
                self.may_forget = batch.is_legacy

    @property
    def last_stable(self) -> int:
        """The last stable offset once the whole log is replicated; never before the log start."""
        return max(self.log_start, min([self.log_end, *self.open_transactions.values()]))
