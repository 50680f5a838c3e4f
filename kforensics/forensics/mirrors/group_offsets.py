"""Where the groups of a partition go on in its mirror: their committed offsets, as MirrorMaker 2 translated them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.checkpoints import Checkpoint, CheckpointsInForce
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, Commits
from kforensics.forensics.core.formatting import format_count, format_time_ms
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.mirrors.mirror_names import MirroredTopic
from kforensics.forensics.mirrors.mirror_ranges import MirrorRange, RangeKind
from kforensics.forensics.mirrors.record_matching import NO_OFFSET, MatchedLogs

__all__ = ["GroupOffset", "GroupRecords", "group_ranges"]

UNSYNCED = "it has not committed there: it begins as auto.offset.reset says unless it seeks to the checkpoint"


class GroupOffset(NamedTuple):
    """The offset of a group in a partition and in its mirror.

    Attributes:
        group: the group.
        committed: the offset in force in the source, None if it is unknown.
        checkpoint: the last checkpoint of the group, None without one.
        own: the offset that it has committed in the mirror, by itself or by MirrorMaker; None without one.
        is_own_known: whether the commits in the mirror are available.
    """

    group: str
    committed: int | None
    checkpoint: Checkpoint | None
    own: int | None
    is_own_known: bool


class GroupRecords(NamedTuple):
    """What both clusters show of the offsets of groups.

    Attributes:
        source: partitions of ``__consumer_offsets`` of the source.
        target: those of the target.
        checkpoints: the last checkpoints; None if their topic is not available.
    """

    source: Sequence[Commits] = ()
    target: Sequence[Commits] = ()
    checkpoints: CheckpointsInForce | None = None

    def offsets_of(self, names: MirroredTopic, number: int) -> tuple[GroupOffset, ...]:
        """Return the offsets of all groups in a partition and its mirror, by group.

        Groups without a checkpoint are left out if the topic of checkpoints is not available.
        """
        committed = _in_force(self.source, (names.topic, number))
        own = _in_force(self.target, (names.mirror, number))
        known = {key[0]: one for key, one in (self.checkpoints or {}).items() if key[1:] == (names.mirror, number)}
        groups = sorted({*known, *(committed if self.checkpoints is not None else ())})
        return tuple(
            GroupOffset(
                group, _offset(committed.get(group)), known.get(group), _offset(own.get(group)), bool(self.target)
            )
            for group in groups
        )


def _in_force(partitions: Iterable[Commits], place: tuple[str, int]) -> dict[str, Commit]:
    return {key[0]: commit for commits in partitions for key, commit in commits.last.items() if key[1:] == place}


def _offset(commit: Commit | None) -> int | None:
    return None if commit is None else commit.committed


def group_ranges(logs: MatchedLogs, offsets: Iterable[GroupOffset]) -> Iterator[MirrorRange]:
    """Yield for each group where it goes on in the mirror, and what it receives again or misses there.

    Args:
        logs: the partition and its mirror, record by record.
        offsets: the offsets of the groups.
    """
    for one in offsets:
        translated = None if one.checkpoint is None else one.checkpoint.offset
        committed = one.committed
        if committed is None and one.checkpoint is not None:
            committed = one.checkpoint.upstream_offset
        start = translated if one.own is None else one.own
        # Another offset than that of the checkpoint may be what the group has processed in the mirror.
        is_translated = committed is not None and translated is not None and start == translated
        again, missed = _differences(logs, committed or 0, translated or 0) if is_translated else (0, 0)
        detail = "; ".join(_parts(one, start, again, missed))
        yield MirrorRange(RangeKind.GROUP_OFFSET, committed, committed, again, start, start, detail=detail)


def _differences(logs: MatchedLogs, committed: int, start: int) -> tuple[int, int]:
    """Return how many records the group receives again from an offset of the mirror on, and how many it misses.

    Records that the mirror has several times are not counted as missed, since a later copy may follow.
    """
    again = missed = 0
    for rows in logs.sources:
        is_before = rows["offset"] < committed
        again += int(np.count_nonzero(is_before & (rows["copy"] >= start)))
        is_once = (rows["copies"] == 1) & (rows["copy"] != NO_OFFSET)
        missed += int(np.count_nonzero(~is_before & is_once & (rows["copy"] < start)))
    return again, missed


def _parts(one: GroupOffset, start: int | None, again: int, missed: int) -> Iterator[str]:
    if one.committed is not None:
        yield f"group {one.group} committed {one.committed} in the source"
    if one.checkpoint is None:
        whose = "" if one.committed is not None else f" of group {one.group}"
        yield f"there is no checkpoint{whose}"
    else:
        time = one.checkpoint.record.time
        when = "" if time == NO_TIME else f" of {format_time_ms(time)}"
        begin = "" if one.committed is not None else f"group {one.group}: "
        yield f"{begin}the checkpoint{when} translates {one.checkpoint.upstream_offset} to {one.checkpoint.offset}"
    if one.own is not None:
        yield f"it has committed {one.own} there"
    elif one.is_own_known and one.checkpoint is not None:
        yield UNSYNCED
    if again:
        yield f"from {start} on it receives {format_count(again, 'record')} again"
    if missed:
        yield f"from {start} on it misses {format_count(missed, 'record')}"
