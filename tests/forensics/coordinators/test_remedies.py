"""The remedies for open transactions, by what their coordinators know."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from os import utime
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.audit.audit_scope import AuditScope, evaluate_partition
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.deferred_verdicts import resolve_deferred
from kforensics.forensics.coordinators.remedies import REMEDIES
from kforensics.forensics.core.commands import filled_in
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_rows import remedy_text
from kforensics.report_html.incident_cards import split_commands
from tests.command import run
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, forge_coordinator, forge_offsets
from tests.forensics.forge import Segments, forge, keep_times
from tests.forensics.partition_states import SAMPLES, partitions_under

MINUTE = 60_000
HOUR = 60 * MINUTE
TOOL = 'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP"'
ABORT = f"{TOOL} abort --topic t --partition 0 --start-offset 0"
DESCRIBE = f"{TOOL} describe --transactional-id a"
TERMINATE = f"{TOOL} forceTerminateTransaction --transactionalId a"
FIND = f"{TOOL} find-hanging --topic t --partition 0"
OPEN = f"D 7 0 0-0 @0-0 T {at(5)}; plain @1-1"
# Times out after two hours; 22:13:20 is NOW.
ONGOING = "a Empty 7 0 t 1; a Ongoing 7 0 timeout 7200000 {t-0} t 4"


def findings_with_remedies(
    folder: Path, as_of_ms: int = NOW + HOUR, counts: int | None = None, *, is_assumed: bool = False
) -> dict[str, tuple[str, Finding]]:
    """Return the findings in the partition with the open transaction and their remedies, by code."""
    partitions = partitions_under(folder)
    scope = AuditScope(Rules(as_of_ms, is_assumed=is_assumed), clusters=Clusters.of(partitions))
    results = [evaluate_partition(one, scope, workers=0) for one in partitions]
    found = [one.cluster_input for one in results if one.cluster_input]
    if counts is not None:
        found[0] = replace(found[0], partition_counts={"__transaction_state": counts})
    (data,) = (one for one in resolve_deferred(found, scope.rules) if one.place.topic in {"t", "__consumer_offsets"})
    return {one.code.name: (str(remedy_text(data.place, one)), one) for one in data.findings}


def commands_in(text: str) -> list[str]:
    return [piece for piece, is_command in split_commands(text, "t") if is_command]


def stuck(
    folder: Path, coordinator: str, *, kept_until: int | None = None, written: int = NOW + 1000, **options: Any
) -> tuple[str, Finding]:
    forge(folder, OPEN)
    forge_coordinator(folder, coordinator)
    if kept_until is not None:
        keep_times(folder, NOW + 1000, kept_until)
        for file in (folder / "__transaction_state-0").glob("0*"):
            utime(file, ns=(written * 1_000_000,) * 2)
    return findings_with_remedies(folder, **options)["lso-stuck"]


def test_its_coordinator_will_end_it_at_its_timeout(tmp_path: Path) -> None:
    text, finding = stuck(tmp_path, ONGOING)
    assert text.startswith("Its coordinator aborts it soon after 2023-11-15 00:13:20 UTC, unless")
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert "abort --topic" not in text
    assert (finding.severity, finding.evidence["transactional_id"]) == (Severity.INFO, "a")
    assert "in order according to its coordinator: Ongoing, times out at 2023-11-15 00:13:20 UTC" in finding.benign


def test_a_late_one_has_the_same_remedy(tmp_path: Path) -> None:
    stuck(tmp_path, ONGOING)
    text, finding = findings_with_remedies(tmp_path)["txn-late"]
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert finding.severity is Severity.INFO
    assert not [phrase for phrase in finding.benign if "coordinator log" in phrase]


@pytest.mark.parametrize(("as_of", "is_overdue"), [(7_265_004, False), (7_265_005, True)])
def test_beyond_its_timeout_an_abort_here_is_the_last_resort(as_of: int, is_overdue: bool, tmp_path: Path) -> None:
    """Coordinators before 2.5 look for such transactions every minute, and clocks differ by at most five seconds."""
    text, finding = stuck(tmp_path, ONGOING, kept_until=NOW + as_of, as_of_ms=NOW + as_of)
    assert commands_in(text) == [DESCRIBE, TERMINATE, *([ABORT] if is_overdue else [])]
    assert ("leader of __transaction_state-0" in text) is is_overdue
    assert finding.severity is (Severity.CRITICAL if is_overdue else Severity.INFO)


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
@pytest.mark.parametrize(("after", "severity"), [(0, Severity.INFO), (1, Severity.CRITICAL)])
def test_a_decided_transaction_must_not_be_aborted(state: str, after: int, severity: Severity, tmp_path: Path) -> None:
    """An abort would undo a commit; after a long time the leadership of the coordinator's partition has to move."""
    decided = f"{ONGOING}; a {state} 7 0 timeout 7200000 {{t-0}} t 3000000"
    as_of_ms = NOW + 3_000_000 + 15 * MINUTE + after
    text, finding = stuck(tmp_path, decided, kept_until=as_of_ms, as_of_ms=as_of_ms)
    assert text.startswith(f"Do not abort it: its coordinator has it as {state}")
    assert commands_in(text) == [DESCRIBE]
    assert "move the leadership of __transaction_state-0" in text
    assert finding.severity is severity


