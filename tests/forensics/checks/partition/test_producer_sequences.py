"""Gaps, duplicates and overlaps in the sequences of idempotent producers."""

from __future__ import annotations

from dataclasses import replace
from os import utime
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import expired_producers, producer_sequences
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import LOG_START, Partition
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import (
    DAY,
    SOON,
    codes_of,
    forged_findings,
    forged_state,
    only,
    sample_id,
    sample_state,
)
from tests.forensics.forge import drop, file_of, forge, patch
from tests.forensics.forged_state import SnapshotEntry
from tests.forensics.partition_states import each_sample, partitions_under, state_under

FIRES = {
    "seq-gap": "test_example_13_gap_duplicate_and_overlap",
    "seq-duplicate-batch": "test_example_13_gap_duplicate_and_overlap",
    "seq-overlap": "test_example_13_gap_duplicate_and_overlap",
    "seq-first-nonzero": "test_example_12_the_sequences_wrap",
    "seq-missing": "test_a_producer_without_sequences",
}
SILENT = dict.fromkeys(FIRES, "test_samples_have_only_what_is_known")
KNOWN = {
    # Its broker had lost its snapshots, and with them its producers.
    "state-lost-after-stop/broker-1/gap-0": ["seq-gap"],
    "state-lost-after-stop/broker-1/retried-0": ["seq-duplicate-batch"],
    # Its broker was configured to expire producers after 100 ms.
    "duplicates/broker-1/expired-0": ["seq-duplicate-batch", "seq-gap"],
    # Its broker expired producers after 4 s.
    "producer-expiry/broker-1/gap-0": ["seq-gap"],
    # New producers that begin with sequence 7; the first thousand are reported one by one.
    "look-alikes/broker-1/unknown-producers-0": ["seq-first-nonzero"] * 1000,
    # A retry of data of another year: the broker had expired the producer immediately.
    "duplicates/broker-1/import-0": ["seq-duplicate-batch"],
    # The producer continued after its topic had been recreated.
    "deletion/broker-1/topic-recreated-0": ["seq-first-nonzero"],
    # Started shortly before the largest sequence, to wrap around soon.
    "records/broker-1/sequence-wrap-0": ["seq-first-nonzero"],
}


@each_sample()
def test_samples_have_only_what_is_known(partition: Partition) -> None:
    assert codes_of(list(producer_sequences.findings(sample_state(partition)))) == KNOWN.get(sample_id(partition), [])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5", id="7 version 2"),
        pytest.param("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T", id="9 timeout"),
        pytest.param("D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T", id="10"),
        pytest.param("D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N; D 9 4 1-1 @3-3 N", id="14"),
        pytest.param("D 1 4 0-2 @0-2 T; M 1 5 C 6 @3; M 1 5 C 6 @4; D 1 5 0-0 @5-5 T; M 1 6 C 6 @6", id="32"),
        pytest.param("D 1 4 0-0 @0-0 T; M 1 4 A 6 @1; D 1 4 1-1 @2-2 T; M 1 9 C 6 @3", id="33"),
        pytest.param("plain @0-4; plain @5-9", id="no producer"),
    ],
)
def test_examples_without_such_findings(tmp_path: Path, text: str) -> None:
    assert not forged_findings(producer_sequences, tmp_path, text)


def test_example_13_gap_duplicate_and_overlap(tmp_path: Path) -> None:
    text = "D 9 0 0-4 @0-4 N; D 9 0 7-7 @5-5 N; D 9 0 7-7 @6-6 N; D 9 0 5-9 @7-11 N"
    findings = forged_findings(producer_sequences, tmp_path, text)
    assert [(finding.code.name, finding.first_offset, finding.severity, finding.cause) for finding in findings] == [
        ("seq-gap", 5, Severity.ERROR, None),
        ("seq-duplicate-batch", 6, Severity.CRITICAL, None),
        ("seq-overlap", 7, Severity.ERROR, None),
    ]
    gap, duplicate, overlap = findings
    assert gap.evidence == {"missing": 2, "previous_offset": 4, "written_ms": 1_700_000_000_005}
    assert duplicate.evidence == {"records": 1, "first_copy_ends_at": 5, "written_ms": 1_700_000_000_006}
    assert overlap.evidence == {"behind": 3, "previous_offset": 6, "written_ms": 1_700_000_000_007}


