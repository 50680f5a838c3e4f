"""What share groups have delivered of each partition, by the records of ``__share_group_state``.

Rule: ``ShareCoordinatorShard.replay`` and ``PersisterStateBatchCombiner``. A snapshot replaces the state of a
partition, an update adds to it: of two states of an offset the one with more deliveries is in force, and of equally
many the later state. Offsets before the start offset are dropped. Acquired records are not written, since their lock is
in memory only.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.group_states import GroupRecord
from kforensics.forensics.coordinators.coordinator_records import VERSION_SIZE
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.record_columns import record_chunks
from kforensics.parsers.files.log_names import SHARE_GROUP_STATE
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.messages.internal_records import decode_record

__all__ = ["DeliveryRange", "DeliveryState", "SharePartition", "combined", "share_partitions_of"]

SNAPSHOT, UPDATE = 0, 1
# Approximate number of records per chunk.
CHUNK_ROWS = 1 << 12
# Ranges that a description lists.
LISTED = 20
UNSET = -1


class DeliveryState(IntEnum):
    """The delivery state of a record, by Kafka's numbers."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class DeliveryRange(NamedTuple):
    """Offsets in a row with the same delivery state.

    Attributes:
        first: the first offset.
        last: the last offset.
        state: number of their delivery state.
        deliveries: how often they were delivered.
    """

    first: int
    last: int
    state: int
    deliveries: int


class SharePartition(NamedTuple):
    """What a share group has delivered of a partition.

    Attributes:
        topic_id: id of the topic.
        partition: number of the partition.
        start_offset: all offsets before it are done; -1 if nothing was delivered yet.
        ranges: offsets from there on with a state, in order.
        record: the last record.
        is_whole: whether a snapshot is among its records, so that no update of it can be missing.
    """

    topic_id: str
    partition: int
    start_offset: int
    ranges: tuple[DeliveryRange, ...]
    record: GroupRecord
    is_whole: bool

    @property
    def description(self) -> str:
        """The number of records in each delivery state, with their offsets and deliveries, and which are stuck."""
        if self.start_offset == UNSET:
            return "nothing delivered yet"
        parts = [_described(state, [one for one in self.ranges if one.state == state]) for state in DeliveryState]
        return "; ".join(filter(None, (*parts, self._stuck()))) or "no delivered record from there on"

    def _stuck(self) -> str:
        """Return which records were delivered more than once, and will be delivered again."""
        stuck = [one for one in self.ranges if one.state == DeliveryState.AVAILABLE and one.deliveries > 1]
        return f"stuck: offsets {_spans(stuck)}, never accepted" if stuck else ""


def _described(state: DeliveryState, ranges: list[DeliveryRange]) -> str:
    if not ranges:
        return ""
    total = sum(one.last - one.first + 1 for one in ranges)
    most = max(one.deliveries for one in ranges)
    times = "once" if most == 1 else f"up to {most} times"
    return f"{total} {state.name.lower()} (offsets {_spans(ranges)}; delivered {times})"


def _spans(ranges: list[DeliveryRange]) -> str:
    spans = [str(one.first) if one.first == one.last else f"{one.first}-{one.last}" for one in _joined(ranges)]
    more = f" and {len(spans) - LISTED} more ranges" if len(spans) > LISTED else ""
    return f"{', '.join(spans[:LISTED])}{more}"


def _joined(ranges: list[DeliveryRange]) -> list[DeliveryRange]:
    """Return ranges with those joined that differ in their deliveries only."""
    return combined((one._replace(deliveries=0) for one in ranges), ranges[0].first)


def share_partitions_of(state: PartitionState, group: str) -> tuple[SharePartition, ...]:
    """Return the partitions of a share group in a partition of ``__share_group_state``; reads its log once more.

    Args:
        state: the state of the partition.
        group: the share group.

    Raises:
        InputError: a segment cannot be read.
    """
    partitions: dict[tuple[str, int], SharePartition] = {}
    for number, segment in enumerate(state.partition.segments):
        with open_source(segment.path) as source:
            for records in record_chunks(source, kernels_for(source.size), CHUNK_ROWS):
                has_key = ~records.rows["is_control"] & (records.keys.sizes >= VERSION_SIZE)
                for index in np.flatnonzero(has_key).tolist():
                    row = records.rows[index]
                    time = int(row["timestamp"])
                    place = (number, int(row["position"]), int(row["offset"]), NO_TIME if time < 0 else time)
                    _apply(partitions, group, GroupRecord(*place), records.keys.get(index), records.values.get(index))
    return tuple(partitions.values())


def _apply(
    partitions: dict[tuple[str, int], SharePartition],
    group: str,
    record: GroupRecord,
    key: bytes | None,
    value: bytes | None,
) -> None:
    message = decode_record(SHARE_GROUP_STATE, key, value)
    if message.key is None or message.key.get("groupId") != group or (value is not None and message.value is None):
        return
    place = (str(message.key["topicId"]), message.key["partition"])
    if message.value is None:
        if message.type_id == SNAPSHOT:
            partitions.pop(place, None)
        return
    start, ranges = message.value["startOffset"], _ranges(message.value)
    before = partitions.get(place)
    if message.type_id == UPDATE and before is not None:
        start = before.start_offset if start == UNSET else start
        ranges = combined([*before.ranges, *ranges], start)
    is_whole = message.type_id == SNAPSHOT or (before is not None and before.is_whole)
    partitions[place] = SharePartition(*place, start, tuple(ranges), record, is_whole)


def _ranges(value: dict[str, Any]) -> list[DeliveryRange]:
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return [DeliveryRange(*(batch[name] for name in names)) for batch in value["stateBatches"]]


def combined(ranges: Iterable[DeliveryRange], start: int) -> list[DeliveryRange]:
    """Return ranges without overlaps, and without offsets before the start.

    >>> combined([DeliveryRange(0, 9, 0, 1), DeliveryRange(4, 5, 2, 1)], 3)[1]
    DeliveryRange(first=4, last=5, state=2, deliveries=1)
    """
    kept = [one._replace(first=max(one.first, start)) for one in ranges if one.last >= max(one.first, start)]
    kept.sort(key=lambda one: (one.deliveries, one.state))
    bounds = np.unique([[one.first, one.last + 1] for one in kept] or np.empty(0, "i8"))
    owners = np.full(len(bounds), UNSET)
    for number, one in enumerate(kept):
        first, after = np.searchsorted(bounds, (one.first, one.last + 1))
        owners[first:after] = number
    merged: list[DeliveryRange] = []
    for first, after, owner in zip(bounds.tolist(), bounds[1:].tolist(), owners.tolist(), strict=False):
        if owner == UNSET:
            continue
        state, count = kept[owner].state, kept[owner].deliveries
        if merged and (merged[-1].last + 1, merged[-1].state, merged[-1].deliveries) == (first, state, count):
            merged[-1] = merged[-1]._replace(last=after - 1)
        else:
            merged.append(DeliveryRange(first, after - 1, state, count))
    return merged
