"""Records that an election lost: key, producer, timestamp, each once, and whether they were sent again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.audit.copies import compare_replicas
from kforensics.forensics.replicas.replica import replica_groups
from tests.forensics.partition_states import partitions_under
from tests.forensics.replicas.replicas import GROUPS, REPLICATION, RULES, forged, groups_under

COMMON = "plain @0-4; plain @5"
OLD_EPOCHS, NEW_EPOCHS = {0: 0, 6: 1}, {0: 0, 6: 2}


def lost_in(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of lost records of the one partition under a folder."""
    (group,) = replica_groups(partitions_under(folder))
    return rows_of(group)


def rows_of(group: Any) -> list[dict[str, Any]]:
    """Return the rows of lost records of a partition."""
    rows = compare_replicas(group, RULES).rows["lost_records"]
    return [dict(zip(rows.table.names, row, strict=True)) for row in rows]


def test_records_lost_by_an_unclean_election_of_real_brokers() -> None:
    """Broker 2 acknowledged six records while it was alone in sync; broker 3, elected later, never had them."""
    rows = rows_of(GROUPS["unclean-0"])
    kept = json.loads((REPLICATION / "truth.json").read_text("utf-8"))["topics"]["unclean"]["0"]["read_uncommitted"]
    assert [row["offset"] for row in rows] == [8, 9, 10, 11, 12, 13]
    assert {(row["broker_id"], row["other_broker_id"], row["producer_id"], row["outcome"]) for row in rows} == {
        (2, 3, 0, "plain")
    }
    assert [row["sequence"] for row in rows] == [8, 9, 10, 11, 12, 13]
    assert not {row["key"].hex() for row in rows} & {record["key"] for record in kept}
    assert all(row["again_at"] is None and not row["known_committed"] for row in rows)
    assert [row["timestamp"] for row in rows] == sorted(row["timestamp"] for row in rows)
    assert max(row["timestamp"] for row in rows) < kept[8]["timestamp"]


@pytest.mark.parametrize("name", [name for name in GROUPS if name != "unclean-0"])
def test_clean_elections_lost_nothing(name: str) -> None:
    assert rows_of(GROUPS[name]) == []


def test_resent_records_are_marked(tmp_path: Path) -> None:
    records = {6: [(b"a", b"1"), (b"b", b"2")], 7: [(b"b", b"2")]}
    forged(
        tmp_path,
        (f"{COMMON}; plain @6-7", {"leader_epochs": OLD_EPOCHS, "records": records, "high_watermark": 7}),
        (f"{COMMON}; plain @6; plain @7", {"leader_epochs": NEW_EPOCHS, "records": {7: records[7]}}),
    )
    rows = lost_in(tmp_path)
    assert [(row["key"], row["again_at"], row["known_committed"]) for row in rows] == [
        (b"a", None, True),
        (b"b", 7, False),
    ]


def test_records_lost_by_two_replicas_are_listed_once(tmp_path: Path) -> None:
    old = (f"{COMMON}; plain @6-7; plain @8", {"leader_epochs": OLD_EPOCHS})
    shorter = (f"{COMMON}; plain @6-7", {"leader_epochs": OLD_EPOCHS})
    new = (f"{COMMON}; plain @6", {"leader_epochs": NEW_EPOCHS})
    forged(tmp_path, shorter, new, old, new)
    assert [(row["broker_id"], row["offset"]) for row in lost_in(tmp_path)] == [(3, 6), (3, 7), (3, 8)]


def test_different_records_lost_by_two_replicas_are_all_listed(tmp_path: Path) -> None:
    forged(
        tmp_path,
        (f"{COMMON}; plain @6-7", {"leader_epochs": OLD_EPOCHS}),
        (f"{COMMON}; plain @6; plain @7", {"leader_epochs": NEW_EPOCHS}),
        (f"{COMMON}; plain @6", {"leader_epochs": {0: 0, 6: 3}, "records": {6: [(b"new", b"")]}}),
    )
    rows = lost_in(tmp_path)
    assert {(row["broker_id"], row["other_broker_id"]) for row in rows} == {(1, 3), (2, 3)}
    assert len(rows) == 4


@pytest.mark.parametrize(("elected", "offsets"), [({0: 0, 6: 1}, [6, 7]), ({0: 0}, [])], ids=["elected", "lagging"])
def test_an_elected_leader_without_batches_of_its_own_loses_records_too(
    tmp_path: Path, elected: dict[int, int], offsets: list[int]
) -> None:
    forged(
        tmp_path,
        (f"{COMMON}; plain @6-7", {"leader_epochs": {0: 0}}),
        (COMMON, {"leader_epochs": elected}),
    )
    assert [row["offset"] for row in lost_in(tmp_path)] == offsets


def test_transaction_outcomes_are_listed(tmp_path: Path) -> None:
    lost = "D 1 0 0-0 @6 T; D 2 0 0-0 @7 T; M 1 0 C 3 @8; D 3 0 0-0 @9 T; M 3 0 A 3 @10; plain @11"
    forged(
        tmp_path,
        (f"{COMMON}; {lost}", {"leader_epochs": OLD_EPOCHS}),
        (f"{COMMON}; plain @6", {"leader_epochs": NEW_EPOCHS}),
    )
    outcomes = [(row["offset"], row["producer_id"], row["outcome"]) for row in lost_in(tmp_path)]
    assert outcomes == [(6, 1, "committed"), (7, 2, "open"), (9, 3, "aborted"), (11, -1, "plain")]


def test_a_branch_over_several_segments_is_read_to_its_end(tmp_path: Path) -> None:
    forged(
        tmp_path,
        ({0: f"{COMMON}; plain @6", 7: "plain @7", 8: "plain @8"}, {"leader_epochs": OLD_EPOCHS}),
        (f"{COMMON}; plain @6", {"leader_epochs": NEW_EPOCHS, "records": {6: [(b"new", b"")]}}),
    )
    assert [(row["offset"], Path(row["path"]).stem[-1]) for row in lost_in(tmp_path)] == [(6, "0"), (7, "7"), (8, "8")]


def test_a_record_with_the_same_bytes_on_the_later_leader_is_not_lost(tmp_path: Path) -> None:
    """Only the leader epoch differs."""
    forged(
        tmp_path,
        (f"{COMMON}; plain @6; plain @7", {"leader_epochs": OLD_EPOCHS}),
        (f"{COMMON}; plain @6", {"leader_epochs": NEW_EPOCHS}),
    )
    assert [row["offset"] for row in lost_in(tmp_path)] == [7]


def test_a_copy_set_aside_overrules_no_replica(tmp_path: Path) -> None:
    forged(
        tmp_path,
        (f"{COMMON}; plain @6-7", {"leader_epochs": OLD_EPOCHS}),
        (f"{COMMON}; plain @6", {"leader_epochs": NEW_EPOCHS}),
    )
    folder = tmp_path / "broker-2" / "t-0"
    folder.rename(folder.with_name("t-0.0123456789abcdef0123456789abcdef-stray"))
    (group,) = groups_under(tmp_path)
    assert rows_of(group) == []