def test_example_8_version_2_without_reset(tmp_path: Path) -> None:
    text = "D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 3-3 @4-4 T; M 1 9 A 4 @5"
    (gap,) = forged_findings(producer_sequences, tmp_path, text)
    assert (gap.code.name, gap.first_offset, gap.evidence["missing"]) == ("seq-gap", 4, 3)


def test_example_12_the_sequences_wrap(tmp_path: Path) -> None:
    text = "D 9 0 2147483646-2147483647 @0-1 N; D 9 0 0-2 @2-4 N"
    (first,) = forged_findings(producer_sequences, tmp_path / "whole", text)
    assert (first.code.name, first.severity, first.first_offset) == ("seq-first-nonzero", Severity.INFO, 0)
    findings = forged_findings(producer_sequences, tmp_path / "back", f"{text}; D 9 0 2147483645-2 @5-10 N")
    assert codes_of(findings) == ["seq-first-nonzero", "seq-overlap"]
    assert only(findings, "seq-overlap").evidence["behind"] == 6


def test_example_17_the_group_coordinator_begins_each_batch_at_0(tmp_path: Path) -> None:
    text = "D 7 0 0-0 @0-0 T; D 7 0 0-0 @1-1 T; M 7 0 C 2 @2"
    assert not forged_findings(producer_sequences, tmp_path / "offsets", text, topic="__consumer_offsets")
    assert codes_of(forged_findings(producer_sequences, tmp_path / "user", text)) == ["seq-duplicate-batch"]


def test_example_20_a_leader_that_forgot_the_producer_lets_a_gap_pass(tmp_path: Path) -> None:
    text = "D 5 0 0-0 @0-0 N ts 1000; D 6 0 0-0 @1-1 T ts 1000; D 5 0 42-42 @2-2 N ts 100000000"
    (gap,) = forged_findings(producer_sequences, tmp_path, text)
    assert (gap.code.name, gap.severity, gap.first_offset) == ("seq-gap", Severity.WARNING, 2)
    assert gap.benign[0] == "producer expired at the leader: yes, idle for 1 d 3 h"


def test_a_marker_between_shows_the_time_of_the_append(tmp_path: Path) -> None:
    """Both batches have the old timestamp of their client."""
    text = "D 5 0 0-0 @0-0 N ts 1000; D 6 0 0-0 @1-1 T; M 6 0 C 1 @2; D 5 0 42-42 @3-3 N ts 1001"
    assert only(forged_findings(producer_sequences, tmp_path, text), "seq-gap").severity is Severity.WARNING


def test_observations_of_old_timestamps_show_the_time_of_the_append(tmp_path: Path) -> None:
    """A batch with log append time is before those of the client."""
    folder = forge(tmp_path, "plain @0; D 5 0 0-0 @1 N ts 1000; D 5 0 42-42 @2 N ts 1001")
    patch(file_of(folder), 0, attributes=LOG_APPEND_TIME_BIT)
    (gap,) = producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON, collectors=[expired_producers.COLLECTOR]))
    assert gap.severity is Severity.WARNING


def test_a_producer_inside_a_transaction_is_not_forgotten(tmp_path: Path) -> None:
    text = f"D 5 0 0-0 @0-0 T; D 5 0 42-42 @1-1 T ts {NOW + 2 * DAY}"
    (gap,) = forged_findings(producer_sequences, tmp_path, text, as_of_ms=NOW + 3 * DAY)
    assert gap.severity is Severity.ERROR
    text = f"D 5 0 0-0 @0-0 T; M 5 0 C 1 @1; D 5 0 42-42 @2-2 T ts {NOW + 2 * DAY}"
    (gap,) = forged_findings(producer_sequences, tmp_path / "between", text, as_of_ms=NOW + 3 * DAY)
    assert gap.severity is Severity.WARNING


def test_the_transaction_of_another_producer_keeps_no_producer_alive(tmp_path: Path) -> None:
    text = f"D 6 0 0-0 @0-0 T; D 5 0 0-0 @1-1 N; D 5 0 42-42 @2-2 N ts {NOW + 2 * DAY}"
    (gap,) = forged_findings(producer_sequences, tmp_path, text, as_of_ms=NOW + 3 * DAY)
    assert gap.severity is Severity.WARNING


