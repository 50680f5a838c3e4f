"""Rows and findings of a comparison of replicas."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kforensics.forensics.audit.copies import compare_replicas
from kforensics.forensics.core.replica_tables import REPLICA_RESULTS
from kforensics.forensics.metadata.cluster_metadata import elections_in
from tests.forensics.partition_states import partitions_under
from tests.forensics.replicas.replicas import GROUPS, REPLICATION, RULES


def test_a_divergence_is_a_row_with_both_branches() -> None:
    result = compare_replicas(GROUPS["unclean-0"], RULES)
    table = result.rows["replica_differences"]
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
    result = compare_replicas(GROUPS[name], RULES)
    assert set(result.rows) == {*REPLICA_RESULTS, "findings"}
    for rows in result.rows.values():
        assert rows.record_batch().num_rows == len(rows) == len(list(rows))


def test_arguments_and_result_can_be_serialized() -> None:
    group = pickle.loads(pickle.dumps(GROUPS["unclean-0"]))  # noqa: S301  # our own bytes, as is the next
    result = pickle.loads(pickle.dumps(compare_replicas(group, RULES)))  # noqa: S301  # see there
    assert [finding.code.name for finding in result.findings] == ["replica-divergence", "replica-lag"]


def test_a_comparison_takes_two_copies() -> None:
    with pytest.raises(ValueError, match="two copies"):
        compare_replicas(GROUPS["unclean-0"][:1], RULES)


def test_the_lineage_of_leader_epochs_has_the_elections() -> None:
    group = GROUPS["unclean-0"]
    elections = elections_in(partitions_under(REPLICATION))[group[0].topic_id or "", 0]
    rows = compare_replicas(group, RULES, elections).rows["leader_epoch_lineage"]
    names = ("broker_id", "leader_epoch", "start_offset", "first_offset", "last_offset", "shared", "leader", "unclean")
    assert list(rows.only(*names)) == [
        (2, 0, 0, 0, 5, True, None, None),
        (2, 1, 6, 6, 7, True, 3, False),
        (2, 2, 8, 8, 13, False, 2, False),
        (3, 0, 0, 0, 5, True, None, None),
        (3, 1, 6, 6, 7, True, 3, False),
        (3, 3, 8, 8, 11, False, 3, True),
    ]


def test_a_leader_epoch_without_batches_is_in_the_lineage() -> None:
    rows = compare_replicas(GROUPS["replicated-0"], RULES).rows["leader_epoch_lineage"]
    later = [
        row for row in rows.only("broker_id", "leader_epoch", "start_offset", "first_offset", "noted") if row[1] > 2
    ]
    assert later == [(1, 4, 51, None, True), (2, 3, 51, None, True)]
