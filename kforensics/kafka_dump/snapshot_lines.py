"""The lines of a producer ``.snapshot``.

Rule: ``DumpLogSegments.dumpProducerIdSnapshot`` and ``ProducerStateManager.readSnapshot`` of each release. For a
corrupt snapshot the tool prints one message on standard error and continues with the next file.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.kafka_dump.java import open_file
from kforensics.kafka_dump.styles import PLAIN_STYLE, DumpStyle
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.derived import FixedLayout
from kforensics.parsers.format.failures import BUFFER_UNDERFLOW
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.producer_snapshot import (
    ENTRY,
    HEADER,
    SCHEMA,
    VERSION,
    ProducerSnapshotEntry,
    ProducerSnapshotHeader,
    broken_crc,
    read_producer_snapshot,
    snapshot_crc,
    too_many,
)

# Names in the schema up to 3.9 that differ from the names in the layout.
OLD_NAMES = {"producer_epoch": "epoch"}


def imitated_snapshot(path: str, style: DumpStyle) -> Iterator[str | Damage]:
    """Yield the lines that a release's tool prints, or damage whose ``detail`` is the tool's line on standard error.

    Raises:
        JavaError: the file cannot be read.
    """
    with open_file(path) as source:
        error = _error(source, style)
        if error is not None:
            yield Damage(0, source.size, "snapshot", error)
            return
        for row in read_producer_snapshot(source):
            if isinstance(row, ProducerSnapshotEntry):
                yield _line(row, style)


def plain_snapshot(path: str) -> Iterator[str | Damage]:
    """Yield the lines of all complete entries of a snapshot, and its damage.

    Raises:
        InputError: the snapshot cannot be read.
    """
    with open_source(path) as source:
        for row in read_producer_snapshot(source):
            if isinstance(row, Damage):
                yield row
            elif isinstance(row, ProducerSnapshotEntry):
                yield _line(row, PLAIN_STYLE)


def _line(entry: ProducerSnapshotEntry, style: DumpStyle) -> str:
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {_option(entry.current_txn_first_offset, style)}"
    )
    if style.snapshot_last_timestamp:
        text += f" lastTimestamp: {entry.timestamp}"
    if entry.has_batch:
        text += (
            f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence}"
            f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
        )
    elif style.snapshot_blank_at_end:
        text += " "
    return text + "\n"


def _option(offset: int, style: DumpStyle) -> str:
    if style.scala_option:
        return f"Some({offset})" if offset >= 0 else "None"
    return f"OptionalLong[{offset}]" if offset >= 0 else "OptionalLong.empty"


def _error(source: Source, style: DumpStyle) -> str | None:
    """Return Kafka's message for the first error in a snapshot, or None."""
    head = source.read(0, HEADER.size)
    error = _new_schema_error(source.size, head) if style.generated_snapshots else _old_schema_error(source.size, head)
    if error is not None:
        return f"{SCHEMA}{error}"
    header = ProducerSnapshotHeader(0, *HEADER.unpack_from(head))
    if header.version != VERSION:
        return f"Snapshot contained an unknown file version {header.version}"
    computed = snapshot_crc(source)
    return None if header.crc == computed else broken_crc(header.crc, computed)


def _new_schema_error(size: int, head: bytes) -> str | None:
    """Return the error of the generated reader, which checks the version before it reads the rest."""
    version_end = HEADER.end_of("version")
    if len(head) < version_end:
        return "null"
    (version,) = HEADER.reader("version").unpack_from(head)
    if version != VERSION:
        return f"Snapshot contained an unknown file version {version}"
    if len(head) < HEADER.size:
        return "null"
    left = size - HEADER.size
    count = ProducerSnapshotHeader(0, *HEADER.unpack_from(head)).count
    if count < 0:
        return "non-nullable field producerEntries was serialized as null"
    if count > left:
        return too_many(count, left)
    return "null" if count * ENTRY.size > left else None


def _old_schema_error(size: int, head: bytes) -> str | None:
    """Return the error of the type classes up to 3.9, which read everything before they check the version."""
    if len(head) < HEADER.size:
        field = _field_at(HEADER, len(head))
        return _in_field("producer_entries" if field == "count" else field, BUFFER_UNDERFLOW)
    left = size - HEADER.size
    count = ProducerSnapshotHeader(0, *HEADER.unpack_from(head)).count
    if count < 0:
        return _in_field("producer_entries", f"Array size {count} cannot be negative")
    if count > left:
        error = f"Error reading array of size {count}, only {left} bytes available"
        return _in_field("producer_entries", error)
    if count * ENTRY.size > left:
        field = _field_at(ENTRY, left % ENTRY.size)
        return _in_field("producer_entries", _in_field(OLD_NAMES.get(field, field), BUFFER_UNDERFLOW))
    return None


def _in_field(name: str, error: str) -> str:
    return f"Error reading field '{name}': {error}"


def _field_at(layout: FixedLayout, length: int) -> str:
    """Return the first field that does not fit into the given number of bytes."""
    return next(name for name in layout.names if layout.end_of(name) > length)
