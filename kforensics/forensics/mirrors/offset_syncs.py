"""Reads what MirrorMaker 2 recorded about offsets: which offset of the mirror a record of the source has."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.mirror_maker import OFFSET_SYNC_KEY, OFFSET_SYNC_VALUE
from kforensics.parsers.messages.reader import MessageError

__all__ = ["OffsetSync", "SyncsByPartition", "read_offset_syncs"]


class OffsetSync(NamedTuple):
    """A record of ``mm2-offset-syncs``.

    Attributes:
        upstream_offset: offset of a record in the source.
        offset: offset of its copy in the mirror.
        at: offset of the sync itself.
    """

    upstream_offset: int
    offset: int
    at: int


SyncsByPartition = dict[tuple[str, int], list[OffsetSync]]


def read_offset_syncs(partition: Partition) -> SyncsByPartition:
    """Return the syncs in a partition of ``mm2-offset-syncs``, by topic and partition of the source, in log order.

    Records that are no syncs are left out, as MirrorMaker cannot read them either.

    Raises:
        InputError: a segment cannot be read.
    """
    syncs: SyncsByPartition = {}
    for segment in partition.segments:
        with open_source(segment.path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and batch.crc_valid and not batch.is_control:
                    _add_syncs(syncs, read_records(source, batch))
    return syncs


def _add_syncs(syncs: SyncsByPartition, records: Iterable[object]) -> None:
    for record in records:
        if isinstance(record, Record) and record.key is not None and record.value is not None:
            with suppress(MessageError):
                key = decode(OFFSET_SYNC_KEY, 0, record.key).value
                value = decode(OFFSET_SYNC_VALUE, 0, record.value).value
                sync = OffsetSync(value["upstreamOffset"], value["offset"], record.offset)
                syncs.setdefault((key["topic"], key["partition"]), []).append(sync)
