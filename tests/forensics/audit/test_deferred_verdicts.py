"""Verdicts on partitions, once their cluster is known."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.audit.audit_scope import Asked, judged_whole
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.deferred_verdicts import settled
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.rules import Rules
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.clusters import at, forge_coordinator, forge_offsets
from tests.forensics.events import NOW
from tests.forensics.forge import forge

DAY = 86_400_000
ENDED = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareCommit 1 0 {t-0} t 3; a CompleteCommit 1 0 t 5"
# What was written behind the marker looks as if nobody will end it.
BEHIND = f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 C 0 @1 {at(4)}; D 1 0 1-1 @2-2 T {at(6)}"


def _judged(folder: Path, as_of_ms: int = NOW + DAY) -> tuple[list[Judgement], list[Judgement]]:
    """Return what is said of partitions at once, and what is said of them and their cluster in the end."""
    partitions = partitions_under(folder)
    asked = Asked(Rules(as_of_ms), clusters=Clusters.of(partitions))
    first = [judged_whole(one, asked, workers=0) for one in partitions]
    travelled = [pickle.loads(pickle.dumps(one.contribution)) for one in first if one.contribution]  # noqa: S301
    return first, list(settled(travelled, asked.rules))


def _codes(judgements: list[Judgement], name: str) -> set[str]:
    (one,) = (one for one in judgements if f"{one.place.topic}-{one.place.partition}" == name)
    return {finding.code.name for finding in one.findings}


def _card(judgements: list[Judgement], name: str) -> dict[str, object]:
    (one,) = (one for one in judgements if f"{one.place.topic}-{one.place.partition}" == name)
    rows = one.rows["partitions"]
    (row,) = rows
    return dict(zip(rows.table.names, row, strict=True))


def test_without_coordinators_a_verdict_stands_at_once(tmp_path: Path) -> None:
    forge(tmp_path, BEHIND)
    (first,), settled_later = _judged(tmp_path)
    assert (first.is_counted, first.contribution, settled_later) == (True, None, [])
    assert "txn-hanging" in {one.code.name for one in first.findings}


def test_a_coordinator_that_will_end_it_takes_the_alarm_back(tmp_path: Path) -> None:
    forge(tmp_path, BEHIND)
    forge_coordinator(tmp_path, f"{ENDED}; a Ongoing 1 0 {{t-0}} t 6")
    first, later = _judged(tmp_path)
    assert not any(one.is_counted or one.findings or "findings" in one.rows for one in first)
    assert "txn-hanging" not in _codes(later, "t-0")
    codes = [row[0] for one in later if one.place.topic == "t" for row in one.rows["findings"].only("code")]
    assert (_card(later, "t-0")["findings"], {*codes}) == (len(codes), _codes(later, "t-0"))


def test_what_its_coordinator_knows_better_is_said_once(tmp_path: Path) -> None:
    """The finding of the partition alone gives way to the one that names the id."""
    forge(tmp_path, BEHIND)
    forge_coordinator(tmp_path, ENDED)
    _, later = _judged(tmp_path)
    (data,) = (one for one in later if one.place.topic == "t")
    (hanging,) = (one for one in data.findings if one.code.name == "txn-hanging")
    assert "'a'" in hanging.message
    assert data.worst == hanging.severity
    assert _card(later, "t-0")["verdict"] == "critical"


def test_an_outcome_that_differs_is_found_in_a_partition_that_looks_well_alone(tmp_path: Path) -> None:
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 A 0 @1 {at(4)}")
    (alone,), _ = _judged(tmp_path)
    assert not alone.findings
    forge_coordinator(tmp_path, ENDED)
    _, later = _judged(tmp_path)
    assert "atomicity-split-outcome" in {code for one in later for code in (found.code.name for found in one.findings)}
    (cluster,) = (one for one in later if not one.is_counted)
    (atomic,) = [value for (value,) in cluster.rows["distributed_transactions"].only("atomic")]
    assert atomic == "no"


def test_rows_of_coordinators_come_with_their_partitions(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, ENDED)
    forge_offsets(tmp_path, f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 C 0 @1 {at(4)}", {0: ("g", "t-0", 5)})
    first, later = _judged(tmp_path)
    rows = {name: [*found] for one in first for name, found in one.rows.items()}
    assert (len(rows["coordinator_transactions"]), len(rows["group_offsets"])) == (4, 1)
    assert rows["group_offsets"] == [*dict(first[0].rows)["group_offsets"]], "they can be read again"
    (cluster,) = (one for one in later if not one.is_counted)
    assert [*cluster.rows["transactional_ids"].only("transactional_id")] == [("a",)]


@pytest.mark.parametrize("scenario", ["transactions-v1", "transactions-v2", "groups", "replication"])
def test_every_verdict_of_a_real_cluster_comes_once(scenario: str) -> None:
    partitions = partitions_under(SAMPLES / scenario)
    first, later = _judged(SAMPLES / scenario)
    counted = [one.folder for one in (*first, *later) if one.is_counted]
    assert sorted(counted) == sorted(one.folder for one in partitions)


def test_the_metadata_tells_how_many_partitions_coordinators_have() -> None:
    partitions = [one for one in partitions_under(SAMPLES / "replication") if one.place.topic == "__cluster_metadata"]
    clusters = Clusters.of(partitions_under(SAMPLES / "replication"))
    asked = Asked(Rules(NOW), clusters=clusters)
    told = {
        tuple(found.contribution.partition_counts.items())
        for found in (judged_whole(one, asked, workers=0) for one in partitions)
        if found.contribution
    }
    truth = json.loads((SAMPLES / "replication" / "truth.json").read_text("utf-8"))["topics"]
    assert told == {(("__transaction_state", len(truth["__transaction_state"])),)}


def test_an_id_in_the_wrong_one_of_so_many_partitions_is_found(tmp_path: Path) -> None:
    """Only who knows the count can say so of a single id."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0", partition=1)
    _, later = _judged(tmp_path)
    (contributed,) = (one.contribution for one in _judged(tmp_path)[0] if one.contribution)
    told = replace(contributed, partition_counts={"__transaction_state": 5})
    (verdict, _) = settled([told], Rules(NOW + DAY))
    assert "txnlog-wrong-partition" in {one.code.name for one in verdict.findings}
    assert "txnlog-wrong-partition" not in {one.code.name for found in later for one in found.findings}
