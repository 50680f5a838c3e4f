"""The worked examples of the rules about coordinators' logs, from forged bytes to findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.check import collectors_of, findings_of
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.coordinators.cluster_rows import distributed_transaction_rows
from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON, at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.forge import forge
from tests.forensics.partition_states import partitions_under

HOUR, DAY = 3_600_000, 86_400_000
IMPLIED = {"txn-open-at-end"}
TEN = f"D 1 0 0-2 @0-2 T; M 1 0 A 0 @3 {at(21)}; D 1 0 3-3 @4-4 T {at(23)}"
TEN_DECIDED = (
    "id-a Empty 1 0 t 0; id-a Ongoing 1 0 {t-0} t 1; id-a PrepareAbort 1 0 {t-0} t 20; id-a CompleteAbort 1 0 t 22; "
    "id-a Empty 1 1 t 30"
)
TWENTY_FOUR = (
    "id-a Empty 1 0 t 0; id-a Ongoing 1 0 {p-0} t 10; id-a Ongoing 1 0 {p-0, p-1} t 12; "
    "id-a PrepareCommit 1 0 {p-0, p-1} t 20"
)
COMPLETE = "; id-a CompleteCommit 1 0 t 25"


def twenty_four(folder: Path, coordinator: str, second: str) -> None:
    forge_coordinator(folder, coordinator)
    forge(folder, f"D 1 0 0-0 @0-0 T {at(11)}; M 1 0 C 0 @1 {at(21)}", topic="p")
    forge(folder, f"D 1 0 0-0 @0-0 T {at(13)}; {second}", topic="p", partition=1)


def test_example_24_a_coordinator_of_version_1(tmp_path: Path) -> None:
    twenty_four(tmp_path, TWENTY_FOUR + COMPLETE, f"M 1 0 C 0 @1 {at(22)}")
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster) == {}
    (rows,) = distributed_transaction_rows(cluster)
    names = ("start_timestamp", "decided_timestamp", "first_marker_timestamp", "last_marker_timestamp")
    (row,) = rows.only("transactional_id", *names, "completed_timestamp", "partitions", "markers", "atomic", "exact")
    times = tuple(NOW + time for time in (10, 20, 21, 22, 25))
    assert row == ("id-a", *times, "p-0,p-1", 2, "yes", True)


@pytest.mark.parametrize(("as_of", "severity"), [(SOON, "warning"), (SOON + HOUR, "critical")])
def test_example_24_without_a_marker(as_of: int, severity: str, tmp_path: Path) -> None:
    """Right after the end the partition may merely have been copied before it."""
    twenty_four(tmp_path, TWENTY_FOUR + COMPLETE, "")
    found = {placed.finding.code.name: placed for placed in found_in(cluster_under(tmp_path, as_of_ms=as_of))}
    hangs = {"txn-hanging"} if as_of > SOON else set()
    assert found.keys() == {"atomicity-marker-missing"} | hangs
    place, finding = found["atomicity-marker-missing"]
    assert (place.topic, place.partition, finding.first_offset) == ("p", 1, 0)
    assert str(finding.severity) == severity


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (f"gone D 1 0 0-0 @0-0 T {at(13)}; empty 1 0 @1 {at(22)}", {"atomicity-unverifiable"}),
        (f"D 2 0 0-0 @0-0 T {at(13)}; M 2 0 C 0 @1 {at(22)}", {"atomicity-marker-missing"}),
    ],
    ids=["emptied", "never written"],
)
def test_example_24_without_a_marker_that_the_leader_had_cleaned(
    first: str, expected: set[str], tmp_path: Path
) -> None:
    """The log was fetched from it later, so the cleaner of its own broker does not list it."""
    forge_coordinator(tmp_path, TWENTY_FOUR + COMPLETE)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(11)}; M 1 0 C 0 @1 {at(21)}", topic="p")
    forge(tmp_path, {0: first, 2: f"D 3 0 0-0 @2-2 N {at(50)}"}, topic="p", partition=1)
    forge(tmp_path, "plain @0", topic="cleaned", compacted=True)
    found = codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))
    assert found.keys() == expected


def test_example_24_with_another_end(tmp_path: Path) -> None:
    twenty_four(tmp_path, TWENTY_FOUR + COMPLETE, f"M 1 0 A 0 @1 {at(22)}")
    ((place, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity)) == ("atomicity-split-outcome", "critical")
    assert (place.topic, place.partition, finding.first_offset) == ("p", 1, 1)
    assert finding.exactness is Exactness.EXACT


def test_example_24_never_complete(tmp_path: Path) -> None:
    twenty_four(tmp_path, TWENTY_FOUR, f"M 1 0 C 0 @1 {at(22)}")
    assert codes_in(cluster_under(tmp_path)) == {}
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + 20 + 16 * 60_000)) == {"txnlog-prepare-stuck": "critical"}


@pytest.mark.parametrize("tagged", [True, False], ids=["since-4.3", "before"])
def test_example_25_the_last_epoch(tagged: bool, tmp_path: Path) -> None:
    tags = ("prev 1 ", "prev 1 next 50 ", "prev 1 ") if tagged else ("prev -1 ",) * 3
    forge_coordinator(
        tmp_path,
        {
            5: (
                f"id-a Ongoing 1 32766 tv 2 {tags[0]}{{t-0}} t 10; "
                f"id-a PrepareCommit 1 32767 tv 2 {tags[1]}{{t-0}} t 20; id-a CompleteCommit 50 0 tv 2 {tags[2]}t 25; "
                "id-a Ongoing 50 0 tv 2 {t-0} t 30; id-a PrepareCommit 50 1 tv 2 {t-0} t 40; "
                "id-a CompleteCommit 50 1 tv 2 t 45"
            )
        },
    )
    log = (
        f"D 1 32766 0-0 @0-0 T {at(11)}; M 1 32767 C 0 @1 {at(21)}; D 50 0 0-0 @2-2 T {at(31)}; M 50 1 C 0 @3 {at(41)}"
    )
    forge(tmp_path, log)
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster) == {}
    (rows,) = distributed_transaction_rows(cluster)
    assert list(rows.only("producer_id", "producer_epoch", "marker_epoch", "atomic", "exact")) == [
        (1, 32766, 32767, "yes", True),
        (50, 0, 1, "yes", True),
    ]
    assert alone(tmp_path) == {"epoch-near-exhaustion": 0}


def alone(folder: Path, as_of_ms: int = SOON) -> dict[str, int | None]:
    """Return the findings in the data partition alone: first offsets by code."""
    (partition,) = (one for one in partitions_under(folder) if one.name == "t-0")
    findings = findings_of(examine(partition, Rules(as_of_ms), collectors_of(PARTITION_CHECKS)), PARTITION_CHECKS)
    return {one.code.name: one.first_offset for one in reversed(findings) if one.code.name not in IMPLIED}


TWENTY_SIX = (
    "id-a Empty 1 0 t 0; id-a Ongoing 1 0 {t-0} t 1; id-a PrepareCommit 1 0 {t-0} t 10; "
    "id-a PrepareAbort 1 1 {t-0} t 20; id-a CompleteAbort 1 1 t 30"
)


def test_example_26_the_first_decision_was_never_sent(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, TWENTY_SIX)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(5)}; M 1 1 A 0 @1 {at(21)}")
    assert codes_in(cluster_under(tmp_path)) == {"txnlog-prepare-flip": "warning"}


def test_example_26_the_first_decision_was_sent(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, TWENTY_SIX)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(5)}; M 1 0 C 0 @1 {at(11)}; M 1 1 A 0 @2 {at(21)}")
    found = codes_in(cluster_under(tmp_path))
    assert found == {"txnlog-prepare-flip": "error", "atomicity-split-outcome": "critical"}


def together(folder: Path, as_of_ms: int) -> dict[str, int | None]:
    """Return the findings in the data partition, with its coordinator and without: first offsets by code."""
    found = found_in(cluster_under(folder, as_of_ms=as_of_ms))
    return alone(folder, as_of_ms) | {finding.code.name: finding.first_offset for _, finding in found}


def test_example_10_a_late_write_hangs(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, TEN_DECIDED)
    forge(tmp_path, TEN)
    codes = ("txn-late", "txn-hanging", "txn-write-after-marker", "lso-stuck")
    assert together(tmp_path, NOW + DAY) == dict.fromkeys(codes, 4)
    exact = {
        finding.code.name: finding.exactness for _, finding in found_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))
    }
    assert exact == {"txn-hanging": Exactness.EXACT, "txn-write-after-marker": Exactness.EXACT}


def test_example_11_the_hang_is_swallowed(tmp_path: Path) -> None:
    forge_coordinator(
        tmp_path,
        f"{TEN_DECIDED}; id-a Ongoing 1 1 {{t-0}} t 40; id-a PrepareCommit 1 1 {{t-0}} t 50; "
        "id-a CompleteCommit 1 1 t 60",
    )
    forge(tmp_path, f"{TEN}; D 1 1 0-0 @5-5 T {at(41)}; M 1 1 C 0 @6 {at(51)}")
    expected = {"txn-epoch-mixed": 4, "epoch-bump-without-marker": 5, "txn-foreign-data-absorbed": 4}
    assert together(tmp_path, SOON) == expected
    ((place, finding),) = found_in(cluster_under(tmp_path))
    assert (place.topic, finding.code.name) == ("t", "txn-foreign-data-absorbed")
    assert finding.exactness is Exactness.EXACT


def test_example_34_one_id_across_versions(tmp_path: Path) -> None:
    forge_coordinator(
        tmp_path,
        "id-a Empty 1 0 t 0; id-a Ongoing 1 0 {t-0} t 1; id-a PrepareAbort 1 0 {t-0} t 2; id-a CompleteAbort 1 0 t 4; "
        "id-a Empty 1 1 t 5; id-a Ongoing 1 1 tv 2 {t-0} t 6; id-a PrepareCommit 1 2 tv 2 {t-0} t 7; "
        "id-a CompleteCommit 1 2 tv 2 t 9; id-a Ongoing 1 2 tv 2 {t-0} t 10; id-a PrepareCommit 1 3 tv 2 {t-0} t 11; "
        "id-a CompleteCommit 1 3 tv 2 t 13",
        leader_epochs={0: 2},
    )
    log = (
        f"D 1 0 0-1 @0-1 T; M 1 0 A 2 @2 {at(3)}; D 1 1 0-0 @3-3 T {at(6)}; M 1 2 C 2 @4 {at(8)}; "
        f"D 1 2 0-0 @5-5 T {at(10)}; M 1 3 C 2 @6 {at(12)}"
    )
    forge(tmp_path, log)
    assert together(tmp_path, SOON) == {}
    (rows,) = distributed_transaction_rows(cluster_under(tmp_path))
    joins = [(0, 0, "aborted"), (1, 2, "committed"), (2, 3, "committed")]
    assert list(rows.only("producer_epoch", "marker_epoch", "outcome", "atomic", "exact")) == [
        (*join, "yes", True) for join in joins
    ]
