"""What MirrorMaker 2 recorded about the committed offsets of groups: where they are in the mirror.

Rule: ``MirrorCheckpointTask`` writes a checkpoint if the offset in the mirror grew or the group went back, at most once
in ``emit.checkpoints.interval.seconds``. It translates by an offset sync before the committed offset, so the group may
receive records again. ``MirrorClient.remoteConsumerOffsets`` takes the last checkpoint of each partition. It reads with
``isolation.level=read_uncommitted``, as here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kforensics.forensics.coordinators.consumer_groups.group_states import GroupRecord
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.mirror_maker import CHECKPOINT_KEY, CHECKPOINT_VALUE, VERSION_BYTES
from kforensics.parsers.messages.reader import MessageError

__all__ = ["Checkpoint", "CheckpointsInForce", "checkpoint_alias", "read_checkpoints"]

# ReplicationPolicy.checkpointsTopic
CHECKPOINTS = re.compile(r"(.+)\.checkpoints\.internal")


class Checkpoint(NamedTuple):
    """A record of the topic of checkpoints.

    Attributes:
        group: the group.
        topic: the mirror.
        partition: number of its partition.
        upstream_offset: the offset that the group had committed in the source.
        offset: the offset in the mirror that corresponds to it.
        metadata: the client's metadata.
        record: where the record is.
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    offset: int
    metadata: str
    record: GroupRecord


# The last checkpoint by group, topic and partition of the mirror.
CheckpointsInForce = dict[tuple[str, str, int], Checkpoint]


def checkpoint_alias(topic: str | None) -> str | None:
    """Return the alias of the source cluster in the name of a topic of checkpoints, None for any other topic.

    >>> checkpoint_alias("eu.checkpoints.internal"), checkpoint_alias("orders")
    ('eu', None)
    """
    name = CHECKPOINTS.fullmatch(topic or "")
    return name[1] if name else None


def read_checkpoints(partition: Partition) -> CheckpointsInForce:
    """Return the checkpoints in force in a partition of their topic.

    Records that are no checkpoints are left out, as MirrorMaker cannot read them either.

    Raises:
        InputError: a segment cannot be read.
    """
    in_force: CheckpointsInForce = {}
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and batch.crc_valid and not batch.is_control:
                    records = read_records(source, batch)
                    in_force |= {checkpoint[:3]: checkpoint for checkpoint in _checkpoints(records, number, batch)}
    return in_force


def _checkpoints(records: Iterable[object], segment: int, batch: Batch) -> Iterator[Checkpoint]:
    for record in records:
        if isinstance(record, Record) and record.key is not None and record.value is not None:
            with suppress(MessageError):
                key = decode(CHECKPOINT_KEY, 0, record.key).value
                value = decode(CHECKPOINT_VALUE, 0, record.value, start=VERSION_BYTES).value
                time = record.timestamp if record.timestamp >= 0 else NO_TIME
                place = GroupRecord(segment, batch.position, record.offset, time)
                offsets = value["upstreamOffset"], value["offset"]
                yield Checkpoint(key["group"], key["topic"], key["partition"], *offsets, value["metadata"], place)
