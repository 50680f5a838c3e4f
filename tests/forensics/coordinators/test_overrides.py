"""Findings of a partition alone that its coordinators disprove."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.check import collectors_of, findings_of
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.coordinators.overrides import is_overridden
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.parsers.log.log_rows import Place
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, forge_coordinator
from tests.forensics.coordinators.doctored import taken
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES, partitions_under

DAY = 86_400_000
# After a marker of the same epoch, data may be a late write or the next transaction.
AFTER_MARKER = f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 A 0 @1 {at(4)}; D 1 0 1-1 @2-2 T {at(7)}"
ENDED = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareAbort 1 0 {t-0} t 3; a CompleteAbort 1 0 t 5"


def alone(folder: Path, code: str, as_of_ms: int) -> tuple[Place, Finding]:
    """Return the finding with a code in the data partition, evaluated without a coordinator."""
    (partition,) = (one for one in partitions_under(folder) if one.name == "t-0")
    found = findings_of(examine(partition, Rules(as_of_ms), collectors_of(PARTITION_CHECKS)), PARTITION_CHECKS)
    (finding,) = (one for one in found if one.code.name == code)
    return partition.place, finding


@pytest.mark.parametrize("sent", [True, False])
def test_an_abort_that_a_coordinator_sent_a_day_later(sent: bool, tmp_path: Path) -> None:
    """Nothing in the partition distinguishes it from an operator's."""
    last = f"; a Ongoing 1 0 {{t-0}} t 6; a PrepareAbort 1 0 {{t-0}} t {DAY}; a CompleteAbort 1 0 t {DAY + 2}"
    forge_coordinator(tmp_path, ENDED + (last if sent else f"; a Empty 1 1 t {DAY + 2}"))
    forge(tmp_path, f"{AFTER_MARKER}; M 1 0 A 0 @3 {at(DAY + 1)}")
    as_of = NOW + DAY + 60_000
    finding = alone(tmp_path, "marker-admin-abort", as_of)
    assert is_overridden(cluster_under(tmp_path, as_of_ms=as_of), *finding) is sent


@pytest.mark.parametrize("enlisted", [True, False])
def test_a_write_with_an_epoch_that_had_ended(enlisted: bool, tmp_path: Path) -> None:
    """After a marker of epoch 3 that no coordinator knows, the next data looks late."""
    epoch = 1 if enlisted else 2
    forge_coordinator(
        tmp_path,
        f"a Empty 1 0 t 0; a Empty 1 1 t 1; a Ongoing 1 {epoch} {{t-0}} t 5; a PrepareCommit 1 {epoch} {{t-0}} t 7; "
        f"a CompleteCommit 1 {epoch} t 9",
    )
    forge(tmp_path, f"M 1 3 A 0 @0 {at(2)}; D 1 1 0-0 @1-1 T {at(6)}; M 1 {epoch} C 0 @2 {at(8)}")
    finding = alone(tmp_path, "txn-write-after-marker", NOW + 60_000)
    assert is_overridden(cluster_under(tmp_path), *finding) is enlisted


COMMITTED = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareCommit 1 0 {t-0} t 10"
NEXT = "a CompleteCommit 1 0 t 20; a Ongoing 1 0"
NEW_COORDINATOR = f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 C 3 @1 {at(11)}; M 1 0 A 4 @2 {at(1050)}"


