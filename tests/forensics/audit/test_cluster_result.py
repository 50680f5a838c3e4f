"""The result of a cluster: rows, findings, and the choice of replicas."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kforensics.forensics.audit.cluster_result import (
    best_replicas,
    coordinator_history,
    evaluate_cluster,
    is_coordinator,
)
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.cluster_tables import CLUSTER_TABLES
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON, at, forge_coordinator
from tests.forensics.forge import file_of, forge
from tests.forensics.partition_states import SAMPLES, partitions_under

RULES = Rules(SOON)
LOG = (
    "a Empty 1 0 t 0; a Ongoing 1 0 {p-1, p-0} t 10; b Empty 2 0 tv 2 t 11; a PrepareCommit 1 0 {p-0, p-1} t 20; "
    "a CompleteCommit 1 0 t 30; a Dead 1 0 t 31; b gone t 32; c Ongoing 3 5 tv 2 prev 2 next 9 {p-0} t 33"
)


def written(folder: Path) -> list[Rows | RowStream]:
    """Return all rows of a cluster; its first partition is not available, its second one lost a marker."""
    forge_coordinator(folder, LOG, leader_epochs={0: 7})
    forge(folder, f"D 1 0 0-0 @0-0 T {at(12)}; M 9 0 C 7 @1 {at(99)}", topic="p", partition=1)
    rows: list[Rows | RowStream] = []
    states = [examine(partition, RULES) for partition in partitions_under(folder)]
    histories = [coordinator_history(state, rows.append) for state in states if is_coordinator(state)]
    markers = [PartitionMarkers.of(state) for state in states if not is_coordinator(state)]
    return [*rows, *evaluate_cluster(histories, markers, RULES).rows]


def dicts(rows: list[Rows | RowStream], table: str) -> list[dict[str, object]]:
    (matching,) = (table_rows for table_rows in rows if table_rows.table.name == table)
    return [dict(zip(matching.table.names, row, strict=True)) for row in matching]


def test_every_table_becomes_arrow(tmp_path: Path) -> None:
    rows = written(tmp_path)
    assert {table_rows.table.name for table_rows in rows} | {
        "group_offsets",
        "committed_offsets",
        "cluster_events",
        "cluster_image",
        "cluster_changes",
        "partition_history",
    } == CLUSTER_TABLES.keys()
    for table_rows in rows:
        (batch,) = table_rows.record_batches()
        assert batch.to_pylist() == dicts(rows, table_rows.table.name)


def test_every_column_has_a_description() -> None:
    for table in CLUSTER_TABLES.values():
        assert len(set(table.names)) == len(table.names)
        assert all(column.doc for column in table.columns)


def test_rows_of_coordinator_records(tmp_path: Path) -> None:
    result_rows = dicts(written(tmp_path), "coordinator_transactions")
    first, *_, dead, gone, last = result_rows
    path = str(file_of(tmp_path / "__transaction_state-0"))
    assert (first["broker_id"], first["topic"], first["partition"], first["path"]) == (
        1,
        "__transaction_state",
        0,
        path,
    )
    assert {row["leader_epoch"] for row in result_rows} == {7}
    assert [row["step"] for row in result_rows] == [
        "first",
        "next",
        "first",
        "next",
        "next",
        "unknown",
        "next",
        "illegal",
    ]
    assert [row["partitions"] for row in result_rows] == [None, "p-0,p-1", None, "p-0,p-1", "", "", None, "p-0"]
    assert (dead["state"], dead["error"], dead["producer_id"]) == ("Dead", None, 1)
    assert (gone["tombstone"], gone["state"], gone["producer_id"], gone["transaction_version"]) == (
        True,
        None,
        None,
        None,
    )
    assert (last["previous_producer_id"], last["next_producer_id"], last["next_producer_epoch"]) == (2, 9, None)
    assert [row["last_producer_epoch"] for row in result_rows] == [None, 0, None, 0, 0, 0, None, None]
    assert [row["timestamp"] for row in result_rows] == [NOW + time for time in (0, 10, 11, 20, 30, 31, 32, 33)]
    assert result_rows[0]["start_timestamp"] is None
    assert result_rows[1]["start_timestamp"] == NOW + 10


def test_ids_are_sorted_by_last_use(tmp_path: Path) -> None:
    result_rows = dicts(written(tmp_path), "transactional_ids")
    assert [(row["transactional_id"], row["state"], row["removed"]) for row in result_rows] == [
        ("c", "Ongoing", False),
        ("b", None, True),
        ("a", "Dead", False),
    ]
    assert [row["producer_id"] for row in result_rows] == [3, None, 1]
    assert [row["partitions"] for row in result_rows] == ["p-0", None, None]
    assert [(row["transactions"], row["committed"]) for row in result_rows] == [(1, 0), (0, 0), (1, 1)]


def test_transactions_with_their_partitions(tmp_path: Path) -> None:
    done, begun = dicts(written(tmp_path), "distributed_transactions")
    assert (done["partition_count"], done["markers"], done["missing_markers"], done["unverifiable"]) == (2, 0, 1, 1)
    assert (done["outcome"], done["atomic"], done["first_marker_timestamp"]) == ("committed", "no", None)
    assert (begun["outcome"], begun["atomic"], begun["marker_epoch"], begun["partitions"]) == (
        "open",
        None,
        None,
        "p-0",
    )


@pytest.mark.parametrize(
    ("coordinator", "log", "atomic", "outcome"),
    [
        ("a Ongoing 1 0 {p-0} t 1; a PrepareAbort 1 0 {p-0} t 2", "D 1 0 0-0 @0-0 T", "pending", "aborted"),
        (
            "a Ongoing 1 0 {p-0} t 1; a PrepareAbort 1 0 {p-0} t 2; a CompleteAbort 1 0 t 4",
            f"M 1 0 A 0 @0 {at(3)}",
            "yes",
            "aborted",
        ),
        (
            "a Ongoing 1 0 {q-0} t 1; a PrepareAbort 1 0 {q-0} t 2; a CompleteAbort 1 0 t 4",
            "plain @0-0",
            "unverifiable",
            "aborted",
        ),
        (
            "a Ongoing 1 0 {p-0} t 1; a PrepareAbort 1 0 {p-0} t 2; a CompleteAbort 1 0 t 4",
            f"M 1 0 C 0 @0 {at(3)}",
            "no",
            "aborted",
        ),
    ],
)
def test_whether_a_transaction_is_atomic(coordinator: str, log: str, atomic: str, outcome: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0; {coordinator}")
    forge(tmp_path, log, topic="p")
    states = [examine(partition, RULES) for partition in partitions_under(tmp_path)]
    histories = [coordinator_history(state) for state in states if is_coordinator(state)]
    markers = [PartitionMarkers.of(state) for state in states if not is_coordinator(state)]
    (row,) = dicts(list(evaluate_cluster(histories, markers, RULES).rows), "distributed_transactions")
    assert (row["atomic"], row["outcome"]) == (atomic, outcome)


def test_evidence_can_be_serialized() -> None:
    """Both sides of the join may come from other machines."""
    states = [examine(partition, RULES) for partition in partitions_under(SAMPLES / "transactions-v2")]
    markers = [PartitionMarkers.of(state) for state in states if not is_coordinator(state)]
    (history,) = (coordinator_history(state) for state in states if is_coordinator(state))
    commits = [commits_of(state) for state in states if state.partition.place.topic == "__consumer_offsets"]
    here = evaluate_cluster([history], markers, RULES, commits=commits)
    there = pickle.loads(pickle.dumps((history, markers, commits)))  # noqa: S301  # made here
    then = evaluate_cluster([there[0]], there[1], RULES, commits=there[2])
    assert [list(rows) for rows in then.rows] == [list(rows) for rows in here.rows]
    assert then.findings == here.findings


def test_the_best_replica_is_used() -> None:
    """Three brokers have the same records, or some have fewer; one has more, which was overruled."""
    states = [examine(partition, RULES) for partition in partitions_under(SAMPLES / "replication")]
    histories = [coordinator_history(state) for state in states if is_coordinator(state)]
    markers = [PartitionMarkers.of(state) for state in states if not is_coordinator(state)]
    assert len(histories) == 3
    (row,) = (one for one in evaluate_cluster(histories, markers, RULES).rows if one.table.name == "transactional_ids")
    assert len(list(row)) == 1
    chosen = {one.name: one for one in best_replicas(markers)}
    assert len(chosen) == len({one.name for one in markers})
    overruled = {one.name for one in markers if one.log_end_offset > chosen[one.name].log_end_offset}
    assert overruled == {("unclean", 0)}
    assert (chosen["unclean", 0].log_end_offset, chosen["unclean", 0].epoch_starts[-1][0]) == (12, 3)
    lagging = replace(markers[0], log_end_offset=markers[0].log_end_offset - 1, markers=markers[0].markers[:0])
    assert best_replicas([lagging, markers[0]]) == best_replicas([markers[0], lagging]) == [markers[0]]


def test_the_longer_history_is_used(tmp_path: Path) -> None:
    for number, log in enumerate(["a Empty 1 0 t 0", "a Empty 1 0 t 0; a Empty 1 1 t 1"]):
        forge_coordinator(tmp_path / str(number), log, node_id=number)
    histories = [
        coordinator_history(examine(one, RULES))
        for number in range(2)
        for one in partitions_under(tmp_path / str(number))
    ]
    for ordered in (histories, histories[::-1]):
        (rows,) = evaluate_cluster(ordered, [], RULES).rows
        assert list(rows.only("broker_id", "producer_epoch")) == [(1, 1)]


def test_findings_are_sorted_by_severity(tmp_path: Path) -> None:
    written(tmp_path)
    states = [examine(partition, Rules(NOW + 86_400_000)) for partition in partitions_under(tmp_path)]
    histories = [coordinator_history(state) for state in states if is_coordinator(state)]
    markers = [PartitionMarkers.of(state) for state in states if not is_coordinator(state)]
    findings = evaluate_cluster(histories, markers, Rules(NOW + 86_400_000)).findings
    severities = [int(placed.finding.severity) for placed in findings]
    assert severities == sorted(severities, reverse=True)
    assert len(set(severities)) == 3


def test_commits_are_in_the_offsets_topic_only(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-0")
    (partition,) = partitions_under(tmp_path)
    with pytest.raises(ValueError, match="t-0 is not a partition of __consumer_offsets"):
        commits_of(examine(partition, RULES))


def test_an_empty_cluster() -> None:
    result = evaluate_cluster([], [], RULES)
    assert (result.rows, result.findings, len(result.cluster.marker_join.transaction_partitions)) == ((), (), 0)
    assert np.array_equal(result.cluster.marker_join.roles, [])
