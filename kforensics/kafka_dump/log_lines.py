"""The lines of a ``.log`` or ``.checkpoint``: one per batch and one per record, in the format of any release.

Rule: ``DumpLogSegments.dumpLog`` of each release. A line is yielded in the pieces that the tool prints separately: if
an exception occurs between two pieces, the first has been printed. Pure Python fills in the templates here; kernels
get them in compiled form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kforensics.kafka_dump.java import MAX_INT, MAX_LONG, JavaError, java_error
from kforensics.kafka_dump.styles import DumpStyle
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.failures import ILLEGAL_ARGUMENT, Stopped, unknown_codec
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.kernels.policy import MAX_DECOMPRESSED_BYTES

if TYPE_CHECKING:
    from kforensics.kafka_dump.decoders import Decoder
    from kforensics.parsers.kernels.templates import PayloadStyles
    from kforensics.parsers.log.legacy_format import LegacyMessage

ControlSuffix = Callable[[bytes | None, bytes | None], str]
# Text as a string, or as UTF-8 in a buffer that a kernel overwrites when the next piece is produced.
TextPiece = str | memoryview

BATCH_HEAD = (
    "baseOffset: {base_offset} lastOffset: {last_offset} count: {count} baseSequence: {base_sequence}"
    " lastSequence: {last_sequence} producerId: {producer_id} producerEpoch: {producer_epoch}"
    " partitionLeaderEpoch: {partition_leader_epoch} isTransactional: {is_transactional} isControl: {is_control}"
)
# The first half of the line of an entry of format 0 or 1; all formats have the same second half.
ENTRY_HEAD = "offset: {last_offset}"
DELETE_HORIZON = " deleteHorizonMs: {delete_horizon}"
BATCH_TAIL = (
    " position: {position} {timestamp_type}: {max_timestamp} size: {size} magic: {magic} compresscodec: {codec}"
    " crc: {crc} isvalid: {crc_valid}\n"
)
RECORD_FORM_E = (
    "{timestamp_type}: {timestamp} baseOffset: {base_offset} lastOffset: {last_offset}"
    " baseSequence: {base_sequence} lastSequence: {last_sequence} producerEpoch: {producer_epoch}"
    " partitionLeaderEpoch: {partition_leader_epoch} batchSize: {size} magic: {magic} compressType: {codec}"
    " position: {position}"
)
MARKER_SUFFIX = " endTxnMarker: {control_type} coordinatorEpoch: {coordinator_epoch}"
SEQUENCE_AND_HEADERS = " sequence: {sequence} headerKeys: [{header_keys}]"

# A snapshot of the metadata log is named by offset and epoch.
OFFSET_WIDTH, EPOCH_WIDTH = 20, 10


class BlockLines(NamedTuple):
    """The lines of many batches.

    Attributes:
        text: the lines as UTF-8; the next block overwrites them.
        first_offset: the first record offset, or -1 if records were not read.
        last_offset: the last record offset, or -1 if records were not read.
        gaps: pairs of neighboring record offsets that are not consecutive.
        rows: the number of record lines, or of batch lines if records are not printed.
    """

    text: memoryview
    first_offset: int
    last_offset: int
    gaps: Iterable[tuple[int, int]]
    rows: int = 0


@cache
def batch_head(style: DumpStyle) -> str:
    """Return the template of the first half of a batch line."""
    return BATCH_HEAD + DELETE_HORIZON if style.delete_horizon else BATCH_HEAD


@cache
def record_metadata(style: DumpStyle) -> str:
    """Return the template of a record line up to the key."""
    return _up_to_sizes(style, valid="true", crc="null") + SEQUENCE_AND_HEADERS


@cache
def message_metadata(style: DumpStyle) -> str:
    """Return the template of the line of a message of format 0 or 1 up to the key."""
    return _up_to_sizes(style, valid="{crc_valid}", crc="{crc}") + style.legacy_tail


def _up_to_sizes(style: DumpStyle, *, valid: str, crc: str) -> str:
    sizes = f"{style.key_size}: {{key_size}} {style.value_size}: {{value_size}}"
    if style.record_form == "E":
        return f"| offset: {{offset}} isValid: {valid} crc: {crc} {sizes} {RECORD_FORM_E}"
    return f"| offset: {{offset}} {{timestamp_type}}: {{timestamp}} {sizes}"


def content_labels(style: DumpStyle, *, skip_metadata: bool) -> tuple[str, str, str]:
    """Return the labels of a key, of a payload after a key, and of a payload without a key."""
    bar = "| " if skip_metadata else " "
    lone = bar if style.bar_before_lone_payload else " "
    return f"{bar}key: ", " payload: ", f"{lone}payload: "


def first_line(path: str, style: DumpStyle) -> str:
    """Return the line with the start offset or the snapshot id, which the tool takes from the file name.

    Raises:
        JavaError: the name does not have the expected form.
    """
    name = file_name(path)
    if name.endswith(".log"):
        return f"{style.log_start}: {_parse_number(name.split('.')[0])}"
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    offset = _parse_number(_substring(name, 0, OFFSET_WIDTH))
    epoch = _parse_number(_substring(name, OFFSET_WIDTH + 1, OFFSET_WIDTH + EPOCH_WIDTH + 1), MAX_INT)
    return f"Snapshot end offset: {offset}, epoch: {epoch}"


def _parse_number(text: str, maximum: int = MAX_LONG) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -maximum - 1 <= int(text) <= maximum:
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{text}"')
    return int(text)


def _substring(text: str, start: int, end: int) -> str:
    if end > len(text):
        message = f"begin {start}, end {end}, length {len(text)}"
        raise JavaError("java.lang.StringIndexOutOfBoundsException", message)
    return text[start:end]


def batch_line(batch: Batch, style: DumpStyle, codec: str | None = None) -> Iterator[str]:
    """Yield the two halves of a batch line.

    Args:
        batch: the batch.
        style: the release to imitate.
        codec: the codec to print; None for the name of the batch's codec.

    Raises:
        JavaError: Kafka does not know the codec or the format.
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


