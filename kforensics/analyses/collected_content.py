"""What a copy has of a file: all of it, or of the log of a data partition all but the records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Protocol

from kforensics.errors import InputError
from kforensics.parsers.files.log_capture import LogContent, LogFile
from kforensics.parsers.files.log_names import parse_file_name, parse_folder_name
from kforensics.parsers.log.left_out_records import kept_bytes
from kforensics.parsers.messages.registry import INTERNAL_TOPICS

__all__ = ["Content", "HeadersOnly", "is_known", "is_log_of_data"]

LEGACY = (
    "it has batches of message format 0 or 1, whose headers are one with their records; they are zeros. Without "
    "--metadata-only they are copied"
)


class Content(Protocol):
    """The content of a file of the copy.

    Attributes:
        digest: the SHA-256 of what was read.
        why: what is wrong with it, None if nothing is.
    """

    digest: Any
    why: str | None

    def read(self, length: int) -> bytes:
        """Return the next bytes."""


def is_known(file: LogFile) -> bool:
    """Return whether a file has a name that Kafka uses; others may have anything in them."""
    return parse_file_name(PurePath(file.path).name) is not None


def is_log_of_data(file: LogFile) -> bool:
    """Return whether a file is a log, but not of an internal topic, whose records verdicts depend on."""
    name, folder = parse_file_name(PurePath(file.path).name), parse_folder_name(PurePath(file.path).parent.name)
    return name is not None and name.kind == "log" and (folder is None or folder.topic not in INTERNAL_TOPICS)


class HeadersOnly:
    """The content of a log without the records of its data batches, which are zeros; see :func:`.kept_bytes`.

    Attributes:
        digest: the SHA-256 of what was read.
        original: the content of the file itself, with its own digest.
        why: what is wrong with it, None if nothing is.
    """

    def __init__(self, file: LogFile) -> None:
        self.original = LogContent(file)
        self.digest = hashlib.sha256()
        self.why: str | None = None
        self._position = 0
        self._kept = self._all_kept(file)
        self._next = next(self._kept, None)

    def read(self, length: int) -> bytes:
        """Return the next bytes; those of records, and those that cannot be read, are zeros."""
        length = len(self.original.read(length))
        data, end = bytearray(length), self._position + length
        while self._next is not None and self._next[0] < end:
            position, kept = self._next
            start, room = position - self._position, end - position
            data[start : start + len(kept)] = kept[:room]
            self._next = (end, kept[room:]) if len(kept) > room else next(self._kept, None)
        self._position = end
        self.why = self.why or self.original.why
        self.digest.update(data)
        return bytes(data)

    def _all_kept(self, file: LogFile) -> Iterator[tuple[int, bytes]]:
        if file.source is None:
            return
        try:
            yield from kept_bytes(file.source, file.size, self._report_legacy)
        except InputError as error:
            self.why = error.why

    def _report_legacy(self) -> None:
        self.why = self.why or LEGACY
