"""Markers that do not match their coordinator's decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.core.election import Election
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.coordinators.doctored import (
    MINUTE,
    alarms,
    batch_at,
    broker_cluster,
    copied,
    each_protocol,
    log_of,
    sent_to,
    taken,
)
from tests.forensics.forge import file_of, forge
from tests.forensics.partition_states import SAMPLES

FIRES = {
    "marker-partition-unlisted": "test_a_marker_where_its_transaction_never_was",
    "marker-outside-window": "test_a_marker_out_of_its_time",
    "marker-coordinator-epoch-mismatch": "test_a_coordinator_epoch_that_was_not",
}
SILENT = {
    "marker-partition-unlisted": "test_an_abort_by_an_operator_is_no_marker_of_a_coordinator",
    "marker-outside-window": "test_a_marker_in_its_time",
    "marker-coordinator-epoch-mismatch": "test_a_coordinator_that_moved_or_stayed",
}
BY_OPERATOR = {"marker-admin-abort": "info"}
# The coordinator's log continues after it, so everything decided before is covered.
LATER = "; z Empty 99 0 t 60000"


def one(version: int = 0, marker: int = 0, state: str = "Commit") -> str:
    tag = f"tv {version} " if version else ""
    return (
        f"a Empty 1 0 t 0; a Ongoing 1 0 {tag}{{p-0}} t 10; a Prepare{state} 1 {marker} {tag}{{p-0}} t 10000; "
        f"a Complete{state} 1 {marker} {tag}t 20000"
    )


PROTOCOLS = pytest.mark.parametrize(("version", "marker"), [(0, 0), (2, 1)], ids=["TV1", "TV2"])


@PROTOCOLS
@pytest.mark.parametrize("data", [True, False])
def test_a_marker_where_its_transaction_never_was(version: int, marker: int, data: bool, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, one(version, marker) + LATER)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 {marker} C 0 @1 {at(15_000)}", topic="p")
    written = (
        f"D 1 0 0-0 @0-0 T; M 1 {marker} C 0 @1 {at(15_000)}"
        if data
        else f"plain @0-0; M 1 {marker} C 0 @1 {at(15_000)}"
    )
    forge(tmp_path, written, topic="q")
    ((place, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity)) == ("marker-partition-unlisted", "error")
    assert (place.topic, finding.first_offset) == ("q", 1)


@pytest.mark.parametrize("epoch", [3, 1])
def test_a_marker_that_no_coordinator_decided(epoch: int, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, one() + LATER)
    log = f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(15_000)}; M 1 {epoch} C 0 @2 {at(30_000)}"
    forge(tmp_path, log, topic="p")
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, finding.first_offset) == ("marker-partition-unlisted", 2)
    assert "no record of an end" in finding.message


def test_a_decision_that_is_not_yet_available(tmp_path: Path) -> None:
    """The coordinator's log may have been copied before it."""
    forge_coordinator(tmp_path, one())
    log = f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(15_000)}; M 1 3 C 0 @2 {at(30_000)}"
    forge(tmp_path, log, topic="p")
    assert codes_in(cluster_under(tmp_path)) == {}


def test_an_abort_by_an_operator_is_no_marker_of_a_coordinator(tmp_path: Path) -> None:
    """It has the epoch of its data, in a partition that was never added to the transaction."""
    forge_coordinator(tmp_path, one() + LATER)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(15_000)}", topic="p")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 A 0 @1 {at(30_000)}", topic="q")
    assert codes_in(cluster_under(tmp_path)) == BY_OPERATOR


UNLISTED = {**BY_OPERATOR, "marker-partition-unlisted": "error"}


