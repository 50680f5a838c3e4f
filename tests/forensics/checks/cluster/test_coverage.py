"""Transactions whose outcome the available files do not show."""

from __future__ import annotations

from pathlib import Path

from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from tests.forensics.coordinators.clusters import at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.forge import forge

FIRES = {
    "atomicity-unverifiable": "test_a_partition_that_is_not_available",
    "eos-commit-without-output": "test_nothing_but_offsets",
}
SILENT = {
    "atomicity-unverifiable": "test_everything_is_available",
    "eos-commit-without-output": "test_everything_is_available",
}
LOG = (
    "a Empty 1 0 t 0; a Ongoing 1 0 {p-0, p-1} t 10; a PrepareCommit 1 0 {p-0, p-1} t 20; a CompleteCommit 1 0 t 30; "
    "a Ongoing 1 0 {p-1} t 40; a PrepareAbort 1 0 {p-1} t 50; a CompleteAbort 1 0 t 60"
)


def supplied(folder: Path) -> None:
    forge_coordinator(folder, LOG)
    forge(folder, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(25)}", topic="p")
    forge(folder, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(25)}; M 1 0 A 0 @2 {at(55)}", topic="p", partition=1)


def test_everything_is_available(tmp_path: Path) -> None:
    supplied(tmp_path)
    assert codes_in(cluster_under(tmp_path)) == {}


def test_a_partition_that_is_not_available(tmp_path: Path) -> None:
    supplied(tmp_path)
    ((place, finding),) = found_in(cluster_under(tmp_path, without=("p-1",)))
    assert (finding.code.name, str(finding.severity), finding.exactness) == (
        "atomicity-unverifiable",
        "info",
        "unverifiable",
    )
    assert place.topic == "__transaction_state"
    assert finding.evidence == {"transactions": 2, "partition": "p-1"}


def test_a_partition_whose_head_is_gone(tmp_path: Path) -> None:
    """The marker of an earlier decision may have been in the deleted part of the log."""
    forge_coordinator(tmp_path, LOG)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(25)}", topic="p")
    head = f"gone D 1 0 0-0 @0-0 T; gone M 1 0 C 0 @1 {at(25)}; plain @2-2; M 1 0 A 0 @3 {at(55)}"
    forge(tmp_path, {2: head}, topic="p", partition=1, log_start=2)
    cluster = cluster_under(tmp_path)
    ((_, finding),) = found_in(cluster)
    assert finding.evidence == {"transactions": 1, "partition": "p-1"}
    verdicts = [
        MarkerStatus(verdict) for verdict in cluster.marker_join.transaction_partitions["marker_status"].tolist()
    ]
    assert verdicts == [MarkerStatus.MATCHED, MarkerStatus.NOT_COVERED, MarkerStatus.EMPTY]


def test_a_partition_that_was_cleaned(tmp_path: Path) -> None:
    """The cleaner removes markers too, some time after the data."""
    forge_coordinator(tmp_path, LOG)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(25)}", topic="p")
    log = {0: "D 1 0 0-0 @0-0 T cnt 0", 2: f"M 1 0 A 0 @2 {at(55)}"}
    forge(tmp_path, log, topic="p", partition=1, first_dirty=2)
    assert codes_in(cluster_under(tmp_path)) == {"atomicity-unverifiable": "info"}


def test_nothing_but_offsets(tmp_path: Path) -> None:
    offsets = "{__consumer_offsets-0}"
    forge_coordinator(
        tmp_path,
        f"a Empty 1 0 t 0; a Ongoing 1 0 {offsets} t 10; a PrepareCommit 1 0 {offsets} t 20; "
        f"a CompleteCommit 1 0 t 30; b Empty 2 0 t 0; b Ongoing 2 0 {offsets} t 10; b PrepareAbort 2 0 {offsets} t 20; "
        "b CompleteAbort 2 0 t 30",
    )
    log = f"M 1 0 C 0 @0 {at(25)}; M 2 0 A 0 @1 {at(25)}"
    forge(tmp_path, log, topic="__consumer_offsets")
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, finding.producer_id) == ("eos-commit-without-output", 1)
    assert finding.evidence == {"transactions": 1}
