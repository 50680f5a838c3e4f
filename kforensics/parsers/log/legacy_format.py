"""Decodes messages of format 0 and 1: one per entry, or many inside a compressed wrapper message.

Rules: ``org.apache.kafka.common.record.LegacyRecord`` and ``AbstractLegacyRecordBatch`` with its deep iterator, which
reads all inner messages before it returns the first one, but detects nested compression only at the nested message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.format.checksums import crc32
from kforensics.parsers.format.decompression import DEFAULT_BUDGET, EOF, ZSTD, decompress
from kforensics.parsers.format.derived import FixedLayout, fixed_layout
from kforensics.parsers.format.failures import (
    CORRUPT_RECORD,
    INDEX_OUT_OF_BOUNDS,
    Stopped,
    codec_failure,
    invalid_record,
    new_limit,
    out_of_memory,
    unknown_codec,
)
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.layouts import LEGACY_HEADER_V0, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import (
    CODEC_MASK,
    CODECS,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    Batch,
    Failure,
    Record,
)
from kforensics.parsers.log.batch_headers import LEGACY_CRC_START, LENGTH_END, LENGTH_FIELD, MIN_SIZE

V0, V1 = fixed_layout(LEGACY_HEADER_V0), fixed_layout(LEGACY_HEADER_V1)
# Looked up once: an uncompressed log has a message of its own for each record.
MAGIC, AFTER_MAGIC, ATTRIBUTES = V0.offsets["magic"], V0.end_of("magic"), V0.offsets["attributes"]


@dataclass(frozen=True, slots=True)
class LegacyMessage:
    """A message of format 0 or 1. Fields are decoded on access, because Kafka detects damage just as lazily.

    Attributes:
        offset: absolute offset.
        data: all bytes of the message, including the offset and size fields.
        wrapper: timestamp type and timestamp of its wrapper message, None for a top-level message.
    """

    offset: int
    data: bytes
    wrapper: tuple[str, int] | None = None

    @property
    def magic(self) -> int:
        """Message format of this message; inner messages may differ from their wrapper (KAFKA-4298)."""
        return int.from_bytes(self.data[MAGIC:AFTER_MAGIC], signed=True)

    @property
    def codec(self) -> int:
        """Codec number."""
        return self.data[ATTRIBUTES] & CODEC_MASK

    @property
    def stored_crc(self) -> int:
        """The checksum as stored."""
        return int(V0.unpack_from(self.data)[2])

    @property
    def crc_valid(self) -> bool:
        """Whether the stored checksum matches the bytes."""
        return self.stored_crc == crc32(self.data[LEGACY_CRC_START:])

    @property
    def timestamp(self) -> int:
        """Timestamp in ms: the wrapper's if it has LogAppendTime, -1 in format 0."""
        if self.magic == 0:
            return -1
        if self.wrapper and self.wrapper[0] == LOG_APPEND_TIME:
            return self.wrapper[1]
        if len(self.data) < V1.size:
            raise Stopped(Failure("record-structure", INDEX_OUT_OF_BOUNDS, None))
        return int(V1.unpack_from(self.data)[-1])

    def sizes(self) -> tuple[int, int]:
        """Return key and value length as stored; any negative length means null.

        Raises:
            Stopped: a length field is outside the message.
        """
        key_size = self._length_at(self._layout.size)
        return key_size, self._length_at(self._value_field(key_size))

    def key(self) -> bytes | None:
        """Return the key."""
        return self._sized(self._layout.size)

    def value(self) -> bytes | None:
        """Return the value; for a wrapper, the compressed message set."""
        return self._sized(self._value_field(self._length_at(self._layout.size)))

    def record(self) -> Record:
        """Return the message as a record with all fields decoded.

        Raises:
            Stopped: a field exceeds the message.
        """
        key_field = self._layout.size
        key_size = self._length_at(key_field)
        value_field = key_field + LENGTH_FIELD + max(0, key_size)
        value_size = self._length_at(value_field)
        return Record(
            offset=self.offset,
            timestamp=self.timestamp,
            sequence=-1,
            key=self._payload(key_field, key_size),
            value=self._payload(value_field, value_size),
            key_size=key_size,
            value_size=value_size,
            crc=self.stored_crc,
            crc_valid=self.crc_valid,
        )

    @property
    def _layout(self) -> FixedLayout:
        return V0 if self.magic == 0 else V1

    def _value_field(self, key_size: int) -> int:
        return self._layout.size + LENGTH_FIELD + max(0, key_size)

    def _length_at(self, position: int) -> int:
        field = self.data[position : position + LENGTH_FIELD]
        if len(field) < LENGTH_FIELD:
            raise Stopped(Failure("record-structure", INDEX_OUT_OF_BOUNDS, None))
        return int.from_bytes(field, signed=True)

    def _sized(self, position: int) -> bytes | None:
        return self._payload(position, self._length_at(position))

    def _payload(self, field: int, size: int) -> bytes | None:
        """Return the bytes after a length field, None if the length is negative."""
        if size < 0:
            return None
        position = field + LENGTH_FIELD
        left = len(self.data) - position
        if size > left:
            raise Stopped(Failure("record-structure", *new_limit(size, left)))
        return self.data[position : position + size]