@pytest.mark.parametrize(
    ("further", "codes"),
    [
        (f"M 1 0 A 0 @2 {at(31_000)}", BY_OPERATOR),
        (f"M 1 0 A 0 @2 {at(31_000)}; M 9 0 A 0 @3 {at(31_500)}; M 1 0 A 1 @4 {at(32_000)}", BY_OPERATOR),
        (f"M 1 0 C 0 @2 {at(31_000)}", UNLISTED),
        (f"M 1 1 A 0 @2 {at(31_000)}", UNLISTED),
        (f"M 1 0 C 0 @2 {at(31_000)}; M 1 0 A 0 @3 {at(32_000)}", UNLISTED),
    ],
    ids=["again", "twice-again", "commit", "other-epoch", "after-a-commit"],
)
def test_an_abort_by_an_operator_that_was_sent_again(further: str, codes: dict[str, str], tmp_path: Path) -> None:
    """So it was on 3.9.1 with both commands of a remedy: the second ABORT ends nothing."""
    forge_coordinator(tmp_path, one() + LATER)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(15_000)}", topic="p")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 A 0 @1 {at(30_000)}; {further}", topic="q")
    assert codes_in(cluster_under(tmp_path)) == codes


def test_a_list_of_partitions_that_the_cleaner_took(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, {0: "a CompleteCommit 1 0 t 20000", 20: LATER[2:]}, first_dirty=20)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(15_000)}", topic="q")
    assert codes_in(cluster_under(tmp_path)) == {}


def test_a_decision_may_be_missing_anywhere_in_a_coordinator_log_with_damage(tmp_path: Path) -> None:
    """Seen on 3.9.1 with preallocated segments, whose zeros follow the log of a running broker."""
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 3 C 0 @1 {at(30_000)}", topic="p")
    folder = forge_coordinator(tmp_path, {5: f"a Empty 1 5 t 20000{LATER}"})
    assert codes_in(cluster_under(tmp_path)).keys() == {"marker-partition-unlisted"}
    with file_of(folder).open("ab") as log:
        log.write(bytes(1000))
    assert codes_in(cluster_under(tmp_path)) == {}


@PROTOCOLS
@pytest.mark.parametrize("time", [4_999, 25_001])
def test_a_marker_out_of_its_time(version: int, marker: int, time: int, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, one(version, marker) + LATER)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 {marker} C 0 @1 {at(time)}", topic="p")
    findings = codes_in(cluster_under(tmp_path))
    assert findings["marker-outside-window"] == "warning"


@PROTOCOLS
@pytest.mark.parametrize("time", [5_000, 15_000, 25_000])
def test_a_marker_in_its_time(version: int, marker: int, time: int, tmp_path: Path) -> None:
    """Broker clocks may differ by five seconds."""
    forge_coordinator(tmp_path, one(version, marker) + LATER)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 {marker} C 0 @1 {at(time)}", topic="p")
    assert codes_in(cluster_under(tmp_path)) == {}


def test_one_marker_too_many_of_an_epoch(tmp_path: Path) -> None:
    """It ended data of its own, so it is not a duplicate of the first one."""
    forge_coordinator(tmp_path, one() + LATER)
    log = f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(15_000)}; D 1 0 1-1 @2-2 T; M 1 0 C 0 @3 {at(16_000)}"
    forge(tmp_path, log, topic="p")
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity), finding.first_offset) == ("marker-outside-window", "warning", 3)


def test_a_marker_sent_again_that_ended_the_next_transaction(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, one(2, 1) + LATER)
    log = f"D 1 0 0-0 @0-0 T; M 1 1 C 0 @1 {at(15_000)}; D 1 1 0-0 @2-2 T; M 1 1 C 0 @3 {at(16_000)}"
    forge(tmp_path, log, topic="p")
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity), finding.first_offset) == ("marker-outside-window", "error", 3)


def test_a_marker_sent_again_without_effect(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, one(2, 1) + LATER)
    log = f"D 1 0 0-0 @0-0 T; M 1 1 C 0 @1 {at(15_000)}; M 1 1 C 0 @2 {at(16_000)}"
    forge(tmp_path, log, topic="p")
    assert codes_in(cluster_under(tmp_path)) == {}


def moved(folder: Path, epoch: int) -> dict[str, str]:
    forge_coordinator(folder, one() + LATER, leader_epochs={0: 3, 3: 5})
    forge(folder, f"D 1 0 0-0 @0-0 T; M 1 0 C {epoch} @1 {at(15_000)}", topic="p")
    return codes_in(cluster_under(folder))


def test_a_coordinator_epoch_that_was_not(tmp_path: Path) -> None:
    assert moved(tmp_path, 6) == {"marker-coordinator-epoch-mismatch": "warning"}


