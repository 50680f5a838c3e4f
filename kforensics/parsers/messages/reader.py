"""The primitives of Kafka's generated messages, read as its `ByteBufferAccessor` reads them.

The rules and the texts of the errors are Kafka's, because a dump has to print them. Nothing here allocates by a number
found in the data: every length is compared with the bytes that are left first.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Final

from kforensics.errors import KforensicsError
from kforensics.parsers.messages.releases import in_releases

RUNTIME: Final = "java.lang.RuntimeException"
UNDERFLOW: Final = "java.nio.BufferUnderflowException"
ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
NEGATIVE_SIZE: Final = "java.lang.NegativeArraySizeException"
OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
UNSUPPORTED_VERSION: Final = "org.apache.kafka.common.errors.UnsupportedVersionException"

_INT_BITS: Final = (1 << 32) - 1
# 2.7 allocates whatever the bytes ask for. So much fits into the 256 MB that Kafka's scripts give the Java machine,
# and so many elements an array can have at all.
_JVM_HEAP_ELEMENTS: Final = 64_000_000
_JVM_ARRAY_ELEMENTS: Final = 0x7FFFFFFD


class MessageError(KforensicsError, ValueError):
    """Bytes that are not the message they should be, in the words of Kafka's reader.

    Args:
        java_class: The exception Kafka raises.
        java_message: Its message, None where it has none.
    """

    def __init__(self, java_class: str, java_message: str | None = None) -> None:
        super().__init__(java_class, java_message)
        self.java_class = java_class
        self.java_message = java_message

    def __str__(self) -> str:
        """The reason in words: Kafka's, unless it has none."""
        if self.java_class == UNDERFLOW:
            return "the bytes end inside a field"
        if self.java_class == NEGATIVE_SIZE:
            return f"negative size {self.java_message}"
        return self.java_message or self.java_class


@dataclass(frozen=True, slots=True)
class Limits:
    """What a release refuses beyond what the format says.

    Attributes:
        check_remaining: Lengths are compared with the bytes left before anything is allocated (CVE-2022-34917).
        collection: Most elements of an array, or None.
        tagged_fields: Most tagged fields of a section, or None.
        strict_tag_count: A negative or impossible number of tagged fields is named as such.
    """

    check_remaining: bool = True
    collection: int | None = None
    tagged_fields: int | None = None
    strict_tag_count: bool = True


FORENSIC_LIMITS: Final = Limits()
_OF_4_4: Final = Limits(collection=1_000_000, tagged_fields=10_000)
_OF_2_8: Final = Limits(strict_tag_count=False)
_OF_2_7: Final = Limits(check_remaining=False, strict_tag_count=False)


def limits_of(release: str) -> Limits:
    """The limits of a release of Kafka."""
    if in_releases(release, "4.4", None):
        return _OF_4_4
    return _OF_2_8 if in_releases(release, "2.8", None) else _OF_2_7


