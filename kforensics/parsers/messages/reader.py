"""The primitive types of Kafka's generated messages, read as Kafka's `ByteBufferAccessor` reads them.

Rules and error texts are Kafka's, because a dump has to print them. No memory is allocated by a number from the data:
every length is first compared with the bytes that are left.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Final

from kforensics.errors import KforensicsError
from kforensics.parsers.format.failures import BUFFER_UNDERFLOW, ILLEGAL_ARGUMENT
from kforensics.parsers.messages.releases import in_releases

RUNTIME: Final = "java.lang.RuntimeException"
NEGATIVE_SIZE: Final = "java.lang.NegativeArraySizeException"
OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"
UNSUPPORTED_VERSION: Final = "org.apache.kafka.common.errors.UnsupportedVersionException"

_INT_BITS: Final = (1 << 32) - 1
# 2.7 allocates whatever the data asks for. These are the most elements that fit into the heap of 256 MB which Kafka's
# scripts give to the JVM, and the most elements of any Java array.
_JVM_HEAP_ELEMENTS: Final = 64_000_000
_JVM_ARRAY_ELEMENTS: Final = 0x7FFFFFFD


class MessageError(KforensicsError, ValueError):
    """Bytes that are not the expected message. The text is that of Kafka's reader.

    Args:
        java_class: The class of the exception that Kafka raises.
        java_message: Its message; None if it has none.
    """

    def __init__(self, java_class: str, java_message: str | None = None) -> None:
        super().__init__(java_class, java_message)
        self.java_class = java_class
        self.java_message = java_message

    def __str__(self) -> str:
        """Return Kafka's message, or a description where Kafka has none."""
        if self.java_class == BUFFER_UNDERFLOW:
            return "the bytes end inside a field"
        if self.java_class == NEGATIVE_SIZE:
            return f"negative size {self.java_message}"
        return self.java_message or self.java_class


@dataclass(frozen=True, slots=True)
class Limits:
    """What a release rejects beyond the rules of the format.

    Attributes:
        check_remaining: Whether lengths are compared with the remaining bytes before allocating (CVE-2022-34917).
        collection: The most elements of an array; None for no limit.
        tagged_fields: The most tagged fields of a section; None for no limit.
        strict_tag_count: Whether a negative or impossible number of tagged fields has an error of its own.
    """

    check_remaining: bool = True
    collection: int | None = None
    tagged_fields: int | None = None
    strict_tag_count: bool = True


FORENSIC_LIMITS: Final = Limits()
_LIMITS_4_4: Final = Limits(collection=1_000_000, tagged_fields=10_000)
_LIMITS_2_8: Final = Limits(strict_tag_count=False)
_LIMITS_2_7: Final = Limits(check_remaining=False, strict_tag_count=False)


def limits_of(release: str) -> Limits:
    """Return the limits of a Kafka release."""
    if in_releases(release, "4.4", None):
        return _LIMITS_4_4
    return _LIMITS_2_8 if in_releases(release, "2.8", None) else _LIMITS_2_7


class MessageReader:
    """Reads primitive types from a position that advances.

    Args:
        data: The bytes.
        limits: The limits of the release to imitate.
        position: The index of the first byte to read.
    """

    __slots__ = ("data", "limits", "position")

    def __init__(self, data: bytes, limits: Limits = FORENSIC_LIMITS, position: int = 0) -> None:
        self.data = data
        self.limits = limits
        self.position = position

    @property
    def remaining(self) -> int:
        """The number of bytes left."""
        return len(self.data) - self.position

    def _fixed(self, size: int) -> bytes:
        end = self.position + size
        if end > len(self.data):
            raise MessageError(BUFFER_UNDERFLOW)
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
        """Read a boolean: any byte but 0 is true."""
        return self._fixed(1) != b"\0"

    def uuid(self) -> str:
        """Read a UUID and return it as the 22 characters that Kafka prints."""
        return base64.urlsafe_b64encode(self._fixed(16))[:22].decode("ascii")

    def unsigned_varint(self) -> int:
        """Read an unsigned varint; the result is a signed Java int, as in Kafka."""
        raw = 0
        for shift in (0, 7, 14, 21):
            byte = self._fixed(1)[0]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return raw
        last = self._fixed(1)[0]
        # Java's shift drops the high bits of the fifth byte from the int, so the byte is not masked before it.
        raw = (raw | last << 28) & _INT_BITS
        if last >= 0x80:
            text = f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {raw:x}"
            raise MessageError(ILLEGAL_ARGUMENT, text)
        return raw - (1 << 32) if raw >> 31 else raw

    def length(self, compact: bool, width: int = 4) -> int:
        """Read the length of a string, of bytes or of an array; negative means null.

        Args:
            compact: Whether the length is encoded as in flexible versions: a varint of the length plus one.
            width: The size of the length in other versions: 2 bytes for strings, 4 for everything else.
        """
        if not compact:
            return self.int16() if width == 2 else self.int32()
        raw = self.unsigned_varint() - 1
        return raw if raw >= -(1 << 31) else (1 << 31) - 1

    def raw(self, size: int) -> bytes:
        """Read bytes whose number was read before.

        Raises:
            MessageError: The size is negative or larger than the number of bytes left.
        """
        if size < 0:
            raise MessageError(NEGATIVE_SIZE, str(size))
        left = self.remaining
        if size > left and self.limits.check_remaining:
            text = f"Error reading byte array of {size} byte(s): only {left} byte(s) available"
            raise MessageError(RUNTIME, text)
        return self._fixed(size)

    def slice(self, size: int) -> bytes:
        """Read bytes that Kafka does not copy but slices from its buffer.

        Raises:
            MessageError: The size is larger than the number of bytes left.
        """
        if size > self.remaining:
            raise MessageError(ILLEGAL_ARGUMENT, f"newLimit > capacity: ({size} > {self.remaining})")
        return self._fixed(size)

    def check_collection(self, count: int) -> None:
        """Check the number of elements of an array.

        Raises:
            MessageError: There are more elements than bytes, or more than the release accepts.
        """
        left = self.remaining
        if not self.limits.check_remaining:
            if count > max(_JVM_HEAP_ELEMENTS, left):
                text = "Requested array size exceeds VM limit" if count > _JVM_ARRAY_ELEMENTS else "Java heap space"
                raise MessageError(OUT_OF_MEMORY, text)
        elif count > left:
            text = f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
            raise MessageError(RUNTIME, text)
        limit = self.limits.collection
        if limit is not None and count > limit:
            text = f"Tried to read a collection of size {count}, which exceeds the maximum allowed size of {limit}."
            raise MessageError(RUNTIME, text)

    def tag_count(self) -> int:
        """Read the number of tagged fields of a section.

        Raises:
            MessageError: The number is impossible, or larger than the release accepts.
        """
        count = self.unsigned_varint()
        if not self.limits.strict_tag_count:
            return count
        if count < 0:
            raise MessageError(RUNTIME, f"Invalid negative number of tagged fields {count}")
        if count > self.remaining:
            text = f"Tried to read {count} tagged fields, but there are only {self.remaining} bytes remaining."
            raise MessageError(RUNTIME, text)
        limit = self.limits.tagged_fields
        if limit is not None and count > limit:
            text = f"Tried to read {count} tagged fields, which exceeds the maximum allowed count of {limit}."
            raise MessageError(RUNTIME, text)
        return count