def test_after_its_timeout_the_remedy_is_not_to_wait_for_it(tmp_path: Path) -> None:
    """The broker crashed long before the time of evaluation; no coordinator may have looked at it since."""
    forge(tmp_path, OPEN, clean_shutdown=False)
    forge_coordinator(tmp_path, ONGOING, clean_shutdown=False)
    keep_times(tmp_path, NOW + 1000, NOW + 2000)
    text, finding = findings_with_remedies(tmp_path, NOW + 100 * HOUR)["lso-stuck"]
    assert text.startswith("Its coordinator should have aborted it at 2023-11-15 00:13:20 UTC")
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize("kept_until", [None, NOW + 3_100_000])
@pytest.mark.parametrize("decided", ["", "; a PrepareCommit 7 0 timeout 7200000 {t-0} t 3000000"])
def test_nothing_shows_what_became_of_it_after_the_copy(decided: str, kept_until: int | None, tmp_path: Path) -> None:
    """The copy of a broker that was stopped is evaluated days later, or has lost the times of its files.

    In the first case brokers may have ended it since. In the second nothing is late: no coordinator has run since.
    """
    is_assumed = kept_until is None
    written = NOW + (3_000_000 if decided else 1000)
    options = {"as_of_ms": NOW + 100 * HOUR, "is_assumed": is_assumed}
    text, finding = stuck(tmp_path, ONGOING + decided, kept_until=kept_until, written=written, **options)
    assert commands_in(text)[0] == DESCRIBE
    assert finding.severity is (Severity.INFO if is_assumed else Severity.WARNING)
    if is_assumed and not decided:
        assert "was stopped before 2023-11-15 00:13:20 UTC" in text
        assert ABORT not in text


@pytest.mark.parametrize("selected", [(), ("--topic", "t")])
def test_a_coordinator_was_copied_before_the_timeout_however_much_is_read(
    selected: tuple[str, ...], tmp_path: Path
) -> None:
    """Its broker was running; another one was copied half an hour later."""
    folders = [tmp_path / "broker-1", tmp_path / "broker-2"]
    forge_coordinator(folders[0], "a Ongoing 7 0 {t-0} t 4", clean_shutdown=False, node_id=1)
    forge(folders[0], f"plain @0-0 {at(20)}", topic="v", clean_shutdown=False, node_id=1)
    forge(folders[1], f"D 7 0 0-0 @0-0 T {at(5)}", clean_shutdown=False, node_id=2)
    forge(folders[1], f"plain @0-0 {at(30 * MINUTE)}", topic="u", clean_shutdown=False, node_id=2)
    for folder, copied_ms in zip(folders, (30_000, 30 * MINUTE), strict=True):
        keep_times(folder, NOW + copied_ms, NOW + copied_ms)
    severities = {}
    for command in ("lso", "audit"):
        tables = json.loads(run(command, *selected, "--format", "json", tmp_path).out)["tables"]
        severities[command] = [row["severity"] for row in tables["findings"] if row["code"] == "lso-stuck"]
    assert severities == {"lso": ["info"], "audit": ["info"]}


