"""Producer snapshots that disagree with the log."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kforensics.analyses.settings import rules_for
from kforensics.forensics.checks.partition.snapshots import findings
from kforensics.forensics.core.broker_settings import PRODUCER_EXPIRY, Setting
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.core.rules import DAY_MS, Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from lab.places import SAMPLES
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, SnapshotEntry, file_of, forge, log_end_offset, patch, snapshot_entries
from tests.forensics.partition_states import each_sample, partitions_under, random_leader_log, state_under

FIRES = {
    "snapshot-open-txn-mismatch": "test_23_an_open_transaction_that_the_log_does_not_have_is_found",
    "snapshot-state-mismatch": "test_another_state_is_found",
    "snapshot-minor-mismatch": "test_another_timestamp_or_coordinator_epoch_is_found",
    "snapshot-missing-producer": "test_a_producer_that_cannot_have_expired_is_missed",
    "snapshot-extra-producer": "test_an_unknown_producer_is_found",
}
SILENT = dict.fromkeys(FIRES, "test_snapshots_of_brokers_agree_with_their_logs")

OPEN, STATE, MINOR = "snapshot-open-txn-mismatch", "snapshot-state-mismatch", "snapshot-minor-mismatch"
MISSING, EXTRA = "snapshot-missing-producer", "snapshot-extra-producer"
KeyFacts = list[tuple[str, Severity]]
# Example 9, rolled at offset 4.
TIMED_OUT = {0: "D 1 0 0-2 @0-2 T; M 1 1 A 4 @3", 4: "D 1 2 0-0 @4-4 T"}
RIGHT = SnapshotEntry(1, 1, coordinator_epoch=4, timestamp=NOW + 3)
IDEMPOTENT = {0: "D 5 3 7-9 @0-2 N", 3: "plain @3"}
WRITTEN = SnapshotEntry(5, 3, 9, 2, 2, NOW)
PARTIALLY_COMPACTED = {0: "D 5 0 0-9 @0-9 N cnt 3 ts 4200", 10: "plain @10"}
# The transaction of producer 2 was cleaned with its marker, and there was a snapshot before its end.
ENDED_SINCE = {0: "plain @0; gone D 2 0 0-0 @1 T", 2: "gone M 2 0 A 1 @2; plain @3", 4: "plain @4"}
NEVER_ENDED = {0: "gone D 2 0 0-0 @0 T; plain @1", 2: "plain @2"}
HEAD_DELETED = {200: "gone D 3 0 0-9 @150-159 T; gone D 4 0 0-0 @120 N; plain @200-229; M 3 0 A 1 @230"}


FORGETFUL = "/state-lost-after-stop/"


def found_in(folder: Path) -> list[Finding]:
    """Return the findings in the one partition of a log directory."""
    return list(findings(state_under(folder)))


def key_facts(findings: list[Finding]) -> KeyFacts:
    """Return codes and severities."""
    return [(finding.code.name, finding.severity) for finding in findings]


def taken_at(folder: Path, offset: int, now_ms: int) -> None:
    """Set when a snapshot was written."""
    os.utime(file_of(folder, offset, "snapshot"), (now_ms / 1000, now_ms / 1000))


@each_sample()
def test_snapshots_of_brokers_agree_with_their_logs(partition: Partition) -> None:
    """Except for a broker that had lost its snapshots, and wrote the next ones without the lost state."""
    rules = rules_for(Rules(partition.newest_mtime_ms or 0), (), partitions_under(Path(partition.folder).parent))
    results = list(findings(examine(partition, rules)))
    assert results == [] or FORGETFUL in partition.folder


AGREEING: dict[str, tuple[Segments, bool]] = {
    "7 transaction version 2": ("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5", False),
    "23": (TIMED_OUT, False),
    "22 compaction": (
        {
            0: "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 1 @15",
            20: "plain @20",
        },
        True,
    ),
    "37 head deleted": (HEAD_DELETED, False),
    "all of a producer cleaned away": ({0: "gone D 5 3 0-0 @0 N; plain @1", 2: "plain @2"}, True),
    "its last marker cleaned away": ({0: "D 5 3 0-0 @0 T; M 5 4 C 2 @1; gone M 5 5 C 2 @2", 3: "plain @3"}, True),
    "its last batch cleaned away": ({0: "D 5 3 0-0 @0 N; gone D 5 3 1-1 @1 N; plain @2", 3: "plain @3"}, True),
    "open then, ended and cleaned since": (ENDED_SINCE, True),
    "open then, its marker still there": ({0: "plain @0; gone D 2 0 0-0 @1 T", 2: "M 2 0 A 1 @2", 3: "plain @3"}, True),
    "its first batch cleaned away": (
        {0: "plain @0; gone D 2 0 0-0 @1 T", 2: "D 2 0 1-1 @2 T", 3: "M 2 0 A 1 @3", 4: "plain @4"},
        True,
    ),
}


@pytest.mark.parametrize(("log", "compacted"), AGREEING.values(), ids=AGREEING)
def test_right_snapshots_are_no_finding(tmp_path: Path, log: Segments, compacted: bool) -> None:
    forge(tmp_path, log, compacted=compacted)
    assert found_in(tmp_path) == []


def test_23_an_open_transaction_that_the_log_does_not_have_is_found(tmp_path: Path) -> None:
    wrong = SnapshotEntry(1, 0, 2, 2, 2, current_txn_first_offset=0)
    folder = forge(tmp_path, TIMED_OUT, snapshots={4: [wrong]})
    opened, state = found_in(tmp_path)
    assert key_facts([opened, state]) == [(OPEN, Severity.CRITICAL), (STATE, Severity.ERROR)]
    assert {opened.path, state.path} == {str(file_of(folder, 4, "snapshot"))}
    assert opened.message == (
        "The snapshot at offset 4 has an open transaction with first offset 0 of producer 1, but the log has no open "
        "transaction."
    )
    assert state.message == (
        "The snapshot at offset 4 has epoch 0, last sequence 2, last offset 2, offset delta 2 of producer 1, "
        "but the log has epoch 1, last sequence -1, last offset -1, offset delta 0."
    )


OPENED: dict[str, tuple[Segments, dict[int, list[SnapshotEntry]], bool]] = {
    "not known to be open": (TIMED_OUT, {5: [SnapshotEntry(1, 2, 0, 4, 0, NOW + 4, 4)]}, False),
    "producer not known": (TIMED_OUT, {5: []}, False),
    "begins elsewhere": (TIMED_OUT, {5: [SnapshotEntry(1, 2, 0, 4, 0, NOW + 4, 4, 3)]}, False),
    "of an unknown producer": (TIMED_OUT, {4: [RIGHT, SnapshotEntry(9, current_txn_first_offset=1)]}, False),
    "ended in what was not cleaned": (
        {0: "plain @0", 1: "D 2 0 0-0 @1 T; M 2 0 A 1 @2", 3: "plain @3"},
        {3: [SnapshotEntry(2, 0, 0, 1, 0, NOW + 2, 1, 1)]},
        True,
    ),
    "cleaned and never ended": (NEVER_ENDED, {}, True),
}


@pytest.mark.parametrize(("log", "snapshots", "compacted"), OPENED.values(), ids=OPENED)
def test_another_open_transaction_is_found(
    tmp_path: Path, log: Segments, snapshots: dict[int, list[SnapshotEntry]], compacted: bool
) -> None:
    forge(tmp_path, log, snapshots=snapshots, compacted=compacted, first_dirty=1 if log is not NEVER_ENDED else None)
    findings = found_in(tmp_path)
    assert {finding.code.name for finding in findings} == {OPEN}
    assert {finding.severity for finding in findings} == {Severity.CRITICAL}


@pytest.mark.parametrize(
    "entry",
    [
        WRITTEN._replace(producer_epoch=4),
        WRITTEN._replace(producer_epoch=2),
        WRITTEN._replace(last_sequence=8),
        WRITTEN._replace(last_offset=1),
        WRITTEN._replace(offset_delta=1),
        WRITTEN._replace(last_sequence=-1, last_offset=-1, offset_delta=0),
    ],
)
def test_another_state_is_found(tmp_path: Path, entry: SnapshotEntry) -> None:
    forge(tmp_path, IDEMPOTENT, snapshots={3: [entry]})
    assert key_facts(found_in(tmp_path)) == [(STATE, Severity.ERROR)]


def test_after_a_marker_the_state_is_known_too(tmp_path: Path) -> None:
    forge(tmp_path, TIMED_OUT, snapshots={4: [RIGHT._replace(producer_epoch=2)]})
    assert key_facts(found_in(tmp_path)) == [(STATE, Severity.ERROR)]
    forge(tmp_path, TIMED_OUT, snapshots={4: [RIGHT._replace(timestamp=NOW + 9, coordinator_epoch=5)]})
    assert key_facts(found_in(tmp_path)) == [(MINOR, Severity.INFO)]


def test_of_two_entries_for_a_producer_a_broker_takes_the_last(tmp_path: Path) -> None:
    forge(tmp_path, IDEMPOTENT, snapshots={3: [WRITTEN._replace(last_sequence=8), WRITTEN]})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(STATE, Severity.ERROR)]
    assert "more than one entry" in finding.message
    forge(tmp_path, IDEMPOTENT, snapshots={3: [WRITTEN, WRITTEN._replace(last_sequence=8)]})
    assert key_facts(found_in(tmp_path)) == [(STATE, Severity.ERROR)] * 2


# As 4.3 writes it, and every release since 2.4.
ENDED = SnapshotEntry(1, 0, 2, 2, 2, NOW + 3, coordinator_epoch=1)
OLD = {
    "0.11: a marker counts as a batch of one record": (ENDED._replace(last_offset=3, offset_delta=0), []),
    "1.0 to 2.3: the time is that of the data": (ENDED._replace(timestamp=NOW), []),
    "no release": (ENDED._replace(last_offset=1, offset_delta=0), [(STATE, Severity.ERROR)]),
    "nor this": (ENDED._replace(timestamp=NOW + 1), [(MINOR, Severity.INFO)]),
}


@pytest.mark.parametrize(("entry", "expected"), OLD.values(), ids=OLD)
def test_after_a_marker_old_releases_write_other_values(
    tmp_path: Path, entry: SnapshotEntry, expected: KeyFacts
) -> None:
    forge(tmp_path, {0: "D 1 0 0-2 @0-2 T; M 1 0 C 1 @3", 4: "plain @4"}, snapshots={4: [entry]})
    assert key_facts(found_in(tmp_path)) == expected


def test_up_to_2_3_a_producer_goes_with_the_head_of_the_log(tmp_path: Path) -> None:
    """The first snapshot still has it; its data was deleted, so the next one need not."""
    entry = SnapshotEntry(5, 0, 9, 3, 0, NOW)
    log = {10: "plain @10", 11: "plain @11"}
    forge(tmp_path, log, log_start=10, snapshots={10: [entry], 11: []})
    assert found_in(tmp_path) == []


@pytest.mark.parametrize(
    ("entry", "idle_ms", "expected"),
    [
        (SnapshotEntry(1, 0, -1, 4, 0, NOW, 1), DAY_MS, []),  # 0.11
        (SnapshotEntry(1, 0, -1, -1, 0, NOW, 1), DAY_MS, []),
        (SnapshotEntry(1, 0, -1, 4, 0, NOW, 1), DAY_MS - 2, [(STATE, Severity.INFO)]),
        (SnapshotEntry(1, 0, -1, 4, 0, NOW, 1), 4_999, [(STATE, Severity.ERROR)]),
        (SnapshotEntry(1, 0, 0, 4, 0, NOW, 1), DAY_MS, [(STATE, Severity.ERROR)]),
        (SnapshotEntry(1, 0, -1, 3, 0, NOW, 1), DAY_MS, [(STATE, Severity.ERROR)]),
        (SnapshotEntry(1, 1, -1, 4, 0, NOW, 1), DAY_MS, [(STATE, Severity.ERROR)]),
    ],
)
def test_a_broker_that_had_forgotten_a_producer_knows_its_next_marker_only(
    tmp_path: Path, entry: SnapshotEntry, idle_ms: int, expected: KeyFacts
) -> None:
    """Other values are not those of a marker, or the producer cannot have expired before it.

    Where the expiry is unknown it may be shorter than by default, but hardly than five seconds.
    """
    log = {0: f"D 1 0 0-2 @0-2 T; M 1 0 C 1 @3; M 1 0 C 1 @4 ts {NOW + 3 + idle_ms}", 5: "plain @5"}
    forge(tmp_path, log, snapshots={5: [entry._replace(timestamp=NOW + 3 + idle_ms)]})
    assert key_facts(found_in(tmp_path)) == expected


@pytest.mark.parametrize(
    ("settings", "kept_ms", "severity"),
    [
        ((), 0, Severity.INFO),
        ((), 600_000, Severity.INFO),
        ((), 601_000, Severity.ERROR),
        ((Setting(PRODUCER_EXPIRY, str(DAY_MS), "--set"),), 0, Severity.ERROR),
    ],
)
def test_an_expiry_of_seconds_before_a_marker_is_possible_unless_something_contradicts_it(
    tmp_path: Path, settings: tuple[Setting, ...], kept_ms: int, severity: Severity
) -> None:
    """The snapshot has a producer that was idle for longer than a broker keeps one, or the setting is known."""
    idle_ms = 26_700
    marker = NOW + 3 + idle_ms
    log = {0: f"D 1 0 0-2 @0-2 T; M 1 0 C 1 @3; D 2 0 0-0 @4 N; M 1 0 C 1 @5 ts {marker}", 6: "plain @6"}
    (kept,) = (entry for entry in snapshot_entries(log) if entry.producer_id == 2)
    folder = forge(tmp_path, log, snapshots={6: [SnapshotEntry(1, 0, -1, -1, 0, marker, 1), kept]})
    taken_at(folder, 6, NOW + 4 + idle_ms + kept_ms)
    state = state_under(tmp_path)
    compared = replace(state, rules=replace(state.rules, as_of_ms=NOW + DAY_MS, settings=settings))
    assert key_facts(list(findings(compared))) == [(STATE, severity)]


@pytest.mark.parametrize(
    ("appended_ms", "recovered_ms", "expected"),
    [(3_000, 12_000, [(STATE, Severity.INFO)]), (13_000, 12_000, [(STATE, Severity.ERROR)]), (100, 200, [])],
    ids=["recovered", "rolled", "recovered at once, nothing forgotten"],
)
def test_a_broker_that_recovers_a_log_forgets_who_was_idle_until_then(
    tmp_path: Path, appended_ms: int, recovered_ms: int, expected: KeyFacts
) -> None:
    """A broker of 3.6.2 was killed and started with an expiry of 6 s: it loaded the snapshot before without them."""
    marker = NOW + 2_700
    log = {0: "D 1 0 0-2 @0-2 T; M 1 0 C 1 @3", 4: f"M 1 0 C 1 @4 ts {marker}", 5: f"plain @5 ts {NOW + appended_ms}"}
    known = SnapshotEntry(1, 0, -1, -1, 0, marker, 1) if expected else snapshot_entries(log)[0]
    folder = forge(tmp_path, log, snapshots={5: [known]})
    taken_at(folder, 5, NOW + recovered_ms)
    for base, time_ms in ((0, 3), (4, 2_700), (5, appended_ms)):
        os.utime(file_of(folder, base), ((NOW + time_ms) / 1000,) * 2)
    state = state_under(tmp_path)
    compared = replace(state, rules=replace(state.rules, as_of_ms=NOW + DAY_MS))
    assert key_facts([finding for finding in findings(compared) if finding.first_offset == 5]) == expected


@pytest.mark.parametrize(
    ("written_ms", "last_written_ms", "expiry", "expected"),
    [
        (13_000, 14_000, 6_000, []),
        (8_900, 14_000, 6_000, []),
        (8_700, 14_000, 6_000, [STATE]),
        (13_000, 14_000, DAY_MS, [STATE]),
        (13_000, DAY_MS, 6_000, [STATE]),
    ],
    ids=["late", "just late enough", "not that late", "longer expiry", "times not kept"],
)
def test_a_follower_that_was_stopped_forgets_who_was_idle_until_it_catches_up(
    tmp_path: Path, written_ms: int, last_written_ms: int, expiry: int, expected: list[str]
) -> None:
    """A broker of 4.3.1 was killed, and loaded its log 6 s after the data; later it fetched the marker sent again."""
    marker = NOW + 3_270
    log = {
        0: "D 1 0 0-2 @0-2 T; M 1 0 C 2 @3",
        4: f"M 1 0 C 3 @4 ts {marker}; plain @5 ts {NOW + 6_000}",
        6: f"plain @6 ts {NOW + 14_000}",
    }
    folder = forge(tmp_path, log, snapshots={6: [SnapshotEntry(1, 0, -1, -1, 0, marker, 3)]})
    for base, time_ms in ((0, 3), (4, written_ms), (6, last_written_ms)):
        os.utime(file_of(folder, base), ((NOW + time_ms) / 1000,) * 2)
    taken_at(folder, 6, NOW + 14_000)
    (partition,) = partitions_under(tmp_path)
    state = examine(partition, Rules(NOW + DAY_MS, pid_expiry_ms=expiry))
    assert [one.code.name for one in findings(state) if one.first_offset == 6] == expected


@pytest.mark.parametrize(
    ("first_dirty", "marker", "expected"),
    [(17, "gone M 1 0 A 1 @14", []), (None, "plain @14", [(OPEN, Severity.CRITICAL)])],
    ids=["cleaned", "not cleaned"],
)
def test_of_a_transaction_that_was_open_at_the_first_snapshot_the_marker_may_be_cleaned(
    tmp_path: Path, first_dirty: int | None, marker: str, expected: KeyFacts
) -> None:
    """A broker of 4.2.1 had stopped in the transaction; later its cleaner removed the data and the marker."""
    (opened,) = snapshot_entries("D 1 0 0-2 @11-13 T")
    log = {10: f"gone plain @10; gone D 1 0 0-2 @11-13 T; {marker}; plain @15-16", 17: "plain @17"}
    forge(tmp_path, log, snapshots={14: [opened], 17: []}, first_dirty=first_dirty)
    assert key_facts(found_in(tmp_path)) == expected


@pytest.mark.parametrize(
    ("entries", "epochs", "marker", "severity"),
    [
        ([], {0: 0, 3: 1}, "M 1 0 A 1 @3", Severity.WARNING),
        ([SnapshotEntry(2, 0, 0, 0, 0, NOW, 1)], {0: 0, 3: 1}, "M 1 0 A 1 @3", Severity.CRITICAL),
        ([], {0: 0, 1: 1}, "M 1 0 A 1 @3", Severity.CRITICAL),
        ([], {0: 0, 3: 1}, "plain @3", Severity.CRITICAL),
    ],
    ids=["truncated", "others known", "not at an epoch", "open"],
)
def test_a_follower_whose_producers_had_expired_truncates_without_reading_the_log_again(
    tmp_path: Path, entries: list[SnapshotEntry], epochs: dict[int, int], marker: str, severity: Severity
) -> None:
    """A broker of 4.4.0 truncated the marker at 3, so that the transaction was open again until the next one."""
    forge(tmp_path, f"plain @0; D 1 0 0-1 @1-2 T; {marker}", snapshots={3: entries}, leader_epochs=epochs)
    assert (OPEN, severity) in key_facts(found_in(tmp_path))


@pytest.mark.parametrize(
    ("sample", "topic", "is_follower"),
    [("deletion", "retention-size", False), ("replication", "durable", True)],
)
def test_without_followers_no_log_was_truncated(tmp_path: Path, sample: str, topic: str, *, is_follower: bool) -> None:
    source = SAMPLES / sample / "broker-1"
    shutil.copytree(source / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    metadata = {"t-0/partition.metadata": next(source.glob(f"{topic}-*/partition.metadata")).read_bytes()}
    log = "plain @0; D 1 0 0-1 @1-2 T; M 1 0 A 1 @3"
    forge(tmp_path, log, snapshots={3: []}, leader_epochs={0: 0, 3: 1}, replaced=metadata)
    partitions = partitions_under(tmp_path)
    (partition,) = (one for one in partitions if one.place.topic == "t")
    rows = findings(examine(partition, rules_for(Rules(NOW + DAY_MS), (), partitions)))
    (opened,) = (one for one in rows if one.code.name == OPEN and one.first_offset == 3)
    assert any("truncated by a follower" in phrase for phrase in opened.benign) is is_follower
    assert opened.severity is (Severity.WARNING if is_follower else Severity.CRITICAL)


@pytest.mark.parametrize(("topic_id", "expected"), [(None, []), ("AAAAAAAAAAAAAAAAAAAAAQ", [MISSING])])
def test_up_to_2_3_a_producer_without_data_in_its_epoch_expires_at_once(
    tmp_path: Path, topic_id: str | None, expected: list[str]
) -> None:
    """A marker of a new epoch has no time there; topics of releases that count it have an id."""
    folder = forge(tmp_path, TIMED_OUT, snapshots={4: []})
    taken_at(folder, 4, NOW + 9)
    state = state_under(tmp_path)
    compared = replace(state, partition=replace(state.partition, topic_id=topic_id))
    assert [finding.code.name for finding in findings(compared)] == expected


@pytest.mark.parametrize(
    ("is_stopped", "kept", "expected"),
    [(False, {7}, set()), (True, {7}, {5, 6}), (False, {6, 7}, {5}), (False, {}, {5, 6, 7})],
)
def test_up_to_2_3_the_log_start_may_have_moved_since_its_checkpoint(
    tmp_path: Path, is_stopped: bool, kept: set[int], expected: set[int]
) -> None:
    """A stopped broker has checkpointed it, and a producer whose data is older would have been forgotten, too."""
    log = {0: "D 6 0 0-0 @0 N; D 5 0 0-0 @1 N; D 7 0 0-0 @2 N; M 8 1 A 1 @3", 4: "plain @4"}
    folder = forge(
        tmp_path, log, snapshots={4: [entry for entry in snapshot_entries(log) if entry.producer_id in {8, *kept}]}
    )
    taken_at(folder, 4, NOW + 9)
    state = state_under(tmp_path)
    log_dir = replace(state.partition.log_dir, clean_shutdown=is_stopped)
    compared = replace(state, partition=replace(state.partition, log_dir=log_dir, topic_id=None))
    assert {finding.producer_id for finding in findings(compared)} == expected


@pytest.mark.parametrize(
    ("least_ms", "idle_ms", "others", "expected"),
    [(9_000, 8_000, 0, []), (9_000, 4_999, 0, [MISSING]), (None, 8_000, 0, [MISSING]), (9_000, 8_000, -1, [MISSING])],
)
def test_an_expiry_that_only_files_show_may_be_shorter(
    tmp_path: Path, least_ms: int | None, idle_ms: int, others: int, expected: list[str]
) -> None:
    """It takes the producers that wrote least recently, and none of which the file shows that it is younger by half."""
    log = {0: f"D 6 0 0-0 @0 N ts {NOW + others}; D 5 0 0-0 @1 N ts {NOW}; D 7 0 0-0 @2 N ts {NOW + 1}", 3: "plain @3"}
    kept = {7} if not others else {6, 7}
    folder = forge(tmp_path, log, snapshots={3: [one for one in snapshot_entries(log) if one.producer_id in kept]})
    taken_at(folder, 3, NOW + idle_ms)
    state = state_under(tmp_path)
    partition = replace(state.partition, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    rules = replace(state.rules, pid_expiry_ms=10_000, least_pid_expiry_ms=least_ms)
    found = {finding.code.name for finding in findings(replace(state, partition=partition, rules=rules))}
    assert found == set(expected)


@pytest.mark.parametrize(
    ("least_ms", "idle_ms", "severity"),
    [(27_000, 13_000, Severity.INFO), (27_000, 4_998, Severity.WARNING), (None, 13_000, Severity.WARNING)],
)
def test_an_empty_snapshot_where_others_prove_a_shorter_expiry(
    tmp_path: Path, least_ms: int | None, idle_ms: int, severity: Severity
) -> None:
    """Of a broker of 4.4.0 with an expiry of 6 s: others showed that it was below 27.9 s."""
    folder = forge(tmp_path, {0: "D 5 0 0-0 @0 N", 1: "plain @1"}, snapshots={1: []})
    taken_at(folder, 1, NOW + idle_ms)
    state = state_under(tmp_path)
    partition = replace(state.partition, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    rules = replace(state.rules, pid_expiry_ms=27_851, least_pid_expiry_ms=least_ms)
    assert key_facts(list(findings(replace(state, partition=partition, rules=rules)))) == [(MISSING, severity)]


@pytest.mark.parametrize(
    ("log_dir", "lower_bound", "idle_ms", "severity"),
    [
        ("other", 3_464, 6_800, Severity.INFO),
        ("other", 3_464, 4_900, Severity.WARNING),
        ("other", 7_000, 6_800, Severity.WARNING),
        ("other", None, 6_800, Severity.WARNING),
    ],
)
def test_an_empty_snapshot_where_another_broker_has_a_shorter_expiry(
    tmp_path: Path, log_dir: str, lower_bound: int | None, idle_ms: int, severity: Severity
) -> None:
    """Of three brokers of 4.2.1 with an expiry of 6 s, one had too few snapshots to show it."""
    folder = forge(tmp_path, {0: "D 5 0 0-0 @0 N", 1: "plain @1"}, snapshots={1: []})
    taken_at(folder, 1, NOW + idle_ms)
    proven = Setting(PRODUCER_EXPIRY, "6929", "proof", log_dirs=frozenset([log_dir]), lower_bound=lower_bound)
    (partition,) = partitions_under(tmp_path)
    state = examine(partition, Rules(NOW + DAY_MS, settings=(proven,)))
    assert key_facts(list(findings(state))) == [(MISSING, severity)]


@pytest.mark.parametrize("entry", [WRITTEN._replace(timestamp=NOW + 1), WRITTEN._replace(coordinator_epoch=2)])
def test_another_timestamp_or_coordinator_epoch_is_found(tmp_path: Path, entry: SnapshotEntry) -> None:
    forge(tmp_path, IDEMPOTENT, snapshots={3: [entry]})
    assert key_facts(found_in(tmp_path)) == [(MINOR, Severity.INFO)]


@pytest.mark.parametrize(("timestamp", "expected"), [(5000, []), (4200, []), (4000, [(MINOR, Severity.INFO)])])
def test_38_a_partially_compacted_batch_has_a_lower_timestamp(
    tmp_path: Path, timestamp: int, expected: KeyFacts
) -> None:
    entry = SnapshotEntry(5, 0, 9, 9, 9, timestamp)
    forge(tmp_path, PARTIALLY_COMPACTED, compacted=True, snapshots={10: [entry], 11: [entry]})
    assert key_facts(found_in(tmp_path))[:1] == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (SnapshotEntry(5, 3, 5, 1, 0), []),  # one epoch later, cleaned
        (SnapshotEntry(5, 1, 5, 1, 0), [STATE]),  # an earlier one: the log is newer
        (SnapshotEntry(5, 2, -1, -1, 0), [STATE]),  # the batch exists
        (SnapshotEntry(5, 3, 5, 3, 0), [STATE]),  # not cleaned there
    ],
)
def test_what_was_cleaned_was_ahead_of_the_log(tmp_path: Path, entry: SnapshotEntry, expected: list[str]) -> None:
    log = {0: "D 5 2 0-0 @0 N; gone plain @1; plain @2", 3: "plain @3", 4: "plain @4"}
    forge(tmp_path, log, compacted=True, first_dirty=3, snapshots={3: None, 4: [entry], 5: None})
    assert [finding.code.name for finding in found_in(tmp_path)] == expected


@pytest.mark.parametrize(("age", "expected"), [(DAY_MS - 1, [(MISSING, Severity.WARNING)]), (DAY_MS, [])])
def test_a_producer_that_cannot_have_expired_is_missed(tmp_path: Path, age: int, expected: KeyFacts) -> None:
    folder = forge(tmp_path, IDEMPOTENT, snapshots={3: []})
    taken_at(folder, 3, NOW + age)
    assert key_facts(list(findings(state_under(tmp_path, as_of_ms=NOW + 9 * DAY_MS)))) == expected


@pytest.mark.parametrize(
    ("at_4", "severities"),
    [([], [Severity.INFO]), ([WRITTEN], [Severity.WARNING]), (None, [Severity.WARNING])],
)
def test_a_producer_that_expired_by_a_clock_that_was_ahead_stays_forgotten(
    tmp_path: Path, at_4: list[SnapshotEntry] | None, severities: list[Severity]
) -> None:
    """By the later time, after the clock was set back, it has not expired.

    If a snapshot between has it again, or none shows that it had expired, it was lost in another way.
    """
    log = {**IDEMPOTENT, 4: "plain @4", 5: "plain @5"}
    folder = forge(tmp_path, log, snapshots={3: [] if at_4 is not None else None, 4: at_4, 5: [], 6: None})
    for offset, age in ((3, 9 * DAY_MS), (4, 8), (5, 9)):
        if (folder / f"{offset:020}.snapshot").exists():
            taken_at(folder, offset, NOW + age)
    found = [one for one in findings(state_under(tmp_path, as_of_ms=NOW + 10 * DAY_MS)) if one.first_offset == 5]
    assert [(one.code.name, one.severity) for one in found] == [(MISSING, severity) for severity in severities]


def test_a_producer_that_wrote_again_after_it_had_expired_is_missed(tmp_path: Path) -> None:
    log = {**IDEMPOTENT, 4: "D 5 3 10-10 @4 N", 5: "plain @5"}
    folder = forge(tmp_path, log, snapshots={3: [], 4: [], 5: [], 6: None})
    for offset, age in ((3, 9 * DAY_MS), (4, 9 * DAY_MS), (5, 9)):
        taken_at(folder, offset, NOW + age)
    found = findings(state_under(tmp_path, as_of_ms=NOW + 10 * DAY_MS))
    assert key_facts([one for one in found if one.first_offset == 5]) == [(MISSING, Severity.WARNING)]


@pytest.mark.parametrize(("as_of", "expected"), [(DAY_MS - 1, [(MISSING, Severity.WARNING)]), (DAY_MS, [])])
def test_a_file_is_no_younger_than_the_time_of_evaluation(tmp_path: Path, as_of: int, expected: KeyFacts) -> None:
    """A copy that did not keep its modification time, such as a git clone."""
    folder = forge(tmp_path, IDEMPOTENT, snapshots={3: []})
    taken_at(folder, 3, NOW + 9 * DAY_MS)
    assert key_facts(list(findings(state_under(tmp_path, as_of_ms=NOW + as_of)))) == expected


@pytest.mark.parametrize(("age", "expected"), [(DAY_MS - 1, [(MISSING, Severity.WARNING)]), (DAY_MS, [])])
def test_without_file_times_the_log_shows_the_time(tmp_path: Path, age: int, expected: KeyFacts) -> None:
    log = {0: f"D 5 3 7-9 @0-2 N; plain @3 ts {NOW + age}", 4: f"plain @4 ts {NOW + 9 * DAY_MS}"}
    forge(tmp_path, log, snapshots={4: []})
    state = state_under(tmp_path)
    snapshots = {offset: replace(file, mtime_ms=None) for offset, file in state.partition.snapshots.items()}
    assert (
        key_facts(list(findings(replace(state, partition=replace(state.partition, snapshots=snapshots))))) == expected
    )


def test_an_unknown_producer_is_found(tmp_path: Path) -> None:
    forge(tmp_path, IDEMPOTENT, snapshots={3: [WRITTEN, SnapshotEntry(9)]})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(EXTRA, Severity.ERROR)]
    assert finding.producer_id == 9


def test_after_a_deleted_start_an_unknown_producer_is_no_error(tmp_path: Path) -> None:
    right = snapshot_entries(HEAD_DELETED)
    forge(tmp_path, HEAD_DELETED, snapshots={231: [*right, SnapshotEntry(9)]})
    assert key_facts(found_in(tmp_path)) == [(EXTRA, Severity.INFO)]


def test_what_reaches_beyond_the_snapshot_is_reported_elsewhere(tmp_path: Path) -> None:
    forge(tmp_path, TIMED_OUT, snapshots={4: [SnapshotEntry(1, 2, 0, 4, 0)]})
    assert found_in(tmp_path) == []


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], []),
        ([SnapshotEntry(2, 0, 0, 40, 0, current_txn_first_offset=40)], []),
        ([SnapshotEntry(1, 0, 5, 100, 0, current_txn_first_offset=60)], [OPEN]),
        ([SnapshotEntry(3, 0, 5, 90, 0, current_txn_first_offset=60)], []),
        ([SnapshotEntry(3, 0, 5, 101, 0, current_txn_first_offset=101)], [OPEN]),
    ],
)
def test_21_without_its_prefix_a_log_says_something_of_open_transactions(
    tmp_path: Path, entries: list[SnapshotEntry], expected: list[str]
) -> None:
    """Producer 1 ended in the available log, producer 2 began before it, and producer 3 has nothing in it."""
    log = {100: "D 1 0 5-5 @100-100 T; M 1 0 C 1 @101; plain @102"}
    forge(tmp_path, log, snapshots={100: None, 103: None})
    alone = state_under(tmp_path)
    forge(tmp_path, log, snapshots={100: None, 103: entries})
    state = state_under(tmp_path)
    # With or without the snapshot, this is what the log alone shows.
    for boundary in (alone.boundary, state.boundary):
        compared = replace(state, boundary=boundary, producers_at={103: alone.producers})
        assert [finding.code.name for finding in findings(compared)] == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([SnapshotEntry(1, 0, 9, 9, 9, NOW, -1, 0)], []),
        ([], []),
        ([SnapshotEntry(1, 0, 9, 9, 9, NOW, -1, -1)], []),
    ],
)
def test_19_a_broker_that_loaded_the_log_after_the_data_has_forgotten_it(
    tmp_path: Path, entries: list[SnapshotEntry], expected: list[str]
) -> None:
    folder = forge(tmp_path, "D 1 0 0-9 @0-9 T; plain @10-19", log_start=12, snapshots={20: entries})
    taken_at(folder, 20, NOW)
    assert [finding.code.name for finding in found_in(tmp_path)] == expected


def test_19_what_it_has_loaded_it_knows(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-4 @0-4 T; D 1 0 5-9 @5-9 T; plain @10-19", log_start=5, snapshots={20: []})
    assert key_facts(found_in(tmp_path)) == [(OPEN, Severity.CRITICAL)]
    entry = SnapshotEntry(1, 0, 9, 9, 4, NOW + 5, -1, 5)
    forge(tmp_path, "D 1 0 0-4 @0-4 T; D 1 0 5-9 @5-9 T; plain @10-19", log_start=5, snapshots={20: [entry]})
    assert found_in(tmp_path) == []


def test_the_snapshot_at_the_log_start_may_be_older_than_the_cleaning_before_it(tmp_path: Path) -> None:
    """Kafka 2.7.2 deleted up to the active segment, and removed aborted records before it that were open then."""
    log = {5: "plain @5; gone D 5 0 0-0 @6 T; plain @7", 8: "M 5 0 A 7 @8; plain @9"}
    files: dict[str, Any] = {"compacted": True, "first_dirty": 8, "log_start": 8, "clean_shutdown": False}
    forge(tmp_path, log, snapshots={5: None}, **files)
    assert found_in(tmp_path) == []
    forge(tmp_path, log, snapshots={5: None, 10: [SnapshotEntry(6, current_txn_first_offset=9)]}, **files)
    assert OPEN in {finding.code.name for finding in found_in(tmp_path)}


@pytest.mark.parametrize(
    ("begin", "code"),
    [("gone D 5 3 0-0 @0 N; plain @1", EXTRA), ("D 5 2 0-0 @0 N; gone D 5 3 0-0 @1 N", STATE)],
)
def test_a_snapshot_has_to_go_on_from_the_one_before(tmp_path: Path, begin: str, code: str) -> None:
    """Nothing on disk shows what producer 5 did, but it cannot have changed where the log is uncompacted."""
    log = {0: begin, 2: "plain @2", 3: "plain @3"}
    forge(tmp_path, log, compacted=True, first_dirty=2)
    assert found_in(tmp_path) == []
    changed = snapshot_entries(log)[0]._replace(producer_epoch=4)
    forge(tmp_path, log, compacted=True, first_dirty=2, snapshots={3: [changed]})
    assert [finding.code.name for finding in found_in(tmp_path)] == [code]
    forge(tmp_path, log, compacted=True, first_dirty=2, snapshots={2: None, 3: [changed], 4: None})
    assert found_in(tmp_path) == []


def test_a_coordinator_epoch_may_be_forgotten_with_the_producer(tmp_path: Path) -> None:
    late = NOW + 2 * DAY_MS
    log = {0: f"D 5 0 0-0 @0 T; M 5 0 C 7 @1; D 5 0 1-1 @2 T ts {late}", 3: "plain @3"}
    entry = SnapshotEntry(5, 0, 1, 2, 0, late, -1, 2)
    forge(tmp_path, log, snapshots={3: [entry], 4: [entry]})
    assert found_in(tmp_path) == []


def test_batches_may_be_lost_rather_than_remembered_wrongly(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0; D 5 3 7-9 @1-3 N; plain @4", 5: "plain @5"})
    patch(file_of(folder), 1, fix_crc=False, length=-5)
    findings = found_in(tmp_path)
    assert {finding.code.name for finding in findings} == {EXTRA}
    assert {(finding.severity, finding.exactness) for finding in findings} == {
        (Severity.WARNING, Exactness.APPROXIMATE)
    }


def test_of_very_many_the_first_are_reported(tmp_path: Path) -> None:
    """A thousand findings are enough; the others are counted, over all snapshots."""
    many = 700
    entries = [WRITTEN, *(SnapshotEntry(10 + n) for n in range(many))]
    forge(tmp_path, IDEMPOTENT, snapshots={3: entries, 4: entries})
    findings = found_in(tmp_path)
    assert len(findings) == MOST
    assert findings[-1].evidence["left_out"] == 2 * many - MOST


def cleaned(dice: random.Random) -> Segments:
    """Return a log of three segments whose first one was compacted: decided transactions may be gone completely."""
    parts: list[list[str]] = [[], [], []]
    opened: dict[int, list[tuple[int, int]]] = {}
    sequences: dict[int, int] = {}
    for at in range(24):
        segment = at // 8
        producer = dice.randrange(1, 4)
        if producer in opened and dice.random() < 0.5:
            parts[segment].append(f"M {producer} 0 {dice.choice('AC')} 1 @{at}")
            whole = [*opened.pop(producer), (segment, len(parts[segment]) - 1)]
            if dice.random() < 0.6:
                for number, index in whole if all(number == 0 for number, _ in whole) else whole[:-1]:
                    parts[number][index] = ("gone " if number == 0 else "") + parts[number][index]
        else:
            sequence = sequences.get(producer, 0)
            sequences[producer] = sequence + 1
            parts[segment].append(f"D {producer} 0 {sequence}-{sequence} @{at} T")
            opened.setdefault(producer, []).append((segment, len(parts[segment]) - 1))
    return {8 * number: "; ".join(group) for number, group in enumerate(parts)}


@pytest.mark.slow
def test_whatever_the_cleaner_removed_the_snapshots_are_right(tmp_path: Path) -> None:
    dice = random.Random(18)  # noqa: S311  # a seed, not a secret
    logs = [cleaned(dice) for _ in range(50)]
    for number, log in enumerate(logs):
        forge(tmp_path / str(number), log, compacted=True, first_dirty=8)
        assert found_in(tmp_path / str(number)) == [], log
    assert sum("gone M" in str(log) for log in logs) > 10


CHANGES = {
    "producer_epoch": STATE,
    "last_sequence": STATE,
    "offset_delta": STATE,
    "timestamp": MINOR,
    "coordinator_epoch": MINOR,
    "current_txn_first_offset": OPEN,
}


def test_in_random_logs_only_what_is_changed_is_found(tmp_path: Path) -> None:
    dice = random.Random(23)  # noqa: S311  # a seed, not a secret
    changed = 0
    for _ in range(40):
        log = random_leader_log(dice, 40) or "plain @0"
        forge(tmp_path, log)
        assert found_in(tmp_path) == []
        entries = snapshot_entries(log)
        if entries:
            at, name = dice.randrange(len(entries)), dice.choice(list(CHANGES))
            other = getattr(entries[at], name) - 1 if name != "current_txn_first_offset" else _another(entries[at])
            forge(tmp_path, log, snapshots={log_end_offset(log): _with(entries, at, name, other)})
            findings = [(finding.code.name, finding.producer_id) for finding in found_in(tmp_path)]
            assert findings == [(CHANGES[name], entries[at].producer_id)], (log, name)
            changed += 1
        file_of(tmp_path / "t-0", log_end_offset(log), "snapshot").unlink()
    assert changed > 25


def _another(entry: SnapshotEntry) -> int:
    return 0 if entry.current_txn_first_offset else -1


def _with(entries: list[SnapshotEntry], at: int, name: str, value: int) -> list[SnapshotEntry]:
    return [*entries[:at], entries[at]._replace(**{name: value}), *entries[at + 1 :]]
