"""The lines of a producer ``.snapshot``.

Rule: ``DumpLogSegments.dumpProducerIdSnapshot`` and ``ProducerStateManager.readSnapshot`` of each release. A snapshot
with a fault is one message on standard error, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.kafka_dump.file_records import opened
from kforensics.kafka_dump.styles import PLAIN, Style
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.derived import Fixed
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

__all__ = ["imitated_snapshot", "plain_snapshot"]

UNDERFLOW = "java.nio.BufferUnderflowException"
# Names of the fields in the schema of 3.9 and before, where they differ from the layout's.
OLD_NAMES = {"producer_epoch": "epoch"}


def imitated_snapshot(path: str, style: Style) -> Iterator[str | Damage]:
    """Yield the text of a release's tool, or damage whose ``detail`` is its line on standard error.

    Raises:
        JavaError: the file cannot be read.
    """
    with opened(path) as source:
        fault = _fault(source, style)
        if fault is not None:
            yield Damage(0, source.size, "snapshot", fault)
            return
        for row in read_producer_snapshot(source):
            if isinstance(row, ProducerSnapshotEntry):
                yield _line(row, style)


def plain_snapshot(path: str) -> Iterator[str | Damage]:
    """Yield every whole entry of a snapshot as text, and what is wrong with the file.

    Raises:
        InputError: the snapshot cannot be read.
    """
    with open_source(path) as source:
        for row in read_producer_snapshot(source):
            if isinstance(row, Damage):
                yield row
            elif isinstance(row, ProducerSnapshotEntry):
                yield _line(row, PLAIN)


def _line(entry: ProducerSnapshotEntry, style: Style) -> str:
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


def _option(offset: int, style: Style) -> str:
    if style.scala_option:
        return f"Some({offset})" if offset >= 0 else "None"
    return f"OptionalLong[{offset}]" if offset >= 0 else "OptionalLong.empty"


def _fault(source: Source, style: Style) -> str | None:
    """Return the first fault that Kafka finds, in its words."""
    head = source.read(0, HEADER.size)
    why = _new_schema_fault(source.size, head) if style.generated_snapshots else _old_schema_fault(source.size, head)
    if why is not None:
        return f"{SCHEMA}{why}"
    header = ProducerSnapshotHeader(0, *HEADER.unpack_from(head))
    if header.version != VERSION:
        return f"Snapshot contained an unknown file version {header.version}"
    computed = snapshot_crc(source)
    return None if header.crc == computed else broken_crc(header.crc, computed)


def _new_schema_fault(size: int, head: bytes) -> str | None:
    """Return what the generated reader says: the version is looked at before the rest is read."""
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


def _old_schema_fault(size: int, head: bytes) -> str | None:
    """Return what the type classes up to 3.9 say: everything is read before the version is looked at."""
    if len(head) < HEADER.size:
        field = _field_at(HEADER, len(head))
        return _in_field("producer_entries" if field == "count" else field, UNDERFLOW)
    left = size - HEADER.size
    count = ProducerSnapshotHeader(0, *HEADER.unpack_from(head)).count
    if count < 0:
        return _in_field("producer_entries", f"Array size {count} cannot be negative")
    if count > left:
        why = f"Error reading array of size {count}, only {left} bytes available"
        return _in_field("producer_entries", why)
    if count * ENTRY.size > left:
        field = _field_at(ENTRY, left % ENTRY.size)
        return _in_field("producer_entries", _in_field(OLD_NAMES.get(field, field), UNDERFLOW))
    return None


def _in_field(name: str, why: str) -> str:
    return f"Error reading field '{name}': {why}"


def _field_at(layout: Fixed, length: int) -> str:
    """Return the first field that does not fit into so many bytes."""
    return next(name for name in layout.names if layout.end_of(name) > length)