@pytest.mark.parametrize("coordinator", ["a Empty 7 0 t 1", "a Empty 7 0 t 1; a Ongoing 7 0 {t-1} t 2"])
def test_a_transaction_that_no_coordinator_waits_for_is_to_be_aborted(coordinator: str, tmp_path: Path) -> None:
    text, finding = stuck(tmp_path, coordinator)
    assert commands_in(text) == [FIND, ABORT]
    assert text.startswith("No coordinator waits for it")
    assert finding.severity is Severity.CRITICAL


@pytest.mark.parametrize(("count", "is_known"), [(1, True), (2, False)])
def test_an_unknown_producer_hangs_if_all_coordinators_are_available(
    count: int, is_known: bool, tmp_path: Path
) -> None:
    text, finding = stuck(tmp_path, "b Empty 9 0 t 1", counts=count)
    assert commands_in(text) == [FIND, ABORT]
    assert text.startswith("No coordinator waits for it") is is_known
    assert (finding.remedy is not None) is is_known


@pytest.mark.parametrize(("stopped_ms", "hangs"), [(2_000, False), (30 * MINUTE, True)])
def test_an_unknown_producer_may_be_in_a_newer_log_of_its_coordinator(
    tmp_path: Path, stopped_ms: int, *, hangs: bool
) -> None:
    """Seen on 4.3.1: the only coordinator's log was that of a broker stopped before the transaction began."""
    forge(tmp_path / "broker-1", OPEN.replace(at(5), at(10_000)))
    forge_coordinator(tmp_path / "broker-2", "b Empty 9 0 t 1", node_id=2)
    keep_times(tmp_path / "broker-1", NOW + 10_000, NOW + 12_000)
    keep_times(tmp_path / "broker-2", NOW + 1, NOW + stopped_ms)
    for code in ("lso-stuck", "txn-late"):
        text, finding = findings_with_remedies(tmp_path, counts=1)[code]
        assert text.startswith(
            "No coordinator waits for it" if hangs else "The logs of the coordinators may end before it"
        )
        assert commands_in(text) == [FIND, ABORT]
        assert finding.severity is (finding.code.severity if hangs else Severity.WARNING)
    incidents = kforensics.audit(
        str(tmp_path), as_of=NOW + HOUR, settings={"transaction.state.log.num.partitions": 1}
    ).incidents.to_pylist()
    (stuck_one,) = (row for row in incidents if row["kind"] == "stuck-transaction")
    assert stuck_one["severity"] == ("critical" if hangs else "warning")
    assert ("hangs: no coordinator will end it" in stuck_one["what"]) is hangs
    assert ("has not ended" in stuck_one["what"]) is not hangs


@pytest.mark.parametrize(("outcome", "is_saved"), [("Commit", True), ("Abort", False)])
def test_data_is_saved_first_if_its_coordinator_has_committed_the_other_partitions(
    tmp_path: Path, outcome: str, *, is_saved: bool
) -> None:
    """No coordinator sends the marker again, and no tool can write a COMMIT."""
    forge(tmp_path, f"{OPEN}; D 8 0 0-0 @2-2 T {at(9_000)}; M 8 0 C 0 @3 {at(9_100)}", clean_shutdown=False)
    decided = f"a Empty 7 0 t 1; a Ongoing 7 0 {{t-0, u-0}} t 4; a Prepare{outcome} 7 0 {{t-0, u-0}} t 100"
    forge_coordinator(tmp_path, f"{decided}; a Complete{outcome} 7 0 t 200", clean_shutdown=False)
    keep_times(tmp_path, NOW + 9_100, NOW + 10_000)
    text, finding = findings_with_remedies(tmp_path)["lso-stuck"]
    assert text.startswith("Its coordinator has committed it in its other partitions") is is_saved
    assert ("Save its data before anything else" in text) is is_saved
    assert finding.severity is Severity.WARNING


def test_an_unreadable_record_changes_nothing(tmp_path: Path) -> None:
    _, finding = stuck(tmp_path, "a Empty 7 0 t 1; a Dead 7 0 t 2")
    assert finding.remedy is None


def test_without_a_coordinator_the_remedy_is_to_find_out(tmp_path: Path) -> None:
    forge_offsets(tmp_path, f"D 7 0 0-0 @0-0 T {at(5)}", {0: ("g", "t-0", 5)})
    text, finding = findings_with_remedies(tmp_path)["lso-stuck"]
    here = "--topic __consumer_offsets --partition 0"
    assert commands_in(text) == [f"{TOOL} find-hanging {here}", f"{TOOL} abort {here} --start-offset 0"]
    assert (finding.remedy, finding.severity) == (None, Severity.CRITICAL)