def test_example_29_a_gap_after_a_marker(tmp_path: Path) -> None:
    start = "D 1 0 0-4 @0-4 T; "
    assert not forged_findings(producer_sequences, tmp_path / "same", f"{start}M 1 0 C 1 @5; D 1 0 5-5 @6-6 T")
    assert not forged_findings(producer_sequences, tmp_path / "next", f"{start}M 1 1 C 1 @5; D 1 1 0-0 @6-6 T")
    (gap,) = forged_findings(producer_sequences, tmp_path / "gap", f"{start}M 1 1 C 1 @5; D 1 1 5-5 @6-6 T")
    assert gap.evidence["missing"] == 5


def test_example_31_first_sequences_of_other_protocols(tmp_path: Path) -> None:
    findings = forged_findings(producer_sequences, tmp_path, "D 1 0 7-8 @0-1 T; M 1 0 A 3 @2; D 2 0 9-10 @3-4 N")
    assert [(finding.code.name, finding.first_offset) for finding in findings] == [
        ("seq-first-nonzero", 0),
        ("seq-first-nonzero", 3),
    ]


def test_after_an_unknown_start_the_first_sequence_is_unknown(tmp_path: Path) -> None:
    assert not forged_findings(
        producer_sequences, tmp_path, {10: "gone D 9 0 0-9 @0-9 N; D 9 0 10-11 @10-11 N"}, snapshots={10: None}
    )


def test_after_a_marker_that_was_left_by_the_cleaner_sequences_may_be_missing(tmp_path: Path) -> None:
    """As left by 3.3.2: the cleaner removed the first batch of the epoch and kept its marker."""
    cleaned = "gone D 1 1 0-0 @0-0 T; plain @1; M 1 1 A 1 @2"
    assert not forged_findings(producer_sequences, tmp_path, {0: cleaned, 3: "D 1 1 1-7 @3-9 T"}, first_dirty=3)


def test_after_what_was_cleaned_the_first_batch_need_not_be_the_first(tmp_path: Path) -> None:
    segments = {0: "gone D 9 0 0-3 @0-3 N; plain @4", 5: "D 9 0 4-4 @5-5 N"}
    assert not forged_findings(producer_sequences, tmp_path, segments, compacted=True)
    whole = {0: "plain @0-4", 5: "D 9 0 4-4 @5-5 N"}
    assert codes_of(forged_findings(producer_sequences, tmp_path / "whole", whole)) == ["seq-first-nonzero"]


def test_where_offsets_are_missing_so_are_their_sequences(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 9 0 0-1 @0-1 N; D 9 0 2-3 @2-3 N; D 9 0 4-5 @4-5 N")
    drop(file_of(folder), 2)
    assert not list(producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON)))


def test_where_the_cleaner_was_nothing_is_evaluated(tmp_path: Path) -> None:
    segments = {0: "D 9 0 0-4 @0-4 N; D 9 0 7-7 @5-5 N; D 9 0 7-7 @6-6 N; D 9 0 5-9 @7-11 N", 12: "plain @12"}
    assert not forged_findings(producer_sequences, tmp_path, segments, compacted=True)
    later = {0: "plain @0", 1: "D 9 0 0-3 @1-4 N; D 9 0 7-7 @5-5 N"}
    assert codes_of(forged_findings(producer_sequences, tmp_path / "later", later, compacted=True)) == ["seq-gap"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # 0 is written again; the producer continues at 2.
        pytest.param(
            "D 9 0 0-0 @0 N; D 9 0 1-1 @1 N; D 9 0 0-0 @2 N; D 9 0 2-2 @3 N", "seq-duplicate-batch", id="copy"
        ),
        pytest.param("D 9 0 0-3 @0-3 N; D 9 0 1-2 @4-5 N; D 9 0 4-4 @6 N", "seq-overlap", id="part"),
        pytest.param("D 9 0 0-0 @0 N; D 9 0 1-1 @1 N; D 9 0 0-0 @2 N; D 9 0 3-3 @3 N", "", id="beyond a copy"),
        pytest.param("D 9 0 0-3 @0-3 N; D 9 0 1-2 @4-5 N; D 9 0 5-5 @6 N", "", id="beyond a part"),
        pytest.param("D 9 0 0-0 @0 N; D 9 0 0-0 @1 N; D 8 0 0-0 @2 N; D 8 0 2-2 @3 N", "", id="of another producer"),
    ],
)
def test_a_gap_may_only_lead_back_to_where_the_producer_was(tmp_path: Path, text: str, cause: str) -> None:
    gap = only(forged_findings(producer_sequences, tmp_path, text), "seq-gap")
    assert (gap.cause or "", gap.severity) == (cause, Severity.ERROR)