@pytest.mark.parametrize("epoch", [0, 2, 3, 4, 5])
def test_a_coordinator_that_moved_or_stayed(epoch: int, tmp_path: Path) -> None:
    """Followers that leave raise the leader epoch; the coordinator that stays goes on with its own."""
    assert moved(tmp_path, epoch) == {}


@pytest.mark.parametrize(("later", "codes"), [(14_000, {}), (21_000, {"marker-coordinator-epoch-mismatch": "warning"})])
def test_a_coordinator_epoch_from_before_another_election(later: int, codes: dict[str, str], tmp_path: Path) -> None:
    """The coordinator had already sent epoch 5, for another id, to another partition."""
    other = (
        "; b Empty 2 0 t 0; b Ongoing 2 0 {q-0} t 10; b PrepareCommit 2 0 {q-0} t 10000; b CompleteCommit 2 0 t 15000"
    )
    forge_coordinator(tmp_path, one() + other + LATER, leader_epochs={0: 3, 6: 5})
    forge(tmp_path, f"D 2 0 0-0 @0-0 T; M 2 0 C 5 @1 {at(15_000)}", topic="q")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 3 @1 {at(later)}", topic="p")
    assert codes_in(cluster_under(tmp_path)) == codes


@each_protocol()
@pytest.mark.parametrize("flipped", [-1, -3, -9, -20, 43, 51])
def test_a_marker_whose_checksum_fails_shows_nothing(sample: str, flipped: int, tmp_path: Path) -> None:
    """A bit of a real broker's marker flipped: in its coordinator epoch, kind, times, producer or epoch."""
    folder, marker = copied(sample, tmp_path), sent_to(sample, "output-0")[1]
    log = log_of(folder, "output-0")
    batch, data = batch_at(log, marker.offset), bytearray(log.read_bytes())
    data[batch.position + (flipped if flipped > 0 else batch.size + flipped)] ^= 1
    log.write_bytes(data)
    cluster = broker_cluster(folder, sample, after_ms=MINUTE)
    assert [placed.finding.message for placed in alarms(cluster)] == []
    assert cluster.marker_join.by_partition[cluster.supplied_partitions["output", 0]].is_broken


def test_brokers_that_were_restarted_one_after_the_other() -> None:
    """Half of the markers have an epoch below the leader epoch of the Prepare record: the coordinator had stayed."""
    cluster = cluster_under(SAMPLES / "rolling-restart" / "broker-0", as_of_ms=taken("rolling-restart") + MINUTE)
    join, decided = cluster.marker_join, cluster.coordinators.transactions
    rows = join.transaction_partitions
    epochs = join.markers["coordinator_epoch"][rows["marker"]]
    assert (epochs < decided["prepare_leader_epoch"][rows["transaction"]]).sum() > 20
    assert alarms(cluster) == []


def test_a_marker_too_many_where_not_all_is_available(tmp_path: Path) -> None:
    """It may belong to a transaction that the cleaner removed completely."""
    rest = "a PrepareCommit 1 0 {p-0} t 10000; a CompleteCommit 1 0 t 20000"
    forge_coordinator(tmp_path, {0: "a Ongoing 1 0 {p-0} @9 t 10", 20: rest + LATER}, first_dirty=20)
    log = f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(5)}; D 1 0 1-1 @2-2 T; M 1 0 C 0 @3 {at(15_000)}"
    forge(tmp_path, log, topic="p")
    assert codes_in(cluster_under(tmp_path)) == {}


def test_an_abort_by_an_operator_after_a_transaction_of_the_same_epoch(tmp_path: Path) -> None:
    """It has the coordinator epoch of the marker before it."""
    forge_coordinator(tmp_path, one() + LATER, leader_epochs={0: 4})
    log = f"D 1 0 0-0 @0-0 T; M 1 0 C 4 @1 {at(15_000)}; D 1 0 1-1 @2-2 T; M 1 0 A 4 @3 {at(30_000)}"
    forge(tmp_path, log, topic="p")
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster) == BY_OPERATOR
    assert cluster.marker_join.roles.tolist() == [MarkerRole.SENT, MarkerRole.BY_OPERATOR]


