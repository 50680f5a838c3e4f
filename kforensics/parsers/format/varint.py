"""Zigzag varints as Kafka reads them: at most 5 bytes for an int, 10 for a long.

Rule: ``org.apache.kafka.common.utils.ByteUtils``. A continue bit in the last allowed byte is an error; bits that fall
off the top are lost in silence; over-long encodings of small numbers are taken.
"""

from __future__ import annotations

from typing import Any

from construct import Construct, IntegerError, StreamError, stream_read

__all__ = ["SizedBytes", "VarInt", "VarLong", "VarintError", "read_varint", "read_varlong"]


class VarintError(ValueError):
    """A varint whose last allowed byte still says that more follow; the message is Kafka's."""


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Return the zigzag int at ``position`` and the position behind it.

    Raises:
        IndexError: the data ends inside the varint.
        VarintError: its fifth byte has the continue bit set.
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
    """Return the zigzag long at ``position`` and the position behind it.

    Raises:
        IndexError: the data ends inside the varint.
        VarintError: its tenth byte has the continue bit set.
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
    """A bounded zigzag varint: construct's own VarInt reads on for as long as continue bits come."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits, self.most = bits, -(-bits // 7)

    def _parse(self, stream: Any, _context: Any, path: str) -> int:
        raw = 0
        for index in range(self.most):
            byte: int = stream_read(stream, 1, path)[0]
            raw |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                raw &= (1 << self.bits) - 1
                return (raw >> 1) ^ -(raw & 1)
        raise IntegerError(f"varint is longer than {self.most} bytes", path=path)

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
    """Bytes behind their length as a varint; any negative length is null."""

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | None:
        length = VarInt._parse(stream, context, path)
        if length < 0:
            return None
        start = stream.tell()
        # A wild length must not ask for memory: look at what is left before reading.
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