def test_a_leader_that_changed_between_is_reported(tmp_path: Path) -> None:
    text = "D 9 0 0-0 @0 N; D 9 0 7-7 @1 N"
    (gap,) = forged_findings(producer_sequences, tmp_path, text, leader_epochs={0: 0, 1: 1})
    assert "failover to a replica without producer state: possible, the leader changed" in gap.benign
    (gap,) = forged_findings(producer_sequences, tmp_path / "same", text)
    assert "failover to a replica without producer state: no" in gap.benign


def test_a_producer_without_sequences(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, "D 9 0 0-0 @0 N; plain @1")), 0, base_sequence=-1)
    (missing,) = producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON))
    assert (missing.code.name, missing.severity, missing.producer_id) == ("seq-missing", Severity.WARNING, 9)


def test_of_very_many_the_first_are_reported(tmp_path: Path) -> None:
    """With the number of the others."""
    findings = forged_findings(
        producer_sequences, tmp_path, "; ".join(f"D 9 0 {2 * n}-{2 * n} @{n} N" for n in range(1003))
    )
    assert len(findings) == 1000
    assert [finding.first_offset for finding in findings[:2]] == [1, 2]
    assert findings[-1].evidence["left_out"] == 2


@pytest.mark.parametrize(
    ("topic_id", "log_start", "overlap", "duplicate"),
    [
        (None, 5, Severity.INFO, Severity.INFO),
        (None, 3, Severity.INFO, Severity.CRITICAL),
        (None, 2, Severity.ERROR, Severity.CRITICAL),
        ("AAAAAAAAAAAAAAAAAAAAAQ", 5, Severity.ERROR, Severity.CRITICAL),
    ],
    ids=["deleted", "that of one is there", "the newest of both is there", "2.8 or later"],
)
def test_up_to_2_3_a_producer_begins_again_after_its_data_was_deleted(
    tmp_path: Path, topic_id: str | None, log_start: int, overlap: Severity, duplicate: Severity
) -> None:
    """Its leader forgets it, and the client resets its sequences in the same epoch."""
    log = "D 1 0 0-2 @0-2 N; D 2 0 0-1 @3-4 N; plain @5; D 1 0 0-0 @6 N; D 2 0 0-1 @7-8 N"
    state = forged_state(tmp_path, log, log_start=log_start)
    state = replace(state, partition=replace(state.partition, topic_id=topic_id))
    severities = {finding.code.name: finding.severity for finding in producer_sequences.findings(state)}
    assert severities == {"seq-overlap": overlap, "seq-duplicate-batch": duplicate}


@pytest.mark.parametrize(
    ("batch", "clean_shutdown", "written", "expected"),
    [
        ("D 1 0 0-0 @3 N", False, NOW + 2, ("seq-overlap", Severity.INFO)),
        ("D 1 0 0-2 @3-5 N", False, NOW + 2, ("seq-duplicate-batch", Severity.INFO)),
        ("D 1 0 0-0 @3 N", False, NOW + 60_000, ("seq-overlap", Severity.ERROR)),
        ("D 1 0 0-2 @3-5 N", False, NOW + 60_000, ("seq-duplicate-batch", Severity.CRITICAL)),
        ("D 1 0 0-0 @3 N", True, NOW + 2, ("seq-overlap", Severity.ERROR)),
        ("D 1 0 1-1 @3 N", False, NOW + 2, ("seq-overlap", Severity.ERROR)),
    ],
    ids=["killed", "killed, same length", "written later", "written later, same length", "stopped", "not at 0"],
)
def test_the_data_may_have_been_deleted_since_the_checkpoint(
    tmp_path: Path, batch: str, clean_shutdown: bool, written: int, expected: tuple[str, Severity]
) -> None:
    """A broker of 1.1.1 was killed 40 s after it had written the checkpoint of its log start offsets."""
    folder = forge(
        tmp_path, f"D 1 0 0-2 @0-2 N; {batch}", clean_shutdown=clean_shutdown, replaced={"t-0/partition.metadata": None}
    )
    checkpoint = folder.parent / LOG_START
    checkpoint.write_bytes(b"0\n0\n")
    utime(checkpoint, ns=(written * 1_000_000,) * 2)
    found_here = producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON))
    assert [(finding.code.name, finding.severity) for finding in found_here] == [expected]


