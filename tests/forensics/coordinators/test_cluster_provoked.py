"""Copies of real brokers' files with one defect, which is reported in its place, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_result import evaluate_cluster
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.partition.examine import examine
from tests.forensics.coordinators.clusters import found_in
from tests.forensics.coordinators.doctored import (
    MINUTE,
    THREE_BROKERS,
    Sent,
    alarms,
    batch_at,
    broker_cluster,
    copied,
    each_protocol,
    flip_outcome,
    log_of,
    original,
    sent_to,
    transactions_of,
)
from tests.forensics.forge import cut, drop
from tests.forensics.partition_states import SAMPLES, partitions_under

OUTPUTS = ("output-0", "output-1", "output-2")
MISSING, SPLIT = "atomicity-marker-missing", "atomicity-split-outcome"
# Consequences of a missing marker: its data is open, or ended by the next marker of its producer.
IMPLIED = {"txn-hanging", "txn-write-after-marker", "txn-foreign-data-absorbed"}
# The first, one in the middle, and the last.
WHICH = (0, 0.5, 1)


def chosen(sample: str, partition: str) -> list[Sent]:
    """Return some of the markers of a partition."""
    found = sent_to(sample, partition)
    return [found[int(part * (len(found) - 1))] for part in WHICH]


def verdicts(cluster: Cluster) -> list[str]:
    """Return whether each decided transaction was atomic."""
    return sorted(one["atomic"] for one in transactions_of(cluster) if one["atomic"] is not None)


@each_protocol()
def test_untouched_files_have_no_findings(sample: str) -> None:
    cluster = original(sample, MINUTE)
    assert alarms(cluster) == []
    assert set(verdicts(cluster)) == {"yes"}


@each_protocol()
@pytest.mark.parametrize("partition", OUTPUTS)
def test_a_marker_cut_out_of_one_partition(sample: str, partition: str, tmp_path: Path) -> None:
    """Up to version 1 another transaction of the same epoch may be the one without; that one has none is certain."""
    for number, marker in enumerate(chosen(sample, partition)):
        folder = copied(sample, tmp_path / str(number))
        drop(log_of(folder, partition), marker.offset)
        cluster = broker_cluster(folder, sample)
        found = alarms(cluster, original(sample))
        assert {one.finding.code.name for one in found} - IMPLIED == {MISSING}
        assert {f"{one.place.topic}-{one.place.partition}" for one in found} == {partition}
        (missing,) = (one.finding for one in found if one.finding.code.name == MISSING)
        assert missing.severity is Severity.CRITICAL
        assert (missing.producer_id, missing.producer_epoch) == (marker.producer_id, marker.producer_epoch)
        assert "lost from this copy: likely, it lacks offsets" in missing.benign
        assert verdicts(cluster) == ["no", *verdicts(original(sample))[1:]]


def test_a_marker_cut_out_of_what_may_have_been_cleaned(tmp_path: Path) -> None:
    """A leader may have compacted the topic before it was fetched, but markers stay longer than their data."""
    for number, marker in enumerate(chosen(THREE_BROKERS, "__consumer_offsets-1")):
        folder = copied(THREE_BROKERS, tmp_path / str(number))
        drop(log_of(folder, "__consumer_offsets-1"), marker.offset)
        found = alarms(broker_cluster(folder, THREE_BROKERS), original(THREE_BROKERS))
        (missing,) = (one for one in found if one.finding.code.name == MISSING)
        assert missing.place[2:] == ("__consumer_offsets", 1)
        assert (missing.finding.producer_id, missing.finding.producer_epoch) == (
            marker.producer_id,
            marker.producer_epoch,
        )


@pytest.mark.parametrize("sample", [f"{THREE_BROKERS}-v1", f"{THREE_BROKERS}-3.9"], ids=["TV1", "TV0"])
def test_before_version_2_the_owner_of_data_is_unknown(sample: str, tmp_path: Path) -> None:
    """The next marker has the same epoch and may have ended this data."""
    first = sent_to(sample, "__consumer_offsets-1")[0]
    folder = copied(sample, tmp_path)
    drop(log_of(folder, "__consumer_offsets-1"), first.offset)
    cluster = broker_cluster(folder, sample)
    assert verdicts(cluster).count("unverifiable") == 1
    assert set(verdicts(cluster)) == {"yes", "unverifiable"}


@each_protocol()
def test_a_tail_cut_before_a_marker(sample: str, tmp_path: Path) -> None:
    """The markers that a copy lacks at its end are missing, and no others."""
    marker = sent_to(sample, "output-0")[-1]
    folder = copied(sample, tmp_path)
    log = log_of(folder, "output-0")
    cut(log, batch_at(log, marker.offset).position)
    found = alarms(broker_cluster(folder, sample), original(sample))
    (missing,) = (one for one in found if one.finding.code.name == MISSING)
    assert (missing.place.topic, missing.place.partition, missing.finding.producer_id) == (
        "output",
        0,
        marker.producer_id,
    )
    assert (missing.finding.severity, missing.finding.exactness) == (Severity.CRITICAL, Exactness.APPROXIMATE)
    assert "copied before the end of the transaction: unlikely" in missing.finding.benign[0]


@each_protocol()
@pytest.mark.parametrize("partition", [*OUTPUTS, "__consumer_offsets-0", "__consumer_offsets-1"])
def test_a_flipped_outcome(sample: str, partition: str, tmp_path: Path) -> None:
    for number, marker in enumerate(chosen(sample, partition)):
        folder = copied(sample, tmp_path / str(number))
        flip_outcome(log_of(folder, partition), marker.offset)
        cluster = broker_cluster(folder, sample, after_ms=MINUTE)
        found = alarms(cluster)
        (split,) = (one for one in found if one.finding.code.name == SPLIT)
        assert (f"{split.place.topic}-{split.place.partition}", split.finding.first_offset) == (
            partition,
            marker.offset,
        )
        assert split.finding.producer_id == marker.producer_id
        assert {one.finding.code.name for one in found} <= {SPLIT, "eos-offset-outcome-mismatch"}
        assert verdicts(cluster) == ["no", *verdicts(original(sample, MINUTE))[1:]]


def test_offsets_on_the_other_side_than_the_output(tmp_path: Path) -> None:
    folder = copied(THREE_BROKERS, tmp_path)
    marker = sent_to(THREE_BROKERS, "__consumer_offsets-1")[0]
    flip_outcome(log_of(folder, "__consumer_offsets-1"), marker.offset)
    found = {one.finding.code.name: one for one in alarms(broker_cluster(folder, THREE_BROKERS, after_ms=MINUTE))}
    assert found.keys() == {SPLIT, "eos-offset-outcome-mismatch"}
    place, finding = found["eos-offset-outcome-mismatch"]
    assert (place.topic, place.partition, finding.first_offset) == ("__consumer_offsets", 1, marker.offset)
    assert (finding.severity, finding.evidence["transactional_id"]) == (Severity.CRITICAL, "billing-app")


@each_protocol()
@pytest.mark.parametrize("partition", ["output-1", "__consumer_offsets-0"])
def test_a_partition_left_out_is_never_guessed(sample: str, partition: str) -> None:
    cluster = broker_cluster(SAMPLES / sample / "broker-1", sample, after_ms=MINUTE, without=(partition,))
    assert alarms(cluster) == []
    decided = [one for one in transactions_of(cluster) if one["atomic"] is not None]
    listed = [one for one in decided if partition in one["partitions"].split(",")]
    assert {one["atomic"] for one in listed} == {"unverifiable"}
    assert {one["atomic"] for one in decided if one not in listed} == {"yes"}
    (unverifiable,) = (one.finding for one in found_in(cluster) if one.finding.code.name == "atomicity-unverifiable")
    assert unverifiable.evidence.items() >= {"transactions": len(listed), "partition": partition}.items()


@each_protocol()
def test_a_coordinator_left_out_is_not_held_against_the_others(sample: str) -> None:
    """Only markers show the transactions of its ids; a day later a hanging one may still be one of its own."""
    folder, left_out = SAMPLES / sample / "broker-1", ("__transaction_state-0",)
    cluster = broker_cluster(folder, sample, after_ms=MINUTE, without=left_out)
    assert alarms(cluster) == []
    assert {one["transactional_id"] for one in transactions_of(cluster)}.isdisjoint({"shipping-app", "late-app"})
    later = broker_cluster(folder, sample, after_ms=1440 * MINUTE, without=left_out)
    unknown = [one.finding for one in alarms(later) if one.finding.code.name == "txn-hanging-unknown-id"]
    assert {(one.severity, one.exactness) for one in unknown} == {(Severity.WARNING, Exactness.UNVERIFIABLE)}
    assert not [one for one in alarms(later) if one.finding.code.name == "txn-hanging"]


def test_the_most_complete_replica_is_used(tmp_path: Path) -> None:
    """One of three copies lacks a marker, but the transaction was atomic."""
    folder = copied(THREE_BROKERS, tmp_path)
    marker = chosen(THREE_BROKERS, "output-0")[1]
    drop(log_of(folder, "output-0"), marker.offset)
    rules = original(THREE_BROKERS).rules
    damaged, *others = (
        PartitionMarkers.of(examine(one, rules))
        for under in (folder, SAMPLES / THREE_BROKERS / "broker-2", SAMPLES / THREE_BROKERS / "broker-3")
        for one in partitions_under(under)
        if one.name == "output-0"
    )
    coordinators = original(THREE_BROKERS).coordinators.histories
    for some in ([damaged, *others], [*others, damaged]):
        found = evaluate_cluster(coordinators, some, rules).findings
        assert MISSING not in {one.finding.code.name for one in found}
    alone = evaluate_cluster(coordinators, [damaged], rules).findings
    assert MISSING in {one.finding.code.name for one in alone}