def test_an_abort_that_the_coordinator_may_have_decided_after_its_copy(tmp_path: Path) -> None:
    """So it was on 4.1.1, whose coordinator wrote its decision 20 ms after the end of the copy."""
    forge_coordinator(tmp_path, f"{one()}; a Ongoing 1 0 {{p-0}} t 25000", leader_epochs={0: 4})
    log = f"D 1 0 0-0 @0-0 T; M 1 0 C 4 @1 {at(15_000)}; D 1 0 1-1 @2-2 T; M 1 0 A 4 @3 {at(30_000)}"
    forge(tmp_path, log, topic="p")
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster) == {}
    assert cluster.marker_join.roles.tolist() == [MarkerRole.SENT, MarkerRole.NOT_COVERED]


@pytest.mark.parametrize(
    ("elected", "unclean", "is_named"), [(1_040_000, True, True), (1_040_000, False, False), (20_000, True, False)]
)
@pytest.mark.parametrize("outcome", "AC")
def test_a_decision_that_an_unclean_election_of_the_coordinator_cut_off(
    outcome: str, elected: int, unclean: bool, is_named: bool, tmp_path: Path
) -> None:
    """So it was on 3.9.1: its coordinator had sent both markers, and a replica out of sync became its leader."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0; z Empty 99 0 t 3600000")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 {outcome} 0 @1 {at(1_000_000)}", topic="q")
    election = Election(5, 2, NOW + elected, (1,), unclean, 1)
    cluster = cluster_under(tmp_path)
    (history,) = cluster.coordinators.histories
    number = history.place.partition or 0
    ((_, finding),) = found_in(cluster.with_elections({(history.topic_id or "", number): (election,)}, []))
    named = f"__transaction_state-{number} may have lost the decision: broker 2 became leader with epoch 5"
    assert (named in finding.message) == is_named
    assert ("decision lost in that election: likely" in finding.benign) == is_named
    if outcome == "C":
        assert ("`kforensics transactions`" in (finding.remedy or "")) == is_named
    else:
        assert finding.message.startswith(
            "An operator or the coordinator aborted" if is_named else "An operator aborted"
        )


def test_an_abort_by_an_operator_of_data_of_two_epochs(tmp_path: Path) -> None:
    """It has the last epoch, which was the producer's in this partition."""
    forge_coordinator(tmp_path, one(2, 1) + LATER)
    late = f"D 1 0 1-1 @2-2 T {at(16_000)}; D 1 1 0-0 @3-3 T {at(17_000)}; M 1 1 A 0 @4 {at(30_000)}"
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; M 1 1 C 0 @1 {at(15_000)}; {late}", topic="p")
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster) == BY_OPERATOR
    assert cluster.marker_join.roles.tolist() == [MarkerRole.SENT, MarkerRole.BY_OPERATOR]


def test_the_time_of_a_marker_that_may_be_another_one_shows_nothing(tmp_path: Path) -> None:
    """If two markers are late, only the surplus one is reported."""
    forge_coordinator(tmp_path, one() + LATER)
    log = f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(40_000)}; D 1 0 1-1 @2-2 T; M 1 0 C 0 @3 {at(50_000)}"
    forge(tmp_path, log, topic="p")
    findings = [(finding.code.name, finding.first_offset) for _, finding in found_in(cluster_under(tmp_path))]
    assert findings == [("marker-outside-window", 3)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_hanging_transaction_that_an_operator_ended_within_seconds(version: int) -> None:
    """A real broker's log says who and when; the coordinator's own aborts are not reported."""
    for sample, topic, first in (("forged-markers", "repaired", 3), ("transactions", "hanging-resolved", 3)):
        folder = SAMPLES / f"{sample}-v{version}"
        cluster = cluster_under(folder, as_of_ms=taken(folder.name) + MINUTE)
        found = [one for one in found_in(cluster) if one.finding.code.name == "marker-admin-abort"]
        # The forged ABORT is one, too: what it did to the transaction is another finding.
        (place, finding) = next(one for one in found if one.place.topic == topic)
        assert {one.place.topic for one in found} == ({topic, "aborted"} if topic == "repaired" else {topic})
        assert (place.partition, str(finding.severity), finding.exactness) == (0, "info", "exact")
        assert finding.evidence["first_offset"] == first
        assert finding.evidence["transactional_id"] == ("repaired-app" if topic == "repaired" else topic)