def _first_half(batch: Batch, style: DumpStyle) -> str:
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


def codec_name(batch: Batch, style: DumpStyle) -> str:
    """Return the name of the batch's codec, or its number, in the letter case of the release."""
    return style.codec(batch.compression_type or str(batch.codec))


def kernels_can_print(lines: RecordLines | None, budget: int) -> bool:
    """Return whether kernels can print these record lines, or only batch lines, within the decompression budget."""
    return (lines is None or lines.as_text or lines.payloads is not None) and budget >= MAX_DECOMPRESSED_BYTES


def java_bool(value: object) -> str:
    """Return a boolean as Java prints it."""
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    """Return a number or None as ``java.util.OptionalLong`` prints it."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


@dataclass(frozen=True, slots=True)
class RecordLines:
    """Formats record lines.

    Attributes:
        style: the release to imitate.
        decode: decodes keys and values; None if they are not printed.
        control_suffix: formats the key and value of a control record.
        skip_metadata: print keys and payloads only.
        prints_errors: the decoder prints exceptions in the fields of a message; they do not end the run.
        as_text: keys and payloads are decoded as UTF-8, if at all, as kernels can do it.
        payloads: how kernels show keys and payloads as the decoder does; None if they cannot, or ``as_text`` is true.
    """

    style: DumpStyle
    decode: Decoder | None
    control_suffix: ControlSuffix
    skip_metadata: bool = False
    prints_errors: bool = False
    as_text: bool = False
    payloads: PayloadStyles | None = None

    def record(self, batch: Batch, record: Record) -> Iterator[str]:
        """Yield the pieces of the line of a record of format 2.

        Raises:
            JavaError: a decoder of the tool aborts.
        """
        if not self.skip_metadata:
            yield self._metadata(batch, record)
            if batch.is_control:
                yield self.control_suffix(record.key, record.value)
        if self.decode and not batch.is_control:
            yield self._contents(self.decode(record.key, record.value, record.offset))
        yield "\n"

    def message(self, batch: Batch, message: LegacyMessage, base_offset: int) -> Iterator[str]:
        """Yield the pieces of the line of a message of format 0 or 1; raises what :meth:`record` raises.

        Args:
            batch: the top-level entry.
            message: the entry itself, or a message inside it.
            base_offset: the offset of the first message in the entry.
        """
        try:
            if not self.skip_metadata:
                yield self._legacy_metadata(batch, message, base_offset)
            if self.decode:
                yield self._contents(self._decoded(self.decode, message))
        except Stopped as error:
            raise java_error(error.failure) from None
        yield "\n"

    def _decoded(self, decode: Decoder, message: LegacyMessage) -> tuple[str | None, str | None]:
        try:
            key, value = message.key(), message.value()
        except Stopped as error:
            if not self.prints_errors:
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
            header_keys=",".join(java_utf8(key) for key, _ in record.headers) if record.headers else "",
        )

    def _legacy_metadata(self, batch: Batch, message: LegacyMessage, base_offset: int) -> str:
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
        key_label, payload_label, lone_payload_label = content_labels(self.style, skip_metadata=self.skip_metadata)
        key, payload = texts
        line = "" if key is None else f"{key_label}{key}"
        return line if payload is None else f"{line}{payload_label if line else lone_payload_label}{payload}"
