"""Which implementation of the group coordinator a partition of ``__consumer_offsets`` has, and what it has loaded.

Up to 3.9 it is that of ``kafka.coordinator.group`` by default (old here), from 4.0 on that of
``org.apache.kafka.coordinator.group`` (new). They differ in what outlives a removal:

- Offsets in transactions. The new one replays each tombstone, which takes the pending offsets of its partition:
  ``OffsetMetadataManager.replay``. So does the old one while it runs (``GroupMetadata.removeOffsets``), but not when it
  loads the log: there a COMMIT puts every offset of its transaction, unless a later record has one
  (``GroupMetadataManager.doLoadGroupsAndOffsets``). Offsets make the group Empty again, also after its tombstone.
- Groups without members and offsets. The new one removes them with a tombstone at its next check. The old one removes
  them with their last offset, and without a tombstone if they never had members
  (``GroupMetadataManager.cleanupGroupMetadata``); those whose offsets were all aborted at its next check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kforensics.forensics.coordinators.consumer_groups.group_states import CLASSIC, GroupState
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.epoch_starts import epoch_starts
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["CHECK_MS", "GroupCoordinator"]

# The first release with the new coordinator by default.
NEW_SINCE = (4, 0)
# The default of offsets.retention.check.interval.ms.
CHECK_MS = 600_000


class GroupCoordinator(NamedTuple):
    """The group coordinator of a partition of ``__consumer_offsets``.

    Attributes:
        is_old: whether it is the old implementation; None if no file shows it.
        loaded_offset: a load that the files show has read the log up to here, or the next one will: its broker stopped.
        loaded_ms: it has loaded the log since then, in ms; NO_TIME if no file shows it.
    """

    is_old: bool | None
    loaded_offset: int
    loaded_ms: int

    @classmethod
    def of(cls, state: PartitionState) -> GroupCoordinator:
        """Return the coordinator of a partition: it is of the release with which its broker registered last.

        A broker with ZooKeeper registers in no metadata log. A coordinator loads the log when its broker starts, and
        when a leader epoch begins.
        """
        log_dir = state.partition.log_dir
        release = state.rules.releases.get(state.partition.place.log_dir)
        is_old = (log_dir.has_zookeeper or None) if release is None else release < NEW_SINCE
        started = state.rules.started.get(state.partition.place.log_dir, NO_TIME)
        if log_dir.clean_shutdown:
            return cls(is_old, state.log_end_offset, started)
        last = max((start for _, start in epoch_starts(state)), default=0)
        return cls(is_old, last, started)

    def with_groups(self, groups: Iterable[GroupState]) -> GroupCoordinator:
        """Return the coordinator, given the groups that it has written: the old one knows classic ones only.

        Brokers of 3.7 to 3.9 have the new one if their settings enable it, which the metadata log does not show.
        """
        return self if all(group.kind == CLASSIC for group in groups) else self._replace(is_old=False)

    def has_loaded(self, offsets: IntArray, times: IntArray) -> BoolArray:
        """Return whether it has loaded each of some records: it did not write them itself since it was loaded."""
        by_start = (times <= self.loaded_ms) & (self.loaded_ms != NO_TIME)
        loaded: BoolArray = (offsets < self.loaded_offset) | by_start
        return loaded

    def keeps_pending(self, offsets: IntArray, times: IntArray) -> BoolArray:
        """Return whether each of some tombstones leaves what was pending before it."""
        return self.has_loaded(offsets, times) & (self.is_old is True)

    def keeps_group(self, *, is_removed: bool, is_loaded: bool, is_recent: bool) -> bool:
        """Return whether a group that only commits created is still there without any offset.

        Where the coordinator is unknown, it is as long as it would be for the new one.

        Args:
            is_removed: whether its last offset was removed, rather than aborted.
            is_loaded: whether the coordinator has loaded the log since.
            is_recent: whether that was less than the interval of checks ago.
        """
        if self.is_old is False:
            return True
        return is_recent and not (self.is_old and (is_removed or is_loaded))
