"""Results of partitions, once their cluster is evaluated."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.audit.audit_scope import AuditScope, evaluate_partition
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.deferred_verdicts import resolve_deferred
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.rules import Rules
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, forge_coordinator, forge_offsets
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES, partitions_under

DAY = 86_400_000
ENDED = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareCommit 1 0 {t-0} t 3; a CompleteCommit 1 0 t 5"
# No available marker ends the transaction after the marker.
OPEN_AFTER_MARKER = f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 C 0 @1 {at(4)}; D 1 0 1-1 @2-2 T {at(6)}"


def _evaluated(folder: Path, as_of_ms: int = NOW + DAY) -> tuple[list[PartitionResult], list[PartitionResult]]:
    """Return the first results of partitions, and the resolved results of them and their cluster."""
    partitions = partitions_under(folder)
    scope = AuditScope(Rules(as_of_ms), clusters=Clusters.of(partitions))
    first = [evaluate_partition(partition, scope, workers=0) for partition in partitions]
    inputs = [pickle.loads(pickle.dumps(result.cluster_input)) for result in first if result.cluster_input]  # noqa: S301
    return first, list(resolve_deferred(inputs, scope.rules))


def _result(results: list[PartitionResult], name: str) -> PartitionResult:
    (result,) = (result for result in results if f"{result.place.topic}-{result.place.partition}" == name)
    return result


def _codes(results: list[PartitionResult], name: str) -> set[str]:
    result = _result(results, name)
    return {finding.code.name for finding in result.findings}


def _summary(results: list[PartitionResult], name: str) -> dict[str, object]:
    result = _result(results, name)
    rows = result.rows["partitions"]
    (row,) = rows
    return dict(zip(rows.table.names, row, strict=True))


def test_without_coordinators_the_first_result_is_final(tmp_path: Path) -> None:
    forge(tmp_path, OPEN_AFTER_MARKER)
    (first,), resolved = _evaluated(tmp_path)
    assert (first.is_counted, first.cluster_input, resolved) == (True, None, [])
    assert "txn-late" in {finding.code.name for finding in first.findings}


def test_a_coordinator_with_an_ongoing_transaction_removes_the_finding(tmp_path: Path) -> None:
    forge(tmp_path, OPEN_AFTER_MARKER)
    forge_coordinator(tmp_path, f"{ENDED}; a Ongoing 1 0 {{t-0}} t 6")
    first, later = _evaluated(tmp_path)
    assert not any(one.is_counted or one.findings or "findings" in one.rows for one in first)
    assert "txn-hanging" not in _codes(later, "t-0")
    codes = [row[0] for one in later if one.place.topic == "t" for row in one.rows["findings"].only("code")]
    assert (_summary(later, "t-0")["findings"], {*codes}) == (len(codes), _codes(later, "t-0"))


def test_a_finding_of_the_coordinator_replaces_that_of_the_partition(tmp_path: Path) -> None:
    """The finding that has the transactional id replaces the one of the partition alone."""
    forge(tmp_path, OPEN_AFTER_MARKER)
    forge_coordinator(tmp_path, ENDED)
    _, later = _evaluated(tmp_path)
    (data,) = (result for result in later if result.place.topic == "t")
    (hanging,) = (finding for finding in data.findings if finding.code.name == "txn-hanging")
    assert "'a'" in hanging.message
    assert data.worst == hanging.severity
    assert _summary(later, "t-0")["verdict"] == "critical"


def test_a_different_outcome_is_found_in_a_partition_without_findings_of_its_own(tmp_path: Path) -> None:
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 A 0 @1 {at(4)}")
    (alone,), _ = _evaluated(tmp_path)
    assert not alone.findings
    forge_coordinator(tmp_path, ENDED)
    _, later = _evaluated(tmp_path)
    assert "atomicity-split-outcome" in {finding.code.name for result in later for finding in result.findings}
    (cluster,) = (result for result in later if not result.is_counted)
    (atomic,) = [value for (value,) in cluster.rows["distributed_transactions"].only("atomic")]
    assert atomic == "no"


def test_rows_of_coordinators_are_in_the_results_of_their_partitions(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, ENDED)
    forge_offsets(tmp_path, f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 C 0 @1 {at(4)}", {0: ("g", "t-0", 5)})
    first, later = _evaluated(tmp_path)
    rows = {name: [*table_rows] for result in first for name, table_rows in result.rows.items()}
    assert (len(rows["coordinator_transactions"]), len(rows["group_offsets"])) == (4, 1)
    assert rows["group_offsets"] == [*dict(first[0].rows)["group_offsets"]], "they can be read again"
    (cluster,) = (result for result in later if not result.is_counted)
    assert [*cluster.rows["transactional_ids"].only("transactional_id")] == [("a",)]


@pytest.mark.parametrize("scenario", ["transactions-v1", "transactions-v2", "groups", "replication"])
def test_every_partition_of_a_real_cluster_is_counted_once(scenario: str) -> None:
    partitions = partitions_under(SAMPLES / scenario)
    first, later = _evaluated(SAMPLES / scenario)
    counted = [one.folder for one in (*first, *later) if one.is_counted]
    assert sorted(counted) == sorted(one.folder for one in partitions)


def test_the_metadata_has_the_partition_counts_of_coordinator_topics() -> None:
    partitions = [one for one in partitions_under(SAMPLES / "replication") if one.place.topic == "__cluster_metadata"]
    clusters = Clusters.of(partitions_under(SAMPLES / "replication"))
    scope = AuditScope(Rules(NOW), clusters=clusters)
    counts = {
        tuple(result.cluster_input.partition_counts.items())
        for result in (evaluate_partition(partition, scope, workers=0) for partition in partitions)
        if result.cluster_input
    }
    truth = json.loads((SAMPLES / "replication" / "truth.json").read_text("utf-8"))["topics"]
    assert counts == {(("__transaction_state", len(truth["__transaction_state"])),)}


def test_an_id_in_the_wrong_coordinator_partition_is_found(tmp_path: Path) -> None:
    """For a single id, this takes the partition count from the metadata."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0", partition=1)
    _, later = _evaluated(tmp_path)
    (cluster_input,) = (result.cluster_input for result in _evaluated(tmp_path)[0] if result.cluster_input)
    with_counts = replace(cluster_input, partition_counts={"__transaction_state": 5})
    (result, _) = resolve_deferred([with_counts], Rules(NOW + DAY))
    assert "txnlog-wrong-partition" in {finding.code.name for finding in result.findings}
    assert "txnlog-wrong-partition" not in {finding.code.name for result in later for finding in result.findings}
