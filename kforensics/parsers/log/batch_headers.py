"""Decodes batch headers of every message format into ``Batch`` rows, without validating their fields."""

from __future__ import annotations

from kforensics.parsers.format.checksums import crc32, crc32c
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.integers import int64, sequence_after
from kforensics.parsers.format.layouts import BATCH_HEADER, ENTRY_PREFIX, LEGACY_HEADER_V0, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import (
    CODEC_MASK,
    CODECS,
    CREATE_TIME,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP_TYPE,
    Batch,
)

HEADER, PREFIX = fixed_layout(BATCH_HEADER), fixed_layout(ENTRY_PREFIX)
V0, V1 = fixed_layout(LEGACY_HEADER_V0), fixed_layout(LEGACY_HEADER_V1)
# The length field counts the bytes that follow it.
LENGTH_END = PREFIX.end_of("length")
CRC_START = HEADER.end_of("crc")
LEGACY_CRC_START = V0.end_of("crc")
# Size of the length field before a key or value of formats 0 and 1.
LENGTH_FIELD = 4
# Kafka requires the overhead of format 0 in both formats: from the checksum on, including both length fields.
MIN_SIZE = V0.size + 2 * LENGTH_FIELD - LENGTH_END


def prefix(data: bytes, start: int = 0) -> tuple[int, int, int]:
    """Return base offset, length and magic byte, which have the same position in every format."""
    base_offset, length, _, magic = PREFIX.unpack_from(data, start)
    return base_offset, length, magic


def batch_header(data: bytes, position: int, *, crc_of_rest: int | None = None) -> Batch:
    """Return the header of a format 2 batch.

    Args:
        data: at least the 61 bytes of the header; the whole batch unless ``crc_of_rest`` is given.
        position: position of the batch in its file.
        crc_of_rest: CRC-32C of all bytes after the stored checksum, None to compute it from ``data``.
    """
    fields = HEADER.unpack_from(data)
    base_offset, length, epoch, magic, crc, attributes, delta, base_timestamp, max_timestamp = fields[:9]
    producer_id, producer_epoch, base_sequence, count = fields[9:]
    size = LENGTH_END + length
    if crc_of_rest is None:
        crc_of_rest = crc32c(data[CRC_START:size])
    return Batch(
        position=position,
        size=size,
        base_offset=base_offset,
        last_offset=int64(base_offset + delta),
        count=count,
        magic=magic,
        partition_leader_epoch=epoch,
        crc=crc,
        crc_valid=size >= HEADER.size and crc == crc_of_rest,
        attributes=attributes,
        timestamp_type=LOG_APPEND_TIME if attributes & LOG_APPEND_TIME_BIT else CREATE_TIME,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        last_sequence=-1 if base_sequence == -1 else sequence_after(base_sequence, delta),
        last_offset_delta=delta,
    )


def legacy_header(data: bytes, position: int, *, crc_of_rest: int | None = None) -> Batch:
    """Return the header of a top-level entry of format 0 or 1.

    Args:
        data: the whole entry; the fields up to the timestamp are enough if ``crc_of_rest`` is given.
        position: position of the entry in its file.
        crc_of_rest: CRC-32 of all bytes after the stored checksum, None to compute it from ``data``.
    """
    offset, size, crc, magic, attributes = V0.unpack_from(data)
    if crc_of_rest is None:
        crc_of_rest = crc32(data[LEGACY_CRC_START : LENGTH_END + size])
    timestamp, timestamp_type = -1, NO_TIMESTAMP_TYPE
    if magic > 0:
        timestamp = V1.unpack_from(data)[-1] if len(data) >= V1.size else -1
        timestamp_type = LOG_APPEND_TIME if attributes & LOG_APPEND_TIME_BIT else CREATE_TIME
    single = attributes & CODEC_MASK == 0
    return Batch(
        position=position,
        size=LENGTH_END + size,
        base_offset=offset if single else None,
        last_offset=offset,
        count=1 if single else None,
        magic=magic,
        partition_leader_epoch=None,
        crc=crc,
        crc_valid=crc == crc_of_rest,
        attributes=attributes,
        timestamp_type=timestamp_type,
        base_timestamp=None,
        max_timestamp=timestamp,
    )


def crc_start(magic: int) -> int:
    """Return the offset within a batch from which the checksum covers its bytes."""
    return LEGACY_CRC_START if magic < 2 else CRC_START


def plausible(batch: Batch) -> bool:
    """Return whether the header fields are consistent, for a batch whose checksum does not confirm them."""
    if batch.last_offset < 0 or batch.codec >= len(CODECS):
        return False
    if batch.is_legacy:
        return True
    delta, count = batch.last_offset_delta or 0, batch.count or 0
    return batch.magic == 2 and (batch.base_offset or 0) >= 0 and delta >= 0 and 0 <= count <= delta + 1