class Reader:
    """A position in the bytes of a message.

    Args:
        data: The bytes.
        limits: What to refuse.
        position: Where to start.
    """

    __slots__ = ("data", "limits", "position")

    def __init__(self, data: bytes, limits: Limits = FORENSIC_LIMITS, position: int = 0) -> None:
        self.data = data
        self.limits = limits
        self.position = position

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.position

    def _fixed(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise MessageError(UNDERFLOW)
        raw = self.data[self.position : end]
        self.position = end
        return raw

    def int8(self) -> int:
        """Read a signed byte."""
        return int.from_bytes(self._fixed(1), "big", signed=True)

    def int16(self) -> int:
        """Read a signed 16-bit integer."""
        return int.from_bytes(self._fixed(2), "big", signed=True)

    def uint16(self) -> int:
        """Read an unsigned 16-bit integer."""
        return int.from_bytes(self._fixed(2), "big")

    def int32(self) -> int:
        """Read a signed 32-bit integer."""
        return int.from_bytes(self._fixed(4), "big", signed=True)

    def int64(self) -> int:
        """Read a signed 64-bit integer."""
        return int.from_bytes(self._fixed(8), "big", signed=True)

    def float64(self) -> float:
        """Read a double."""
        number: float = struct.unpack(">d", self._fixed(8))[0]
        return number

    def boolean(self) -> bool:
        """Read a truth value: anything but 0 is true."""
        return self._fixed(1) != b"\0"

    def uuid(self) -> str:
        """Read a uuid, as the 22 characters Kafka prints."""
        return base64.urlsafe_b64encode(self._fixed(16))[:22].decode("ascii")

    def unsigned_varint(self) -> int:
        """Read an unsigned varint; the result is a signed Java int, as Kafka's is."""
        raw = 0
        for shift in (0, 7, 14, 21):
            byte = self._fixed(1)[0]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return raw
        last = self._fixed(1)[0]
        # Java shifts the sign of the fifth byte out of the int, so nothing of it is masked before the shift.
        raw = (raw | last << 28) & _INT_BITS
        if last >= 0x80:
            text = f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {raw:x}"
            raise MessageError(ILLEGAL_ARGUMENT, text)
        return raw - (1 << 32) if raw >> 31 else raw

    def length(self, compact: bool, width: int = 4) -> int:
        """Read the length of something that can be null; negative means null.

        Args:
            compact: Whether the message is flexible, so that the length is a varint of one more.
            width: Bytes of the length otherwise: 2 for strings, 4 for all else.
        """
        if not compact:
            return self.int16() if width == 2 else self.int32()
        raw = self.unsigned_varint() - 1
        return raw if raw >= -(1 << 31) else (1 << 31) - 1

    def raw(self, size: int) -> bytes:
        """Read as many bytes as an earlier length said."""
        if size < 0:
            raise MessageError(NEGATIVE_SIZE, str(size))
        left = self.remaining
        if size > left and self.limits.check_remaining:
            text = f"Error reading byte array of {size} byte(s): only {left} byte(s) available"
            raise MessageError(RUNTIME, text)
        return self._fixed(size)

    def cut(self, size: int) -> bytes:
        """Read bytes that Kafka does not copy but cuts out of its buffer."""
        if size > self.remaining:
            raise MessageError(ILLEGAL_ARGUMENT, f"newLimit > capacity: ({size} > {self.remaining})")
        return self._fixed(size)

    def check_collection(self, count: int) -> None:
        """Refuse a number of elements that cannot be.

        Raises:
            MessageError: There are more elements than bytes, or more than the release takes.
        """
        left = self.remaining
        if not self.limits.check_remaining:
            if count > max(_JVM_HEAP_ELEMENTS, left):
                text = "Requested array size exceeds VM limit" if count > _JVM_ARRAY_ELEMENTS else "Java heap space"
                raise MessageError(OUT_OF_MEMORY, text)
        elif count > left:
            text = f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            raise MessageError(RUNTIME, text)
        most = self.limits.collection
        if most is not None and count > most:
            text = f"Tried to read a collection of size {count}, which exceeds the maximum allowed size of {most}."
            raise MessageError(RUNTIME, text)

    def tag_count(self) -> int:
        """Read the number of tagged fields of a section.

        Raises:
            MessageError: The number cannot be, or is more than the release takes.
        """
        count = self.unsigned_varint()
        if not self.limits.strict_tag_count:
            return count
        if count < 0:
            raise MessageError(RUNTIME, f"Invalid negative number of tagged fields {count}")
        if count > self.remaining:
            text = f"Tried to read {count} tagged fields, but there are only {self.remaining} bytes remaining."
            raise MessageError(RUNTIME, text)
        most = self.limits.tagged_fields
        if most is not None and count > most:
            text = f"Tried to read {count} tagged fields, which exceeds the maximum allowed count of {most}."
            raise MessageError(RUNTIME, text)
        return count