def test_offsets_that_wait_for_an_ongoing_transaction(tmp_path: Path) -> None:
    forge_offsets(tmp_path, f"D 7 0 0-0 @0-0 T {at(5)}", {0: ("g", "t-0", 5)})
    forge_coordinator(tmp_path, ONGOING.replace("t-0", "__consumer_offsets-0"))
    text, finding = findings_with_remedies(tmp_path)["eos-offsets-pending"]
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert finding.severity is Severity.INFO


def test_the_deleted_head_of_a_young_transaction(tmp_path: Path) -> None:
    """It is reported at once, before anything is late."""
    forge(tmp_path, f"D 7 0 0-3 @0-3 T {at(5)}; plain @4-4", log_start=2)
    forge_coordinator(tmp_path, ONGOING)
    text, finding = findings_with_remedies(tmp_path, as_of_ms=NOW + MINUTE)["txn-head-deleted"]
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert text.endswith("A broker that restarts before then may forget it and expose its data.")
    assert finding.severity is Severity.WARNING
    forge_coordinator(tmp_path, "a Empty 7 0 t 1")
    _, finding = findings_with_remedies(tmp_path, as_of_ms=NOW + MINUTE)["txn-head-deleted"]
    assert str(finding.remedy).startswith("No coordinator waits for it")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    text, finding = findings_with_remedies(tmp_path, as_of_ms=NOW + MINUTE)["txn-head-deleted"]
    longest = "Wait until it has been open for 15 min, the longest timeout that it can have"
    assert text.startswith(longest), (
        "the coordinator's log may have been copied earlier, before a producer with this one"
    )
    assert finding.benign[-1].endswith("unknown, but its timeout may be 15 min")
    assert finding.severity is Severity.WARNING


def test_a_transaction_whose_records_are_all_deleted_can_expose_none(tmp_path: Path) -> None:
    forge(tmp_path, f"D 7 0 0-3 @0-3 T {at(5)}; plain @4-4", log_start=4)
    forge_coordinator(tmp_path, ONGOING)
    text, _ = findings_with_remedies(tmp_path, as_of_ms=NOW + MINUTE)["txn-head-deleted"]
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert "expose" not in text


TWO_PHASE = "a Empty 7 0 timeout 2147483647 t 1; a Ongoing 7 0 timeout 2147483647 {t-0} start 4 t 4"


def test_nothing_but_its_transaction_manager_ends_a_two_phase_commit(tmp_path: Path) -> None:
    """It has no timeout, so a manager that has forgotten it blocks consumers for ever."""
    text, finding = stuck(tmp_path, TWO_PHASE, as_of_ms=NOW + 50 * 24 * HOUR)
    assert (finding.severity, finding.evidence["two_phase_commit"]) == (Severity.WARNING, True)
    assert text.startswith("Ask its transaction manager whether it commits or aborts")
    assert commands_in(text) == [DESCRIBE, TERMINATE]
    assert "in a two-phase commit, which has no timeout" in finding.benign[-1]


def test_a_young_two_phase_commit_with_records_of_old_input_is_in_order(tmp_path: Path) -> None:
    """Its records have the times of what the client read; by its coordinator it began a minute ago."""
    start = HOUR - MINUTE
    coordinator = TWO_PHASE.replace("start 4 t 4", f"start {start} t {start}")
    text, finding = stuck(tmp_path, coordinator)
    assert finding.severity is Severity.INFO
    assert text.startswith("Ask its transaction manager")


