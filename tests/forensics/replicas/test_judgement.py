"""The way in: rows and findings of the replicas of one partition."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kforensics.forensics.replicas.judgement import compare_replicas
from kforensics.forensics.replicas.tables import REPLICA_RESULTS
from tests.forensics.replicas.replicas import GROUPS, RULES


def test_a_branch_is_a_row_with_what_both_sides_have() -> None:
    judged = compare_replicas(GROUPS["unclean-0"], RULES)
    table = judged.rows["replica_differences"]
    (row,) = (dict(zip(table.table.names, values, strict=True)) for values in table)
    assert (row["topic"], row["partition"], row["kind"], row["broker_id"], row["other_broker_id"]) == (
        *("unclean", 0, "diverged"),
        *(2, 3),
    )
    assert (row["first_offset"], row["last_offset"], row["records"], row["other_records"]) == (8, 13, 6, 4)
    assert (row["highest_leader_epoch"], row["other_highest_leader_epoch"]) == (2, 3)
    assert (row["producer_ids"], row["other_producer_ids"]) == ("0", "2000")
    assert Path(row["loser"]).parent.name == "broker-2"
    assert table.record_batch().num_rows == 1


@pytest.mark.parametrize("name", GROUPS)
def test_every_table_becomes_arrow(name: str) -> None:
    judged = compare_replicas(GROUPS[name], RULES)
    assert set(judged.rows) == {*REPLICA_RESULTS, "findings"}
    for rows in judged.rows.values():
        assert rows.record_batch().num_rows == len(rows) == len(list(rows))


def test_it_can_be_sent_to_another_process_and_back() -> None:
    group = pickle.loads(pickle.dumps(GROUPS["unclean-0"]))  # noqa: S301  # our own bytes, as is the next
    judged = pickle.loads(pickle.dumps(compare_replicas(group, RULES)))  # noqa: S301  # see there
    assert [one.code.name for one in judged.findings] == ["replica-divergence", "replica-lag"]


def test_one_copy_alone_is_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="two copies"):
        compare_replicas(GROUPS["unclean-0"][:1], RULES)
