"""What is to be done about an open transaction, by what its coordinator knows of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.audit.audit_scope import Asked, judged_whole
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.deferred_verdicts import settled
from kforensics.forensics.coordinators.remedies import REMEDIES
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_rows import remedy
from kforensics.report_html.commands import pieces
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.clusters import at, forge_coordinator, forge_offsets
from tests.forensics.events import NOW
from tests.forensics.forge import forge

MINUTE = 60_000
HOUR = 60 * MINUTE
TOOL = "kafka-transactions.sh --bootstrap-server <host:port>"
ABORT = f"{TOOL} abort --topic t --partition 0 --start-offset 0"
DESCRIBE = f"{TOOL} describe --transactional-id a"
TERMINATE = f"{TOOL} forceTerminateTransaction --transactionalId a"
FIND = f"{TOOL} find-hanging --topic t --partition 0"
OPEN = f"D 7 0 0-0 @0-0 T {at(5)}; plain @1-1"
# Within an hour: 22:13:20 is NOW.
GOING_ON = "a Empty 7 0 t 1; a Ongoing 7 0 timeout 7200000 {t-0} t 4"


def told(folder: Path, as_of_ms: int = NOW + HOUR, counts: int | None = None) -> dict[str, tuple[str, Finding]]:
    """Return the findings on the partition with the open transaction by their codes, and what to do about each."""
    partitions = partitions_under(folder)
    asked = Asked(Rules(as_of_ms), clusters=Clusters.of(partitions))
    judgements = [judged_whole(one, asked, workers=0) for one in partitions]
    found = [one.contribution for one in judgements if one.contribution]
    if counts is not None:
        found[0] = replace(found[0], partition_counts={"__transaction_state": counts})
    (data,) = (one for one in settled(found, asked.rules) if one.place.topic in {"t", "__consumer_offsets"})
    return {one.code.name: (str(remedy(data.place, one)), one) for one in data.findings}


def commands_in(text: str) -> list[str]:
    return [piece for piece, is_command in pieces(text, "t") if is_command]


def stuck(folder: Path, coordinator: str, **options: int) -> tuple[str, Finding]:
    forge(folder, OPEN)
    forge_coordinator(folder, coordinator)
    return told(folder, **options)["lso-stuck"]


def test_one_that_its_coordinator_will_end_at_its_timeout_is_waited_for(tmp_path: Path) -> None:
    text, finding = stuck(tmp_path, GOING_ON)
    assert text.startswith("Wait until 2023-11-15 00:13:20 UTC: then its coordinator aborts it")
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert "abort --topic" not in text
    assert (finding.severity, finding.evidence["transactional_id"]) == (Severity.WARNING, "a")
    assert "in order, as its coordinator knows: Ongoing, its timeout is at 2023-11-15 00:13:20 UTC" in finding.benign


def test_the_late_one_is_told_of_likewise(tmp_path: Path) -> None:
    stuck(tmp_path, GOING_ON)
    text, finding = told(tmp_path)["txn-late"]
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert finding.severity is Severity.WARNING
    assert not [phrase for phrase in finding.benign if "cannot be seen" in phrase]


def test_a_two_phase_commit_is_its_applications(tmp_path: Path) -> None:
    text, finding = stuck(tmp_path, GOING_ON.replace("7200000", "2147483647"), as_of_ms=NOW + 1000 * HOUR)
    assert "its application has to commit or abort it" in text
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(("as_of", "is_overdue"), [(7_215_004, False), (7_215_005, True)])
def test_beyond_its_timeout_an_abort_here_is_the_last_resort(as_of: int, is_overdue: bool, tmp_path: Path) -> None:
    """A coordinator looks every ten seconds, and clocks differ by five at most."""
    text, finding = stuck(tmp_path, GOING_ON, as_of_ms=NOW + as_of)
    assert commands_in(text) == [DESCRIBE, TERMINATE, *([ABORT] if is_overdue else [])]
    assert ("leader of __transaction_state-0" in text) is is_overdue
    assert finding.severity is (Severity.CRITICAL if is_overdue else Severity.WARNING)


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
@pytest.mark.parametrize(("after", "severity"), [(0, Severity.WARNING), (1, Severity.CRITICAL)])
def test_what_was_decided_must_not_be_aborted(state: str, after: int, severity: Severity, tmp_path: Path) -> None:
    """An abort would undo a commit; long afterwards the leader of the coordinator's partition has to move."""
    decided = f"{GOING_ON}; a {state} 7 0 timeout 7200000 {{t-0}} t 3000000"
    text, finding = stuck(tmp_path, decided, as_of_ms=NOW + 3_000_000 + 15 * MINUTE + after)
    assert text.startswith(f"Do not abort it: its coordinator has it as {state}")
    assert commands_in(text) == [DESCRIBE]
    assert "move the leadership of __transaction_state-0" in text
    assert finding.severity is severity


@pytest.mark.parametrize("coordinator", ["a Empty 7 0 t 1", "a Empty 7 0 t 1; a Ongoing 7 0 {t-1} t 2"])
def test_what_nobody_waits_for_is_to_be_aborted(coordinator: str, tmp_path: Path) -> None:
    text, finding = stuck(tmp_path, coordinator)
    assert commands_in(text) == [FIND, ABORT]
    assert text.startswith("No coordinator waits for it")
    assert finding.severity is Severity.CRITICAL


