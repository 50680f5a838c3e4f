"""Transactions whose outcome the available files do not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.coordinators.transactions.transitions import TV2
from kforensics.forensics.core.rules import Rules
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.forge import forge

FIRES = {
    "atomicity-unverifiable": "test_a_partition_that_is_not_available",
    "eos-commit-without-output": "test_nothing_but_offsets",
    "broker-clocks-differ": "test_clocks_that_differ_are_reported_once_and_no_marker_is_missing",
}
SILENT = {
    "atomicity-unverifiable": "test_everything_is_available",
    "eos-commit-without-output": "test_everything_is_available",
    "broker-clocks-differ": "test_one_marker_with_another_time_shows_no_clock",
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
    assert finding.evidence == {"transactions": 2, "partition": "p-1", "appended_ms": NOW + 20}


def test_a_partition_whose_head_is_gone(tmp_path: Path) -> None:
    """The marker of an earlier decision may have been in the deleted part of the log."""
    forge_coordinator(tmp_path, LOG)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(25)}", topic="p")
    head = f"gone D 1 0 0-0 @0-0 T; gone M 1 0 C 0 @1 {at(25)}; plain @2-2; M 1 0 A 0 @3 {at(55)}"
    forge(tmp_path, {2: head}, topic="p", partition=1, log_start=2)
    cluster = cluster_under(tmp_path)
    ((_, finding),) = found_in(cluster)
    assert finding.evidence == {"transactions": 1, "partition": "p-1", "appended_ms": NOW + 20}
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
    assert finding.evidence == {"transactions": 1, "appended_ms": NOW + 20}


def supplied_by_clocks(folder: Path, differences_ms: list[int], *, version: int = 0, then: str = "") -> None:
    """Write one log of a coordinator, and partitions whose leaders have other clocks: a transaction in each of them."""
    log, epoch = "a Empty 1 0 t 0", 0
    for partition, difference in enumerate(differences_ms):
        time, sent = 1000 * partition, epoch + 1 if version >= TV2 else epoch
        log += (
            f"; a Ongoing 1 {epoch} tv {version} {{p-{partition}}} start {time} t {time + 10}"
            f"; a PrepareCommit 1 {sent} tv {version} {{p-{partition}}} t {time + 20}"
            f"; a CompleteCommit 1 {sent} tv {version} t {time + 30}"
        )
        data = f"D 1 {epoch} 0-0 @0-0 T; M 1 {sent} C 0 @1 {at(time + 25 + difference)}"
        forge(folder, data, topic="p", partition=partition)
        epoch = sent
    forge_coordinator(folder, log + then)


@pytest.mark.parametrize("version", [0, TV2])
@pytest.mark.parametrize("difference", [-300_000, 300_000])
def test_clocks_that_differ_are_reported_once_and_no_marker_is_missing(
    difference: int, version: int, tmp_path: Path
) -> None:
    supplied_by_clocks(tmp_path, [0, difference, difference, difference, difference], version=version)
    cluster = cluster_under(tmp_path)
    ((_, finding),) = found_in(cluster)
    assert (finding.code.name, str(finding.severity)) == ("broker-clocks-differ", "warning")
    assert finding.message.startswith("The times of 4 markers show that the clocks of brokers differ.")
    assert finding.message.endswith("allow for 5 min 20 s.")
    statuses = cluster.marker_join.transaction_partitions["marker_status"]
    assert statuses.tolist() == [MarkerStatus.MATCHED] * 5


def test_a_log_that_was_copied_early_does_not_seem_late_by_the_clock_of_its_leader(tmp_path: Path) -> None:
    """Seen on 4.0.0 with clocks 20 s apart: 44 markers seemed to be missing in the copy of a broker at work."""
    listed = (
        "; b Empty 2 0 t 0; b Ongoing 2 0 {q-0} t 5000; b PrepareCommit 2 0 {q-0} t 5010; b CompleteCommit 2 0 t 5020"
    )
    supplied_by_clocks(tmp_path, [0, *[300_000] * 4], then=listed)
    forge(tmp_path, f"D 9 0 0-0 @0-0 T; M 9 0 C 0 @1 {at(304_000)}", topic="q", clean_shutdown=False)
    assert codes_in(cluster_under(tmp_path)) == {"broker-clocks-differ": "warning", "atomicity-unverifiable": "info"}


def test_one_marker_with_another_time_shows_no_clock(tmp_path: Path) -> None:
    supplied_by_clocks(tmp_path, [0, 0, 300_000, 300_000, 0])
    cluster = cluster_under(tmp_path)
    assert "broker-clocks-differ" not in codes_in(cluster)
    assert cluster.rules.clock_skew_ms == Rules(0).clock_skew_ms


@pytest.mark.parametrize(("first", "is_shown"), [(0, True), (6, False)])
def test_as_many_later_markers_as_were_deleted_show_no_clock(tmp_path: Path, first: int, *, is_shown: bool) -> None:
    """Seen on 4.3.1: a coordinator's log that was copied 15 s before a partition that retention had shortened."""
    log = "a Empty 1 0 t 0"
    for time in (0, 1000, 2000):
        listed, done = f"1 0 {{p-0}} start {time} t", f"1 0 t {time + 30}"
        log += f"; a Ongoing {listed} {time + 10}; a PrepareCommit {listed} {time + 20}; a CompleteCommit {done}"
    forge_coordinator(tmp_path, log)
    later = [f"D 1 0 {n}-{n} @{first + 2 * n} T; M 1 0 C 0 @{first + 2 * n + 1} {at(60_000 + n)}" for n in range(3)]
    forge(tmp_path, {first: "; ".join(later)}, topic="p")
    assert ("broker-clocks-differ" in codes_in(cluster_under(tmp_path))) is is_shown


def test_a_log_that_goes_back_shows_that_its_leaders_have_other_clocks(tmp_path: Path) -> None:
    """The history of the coordinator is not known from its begin on, and its markers are not told apart by epoch."""
    times = [0, 1000, 2000, 3000, 4000, -285_000, -284_000, -283_000, -282_000]
    forge(tmp_path, "; ".join(f"M 1 0 C 0 @{n} {at(time)}" for n, time in enumerate(times)), topic="p")
    forge_coordinator(tmp_path, "b Empty 2 0 t 0")
    cluster = cluster_under(tmp_path)
    assert cluster.rules.clock_skew_ms == 640_000
    assert codes_in(cluster)["broker-clocks-differ"] == "warning"


def test_one_marker_from_the_future_shows_no_clock(tmp_path: Path) -> None:
    times = [0, 1000, 900_000, 3000, 4000, 5000, 6000]
    forge(tmp_path, "; ".join(f"M 1 0 C 0 @{n} {at(time)}" for n, time in enumerate(times)), topic="p")
    forge_coordinator(tmp_path, "b Empty 2 0 t 0")
    assert "broker-clocks-differ" not in codes_in(cluster_under(tmp_path))
