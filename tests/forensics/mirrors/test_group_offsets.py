"""Where groups go on in a mirror: the records that they receive again there, and those that they miss."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.coordinators.consumer_groups.checkpoints import Checkpoint
from kforensics.forensics.coordinators.consumer_groups.group_states import GroupRecord
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.mirrors.group_offsets import GroupOffset, group_ranges
from kforensics.forensics.mirrors.record_matching import match_logs
from tests.forensics.mirrors.mirrored_logs import TIME, every, forge_mirror, forge_source
from tests.forensics.partition_states import partitions_under


def _checkpoint(upstream: int, offset: int) -> Checkpoint:
    return Checkpoint("g", "eu.t", 0, upstream, offset, "", GroupRecord(0, 0, 0, NO_TIME))


def _range(tmp_path: Path, one: GroupOffset, copies: dict[int, int | str] | None = None) -> tuple[object, ...]:
    source = forge_source(tmp_path, "; ".join(f"plain @{offset}" for offset in range(6)))
    mirror = forge_mirror(tmp_path, copies or {**every(6)})
    (log,), (copy,) = (list(partitions_under(folder)) for folder in (source, mirror))
    (found,) = group_ranges(match_logs(log, copy, Rules(TIME)), [one])
    return found.records, found.mirror_first_offset, found.detail


CASES = {
    "exact": (GroupOffset("g", 4, _checkpoint(4, 4), 4, True), 0, 4, "it has committed 4 there"),
    "again": (
        GroupOffset("g", 4, _checkpoint(2, 1), None, False),
        *(3, 1),
        "the checkpoint translates 2 to 1; from 1 on it receives 3 records again",
    ),
    "own offset": (
        GroupOffset("g", 4, _checkpoint(2, 1), 5, True),
        0,
        5,
        "translates 2 to 1; it has committed 5 there",
    ),
    "missed": (GroupOffset("g", 4, _checkpoint(4, 5), 5, True), 0, 5, "from 5 on it misses 1 record"),
    "no offset there": (GroupOffset("g", 4, _checkpoint(4, 4), None, True), 0, 4, "as auto.offset.reset says"),
    "no source": (GroupOffset("g", None, _checkpoint(2, 1), None, False), 1, 1, "group g: the checkpoint translates"),
    "no checkpoint": (GroupOffset("g", 4, None, None, True), 0, None, "in the source; there is no checkpoint"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_group_goes_on_at_its_own_offset_or_else_at_the_checkpoint(tmp_path: Path, name: str) -> None:
    one, again, start, says = CASES[name]
    records, offset, detail = _range(tmp_path, one)
    assert (records, offset) == (again, start)
    assert says in str(detail)
    assert ("misses" in str(detail)) == (name == "missed")


def test_a_record_that_was_copied_twice_is_not_missed(tmp_path: Path) -> None:
    """Its second copy is after the offset of the group."""
    copies: dict[int, int | str] = {**every(6), 6: 4, 7: 5}
    assert "misses" not in str(_range(tmp_path, GroupOffset("g", 4, _checkpoint(4, 6), None, False), copies)[2])
