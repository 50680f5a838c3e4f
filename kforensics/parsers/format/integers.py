"""Kafka's integers: zigzag varints of at most 5 or 10 bytes, and 32- and 64-bit arithmetic that wraps as in Java.

Rule for varints: ``org.apache.kafka.common.utils.ByteUtils``. A continuation bit in the last allowed byte is an error,
bits beyond the width are dropped silently, and overlong encodings of small numbers are accepted.
"""

from __future__ import annotations

from typing import Any

from construct import Construct, IntegerError, StreamError, stream_read

INT32_MAX = 0x7FFFFFFF


def int32(value: int) -> int:
    """Return the low 32 bits as a signed integer."""
    return (value + (1 << 31) & 0xFFFFFFFF) - (1 << 31)


def int64(value: int) -> int:
    """Return the low 64 bits as a signed integer."""
    return (value + (1 << 63) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)


def sequence_after(base: int, delta: int) -> int:
    """Return the sequence ``delta`` after ``base``, in 32-bit arithmetic; 2147483647 is followed by 0.

    Rule: ``DefaultRecordBatch.incrementSequence``.
    """
    room = int32(INT32_MAX - delta)
    return int32(delta - int32(INT32_MAX - base) - 1) if base > room else int32(base + delta)


class VarintError(ValueError):
    """The last allowed byte of a varint has its continuation bit set. The message is Kafka's."""


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the zigzag int at ``position`` and the position after it.

    Raises:
        IndexError: the data ends inside the varint.
        VarintError: the fifth byte has its continuation bit set.
    """
    raw = data[position]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), position + 1
    raw &= 0x7F
    for shift in (7, 14, 21):
        position += 1
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
    position += 1
    byte = data[position]
    raw = (raw | byte << 28) & 0xFFFFFFFF
    if byte >= 0x80:
        message = f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {raw:x}"
        raise VarintError(message)
    return (raw >> 1) ^ -(raw & 1), position + 1


def read_varlong(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the zigzag long at ``position`` and the position after it.

    Raises:
        IndexError: the data ends inside the varint.
        VarintError: the tenth byte has its continuation bit set.
    """
    raw = shift = 0
    while shift < 63:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    byte = data[position]
    raw = (raw | byte << 63) & 0xFFFFFFFFFFFFFFFF
    if byte >= 0x80:
        message = f"Varlong is too long, most significant bit in the 10th byte is set, converted value: {raw:x}"
        raise VarintError(message)
    return (raw >> 1) ^ -(raw & 1), position + 1


class _ZigZag(Construct):  # type: ignore[misc]  # construct carries no types
    """A bounded zigzag varint. construct's own VarInt has no limit: it reads while continuation bits are set."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits, self.max_bytes = bits, -(-bits // 7)

    def _parse(self, stream: Any, _context: Any, path: str) -> int:
        raw = 0
        for index in range(self.max_bytes):
            byte: int = stream_read(stream, 1, path)[0]
            raw |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                raw &= (1 << self.bits) - 1
                return (raw >> 1) ^ -(raw & 1)
        raise IntegerError(f"varint is longer than {self.max_bytes} bytes", path=path)

    def _build(self, obj: int, stream: Any, _context: Any, _path: str) -> int:
        raw = (obj << 1 ^ obj >> self.bits - 1) & (1 << self.bits) - 1
        out = bytearray()
        while raw > 0x7F:
            out.append(raw & 0x7F | 0x80)
            raw >>= 7
        out.append(raw)
        stream.write(bytes(out))
        return obj


VarInt = _ZigZag(32)
VarLong = _ZigZag(64)


class _SizedBytes(Construct):  # type: ignore[misc]  # construct carries no types
    """Bytes preceded by their length as a varint. Any negative length means null."""

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | None:
        length = VarInt._parse(stream, context, path)
        if length < 0:
            return None
        start = stream.tell()
        # Compare with the remaining bytes before reading: a corrupt length must not allocate memory.
        left = stream.seek(0, 2) - start
        stream.seek(start)
        if length > left:
            raise StreamError(f"{length} bytes announced, {left} left", path=path)
        return bytes(stream_read(stream, length, path))

    def _build(self, obj: bytes | None, stream: Any, context: Any, path: str) -> bytes | None:
        VarInt._build(-1 if obj is None else len(obj), stream, context, path)
        stream.write(obj or b"")
        return obj


SizedBytes = _SizedBytes()
