"""The rows a decoder gives back: what it read, and what it could not read.

A decoder yields rows in the order of the bytes. ``Batch`` and ``Damage`` rows of one file cover it exactly, without
gap or overlap; damage inside a batch (``inside_batch``) says which of its records are lost, or what else is wrong
with it, and lies within the batch's range.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Batch", "Damage", "Failure", "Header", "Record"]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = "CreateTime", "LogAppendTime", "NoTimestampType"
CODEC_MASK, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, DELETE_HORIZON_BIT = 0x07, 0x08, 0x10, 0x20, 0x40

Header = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a decoder had to stop, in our word for it and in Kafka's.

    Attributes:
        reason: one of the words listed in ``docs/damage.md``, such as ``record-structure``.
        exception: class of the exception Kafka's own reader raises here.
        message: its message, None if it has none.
        causes: the chain of ``Caused by`` as (class, message).
    """

    reason: str
    exception: str
    message: str | None
    causes: tuple[tuple[str, str | None], ...] = ()

    @property
    def detail(self) -> str:
        """One line for a damage row."""
        parts = [self.message or self.exception, *(message or name for name, message in self.causes)]
        return ": ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes that was not decoded.

    Attributes:
        start: first byte of the range.
        end: byte behind its last one.
        reason: one of the words listed in ``docs/damage.md``.
        detail: a sentence, or Kafka's own message.
        next_good_position: where decoding went on, None if nothing good follows.
        inside_batch: position of the batch whose records are lost, None where whole batches are.
    """

    start: int
    end: int
    reason: str
    detail: str
    next_good_position: int | None = None
    inside_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a record batch, or one top-level entry of message format 0 or 1.

    Fields that the message format does not have are None. ``base_offset`` and ``count`` of a compressed entry of
    format 0 or 1 are None too: they cannot be known without decompressing it.
    """

    position: int
    size: int
    base_offset: int | None
    last_offset: int
    count: int | None
    magic: int
    partition_leader_epoch: int | None
    crc: int
    crc_valid: bool
    attributes: int
    timestamp_type: str
    base_timestamp: int | None
    max_timestamp: int
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    last_sequence: int | None = None
    last_offset_delta: int | None = None

    @property
    def codec(self) -> int:
        """Number of the compression codec; 5 to 7 mean nothing."""
        return self.attributes & CODEC_MASK

    @property
    def compression_type(self) -> str | None:
        """Kafka's name of the codec, None if the number means nothing."""
        return CODECS[self.codec] if self.codec < len(CODECS) else None

    @property
    def is_legacy(self) -> bool:
        """Whether this is an entry of message format 0 or 1."""
        return self.magic < 2

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction; False in formats 0 and 1."""
        return not self.is_legacy and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the records are markers or other control records; False in formats 0 and 1."""
        return not self.is_legacy and bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time after which the cleaner may drop tombstones and markers of this batch, None if not set."""
        return self.base_timestamp if not self.is_legacy and self.attributes & DELETE_HORIZON_BIT else None


@dataclass(slots=True)
class Record:
    """One record with the values a consumer would see. ``key_size`` and ``value_size`` are as stored, -1 for null.

    Not frozen, for speed; nobody changes one.
    """

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    key_size: int = -1
    value_size: int = -1
    crc: int | None = None
    crc_valid: bool | None = None
