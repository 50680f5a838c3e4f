"""What share groups have delivered: the states of offsets by Kafka's rule, and snapshots and updates in the log."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.forensics.coordinators.consumer_groups.share_states import (
    DeliveryRange,
    SharePartition,
    combined,
    share_partitions_of,
)
from kforensics.parsers.messages.share import (
    SHARE_SNAPSHOT_KEY,
    SHARE_SNAPSHOT_VALUE,
    SHARE_UPDATE_KEY,
    SHARE_UPDATE_VALUE,
)
from tests.forensics.forge import Content, forge
from tests.forensics.partition_states import state_under
from tests.parsers.messages.encoder import encode

TOPIC_ID = "_M9kWNcMTBudmjdTPwHwdw"


@pytest.mark.parametrize("seed", range(40))
def test_each_offset_has_the_state_with_most_deliveries_and_then_the_latest(seed: int) -> None:
    random = Random(seed)  # noqa: S311  # reproducible
    ranges = [
        DeliveryRange(first, first + random.randrange(6), random.randrange(5), random.randrange(1, 4))
        for first in (random.randrange(20) for _ in range(random.randrange(8)))
    ]
    start = random.choice([-1, random.randrange(25)])
    expected: dict[int, tuple[int, int]] = {}
    for one in ranges:
        for offset in range(max(one.first, start), one.last + 1):
            expected[offset] = max(expected.get(offset, (0, 0)), (one.deliveries, one.state))
    found = combined(ranges, start)
    assert {o: (one.deliveries, one.state) for one in found for o in range(one.first, one.last + 1)} == expected
    assert sum(one.last - one.first + 1 for one in found) == len(expected)
    for one, following in pairwise(found):
        assert (one.last + 1, one.state, one.deliveries) != (following.first, following.state, following.deliveries)


def _record(kind: str, start: int, *ranges: tuple[int, int, int, int], group: str = "g") -> Content:
    key, value = (
        (SHARE_SNAPSHOT_KEY, SHARE_SNAPSHOT_VALUE) if kind == "snapshot" else (SHARE_UPDATE_KEY, SHARE_UPDATE_VALUE)
    )
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    fields: dict[str, Any] = {
        "snapshotEpoch": 0, "stateEpoch": 0, "leaderEpoch": 0, "startOffset": start, "deliveryCompleteCount": -1,
        "createTimestamp": 0, "writeTimestamp": 0,
        "stateBatches": [dict(zip(names, one, strict=True)) for one in ranges],
    }  # fmt: skip
    number = 0 if kind == "snapshot" else 1
    fields = {field.name: fields[field.name] for field in value.fields}
    place = {"groupId": group, "topicId": TOPIC_ID, "partition": 3}
    return number.to_bytes(2, "big") + encode(key, 0, place), bytes(2) + encode(value, 0, fields)


def _found(folder: Path, *records: Content) -> tuple[SharePartition, ...]:
    log = "; ".join(f"plain @{offset}-{offset}" for offset in range(len(records)))
    contents = {offset: [record] for offset, record in enumerate(records)}
    return share_partitions_of(state_under(forge(folder, log, topic="__share_group_state", records=contents)), "g")


def test_updates_add_to_a_snapshot_and_another_snapshot_replaces_it(tmp_path: Path) -> None:
    first = _record("snapshot", 0, (0, 4, 0, 1))
    update = _record("update", -1, (2, 2, 2, 1), (3, 9, 4, 5))
    other = _record("snapshot", 90, group="other")
    (one,) = _found(tmp_path / "a", first, update, other)
    assert one.description == (
        "2 available (offsets 0-1; delivered once); 1 acknowledged (offsets 2; delivered once); "
        "7 archived (offsets 3-9; delivered up to 5 times)"
    )
    assert (one.start_offset, one.is_whole, one.record.offset, one.partition) == (0, True, 1, 3)
    (one,) = _found(tmp_path / "b", first, update, _record("snapshot", 7, (7, 7, 2, 1)))
    assert (one.start_offset, [*one.ranges]) == (7, [(7, 7, 2, 1)])


def test_records_that_no_delivery_completes_are_stuck(tmp_path: Path) -> None:
    """Released once is no harm; archived ones are not delivered any more."""
    (one,) = _found(
        tmp_path, _record("snapshot", 0, (0, 0, 0, 1), (1, 1, 0, 2), (2, 3, 0, 4), (4, 4, 2, 3), (5, 5, 4, 5))
    )
    assert one.description == (
        "4 available (offsets 0-3; delivered up to 4 times); 1 acknowledged (offsets 4; delivered up to 3 times); "
        "1 archived (offsets 5; delivered up to 5 times); stuck: offsets 1-3, never accepted"
    )


def test_an_update_without_its_snapshot_is_not_the_whole_state(tmp_path: Path) -> None:
    (one,) = _found(tmp_path, _record("update", 4, (4, 4, 2, 1)))
    assert not one.is_whole


def test_a_tombstone_removes_the_partition(tmp_path: Path) -> None:
    snapshot = _record("snapshot", -1)
    (one,) = _found(tmp_path / "a", snapshot)
    assert one.description == "nothing delivered yet"
    assert _found(tmp_path / "b", snapshot, (snapshot[0], None)) == ()
