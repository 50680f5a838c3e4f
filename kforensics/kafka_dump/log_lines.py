"""The lines of a ``.log`` or ``.checkpoint``: one per batch, one per record, in the form of any release.

Rule: ``DumpLogSegments.dumpLog`` of each release. Text comes in the pieces that the tool prints at once, because where
an exception strikes between two of them, the first has been printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kforensics.kafka_dump.file_records import java_error
from kforensics.kafka_dump.java import JavaError, java_text
from kforensics.kafka_dump.line_templates import (
    BATCH_TAIL,
    ENTRY_HEAD,
    batch_head,
    contents_words,
    message_metadata,
    record_metadata,
)
from kforensics.kafka_dump.styles import Style
from kforensics.parsers.format.failures import ILLEGAL_ARGUMENT, Stopped, unknown_codec
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.kernels.policy import DECOMPRESSED
from kforensics.parsers.log.legacy import Message

__all__ = ["BlockLines", "ControlSuffix", "Decode", "RecordLines", "batch_line", "kernels_print"]

Decode = Callable[[bytes | None, bytes | None, int], tuple[str | None, str | None]]
ControlSuffix = Callable[[bytes | None, bytes | None], str]


class BlockLines(NamedTuple):
    """The lines of many batches at once.

    Attributes:
        text: the lines as UTF-8; it changes once the next block is asked for.
        first_offset: of the first record, -1 if no records were looked at.
        last_offset: of the last record, likewise.
        gaps: pairs of neighbouring record offsets that are not consecutive.
    """

    text: memoryview
    first_offset: int
    last_offset: int
    gaps: Iterable[tuple[int, int]]


def batch_line(batch: Batch, style: Style, codec: str | None = None) -> Iterator[str]:
    """Yield the two halves of a batch line.

    Args:
        batch: the batch.
        style: the release to imitate.
        codec: what to print as codec, None for its name.

    Raises:
        JavaError: the codec or the format is none that Kafka knows.
    """
    yield ENTRY_HEAD.format(last_offset=batch.last_offset) if batch.is_legacy else _first_half(batch, style)
    if batch.magic < 0:
        raise JavaError(ILLEGAL_ARGUMENT, f"Invalid magic used in LegacyRecord: {batch.magic}")
    if batch.compression_type is None and codec is None:
        raise java_error(unknown_codec(batch.codec))
    yield BATCH_TAIL.format(
        position=batch.position,
        timestamp_type=batch.timestamp_type,
        max_timestamp=batch.max_timestamp,
        size=batch.size,
        magic=batch.magic,
        codec=codec or codec_name(batch, style),
        crc=batch.crc,
        crc_valid=java_bool(batch.crc_valid),
    )


def _first_half(batch: Batch, style: Style) -> str:
    return batch_head(style).format(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        count=batch.count,
        base_sequence=batch.base_sequence,
        last_sequence=batch.last_sequence,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        partition_leader_epoch=batch.partition_leader_epoch,
        is_transactional=java_bool(batch.is_transactional),
        is_control=java_bool(batch.is_control),
        delete_horizon=optional_long(batch.delete_horizon_ms),
    )


def codec_name(batch: Batch, style: Style) -> str:
    """Return the codec's name, or its number, in the letters of the release."""
    return style.codec(batch.compression_type or str(batch.codec))


def kernels_print(lines: RecordLines | None, budget: int) -> bool:
    """Whether kernels can print records so, or batches alone, within a budget of bytes to decompress."""
    return (lines is None or lines.as_text) and budget >= DECOMPRESSED


def java_bool(value: object) -> str:
    """Return a truth value as Java prints it."""
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    """Return a number or its absence as ``java.util.OptionalLong`` prints it."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


@dataclass(frozen=True, slots=True)
class RecordLines:
    """Prints record lines.

    Attributes:
        style: the release to imitate.
        decode: key and value to text, None not to print them.
        control_suffix: key and value of a control record to text.
        skip_metadata: leave out all but key and payload.
        catches: the decoder prints exceptions of a message's own fields too, rather than let them end the run.
        as_text: keys and payloads are decoded as UTF-8 and nothing else, if at all; kernels can do that.
    """

    style: Style
    decode: Decode | None
    control_suffix: ControlSuffix
    skip_metadata: bool = False
    catches: bool = False
    as_text: bool = False

    def record(self, batch: Batch, record: Record) -> Iterator[str]:
        """Yield the pieces of one line of a format 2 record.

        Raises:
            JavaError: a decoder gives up where the tool's does.
        """
        if not self.skip_metadata:
            yield self._metadata(batch, record)
            if batch.is_control:
                yield self.control_suffix(record.key, record.value)
        if self.decode and not batch.is_control:
            yield self._contents(self.decode(record.key, record.value, record.offset))
        yield "\n"

    def message(self, batch: Batch, message: Message, base_offset: int) -> Iterator[str]:
        """Yield the pieces of one line of a message of format 0 or 1; raises as :meth:`record`.

        Args:
            batch: the top-level entry.
            message: the entry itself, or one from inside it.
            base_offset: offset of the first message in the entry.
        """
        try:
            if not self.skip_metadata:
                yield self._legacy_metadata(batch, message, base_offset)
            if self.decode:
                yield self._contents(self._decoded(self.decode, message))
        except Stopped as error:
            raise java_error(error.failure) from None
        yield "\n"

    def _decoded(self, decode: Decode, message: Message) -> tuple[str | None, str | None]:
        try:
            key, value = message.key(), message.value()
        except Stopped as error:
            if not self.catches:
                raise
            return f"Error at offset {message.offset}, skipping. {error.failure.message or 'null'}", None
        return decode(key, value, message.offset)

    def _metadata(self, batch: Batch, record: Record) -> str:
        return record_metadata(self.style).format(
            offset=record.offset,
            timestamp_type=batch.timestamp_type,
            timestamp=record.timestamp,
            key_size=record.key_size,
            value_size=record.value_size,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            base_sequence=batch.base_sequence,
            last_sequence=batch.last_sequence,
            producer_epoch=batch.producer_epoch,
            partition_leader_epoch=batch.partition_leader_epoch,
            size=batch.size,
            magic=batch.magic,
            codec=codec_name(batch, self.style),
            position=batch.position,
            sequence=record.sequence,
            header_keys=",".join(java_text(key) for key, _ in record.headers) if record.headers else "",
        )

    def _legacy_metadata(self, batch: Batch, message: Message, base_offset: int) -> str:
        key_size, value_size = message.sizes()
        return message_metadata(self.style).format(
            offset=message.offset,
            timestamp_type=batch.timestamp_type,
            timestamp=message.timestamp,
            key_size=key_size,
            value_size=value_size,
            crc=message.stored_crc,
            crc_valid=java_bool(message.crc_valid),
            base_offset=base_offset,
            last_offset=batch.last_offset,
            base_sequence=-1,
            last_sequence=-1,
            producer_epoch=-1,
            partition_leader_epoch=-1,
            size=batch.size,
            magic=batch.magic,
            codec=codec_name(batch, self.style),
            position=batch.position,
        )

    def _contents(self, texts: tuple[str | None, str | None]) -> str:
        before_key, behind_key, alone = contents_words(self.style, skip_metadata=self.skip_metadata)
        key, payload = texts
        out = "" if key is None else f"{before_key}{key}"
        return out if payload is None else f"{out}{behind_key if out else alone}{payload}"
