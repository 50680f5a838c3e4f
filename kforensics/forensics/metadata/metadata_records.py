"""The records of a cluster's metadata, ``__cluster_metadata``, as far as its log and snapshots are on hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from kforensics.parsers.messages.internal_records import decode_record

__all__ = ["MetadataRecord", "metadata_records"]

CHECKPOINT = "checkpoint"


class MetadataRecord(NamedTuple):
    """A record of the metadata.

    Attributes:
        timestamp: when the controller wrote it, in ms; None where a snapshot has it, which does not tell.
        kind: its type, by Kafka's name.
        value: its fields, by Kafka's names.
    """

    timestamp: int | None
    kind: str
    value: dict[str, Any]


def metadata_records(partitions: Iterable[Partition], wanted: Collection[str]) -> Iterator[MetadataRecord]:
    """Yield records in the order of the log; where its head is gone, those of a snapshot come first.

    Args:
        partitions: of any topics. Of several copies of the metadata the longest one is read; without any there is
            nothing.
        wanted: types of records.

    Raises:
        InputError: the metadata cannot be read.
    """
    copies = [one for one in partitions if one.place.topic == METADATA_TOPIC and one.segments]
    if not copies:
        return
    metadata = max(copies, key=_reach)
    start = metadata.first_offset
    snapshots = {one.base_offset or 0: one.path for one in metadata.others if one.kind == CHECKPOINT}
    if start > 0 and (after := [offset for offset in snapshots if offset >= start]):
        start = min(after)
        yield from (one._replace(timestamp=None) for one in _decoded(snapshots[start], 0, wanted))
    for segment in metadata.segments:
        yield from _decoded(segment.path, start, wanted)


def _reach(copy: Partition) -> tuple[int, int]:
    return copy.segments[-1].base_offset or 0, copy.segments[-1].size


def _decoded(path: str, start: int, wanted: Collection[str]) -> Iterator[MetadataRecord]:
    with open_source(path) as source:
        for batch in walk(source):
            if not isinstance(batch, Batch) or batch.is_control or not batch.crc_valid or batch.last_offset < start:
                continue
            for record in records_of(source, batch):
                if isinstance(record, Record):
                    told = decode_record(METADATA_TOPIC, record.key, record.value)
                    if told.type_name in wanted and told.value is not None:
                        yield MetadataRecord(record.timestamp, str(told.type_name), told.value)