@pytest.mark.parametrize(
    ("later", "overridden"),
    [
        pytest.param(f"{NEXT} {{t-0}} t 30; a PrepareAbort 1 0 {{t-0}} t 1000", True, id="two"),
        pytest.param("a PrepareAbort 1 0 {t-0} t 1000", False, id="one that was decided twice"),
        pytest.param("a CompleteCommit 1 0 t 20", False, id="one"),
        pytest.param(f"{NEXT} {{u-0}} t 30; a PrepareAbort 1 0 {{u-0}} t 1000", False, id="the other is elsewhere"),
        pytest.param(f"{NEXT} {{t-0}} t 9000; a PrepareAbort 1 0 {{t-0}} t 10000", False, id="the other is later"),
    ],
)
def test_contradicting_markers_of_two_transactions(later: str, overridden: bool, tmp_path: Path) -> None:
    """Up to version 1 a transaction that was aborted before it wrote, by the next coordinator, has the same epoch."""
    forge_coordinator(tmp_path, f"{COMMITTED}; {later}; a CompleteAbort 1 0 t 11000")
    forge(tmp_path, NEW_COORDINATOR)
    finding = alone(tmp_path, "marker-conflict", NOW + 60_000)
    assert is_overridden(cluster_under(tmp_path), *finding) is overridden


def test_contradicting_markers_of_one_epoch_of_version_2(tmp_path: Path) -> None:
    begun = "a Empty 1 0 tv 2 t 0; a Ongoing 1 0 tv 2 {t-0} t 1; a PrepareCommit 1 1 tv 2 {t-0} t 10"
    forge_coordinator(tmp_path, f"{begun}; a CompleteCommit 1 1 tv 2 t 20")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(2)}; M 1 1 C 3 @1 {at(11)}; M 1 1 A 4 @2 {at(1050)}")
    finding = alone(tmp_path, "marker-conflict", NOW + 60_000)
    assert not is_overridden(cluster_under(tmp_path), *finding)


def test_other_findings_and_other_partitions_remain(tmp_path: Path) -> None:
    last = f"; a Ongoing 1 0 {{t-0}} t 6; a PrepareAbort 1 0 {{t-0}} t {DAY}; a CompleteAbort 1 0 t {DAY + 2}"
    forge_coordinator(tmp_path, ENDED + last)
    forge(tmp_path, f"{AFTER_MARKER}; M 1 0 A 0 @3 {at(DAY + 1)}; D 1 0 2-2 @4-4 T {at(DAY + 9)}")
    cluster = cluster_under(tmp_path, as_of_ms=NOW + 3 * DAY)
    place, finding = alone(tmp_path, "marker-admin-abort", NOW + 3 * DAY)
    assert is_overridden(cluster, place, finding)
    assert is_overridden(cluster, place._replace(broker_id=7), finding), "it is the same in every replica"
    assert not is_overridden(cluster, place._replace(partition=7), finding)
    assert not is_overridden(cluster, *alone(tmp_path, "lso-stuck", NOW + 3 * DAY))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_of_another_year_do_not_make_a_transaction_long(version: int) -> None:
    """A real broker's coordinator has its start and its decision, milliseconds apart."""
    folder = SAMPLES / f"forged-markers-v{version}"
    as_of = taken(folder.name) + 60_000
    (partition,) = (one for one in partitions_under(folder) if one.name == "backdated-0")
    state = examine(partition, Rules(as_of), collectors_of(PARTITION_CHECKS))
    (long,) = (one for one in findings_of(state, PARTITION_CHECKS) if one.code.name == "txn-duration-excessive")
    assert long.severity is Severity.INFO
    assert is_overridden(cluster_under(folder, as_of_ms=as_of), partition.place, long)
    without = cluster_under(folder, as_of_ms=as_of, without=("__transaction_state-0",))
    assert not is_overridden(without, partition.place, long)


@pytest.mark.parametrize(("timeout", "overridden"), [(2_000_000, True), (60_000, False)])
def test_a_long_transaction_within_its_own_timeout(timeout: int, overridden: bool, tmp_path: Path) -> None:
    """The record of its start was cleaned."""
    forge_coordinator(
        tmp_path, {5: f"a CompleteCommit 1 1 tv 2 timeout {timeout} start -1 t 1800000"}, clean_shutdown=True
    )
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 1 C 0 @1 {at(1_800_000)}", log_append_time=True)
    finding = alone(tmp_path, "txn-duration-excessive", NOW + DAY)
    assert is_overridden(cluster_under(tmp_path, as_of_ms=NOW + DAY), *finding) is overridden
