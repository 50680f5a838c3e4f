"""Java behavior that is visible in the output of Kafka's tools: exceptions, paths, and the order of hash tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kforensics.errors import InputError, InputForbiddenError, InputMissingError, KforensicsError
from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.integers import int32
from kforensics.parsers.format.rows import Failure

if TYPE_CHECKING:
    from kforensics.parsers.messages.reader import MessageError

MAX_INT: Final = 0x7FFFFFFF
MAX_LONG: Final = (1 << 63) - 1
ILLEGAL_STATE: Final = "java.lang.IllegalStateException"
NULL_POINTER: Final = "java.lang.NullPointerException"

_Item = TypeVar("_Item")
_INITIAL_TABLE: Final = 16
_LOAD_FACTOR: Final = 0.75
_FULL_BUCKET: Final = 8
_SMALLEST_TREE_TABLE: Final = 64
# Scala has no table for sets of up to four elements, and adds the elements of such a set to another set one by one.
_SMALL_SET: Final = 4


class JavaError(KforensicsError):
    """An exception that ends the imitated tool.

    Args:
        class_name: The class of the exception.
        message: Its message; None if it has none.
        cause: Its cause.
    """

    def __init__(self, class_name: str, message: str | None = None, cause: JavaError | None = None) -> None:
        super().__init__(class_name, message, cause)
        self.class_name = class_name
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        return self.class_name if self.message is None else f"{self.class_name}: {self.message}"

    @classmethod
    def of(cls, error: MessageError) -> JavaError:
        """Return the exception that Kafka raises where it cannot read a generated message."""
        return cls(error.java_class, error.java_message)

    def stderr_lines(self) -> list[str]:
        """Return what the JVM prints for the exception, without stack frames.

        >>> JavaError("java.lang.RuntimeException", "Failed", JavaError("a.B")).stderr_lines()
        ['Exception in thread "main" java.lang.RuntimeException: Failed', 'Caused by: a.B']
        """
        lines = [f'Exception in thread "main" {self}']
        cause = self.cause
        while cause is not None:
            lines.append(f"Caused by: {cause}")
            cause = cause.cause
        return lines


def null_pointer_text(call: str, target: str) -> str:
    """Return the message of a NullPointerException in Java 17."""
    return f'Cannot invoke "{call}" because {target} is null'


def string_hash(text: str) -> int:
    """Return `String.hashCode`, which is computed over UTF-16 code units.

    >>> string_hash("__consumer_offsets"), string_hash(chr(0x1F600))
    (-970371369, 1772899)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return int32(value)


def topic_partition_hash(topic: str, partition: int) -> int:
    """Return `TopicPartition.hashCode`."""
    return int32(31 * (31 + partition) + string_hash(topic))


def _improve(value: int) -> int:
    return int32(value ^ ((value & 0xFFFFFFFF) >> 16))


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """Return strings in the iteration order of a `java.util.HashMap` after calls of `computeIfAbsent` with them.

    Unlike `put`, that method inserts a new entry before the others of its bucket, and enlarges a full table only in the
    next call, whether the key of that call is new or not. A table of fewer than 64 buckets is also enlarged when a
    bucket gets its eighth entry or a further one; that a larger table makes a tree of such a bucket is not imitated.
    """
    hashes: dict[str, int] = {}
    length = _INITIAL_TABLE
    for key in keys:
        if len(hashes) > _LOAD_FACTOR * length:
            length *= 2
        if key in hashes:
            continue
        hashes[key] = value = _improve(string_hash(key))
        if length < _SMALLEST_TREE_TABLE and _bucket_size(hashes.values(), value, length) >= _FULL_BUCKET:
            length *= 2
    latest_first = list(hashes)[::-1]
    return sorted(latest_first, key=lambda key: hashes[key] & (length - 1))


def _bucket_size(hashes: Iterable[int], value: int, length: int) -> int:
    return sum((value ^ other) & (length - 1) == 0 for other in hashes)


def scala_map_order(keys: Iterable[str]) -> list[str]:
    """Return distinct strings in the iteration order of a Scala 2.13 `mutable.HashMap` filled in the given order."""
    length = _INITIAL_TABLE
    distinct: dict[str, None] = {}
    for key in keys:
        # The table grows before the lookup, so a key that is already in it can make it grow too.
        if len(distinct) + 1 >= int(length * _LOAD_FACTOR):
            length *= 2
        distinct[key] = None
    return sorted(distinct, key=lambda key: _bucket_key(string_hash(key), length))


def _bucket_key(value: int, length: int) -> tuple[int, int]:
    improved = _improve(value)
    return improved & (length - 1), improved


def scala_set_order(groups: Sequence[Sequence[tuple[_Item, int]]]) -> list[_Item]:
    """Return elements in the iteration order of a Scala 2.13 `mutable.HashSet`.

    Args:
        groups: The immutable sets that are added with `++=`, as pairs of an element and its hash code.
    """
    length = _INITIAL_TABLE
    hashes: dict[_Item, int] = {}
    for group in groups:
        distinct = dict(group)
        length = max(length, _table_size(int((len(distinct) + 1) / _LOAD_FACTOR)))
        for element, value in distinct.items():
            if len(distinct) <= _SMALL_SET and len(hashes) + 1 >= int(length * _LOAD_FACTOR):
                length *= 2
            hashes.setdefault(element, value)
    return sorted(hashes, key=lambda element: _bucket_key(hashes[element], length))


def _table_size(capacity: int) -> int:
    return 1 << max(capacity - 1, 4).bit_length()


def java_path(path: str) -> str:
    """Return a path as ``java.io.File`` normalizes it: without doubled and trailing slashes."""
    shown = re.sub("/+", "/", path)
    return shown if shown == "/" else shown.rstrip("/")


def open_file(path: str) -> LocalSource:
    """Open a file.

    Raises:
        JavaError: ``FileChannel.open`` fails.
    """
    try:
        return LocalSource(path)
    except InputMissingError as error:
        raise JavaError("java.nio.file.NoSuchFileException", java_path(path)) from error
    except InputForbiddenError as error:
        raise JavaError("java.nio.file.AccessDeniedException", java_path(path)) from error
    except InputError as error:
        raise JavaError("java.io.IOException", error.why) from error


def java_error(failure: Failure) -> JavaError:
    """Return the exception that Kafka's reader raises for a failure."""
    cause: JavaError | None = None
    for name, message in reversed(failure.causes):
        cause = JavaError(name, message, cause)
    return JavaError(failure.exception, failure.message, cause)
