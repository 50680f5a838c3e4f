"""Batches, messages and state files made by hand, wrong where a case wants them wrong.

It encodes with nothing of the package under test, so that an error in a layout cannot hide on both sides.
"""

import gzip
import struct
import zlib
from collections.abc import Sequence

TIME = 1_700_000_000_000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
TRANSACTIONAL, CONTROL = 0x10, 0x20
_POLYNOMIAL = 0x82F63B78


def crc32c(content: bytes) -> int:
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _table_entry(value: int) -> int:
    for _bit in range(8):
        value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_CRC_TABLE = [_table_entry(value) for value in range(256)]


def varint(value: int) -> bytes:
    """A zigzag varint of Kafka, in as few bytes as possible."""
    rest = (value << 1) if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def text(content: bytes | None) -> bytes:
    """A length as varint, -1 for null, and the bytes."""
    return varint(-1) if content is None else varint(len(content)) + content


def record_body(
    delta: int, key: bytes | None, value: bytes | None, *, headers: bytes = b"\x00", time: int = 0
) -> bytes:
    """The bytes of a record of magic 2 after its length; ``headers`` are the encoded count and headers."""
    return b"\x00" + varint(time) + varint(delta) + text(key) + text(value) + headers


def sized(body: bytes, length: int | None = None) -> bytes:
    """A record body after its length, the true one or another."""
    return varint(len(body) if length is None else length) + body


def record(delta: int, key: bytes | None, value: bytes | None, *, headers: bytes = b"\x00", time: int = 0) -> bytes:
    """A whole record of magic 2."""
    return sized(record_body(delta, key, value, headers=headers, time=time))


def three(base: int) -> list[bytes]:
    """Three plain records; their contents depend on the offset of the first."""
    return [record(i, b"key-%d" % (base + i), b"value-%d" % (base + i), time=i) for i in range(3)]


def batch(
    base: int,
    records: Sequence[bytes] | bytes,
    *,
    count: int | None = None,
    last_delta: int | None = None,
    attributes: int = 0,
    length: int | None = None,
    magic: int = 2,
    epoch: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    times: tuple[int, int] = (TIME, TIME + 2),
    crc: int | None = None,
) -> bytes:
    """A batch of magic 2; its CRC fits whatever it holds, unless another is given.

    Args:
        base: its base offset.
        records: encoded records, or the payload as it is.
        count: number of records it claims.
        last_delta: last offset delta it claims.
        attributes: codec and flags; the payload is not compressed here.
        length: length it claims.
        magic: version byte.
        epoch: partition leader epoch.
        producer: producer id, producer epoch and base sequence.
        times: base and maximum timestamp.
        crc: CRC it claims.
    """
    payload = records if isinstance(records, bytes) else b"".join(records)
    number = (3 if isinstance(records, bytes) else len(records)) if count is None else count
    delta = max(number - 1, 0) if last_delta is None else last_delta
    covered = struct.pack(">hiqqqhii", attributes, delta, *times, *producer, number) + payload
    checksum = crc32c(covered) if crc is None else crc
    size = len(covered) + 9 if length is None else length
    return struct.pack(">qiibI", base, size, epoch, magic, checksum) + covered


def plain(base: int, *, epoch: int = 0) -> bytes:
    """A healthy batch of three records."""
    return batch(base, three(base), epoch=epoch, times=(TIME + base, TIME + base + 2))


def marker(base: int, producer: tuple[int, int], key: bytes, value: bytes, attributes: int = 0) -> bytes:
    """A control batch of one record."""
    flags = attributes or TRANSACTIONAL | CONTROL
    body = record(0, key, value)
    return batch(base, [body], attributes=flags, producer=(*producer, -1), times=(TIME + base, TIME + base))


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    attributes: int = 0,
    time: int = TIME,
    size: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A message of magic 0 or 1 with its offset and size."""
    return raw_message(offset, magic, attributes, time, field(key) + field(value), size=size, crc=crc)


def raw_message(
    offset: int,
    magic: int,
    attributes: int,
    time: int,
    rest: bytes,
    *,
    size: int | None = None,
    crc: int | None = None,
) -> bytes:
    """A message of magic 0 or 1 whose key and value fields are given as bytes."""
    covered = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic == 1 else b"") + rest
    checksum = zlib.crc32(covered) if crc is None else crc
    return struct.pack(">qiI", offset, len(covered) + 4 if size is None else size, checksum) + covered


def field(content: bytes | None, length: int | None = None) -> bytes:
    """A key or value field of magic 0 and 1: a length, -1 for null, and the bytes."""
    if content is None:
        return struct.pack(">i", -1 if length is None else length)
    return struct.pack(">i", len(content) if length is None else length) + content


def gzipped(content: bytes) -> bytes:
    """A gzip stream as a JVM of today writes it: no time, operating system unknown."""
    return gzip.compress(content, mtime=0)[:9] + b"\xff" + gzip.compress(content, mtime=0)[10:]


def snappy_framed(*contents: bytes) -> bytes:
    """The framing of the Java library, with blocks that hold literals only."""
    blocks = [snappy_block(content) for content in contents]
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def snappy_block(content: bytes) -> bytes:
    """A raw snappy block of one literal, at most 65536 bytes."""
    return _unsigned(len(content)) + b"\xf4" + struct.pack("<H", len(content) - 1) + content


def lz4_framed(content: bytes, *, flags: int = 0x60, block_size: int = 0x40, check: int = 0x82) -> bytes:
    """An LZ4 frame with one stored block; ``check`` belongs to the flags and block size that Kafka writes."""
    header = struct.pack("<IBBB", 0x184D2204, flags, block_size, check)
    return header + struct.pack("<I", len(content) | 0x80000000) + content + bytes(4)


def zstd_framed(content: bytes) -> bytes:
    """A zstd frame with a window of 2 MiB and one raw block, neither content size nor checksum."""
    header = struct.pack("<IBB", 0xFD2FB528, 0x00, 0x58)
    return header + struct.pack("<I", len(content) << 3 | 1)[:3] + content


def _unsigned(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def flip(content: bytes, position: int, mask: int = 1) -> bytes:
    """The same bytes with bits of one of them turned over; a negative position counts from the end."""
    changed = bytearray(content)
    changed[position] ^= mask
    return bytes(changed)


def patch(content: bytes, position: int, replacement: bytes) -> bytes:
    """The same bytes with some of them replaced."""
    return content[:position] + replacement + content[position + len(replacement) :]