def outer_message(batch: Batch, data: bytes) -> LegacyMessage:
    """Return the message of a top-level entry, which may be a wrapper."""
    return LegacyMessage(batch.last_offset, data[: batch.size])


def legacy_messages(
    batch: Batch, data: bytes, budget: int = DEFAULT_BUDGET, *, strict: bool = False
) -> Iterator[LegacyMessage | Failure]:
    """Yield the messages of one top-level entry; a failure, if there is one, comes last.

    Args:
        batch: header of the entry.
        data: all its bytes.
        budget: maximum number of bytes to decompress.
        strict: refuse zstd as Kafka does, although other clients have used it with old formats.
    """
    try:
        if len(data) < batch.size:
            raise Stopped(Failure("shrunk", EOF, f"{len(data)} of {batch.size} bytes are present"))
        if batch.codec == 0:
            yield outer_message(batch, data)
            return
        if strict and batch.codec == ZSTD:
            text = f"Invalid wrapper compressionType found in legacy deep record iterator {batch.magic}"
            raise Stopped(invalid_record("codec", text))
        for inner in _unwrap(batch, outer_message(batch, data), budget, strict=strict):
            if inner.codec >= len(CODECS):
                raise Stopped(unknown_codec(inner.codec))
            if inner.codec:
                raise Stopped(invalid_record("nested-compression", "Inner messages must not be compressed"))
            yield inner
    except Stopped as stop:
        yield stop.failure


def legacy_records(
    batch: Batch, data: bytes, budget: int = DEFAULT_BUDGET, *, strict: bool = False
) -> Iterator[Record | Failure]:
    """Yield the records of one top-level entry; a failure, if there is one, comes last."""
    for message in legacy_messages(batch, data, budget, strict=strict):
        if isinstance(message, Failure):
            yield message
            return
        try:
            yield message.record()
        except Stopped as stop:
            yield stop.failure
            return


def _unwrap(batch: Batch, wrapper: LegacyMessage, budget: int, *, strict: bool) -> Iterator[LegacyMessage]:
    if batch.codec >= len(CODECS):
        raise Stopped(unknown_codec(batch.codec))
    value = wrapper.value()
    if value is None:
        text = f"Found invalid compressed record set with null value (magic = {batch.magic})"
        raise Stopped(invalid_record("wrapper", text))
    origin = len(wrapper.data) - len(value)
    stream = decompress(batch.codec, value, origin, batch.magic, budget)
    if stream.failure and (stream.at_open or stream.failure.reason == "limit"):
        raise Stopped(codec_failure(stream.failure, "open"))
    outer = (batch.timestamp_type, batch.max_timestamp)
    last: LegacyMessage | None = None
    # Decode the bytes twice instead of keeping a list: a set as large as the budget has millions of messages.
    for inner in _inner_messages(stream.data, outer, strict=strict):
        last = inner
    if stream.failure:
        raise Stopped(codec_failure(stream.failure, "open"))
    if last is None:
        raise Stopped(invalid_record("empty", "Found invalid compressed record set with no inner records"))
    base = _absolute_base(batch, last.offset)
    for inner in _inner_messages(stream.data, outer, strict=strict):
        yield LegacyMessage(int64(inner.offset + base), inner.data, inner.wrapper)


def _inner_messages(data: bytes, wrapper: tuple[str, int], *, strict: bool) -> Iterator[LegacyMessage]:
    position = 0
    while position + LENGTH_END <= len(data):
        head = data[position : position + LENGTH_END]
        offset = int.from_bytes(head[:-LENGTH_FIELD], signed=True)
        size = int.from_bytes(head[-LENGTH_FIELD:], signed=True)
        if size < MIN_SIZE:
            text = f"Record size is less than the minimum record overhead ({MIN_SIZE})"
            raise Stopped(Failure("record-size", CORRUPT_RECORD, text))
        if strict and (failure := out_of_memory(size)):
            raise Stopped(failure)
        end = position + LENGTH_END + size
        # Ignore a message cut off at the end of the set: producers of that time sent such sets.
        if end > len(data):
            return
        yield LegacyMessage(offset, data[position:end], wrapper if wrapper[0] != NO_TIMESTAMP_TYPE else None)
        position = end


def _absolute_base(batch: Batch, last_inner: int) -> int:
    """Return the base to add to inner offsets: they are relative in format 1 and absolute in format 0.

    A wrapper offset of 0 comes from certain librdkafka versions, whose inner offsets are absolute (KAFKA-3933).
    """
    if batch.magic == 0 or batch.last_offset == 0:
        return 0
    if batch.last_offset < last_inner:
        message = (
            f"Found invalid wrapper offset in compressed v1 message set, wrapper offset '{batch.last_offset}' "
            f"is less than the last inner message offset '{last_inner}' and it is not zero."
        )
        raise Stopped(invalid_record("wrapper", message))
    return batch.last_offset - last_inner
