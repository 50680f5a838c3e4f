"""Builds batches, records and messages; those of which a test needs thousands without the layouts, which are slow."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence

import cramjam
import lz4.frame

from kforensics.parsers.format.checksums import crc32, crc32c
from kforensics.parsers.format.decompression import zstd_module
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, LEGACY_HEADER_V0
from kforensics.parsers.format.rows import Batch, Damage, Header

zstd = zstd_module()
HEADER = fixed_layout(BATCH_HEADER)
LENGTH_END, CRC_START = HEADER.end_of("length"), HEADER.end_of("crc")
LEGACY_CRC_START = fixed_layout(LEGACY_HEADER_V0).end_of("crc")
NOW = 1_700_000_000_000
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
XERIAL = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2


def varint(number: int) -> bytes:
    """Return a zigzag varint, of 32 or 64 bits."""
    rest, built = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        built.append(rest & 0x7F | 0x80)
        rest >>= 7
    built.append(rest)
    return bytes(built)


def sized(data: bytes | None) -> bytes:
    """Return length-prefixed bytes."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[Header] = (),
    *,
    timestamp_delta: int = 0,
    **changed: int,
) -> bytes:
    """Return a record of format 2; ``length`` and ``header_count`` may be wrong on purpose."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value)
    body += varint(changed.get("header_count", len(headers)))
    body += b"".join(sized(name) + sized(text) for name, text in headers)
    return varint(changed.get("length", len(body))) + body


def compressed(codec: int, data: bytes, magic: int = 2) -> bytes:
    """Return data compressed as by Kafka's clients."""
    match codec:
        case 1:
            return gzip.compress(data, mtime=0)
        case 2:
            block = bytes(cramjam.snappy.compress_raw(data))
            return XERIAL + len(block).to_bytes(4, "big") + block
        case 3:
            frame = bytes(lz4.frame.compress(data, block_linked=False, store_size=False))
            return frame[:6] + b"\x1a" + frame[7:] if magic == 0 else frame
        case 4:
            return bytes(zstd.compress(data))
    return data


def sealed(batch: bytes) -> bytes:
    """Return a batch of format 2 with a valid checksum."""
    return batch[: CRC_START - 4] + crc32c(batch[CRC_START:]).to_bytes(4, "big") + batch[CRC_START:]


def batch(*records: bytes, base_offset: int = 0, codec: int = NONE, **changed: int) -> bytes:
    """Return a batch of format 2 with a valid checksum; any header field may be wrong on purpose."""
    fields = {"attributes": codec, "last_offset_delta": max(0, len(records) - 1), "count": len(records)}
    payload = compressed(codec, b"".join(records))
    return batch_of(payload, **fields | {"base_offset": base_offset} | changed)


def batch_of(payload: bytes, **changed: int) -> bytes:
    """Return a batch of format 2 with these bytes as its records section; its count is 0 unless given."""
    fields = {
        "base_offset": 0,
        "length": HEADER.size - LENGTH_END + len(payload),
        "partition_leader_epoch": 0,
        "magic": 2,
        "crc": 0,
        "attributes": NONE,
        "last_offset_delta": 0,
        "base_timestamp": NOW,
        "max_timestamp": NOW,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": 0,
    }
    built = sealed(bytes(BATCH_HEADER.build(fields | changed)) + payload)
    return built if "crc" not in changed else built[: CRC_START - 4] + _crc(changed["crc"]) + built[CRC_START:]


def batches(count: int, *, codec: int = NONE, first: int = 0) -> list[bytes]:
    """Return batches of two records each, with increasing offsets and different contents."""
    return [
        batch(record(0, b"key-%d" % n, b"v" * (n % 7)), record(1, None, b"%d" % n * 3), base_offset=2 * n, codec=codec)
        for n in range(first, first + count)
    ]


def message(
    offset: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    magic: int = 1,
    timestamp: int = NOW,
    attributes: int = 0,
    crc: int | None = None,
) -> bytes:
    """Return a message of format 0 or 1, with a valid checksum unless one is given."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    body += _sized32(key) + _sized32(value)
    return struct.pack(">qi", offset, 4 + len(body)) + _crc(crc32(body) if crc is None else crc) + body


def wrapper(
    *inner: bytes, codec: int = GZIP, magic: int = 1, offset: int = 0, value: bytes | None = None, **changed: int
) -> bytes:
    """Return a compressed message that wraps messages."""
    value = compressed(codec, b"".join(inner), magic) if value is None else value
    attributes = changed.pop("attributes", codec)
    return message(offset, None, value, magic=magic, attributes=attributes, **changed)


def wrapped_set(magic: int, codec: int, first: int, count: int = 3) -> bytes:
    """Return a wrapper as producers wrote it: inner offsets absolute in format 0, relative in format 1."""
    numbers = range(first, first + count) if magic == 0 else range(count)
    inner = [message(n, b"key-%d" % n, b"value-%d" % n, magic=magic) for n in numbers]
    return wrapper(*inner, codec=codec, magic=magic, offset=first + count - 1)


def legacy_segment(magic: int, codec: int = NONE) -> list[bytes]:
    """Return entries of format 0 or 1: plain messages and, with a codec, a wrapper between them."""
    middle = wrapped_set(magic, codec, 2) if codec else message(4, None, b"", magic=magic)
    return [
        message(0, magic=magic),
        message(1, b"k", None, magic=magic),
        middle,
        message(5, b"", b"end", magic=magic),
    ]


def ranges(rows: Iterator[Batch | Damage]) -> list[tuple[int, int, str]]:
    """Return the ranges of a log as (start, end, ``batch`` or damage reason), without damage inside batches."""
    return [
        (row.position, row.position + row.size, "batch") if isinstance(row, Batch) else (row.start, row.end, row.reason)
        for row in rows
        if isinstance(row, Batch) or row.inside_batch is None
    ]


def _sized32(data: bytes | None) -> bytes:
    return (-1 if data is None else len(data)).to_bytes(4, "big", signed=True) + (data or b"")


def _crc(crc: int) -> bytes:
    return crc.to_bytes(4, "big")
