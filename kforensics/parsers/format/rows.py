"""The rows that decoders yield: batches, records, and damage for the ranges that cannot be decoded.

Rows come in byte order. Batches, and damage without ``inside_batch``, cover a file without gap or overlap; only a torn
batch whose missing end equals the start of the next batch shares these bytes with it. Damage with ``inside_batch`` is
within the range of its batch and reports lost records or another fault of it.
"""

from __future__ import annotations

from dataclasses import dataclass

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE = "CreateTime", "LogAppendTime", "NoTimestampType"
CODEC_MASK, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT, DELETE_HORIZON_BIT = 0x07, 0x08, 0x10, 0x20, 0x40

Header = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a decoder stopped: the damage reason, and the exception that Kafka's own reader raises.

    Attributes:
        reason: a damage reason from ``docs/damage.md``, such as ``record-structure``.
        exception: class name of Kafka's exception.
        message: message of the exception, None if it has none.
        causes: the ``Caused by`` chain as (class name, message).
    """

    reason: str
    exception: str
    message: str | None
    causes: tuple[tuple[str, str | None], ...] = ()

    @property
    def detail(self) -> str:
        """One line of text for a damage row."""
        parts = [self.message or self.exception, *(message or name for name, message in self.causes)]
        return ": ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Damage:
    """A range of bytes that was not decoded, or that is suspect.

    Attributes:
        start: position of the first byte of the range.
        end: position after its last byte.
        reason: a damage reason from ``docs/damage.md``.
        detail: a sentence, or Kafka's own message.
        next_good_position: where decoding resumed, None if nothing valid follows.
        inside_batch: position of the batch that has the fault: lost records, a failed checksum, an unknown magic byte
            or a torn end; None if the range has no batch.
    """

    start: int
    end: int
    reason: str
    detail: str
    next_good_position: int | None = None
    inside_batch: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a record batch, or a top-level entry of message format 0 or 1.

    Fields that the message format does not define are None. So are ``base_offset`` and ``count`` of a compressed entry
    of format 0 or 1, because they are unknown until it is decompressed.
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
        """Number of the compression codec; 5 to 7 are unassigned."""
        return self.attributes & CODEC_MASK

    @property
    def compression_type(self) -> str | None:
        """Kafka's name of the codec, None if the number is unassigned."""
        return CODECS[self.codec] if self.codec < len(CODECS) else None

    @property
    def is_legacy(self) -> bool:
        """Whether this is an entry of message format 0 or 1."""
        return self.magic < 2

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction; False in formats 0 and 1."""
        return not self.is_legacy and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch contains control records, such as transaction markers; False in formats 0 and 1."""
        return not self.is_legacy and bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time after which the cleaner may remove tombstones and markers of the batch, None if not set."""
        return self.base_timestamp if not self.is_legacy and self.attributes & DELETE_HORIZON_BIT else None


@dataclass(slots=True)
class Record:
    """A record as a consumer sees it. ``key_size`` and ``value_size`` are as stored, -1 for null.

    Not frozen, because frozen instances are slower to create; treat it as immutable.
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


def ignore_damage(*_damage: object) -> None:
    """Ignore damage that was reported when the log was read for the first time."""