def test_all_commands_say_that_a_two_phase_commit_has_no_timeout(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    forge_coordinator(tmp_path, TWO_PHASE)
    late = ("--as-of", "2024-01-03", tmp_path)
    incident, *_ = kforensics.audit(tmp_path, as_of="2024-01-03").incidents.to_pylist()
    assert (incident["kind"], incident["severity"]) == ("stuck-transaction", "warning")
    assert "is in a two-phase commit: nothing but its transaction manager ends it" in incident["what"]
    assert "warning  lso-stuck" in run("lso", *late).text
    assert "none (two-phase commit)" in run("ids", "--wide", *late).text
    assert "timeout none (two-phase commit)" in run("ids", "--transactional-id", "a", *late).text
    assert "open; timeout none (two-phase commit)" in run("explain", "--topic", "t", "--offset", "0", *late).text
    assert "timeout none (two-phase commit)" in run("explain", "--transactional-id", "a", *late).text


def test_the_deleted_head_of_a_transaction_that_may_be_in_a_two_phase_commit(tmp_path: Path) -> None:
    forge(tmp_path, f"D 7 0 0-3 @0-3 T {at(5)}; plain @4-4", log_start=2, clean_shutdown=False)
    forge_coordinator(tmp_path, "a Empty 7 0 timeout 2147483647 t 1")
    (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    text, finding = findings_with_remedies(tmp_path, as_of_ms=NOW + MINUTE)["txn-head-deleted"]
    assert text.startswith("The files do not show what followed.")
    assert finding.benign[-1].endswith("unknown, and it has no timeout")


ENDED = f"{OPEN}; M 7 0 C 0 @2 {at(20)}"
CLEANED = {0: ENDED.replace("D 7", "gone D 7").replace("M 7", "gone M 7"), 3: "plain @3"}


@pytest.mark.parametrize(
    ("log", "begins"),
    [
        (ENDED, "Do not abort it: a replica with more of the log has its COMMIT marker at offset 2."),
        (CLEANED, "Do not abort it: it is not open in a replica with more of the log, stable up to offset 4."),
    ],
)
def test_a_lagging_replica_is_to_catch_up(log: Segments, begins: str, tmp_path: Path) -> None:
    """The broker was stopped while the other one went on, and perhaps cleaned its log."""
    forge(tmp_path / "broker-1", OPEN)
    forge(tmp_path / "broker-2", log, compacted=log == CLEANED, node_id=2)
    ended = f"{ONGOING}; a PrepareCommit 7 0 {{t-0}} t 9; a CompleteCommit 7 0 t 30"
    forge_coordinator(tmp_path / "broker-2", ended, node_id=2)
    partitions = partitions_under(tmp_path)
    scope = AuditScope(Rules(NOW + HOUR), clusters=Clusters.of(partitions))
    found = [evaluate_partition(one, scope, workers=0).cluster_input for one in partitions]
    lagging, ahead = (
        {one.code.name: one for one in result.findings}
        for result in resolve_deferred((one for one in found if one), scope.rules)
        if result.place.topic == "t"
    )
    assert "lso-stuck" not in ahead
    text = str(lagging["lso-stuck"].remedy)
    assert text.startswith(begins)
    assert (commands_in(text), lagging["lso-stuck"].severity) == ([], Severity.WARNING)
    assert {lagging[code].evidence["transactional_id"] for code in ("lso-stuck", "txn-late")} == {"a"}


def test_the_transactional_id_does_not_change_the_remedy(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    forge_coordinator(tmp_path, ONGOING.replace("a ", "$(reboot) "))
    text, _ = findings_with_remedies(tmp_path)["lso-stuck"]
    assert text.count("$(reboot)") == 2
    assert [command.rpartition(" ")[2] for command in commands_in(text)] == ["'$(reboot)'"] * 2


@pytest.mark.parametrize("situation", REMEDIES)
def test_every_command_can_be_copied(situation: str) -> None:
    text = filled_in(REMEDIES[situation], {"topic": "t", "partition": 0, "first_offset": 0, "transactional_id": "a"})
    assert len(commands_in(text)) == text.count("--bootstrap-server")
    assert set(commands_in(text)) <= {ABORT, DESCRIBE, TERMINATE, FIND}


@pytest.mark.parametrize(
    ("partition", "begins"), [("hanging-0", "No coordinator waits"), ("open-0", "Its coordinator should")]
)
def test_a_real_broker(partition: str, begins: str) -> None:
    """Kafka's tool listed the first as hanging, but not the other one."""
    partitions = partitions_under(SAMPLES / "transactions-v2")
    scope = AuditScope(Rules(1_795_266_000_000), clusters=Clusters.of(partitions))
    found = [evaluate_partition(one, scope, workers=0).cluster_input for one in partitions]
    (data,) = (
        one
        for one in resolve_deferred((one for one in found if one), scope.rules)
        if f"{one.place.topic}-{one.place.partition}" == partition
    )
    (finding,) = (one for one in data.findings if one.code.name == "lso-stuck")
    assert str(finding.remedy).startswith(begins)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(("minutes", "is_overdue"), [(50, False), (75, True)])
def test_only_the_timeout_of_its_own_counts(version: int, minutes: int, is_overdue: bool) -> None:
    """A real broker has a transaction with a timeout of an hour, as Flink has."""
    sample = SAMPLES / f"forged-markers-v{version}"
    taken = datetime.fromisoformat(json.loads((sample / "truth.json").read_text("utf-8"))["taken"]).timestamp()
    partitions = [one for one in partitions_under(sample) if one.name in {"patient-0", "__transaction_state-0"}]
    scope = AuditScope(Rules(int(taken * 1000) + minutes * MINUTE), clusters=Clusters.of(partitions))
    found = [evaluate_partition(one, scope, workers=0).cluster_input for one in partitions]
    results = resolve_deferred((one for one in found if one), scope.rules)
    alarms = {
        finding.code.name for result in results for finding in result.findings if finding.severity >= Severity.WARNING
    }
    assert alarms == ({"txn-late", "lso-stuck", "txnlog-ongoing-overdue"} if is_overdue else set())


@pytest.mark.parametrize("code", ["txn-late", "lso-stuck", "txn-open-at-end"])
def test_records_with_older_timestamps_than_their_transaction_do_not_date_it(tmp_path: Path, code: str) -> None:
    """Kafka Streams and MirrorMaker write with the timestamps of what they read."""
    forge(tmp_path, f"D 7 0 0-0 @0-0 T {at(-24 * HOUR)}; plain @1-1")
    forge_coordinator(tmp_path, ONGOING)
    finding = findings_with_remedies(tmp_path, NOW + MINUTE)[code][1]
    assert finding.severity is Severity.INFO
    assert finding.evidence["began_ms"] == NOW + 4
    assert finding.message.endswith("its records have older timestamps.") is (code != "txn-open-at-end")
    dated = {"txn-late": "Its coordinator has it as begun at", "lso-stuck": "hidden) since", "txn-open-at-end": ""}[
        code
    ]
    assert f"{dated} 2023-11-14 22:13:20 UTC" in finding.message or not dated
    assert "2023-11-13" not in finding.message


def test_a_coordinator_confirms_what_timestamps_alone_do_not(tmp_path: Path) -> None:
    """Nothing in the partition shows how old it is but timestamps that the client may have set."""
    forge(tmp_path, f"D 7 0 0-0 @0-0 T {at(5)}; plain @1-1")
    forge_coordinator(tmp_path, ONGOING.replace("7200000", "60000"))
    overdue = findings_with_remedies(tmp_path)["lso-stuck"][1]
    assert overdue.severity is Severity.CRITICAL
    assert not any("unknown" in cause for cause in overdue.benign)


def test_records_of_their_own_time_date_their_transaction(tmp_path: Path) -> None:
    _, finding = stuck(tmp_path, ONGOING)
    assert "began_ms" not in finding.evidence
    assert "older timestamps" not in finding.message


@pytest.mark.parametrize(("copied", "severity"), [(MINUTE, Severity.WARNING), (HOUR, Severity.CRITICAL)])
def test_a_transaction_is_not_aborted_because_of_an_older_copy_of_its_coordinator(
    copied: int, severity: Severity, tmp_path: Path
) -> None:
    forge_coordinator(tmp_path / "broker-2", "a Empty 7 0 t 1", node_id=2, clean_shutdown=False)
    keep_times(tmp_path / "broker-2", NOW + 1, NOW + copied)
    forge(tmp_path / "broker-1", OPEN.replace(at(5), at(5 * MINUTE)))
    keep_times(tmp_path / "broker-1", NOW + 5 * MINUTE, NOW + 6 * MINUTE)
    remedy, finding = findings_with_remedies(tmp_path, as_of_ms=NOW + 24 * HOUR)["lso-stuck"]
    assert finding.severity == severity
    assert ("audit a newer copy of __transaction_state-0" in remedy) == (severity is Severity.WARNING)
