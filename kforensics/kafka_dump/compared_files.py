"""The files that an index is compared with, opened as Java opens them, and the search for an offset in the log."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kforensics.errors import InputError, InputForbiddenError, InputMissingError
from kforensics.kafka_dump.file_records import INT_MAX, FileRecords, java_path, opened
from kforensics.kafka_dump.forward_log import ForwardLog
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.summaries import Summaries
from kforensics.parsers.files.source import LocalSource, file_name, open_source
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.failures import ILLEGAL_ARGUMENT, KAFKA
from kforensics.parsers.format.rows import Batch, Damage

__all__ = [
    "BatchSearch",
    "IndexOptions",
    "LogEnd",
    "base_name",
    "base_offset",
    "log_beside",
    "open_index",
    "open_log",
    "plain_sanity",
    "sibling",
]

MAX_MESSAGE_SIZE = 5 * 1024 * 1024
LONG_LIMIT, LONG_DIGITS = 1 << 63, 19


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What to do with an index.

    Attributes:
        verify_only: compare, do not print entries.
        sanity_only: only the check of a broker's start.
        max_message_size: bytes of the log to look at for an ``.index`` entry.
        budget: most bytes to decompress per batch.
    """

    verify_only: bool = False
    sanity_only: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    budget: int = DEFAULT_BUDGET


def plain_sanity(check: Callable[[], None], shown: str, size: int) -> str | Damage:
    """Return what a broker's check at start says of an index, as a line or as damage.

    Args:
        check: the check.
        shown: the index's path.
        size: its bytes.
    """
    try:
        check()
    except JavaError as error:
        return Damage(0, size, "malformed", error.message or error.class_name)
    return f"{shown} passed sanity check.\n"


def base_name(path: str) -> str:
    """Return a file's name up to the first dot."""
    return file_name(path).split(".")[0]


def base_offset(path: str) -> int:
    """Return the number a file's name begins with.

    Raises:
        JavaError: there is none that ``Long.parseLong`` reads.
    """
    text = base_name(path)
    if re.fullmatch(r"[+-]?[0-9]+", text) and len(text.lstrip("+-").lstrip("0")) <= LONG_DIGITS:
        number = int(text)
        if -LONG_LIMIT <= number < LONG_LIMIT:
            return number
    raise JavaError("java.lang.NumberFormatException", f'For input string: "{text}"')


def sibling(path: str, suffix: str) -> str:
    """Return the path of another file of the same segment."""
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}{base_name(path)}{suffix}"


def open_log(path: str, summaries: Summaries) -> LocalSource:
    """Open the ``.log`` beside an index; it shows itself by its absolute path.

    Raises:
        JavaError: as ``FileRecords.open`` does.
    """
    log = sibling(path, ".log")
    shown = summaries.absolute(log)
    try:
        source = opened(log)
    except JavaError as error:
        raise JavaError(error.class_name, shown if error.message == java_path(log) else error.message) from error
    source.path = shown
    return source


def open_index(path: str, shown: str) -> LocalSource:
    """Open an index as Kafka's ``AbstractIndex`` does, but create none where none is.

    Args:
        path: the index.
        shown: its path in messages.

    Raises:
        JavaError: where that class fails.
    """
    try:
        source = LocalSource(path)
    except InputMissingError as error:
        # Kafka has just created the file when it finds that it was given no size for it.
        raise JavaError(ILLEGAL_ARGUMENT, "Invalid max index size: -1") from error
    except InputForbiddenError as error:
        raise JavaError("java.io.FileNotFoundException", f"{shown} (Permission denied)") from error
    except InputError as error:
        raise JavaError("java.io.FileNotFoundException", f"{shown} (Is a directory)") from error
    if source.size > INT_MAX:
        source.close()
        raise JavaError(ILLEGAL_ARGUMENT, "Size exceeds Integer.MAX_VALUE")
    return source


class BatchSearch:
    """Finds the first batch from a position on whose last offset reaches a given one.

    Goes on from the last find where that cannot matter, so that rising offsets cost one walk through the log.
    """

    def __init__(self, records: FileRecords) -> None:
        self._records = records
        self._start: int | None = None
        self._offset = 0
        self._batches: Iterator[Batch] = iter(())
        self._batch: Batch | None = None

    def find(self, position: int, offset: int) -> Batch | None:
        """Return the batch, None if the log ends before it.

        Raises:
            JavaError: the position lies outside the log, or Kafka's reader fails on the way.
        """
        resumes = position == self._start and offset >= self._offset
        self._start = None  # should the walk fail, the next one begins anew
        if not resumes:
            self._batches = self._records.slice(position, INT_MAX).batches()
            self._batch = next(self._batches, None)
        while self._batch is not None and self._batch.last_offset < offset:
            self._batch = next(self._batches, None)
        self._start, self._offset = position, offset
        return self._batch


class LogEnd:
    """Tells whether Kafka's reader gets from a position to the end of the log.

    Remembers how far into the log it is known, so that rising positions cost one walk.
    """

    def __init__(self, records: FileRecords) -> None:
        self._records = records
        self._batches: Iterator[Batch] = iter(())
        self._reached: int | None = None

    def check(self, position: int) -> None:
        """Return if the end can be reached.

        Raises:
            JavaError: the position lies outside the log, or the reader fails behind it.
        """
        while self._reached is not None and self._reached < position:
            batch = next(self._batches, None)
            self._reached = None if batch is None else batch.position
        if self._reached == position:
            return
        self._reached = None
        rest = self._records.slice(position, INT_MAX)
        try:
            deque(rest.batches(), maxlen=0)
        except JavaError as error:
            # A header cut short by the end of the file is loaded when somebody asks for a field of it.
            if error.class_name != KAFKA:
                raise
        self._batches, self._reached = rest.batches(), position


@contextmanager
def log_beside(path: str, summaries: Summaries) -> Iterator[ForwardLog | None]:
    """Open the ``.log`` beside an index for reading past damage; note why where that is not possible."""
    log = sibling(path, ".log")
    try:
        source = open_source(log)
    except InputError as error:
        summaries.note(f"{path} was not compared with its log: {error}")
        yield None
        return
    with source:
        forward = ForwardLog(source)
        yield forward
        if forward.exhausted:
            summaries.note(f"{path} was compared with its log in part only: too many entries lead back")
