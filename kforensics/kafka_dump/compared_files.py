"""The log that an index is compared with, and the indexes themselves, opened and searched as Kafka's tool does it.

The plain style reads the log with :class:`ForwardLog`, which continues after damage.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kforensics.errors import InputError, InputForbiddenError, InputMissingError
from kforensics.kafka_dump.java import MAX_INT, MAX_LONG, JavaError, java_path, open_file
from kforensics.kafka_dump.summaries import Summaries
from kforensics.parsers.files.source import LocalSource, Source, file_name, open_source
from kforensics.parsers.format.failures import ILLEGAL_ARGUMENT, KAFKA
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.batches import walk

if TYPE_CHECKING:
    from kforensics.kafka_dump.file_records import SegmentRange

LONG_DIGITS = 19
# The most bytes of the log to read for one index. Entries that go backwards restart the walk, and a crafted index must
# not take hours.
MAX_WALKS, MIN_BYTES = 16, 64 << 20


def base_name(path: str) -> str:
    """Return a file's name up to the first dot."""
    return file_name(path).split(".")[0]


def base_offset(path: str) -> int:
    """Return the number at the start of a file's name.

    Raises:
        JavaError: ``Long.parseLong`` does not accept the name.
    """
    text = base_name(path)
    if re.fullmatch(r"[+-]?[0-9]+", text) and len(text.lstrip("+-").lstrip("0")) <= LONG_DIGITS:
        number = int(text)
        if -MAX_LONG - 1 <= number <= MAX_LONG:
            return number
    raise JavaError("java.lang.NumberFormatException", f'For input string: "{text}"')


def sibling_path(path: str, suffix: str) -> str:
    """Return the path of another file of the same segment."""
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}{base_name(path)}{suffix}"


def open_log(path: str, summaries: Summaries) -> LocalSource:
    """Open the ``.log`` of an index's segment; messages show its absolute path.

    Raises:
        JavaError: Kafka cannot open the file as a log.
    """
    log = sibling_path(path, ".log")
    shown = summaries.absolute(log)
    try:
        source = open_file(log)
    except JavaError as error:
        raise JavaError(error.class_name, shown if error.message == java_path(log) else error.message) from error
    source.path = shown
    return source


def open_index(path: str, shown: str) -> LocalSource:
    """Open an index as Kafka's ``AbstractIndex`` does, but do not create a missing file.

    Args:
        path: the index.
        shown: its path in messages.

    Raises:
        JavaError: ``AbstractIndex`` fails.
    """
    try:
        source = LocalSource(path)
    except InputMissingError as error:
        # Kafka creates the file before it complains that it was given no size for it.
        raise JavaError(ILLEGAL_ARGUMENT, "Invalid max index size: -1") from error
    except InputForbiddenError as error:
        raise JavaError("java.io.FileNotFoundException", f"{shown} (Permission denied)") from error
    except InputError as error:
        raise JavaError("java.io.FileNotFoundException", f"{shown} (Is a directory)") from error
    if source.size > MAX_INT:
        source.close()
        raise JavaError(ILLEGAL_ARGUMENT, "Size exceeds Integer.MAX_VALUE")
    return source


class BatchSearch:
    """Finds the first batch at or after a position whose last offset is not below a given offset.

    A search continues where the last one ended if the result is the same, so searches for rising offsets walk through
    the log once.
    """

    def __init__(self, records: SegmentRange) -> None:
        self._records = records
        self._start: int | None = None
        self._offset = 0
        self._batches: Iterator[Batch] = iter(())
        self._batch: Batch | None = None

    def find(self, position: int, offset: int) -> Batch | None:
        """Return the batch, or None if the log ends before it.

        Raises:
            JavaError: the position is outside the log, or Kafka's reader fails before the batch.
        """
        continues = position == self._start and offset >= self._offset
        self._start = None  # if the walk fails, the next search restarts it
        if not continues:
            self._batches = self._records.slice(position, MAX_INT).batches()
            self._batch = next(self._batches, None)
        while self._batch is not None and self._batch.last_offset < offset:
            self._batch = next(self._batches, None)
        self._start, self._offset = position, offset
        return self._batch


class LogEnd:
    """Checks whether Kafka's reader gets from a position to the end of the log.

    The check remembers which part of the log is readable, so checks of rising positions walk through the log once.
    """

    def __init__(self, records: SegmentRange) -> None:
        self._records = records
        self._batches: Iterator[Batch] = iter(())
        self._reached: int | None = None

    def check(self, position: int) -> None:
        """Read from a position to the end.

        Raises:
            JavaError: the position is outside the log, or the reader fails after it.
        """
        while self._reached is not None and self._reached < position:
            batch = next(self._batches, None)
            self._reached = None if batch is None else batch.position
        if self._reached == position:
            return
        self._reached = None
        rest = self._records.slice(position, MAX_INT)
        try:
            deque(rest.batches(), maxlen=0)
        except JavaError as error:
            # Kafka only loads a header that is cut off at the end of the file when one of its fields is used.
            if error.class_name != KAFKA:
                raise
        self._batches, self._reached = rest.batches(), position


class ForwardLog:
    """Finds batches in a damaged log by positions and offsets that should be rising.

    Attributes:
        exhausted: too many lookups went backwards; from now on nothing is found.
    """

    def __init__(self, log: Source) -> None:
        self._log, self._bytes_left = log, MAX_WALKS * log.size + MIN_BYTES
        self._rows: Iterator[Batch | Damage] = walk(log)
        self._batch: Batch | None = None
        self.exhausted = False

    def at(self, position: int) -> Batch | None:
        """Return the batch at a position, or None if no batch starts there."""
        if self._batch is not None and position < self._batch.position:
            self._restart_at(position)
        while not self.exhausted and (self._batch is None or self._batch.position < position):
            if not self._advance():
                return None
        return self._batch if self._batch is not None and self._batch.position == position else None

    def reaching(self, offset: int) -> Batch | None:
        """Return the first batch, from the last result on, whose last offset is not below an offset."""
        while not self.exhausted and (self._batch is None or self._batch.last_offset < offset):
            if not self._advance():
                return None
        return self._batch

    def restart(self) -> None:
        """Restart at the first batch."""
        self._restart_at(0)

    def _restart_at(self, position: int) -> None:
        if 0 <= position <= self._log.size:
            self._rows, self._batch = walk(self._log, position), None

    def _advance(self) -> bool:
        for row in self._rows:
            self._bytes_left -= row.end - row.start if isinstance(row, Damage) else row.size
            self.exhausted = self._bytes_left < 0
            if isinstance(row, Batch):
                self._batch = row
                return True
        return False


@contextmanager
def open_forward_log(path: str, summaries: Summaries) -> Iterator[ForwardLog | None]:
    """Open the ``.log`` of an index's segment to read past damage; if that is not possible, note why."""
    try:
        source = open_source(sibling_path(path, ".log"))
    except InputError as error:
        summaries.note(f"{path} was not compared with its log: {error}")
        yield None
        return
    with source:
        log = ForwardLog(source)
        yield log
        if log.exhausted:
            summaries.note(f"{path} was compared with its log in part only: too many entries lead back")


def is_partially_compacted(batch: Batch) -> bool:
    """Return whether compaction has removed records from a batch, or may have done so.

    The number of messages in a wrapper message is not known without decompressing it.
    """
    return batch.count is None or (batch.last_offset_delta or 0) + 1 != batch.count