@pytest.mark.parametrize("first_dirty", [10, 0], ids=["cleaned", "lost"])
def test_sequences_of_an_epoch_may_have_been_before_its_marker(tmp_path: Path, first_dirty: int) -> None:
    """A broker of 3.9.1 fenced a producer whose sequences 0 to 11 were then cleaned, but not the marker."""
    log = {0: "gone D 1 8 0-9 @0-9 T", 10: "M 1 8 A 3 @10; D 1 8 10-14 @11-15 T; M 1 8 C 3 @16"}
    forge(tmp_path, log, first_dirty=first_dirty)
    found_here = producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON))
    assert list(found_here) == []


@pytest.mark.parametrize(("first_dirty", "expected"), [(None, ["seq-gap"]), (3, [])])
def test_batches_before_the_first_segment_may_have_been_cleaned(
    tmp_path: Path, first_dirty: int | None, expected: list[str]
) -> None:
    """A broker of 4.2.1 had fetched the log from a leader that had cleaned the newest batch of the producer."""
    folder = forge(tmp_path, {0: "D 1 0 0-2 @0-2 N", 3: "D 1 0 5-9 @3-7 N"}, first_dirty=first_dirty)
    _delete_first_segment(folder)
    found_here = producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON))
    assert [finding.code.name for finding in found_here] == expected


@pytest.mark.parametrize(("start", "expected"), [(3, []), (0, ["seq-gap"])])
def test_of_a_producer_whose_marker_alone_is_left_no_sequence_is_known(
    tmp_path: Path, start: int, expected: list[str]
) -> None:
    """A broker of 3.9.1 had fetched the log of a leader that had deleted the data of the transaction."""
    log = {0: "D 1 0 0-2 @0-2 T", 3: "M 1 0 C 3 @3; plain @4", 5: "D 1 0 5-9 @5-9 T; M 1 0 C 3 @10"}
    forgotten = SnapshotEntry(1, coordinator_epoch=3)
    folder = forge(tmp_path, log, snapshots={3: None, 5: [forgotten]})
    if start:
        _delete_first_segment(folder)
    else:
        forge(tmp_path, {0: "plain @0-2", **{base: log[base] for base in (3, 5)}}, snapshots={3: None, 5: [forgotten]})
    found_here = producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON))
    assert [finding.code.name for finding in found_here] == expected


@pytest.mark.parametrize("snapshots", [{3: None, 5: []}, {3: [], 5: []}], ids=["new follower", "deleted again since"])
@pytest.mark.parametrize(("start", "expected"), [(3, []), (0, ["seq-gap"])])
def test_of_a_marker_whose_data_was_deleted_no_sequence_is_known(
    tmp_path: Path, start: int, expected: list[str], snapshots: dict[int, list[SnapshotEntry] | None]
) -> None:
    """A new follower of 3.3.2 began to fetch where the data of the transaction was deleted, before its marker."""
    first = "D 1 0 0-2 @0-2 T" if start else "plain @0-2"
    log = {0: first, 3: "plain @3-4", 5: "M 1 0 C 3 @5; D 1 0 5-9 @6-10 T; M 1 0 C 3 @11"}
    folder = forge(tmp_path, log, snapshots=snapshots)
    if start:
        _delete_first_segment(folder)
    found_here = producer_sequences.findings(state_under(tmp_path, as_of_ms=SOON))
    assert [finding.code.name for finding in found_here] == expected


def _delete_first_segment(folder: Path) -> None:
    for kind in ("log", "index", "timeindex"):
        file_of(folder, 0, kind).unlink()


@pytest.mark.parametrize(("policy", "expected"), [("compact", []), ("delete", ["seq-gap"])])
def test_sequences_removed_before_the_log_was_fetched_are_no_gap(
    policy: str, expected: list[str], tmp_path: Path
) -> None:
    """The cleaner of the leader removed them; the broker whose disk was replaced has not cleaned the log yet."""
    data = "plain @0; gone D 1 0 0-4 @1-4 T; M 1 0 C 3 @5; D 1 0 5-5 @6-6 T; M 1 0 C 3 @7"
    forge(tmp_path, {0: data, 8: "plain @8"})
    setting = Setting("cleanup.policy", policy, "metadata log", "topic t")
    (partition,) = partitions_under(tmp_path)
    state = examine(partition, Rules(as_of_ms=SOON, topic_settings=(setting,)))
    assert codes_of(list(producer_sequences.findings(state))) == expected