@pytest.mark.parametrize(("count", "is_known"), [(1, True), (2, False)])
def test_a_producer_that_nobody_knows_hangs_if_all_coordinators_are_here(
    count: int, is_known: bool, tmp_path: Path
) -> None:
    text, finding = stuck(tmp_path, "b Empty 9 0 t 1", counts=count)
    assert commands_in(text) == [FIND, ABORT]
    assert text.startswith("No coordinator waits for it") is is_known
    assert (finding.remedy is not None) is is_known


def test_a_record_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    _, finding = stuck(tmp_path, "a Empty 7 0 t 1; a Dead 7 0 t 2")
    assert finding.remedy is None


def test_without_a_coordinator_it_is_told_how_to_find_out(tmp_path: Path) -> None:
    forge_offsets(tmp_path, f"D 7 0 0-0 @0-0 T {at(5)}", {0: ("g", "t-0", 5)})
    text, finding = told(tmp_path)["lso-stuck"]
    here = "--topic __consumer_offsets --partition 0"
    assert commands_in(text) == [f"{TOOL} find-hanging {here}", f"{TOOL} abort {here} --start-offset 0"]
    assert (finding.remedy, finding.severity) == (None, Severity.CRITICAL)


def test_offsets_that_wait_for_a_transaction_that_goes_on(tmp_path: Path) -> None:
    forge_offsets(tmp_path, f"D 7 0 0-0 @0-0 T {at(5)}", {0: ("g", "t-0", 5)})
    forge_coordinator(tmp_path, GOING_ON.replace("t-0", "__consumer_offsets-0"))
    text, finding = told(tmp_path)["eos-offsets-pending"]
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert finding.severity is Severity.WARNING


def test_a_head_that_was_deleted_of_a_young_transaction(tmp_path: Path) -> None:
    """It is told at once, when nothing is late yet."""
    forge(tmp_path, f"D 7 0 0-3 @0-3 T {at(5)}; plain @4-4", log_start=2)
    forge_coordinator(tmp_path, GOING_ON)
    text, finding = told(tmp_path, as_of_ms=NOW + MINUTE)["txn-head-deleted"]
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert text.endswith("A broker that restarts before may forget it and show its data.")
    assert finding.severity is Severity.WARNING
    forge_coordinator(tmp_path, "a Empty 7 0 t 1")
    _, finding = told(tmp_path, as_of_ms=NOW + MINUTE)["txn-head-deleted"]
    assert finding.remedy is None, "the coordinator's log may have been copied before"


def test_a_replica_that_is_behind_is_to_catch_up(tmp_path: Path) -> None:
    """The broker was stopped while the other one went on."""
    for broker, log in ((1, OPEN), (2, f"{OPEN}; M 7 0 C 0 @2 {at(20)}")):
        forge(tmp_path / f"broker-{broker}", log)
    forge_coordinator(tmp_path / "broker-2", f"{GOING_ON}; a PrepareCommit 7 0 {{t-0}} t 9; a CompleteCommit 7 0 t 30")
    partitions = partitions_under(tmp_path)
    asked = Asked(Rules(NOW + HOUR), clusters=Clusters.of(partitions))
    found = [judged_whole(one, asked, workers=0).contribution for one in partitions]
    behind, ahead = (
        {one.code.name: one for one in judgement.findings}
        for judgement in settled((one for one in found if one), asked.rules)
        if judgement.place.topic == "t"
    )
    assert "lso-stuck" not in ahead
    text = str(behind["lso-stuck"].remedy)
    assert text.startswith("Do not abort it: a replica that reaches further has the COMMIT of it at offset 2.")
    assert (commands_in(text), behind["lso-stuck"].severity) == ([], Severity.WARNING)


def test_who_chooses_the_id_does_not_choose_what_is_done(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    forge_coordinator(tmp_path, GOING_ON.replace("a ", "$(reboot) "))
    text, _ = told(tmp_path)["lso-stuck"]
    assert text.count("$(reboot)") == 2
    assert [command.rpartition(" ")[2] for command in commands_in(text)] == ["'$(reboot)'"] * 2


@pytest.mark.parametrize("what", REMEDIES)
def test_every_command_is_one_that_can_be_copied(what: str) -> None:
    text = REMEDIES[what].replace("{topic}", "t").replace("{partition}", "0").replace("{first_offset}", "0")
    text = text.replace("{transactional_id}", "a")
    assert len(commands_in(text)) == text.count("--bootstrap-server")
    assert set(commands_in(text)) <= {ABORT, DESCRIBE, TERMINATE, FIND}


@pytest.mark.parametrize(
    ("partition", "begins"), [("hanging-0", "No coordinator waits"), ("open-0", "Its coordinator should")]
)
def test_of_a_real_broker(partition: str, begins: str) -> None:
    """The tool of Kafka listed the first as hanging, and nothing of the other one."""
    partitions = partitions_under(SAMPLES / "transactions-v2")
    asked = Asked(Rules(1_795_266_000_000), clusters=Clusters.of(partitions))
    found = [judged_whole(one, asked, workers=0).contribution for one in partitions]
    (data,) = (
        one
        for one in settled((one for one in found if one), asked.rules)
        if f"{one.place.topic}-{one.place.partition}" == partition
    )
    (finding,) = (one for one in data.findings if one.code.name == "lso-stuck")
    assert str(finding.remedy).startswith(begins)
