"""The habits of Java that show in the output of Kafka's tools: exceptions, texts, hash codes, the order of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kforensics.errors import KforensicsError
from kforensics.parsers.format.integers import int32
from kforensics.parsers.format.java_utf8 import java_utf8

if TYPE_CHECKING:
    from kforensics.parsers.messages.reader import MessageError

__all__ = [
    "JavaError",
    "hash_map_order",
    "java_text",
    "scala_map_order",
    "scala_set_order",
    "string_hash",
    "topic_partition_hash",
]

_Item = TypeVar("_Item")
_INITIAL_TABLE: Final = 16
_LOAD_FACTOR: Final = 0.75
# Scala builds sets of up to four elements without a table, and such sets are added to another one by one.
_SMALL_SET: Final = 4


class JavaError(KforensicsError):
    """An exception that ends the imitated tool.

    Args:
        class_name: The class of the exception.
        message: Its message, None where it has none.
        cause: The exception behind it.
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
        """The exception that Kafka's reader of messages raises."""
        return cls(error.java_class, error.java_message)

    def stderr_lines(self) -> list[str]:
        """What the Java machine prints of it, without the frames of the stack.

        >>> JavaError("java.lang.RuntimeException", "Failed", JavaError("a.B")).stderr_lines()
        ['Exception in thread "main" java.lang.RuntimeException: Failed', 'Caused by: a.B']
        """
        lines = [f'Exception in thread "main" {self}']
        cause = self.cause
        while cause is not None:
            lines.append(f"Caused by: {cause}")
            cause = cause.cause
        return lines


def java_text(data: bytes) -> str:
    """Bytes as a Java string: UTF-8 with Java's rule of what is replaced."""
    return java_utf8(data)


def string_hash(text: str) -> int:
    """`String.hashCode`, which goes over UTF-16 units.

    >>> string_hash("__consumer_offsets"), string_hash(chr(0x1F600))
    (-970371369, 1772899)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return int32(value)


def topic_partition_hash(topic: str, partition: int) -> int:
    """`TopicPartition.hashCode`."""
    return int32(31 * (31 + partition) + string_hash(topic))


def _improve(value: int) -> int:
    return int32(value ^ ((value & 0xFFFFFFFF) >> 16))


def hash_map_order(puts: Iterable[str]) -> list[str]:
    """The order in which a `java.util.HashMap` of strings is walked, after calls of `computeIfAbsent`.

    Unlike `put`, that call lays a new entry before the others of its bucket, and it enlarges a full table on the next
    call only, be the key of that call new or not.
    """
    found: dict[str, int] = {}
    length = _INITIAL_TABLE
    for key in puts:
        if len(found) > _LOAD_FACTOR * length:
            length *= 2
        found.setdefault(key, len(found))
    return sorted(found, key=lambda key: (_improve(string_hash(key)) & (length - 1), -found[key]))


def scala_map_order(keys: Iterable[str]) -> list[str]:
    """Distinct strings in the order in which a Scala 2.13 `mutable.HashMap` filled in this order goes over them."""
    length = _INITIAL_TABLE
    found: dict[str, None] = {}
    for key in keys:
        # The table grows before the look-up, so a key that is there already can make it grow too.
        if len(found) + 1 >= int(length * _LOAD_FACTOR):
            length *= 2
        found[key] = None
    return sorted(found, key=lambda key: _bucket_key(string_hash(key), length))


def _bucket_key(value: int, length: int) -> tuple[int, int]:
    improved = _improve(value)
    return improved & (length - 1), improved


def scala_set_order(groups: Sequence[Sequence[tuple[_Item, int]]]) -> list[_Item]:
    """Elements in the order in which a Scala 2.13 `mutable.HashSet` goes over them.

    Args:
        groups: Immutable sets added one after the other with `++=`, as pairs of an element and its hash code.
    """
    length = _INITIAL_TABLE
    found: dict[_Item, int] = {}
    for group in groups:
        distinct = dict(group)
        length = max(length, _table_size(int((len(distinct) + 1) / _LOAD_FACTOR)))
        for element, value in distinct.items():
            if len(distinct) <= _SMALL_SET and len(found) + 1 >= int(length * _LOAD_FACTOR):
                length *= 2
            found.setdefault(element, value)
    return sorted(found, key=lambda element: _bucket_key(found[element], length))


def _table_size(capacity: int) -> int:
    return 1 << max(capacity - 1, 4).bit_length()
