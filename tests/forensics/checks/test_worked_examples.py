"""The worked examples of the rules, from the bytes of a forged log to all of its findings.

Each example lists everything that must be reported, except ``txn-open-at-end``. Examples about the coordinator log (24
to 26 and parts of 10, 11 and 34) are in ``cluster``, those about several replicas in ``replicas``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.check import collectors_of, findings_of
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import stable_offset
from kforensics.forensics.partition.timeline import expected_aborted_entries
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, SnapshotEntry, forge
from tests.forensics.partition_states import partitions_under

SOON, NEXT_DAY = NOW + 60_000, NOW + 86_400_000 + 60_000
IMPLIED = {"txn-open-at-end"}
TEN = "D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T"
FIVE = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3"
FOUR = "D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"
TV2 = "D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5"


@dataclass(frozen=True)
class Example:
    """A log and its expected findings.

    Attributes:
        log: batches by segment.
        lso: last stable offset; None if the example does not state it.
        index: expected entries of the transaction indexes; None if the example does not state them.
        findings: codes by the first offset they are about.
        still_open: first offsets of open transactions.
        as_of_ms: time of evaluation.
        options: of ``forge``.
    """

    log: Segments
    lso: int | None = None
    index: tuple[tuple[int, int, int, int], ...] | None = ()
    findings: Mapping[str, int | None] = field(default_factory=dict)
    still_open: tuple[int, ...] = ()
    as_of_ms: int = SOON
    options: Mapping[str, Any] = field(default_factory=dict)


EXAMPLES = {
    "1": Example({0: ""}, 0),
    "1-started-later": Example({50: ""}, 50, options={"log_start": 50}),
    "2": Example("plain @0-4; D 9 0 0-4 @5-9 N", 10),
    "3": Example("D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", 6),
    "4": Example(FOUR, 7, ((1, 0, 4, 2),)),
    "5": Example(FIVE, 4, ((2, 1, 2, 0), (1, 0, 3, 4))),
    "6-leader": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 2 0 0-0 @3-3 T", 3, ((1, 0, 1, 2),), still_open=(3,)
    ),
    "6-follower": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 2 0 0-0 @3-3 T",
        3,
        ((1, 0, 1, 2),),
        still_open=(3,),
        options={"txnindex": {0: [(1, 0, 1, 3)]}},
    ),
    "6-neither": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 2 0 0-0 @3-3 T",
        3,
        ((1, 0, 1, 2),),
        {"txnindex-lso-mismatch": 0},
        (3,),
        options={"txnindex": {0: [(1, 0, 1, 4)]}},
    ),
    "7": Example(TV2, 6, ((1, 4, 5, 6),)),
    "8": Example("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 3-3 @4-4 T; M 1 9 A 4 @5", 6, ((1, 4, 5, 6),), {"seq-gap": 4}),
    "9": Example("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T", 4, ((1, 0, 3, 4),), still_open=(4,)),
    "10": Example(TEN, 4, ((1, 0, 3, 4),), {"txn-late": 4, "lso-stuck": 4}, (4,), as_of_ms=NEXT_DAY),
    "11": Example(
        f"{TEN}; D 1 1 0-0 @5-5 T; M 1 1 C 4 @6",
        7,
        ((1, 0, 3, 4),),
        {"txn-epoch-mixed": 4, "epoch-bump-without-marker": 5, "txn-foreign-data-absorbed": 4},
    ),
    "12": Example("D 9 0 2147483646-2147483647 @0-1 N; D 9 0 0-2 @2-4 N", 5, findings={"seq-first-nonzero": 0}),
    "12-backwards": Example(
        "D 9 0 2147483646-2147483647 @0-1 N; D 9 0 0-2 @2-4 N; D 9 0 2147483645-2 @5-10 N",
        11,
        findings={"seq-first-nonzero": 0, "seq-overlap": 5},
    ),
    "13": Example(
        "D 9 0 0-4 @0-4 N; D 9 0 7-7 @5-5 N; D 9 0 7-7 @6-6 N; D 9 0 5-9 @7-11 N",
        12,
        findings={"seq-gap": 5, "seq-duplicate-batch": 6, "seq-overlap": 7},
    ),
    "14": Example("D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N", 3, findings={"epoch-regressed": 2}),
    "14-consequence": Example(
        "D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N; D 9 4 1-1 @3-3 N",
        4,
        findings={"epoch-regressed": 2, "epoch-bump-nonzero-seq": 3},
    ),
    "15": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 C 4 @2", 3, findings={"marker-empty": 2, "marker-duplicate": 2}
    ),
    "16": Example("D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 N; M 1 0 C 3 @2", 3, findings={"txn-nontxn-inside": 1}),
    "17": Example("D 7 0 0-0 @0-0 T; D 7 0 0-0 @1-1 T; M 7 0 C 2 @2", 3, options={"topic": "__consumer_offsets"}),
    "17-user-topic": Example(
        "D 7 0 0-0 @0-0 T; D 7 0 0-0 @1-1 T; M 7 0 C 2 @2", 3, findings={"seq-duplicate-batch": 1}
    ),
    "18-missing": Example(
        FIVE,
        4,
        ((2, 1, 2, 0), (1, 0, 3, 4)),
        {"txnindex-missing-entry": 1, "visibility-mismatch": 1},
        options={"txnindex": {0: [(1, 0, 3, 4)]}},
    ),
    "18-extra": Example(
        "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 C 1 @2; M 1 0 A 1 @3",
        4,
        ((1, 0, 3, 4),),
        {"txnindex-extra-entry": 1, "visibility-mismatch": 1},
        options={"txnindex": {0: [(2, 1, 2, 0), (1, 0, 3, 4)]}},
    ),
    "19": Example(
        "D 1 0 0-9 @0-9 T; D 2 0 0-9 @10-19 N",
        5,
        findings={"txn-head-deleted": 0},
        still_open=(0,),
        options={"log_start": 5},
    ),
    "19-ended": Example("D 1 0 0-9 @0-9 T; D 2 0 0-9 @10-19 N; M 1 0 C 0 @20", 21, options={"log_start": 5}),
    "21": Example(
        {100: "gone D 9 0 0-9 @90-99 N; D 1 0 5-5 @100-100 T; M 2 0 C 1 @101; M 1 0 C 1 @102"},
        103,
        (),
        {"lso-prefix-unknown": 100, "snapshot-absent": None},
        options={"log_start": 100, "snapshots": {100: None, 103: None}, "clean_shutdown": False},
    ),
    "27": Example(
        f"{TEN}; M 1 0 A 4 @5 ts {NEXT_DAY}",
        6,
        ((1, 0, 3, 4), (1, 4, 5, 6)),
        {"txn-duration-excessive": 4, "marker-admin-abort": 5},
        as_of_ms=NEXT_DAY + 1000,
    ),
    "31": Example("D 1 0 7-8 @0-1 T; M 1 0 A 3 @2; D 2 0 9-10 @3-4 N", 5, ((1, 0, 2, 3),), {"seq-first-nonzero": 0}),
    "32": Example(
        "D 1 4 0-2 @0-2 T; M 1 5 C 6 @3; M 1 5 C 6 @4; D 1 5 0-0 @5-5 T; M 1 6 C 6 @6",
        7,
        findings={"marker-empty": 4, "marker-duplicate": 4},
    ),
    "33": Example(
        "D 1 4 0-0 @0-0 T; M 1 4 A 6 @1; D 1 4 1-1 @2-2 T; M 1 9 C 6 @3",
        4,
        ((1, 0, 1, 2),),
        {"marker-epoch-jump": 3},
    ),
    "34": Example(
        "D 1 0 0-1 @0-1 T; M 1 0 A 2 @2; D 1 1 0-0 @3-3 T; M 1 2 C 2 @4; D 1 2 0-0 @5-5 T; M 1 3 C 2 @6",
        7,
        ((1, 0, 2, 3),),
    ),
    "35": Example("D 1 0 0-1 @0-1 T; M 1 0 A 2 @2; D 1 0 2-2 @3-3 T; M 1 0 C 2 @4", 5, ((1, 0, 2, 3),)),
    "36": Example("D 1 0 0-1 @0-1 T; M 1 1 C 2 @2", 3),
    "37": Example(
        {200: "gone D 3 0 0-9 @150-159 T; gone D 4 0 0-9 @160-169 N; plain @200-229; M 3 0 A 1 @230"},
        231,
        None,
        options={"log_start": 200},
    ),
    "39-since-2.8": Example("M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3", 4, findings={"marker-empty": 0}),
    "39-up-to-2.7": Example(
        "M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3",
        4,
        findings={"marker-empty": 0},
        options={"txnindex": {0: [(1, 0, 0, 1)]}},
    ),
}


def evaluated(folder: Path, example: Example) -> tuple[PartitionState, tuple[Finding, ...]]:
    """Return the state of a forged example and all findings."""
    forge(folder, example.log, **example.options)
    (partition,) = partitions_under(folder)
    state = examine(partition, Rules(example.as_of_ms), collectors_of(PARTITION_CHECKS), watches_indexes=True)
    return state, findings_of(state, PARTITION_CHECKS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    state, findings = evaluated(tmp_path, example)
    reported = {
        finding.code.name: finding.first_offset for finding in reversed(findings) if finding.code.name not in IMPLIED
    }
    assert reported == example.findings, [finding.message for finding in findings]
    if example.lso is not None:
        assert stable_offset(state).last_stable_offset == example.lso
    if example.index is not None:
        assert tuple(map(tuple, _entries(state))) == example.index
    assert tuple(state.open_transactions["first_offset"].tolist()) == example.still_open


def _entries(state: PartitionState) -> list[tuple[int, ...]]:
    names = ["producer_id", "first_offset", "last_offset", "last_stable_offset"]
    entries: list[tuple[int, ...]] = [
        row for rows in expected_aborted_entries(state.transaction_store) for row in rows[names].tolist()
    ]
    return entries


@pytest.mark.parametrize(("high_watermark", "offset"), [(2, 0), (4, 0), (5, 2), (6, 2), (7, 7)])
def test_example_4_at_every_high_watermark(high_watermark: int, offset: int, tmp_path: Path) -> None:
    state, _ = evaluated(tmp_path, EXAMPLES["4"])
    assert stable_offset(state, high_watermark).last_stable_offset == offset


def _producer_state(state: PartitionState, producer_id: int) -> tuple[int, ...]:
    names = [
        *("producer_epoch", "last_sequence", "last_offset", "offset_delta", "coordinator_epoch"),
        "current_txn_first_offset",
    ]
    (row,) = state.producers[state.producers["producer_id"] == producer_id][names].tolist()
    return tuple(row)


@pytest.mark.parametrize(
    ("name", "producer_id", "expected"),
    [
        ("2", 9, (0, 4, 9, 4, -1, -1)),
        ("3", 1, (0, 4, 4, 4, 3, -1)),
        ("7", 1, (9, -1, -1, 0, 4, -1)),
        ("14", 9, (3, 1, 2, 0, -1, -1)),
        ("32", 1, (6, -1, -1, 0, 6, -1)),
        ("33", 1, (9, -1, -1, 0, 6, -1)),
        ("34", 1, (3, -1, -1, 0, 2, -1)),
        ("35", 1, (0, 2, 3, 0, 2, -1)),
        ("36", 1, (1, -1, -1, 0, 2, -1)),
    ],
)
def test_state_of_a_producer(name: str, producer_id: int, expected: tuple[int, ...], tmp_path: Path) -> None:
    state, _ = evaluated(tmp_path, EXAMPLES[name])
    assert _producer_state(state, producer_id) == expected


def test_example_20_old_timestamps_expire_at_once(tmp_path: Path) -> None:
    """Any broker that has expired the producer accepts a later gap: a warning, with the explanation."""
    old = NOW - 86_400_000 * 2
    # Only the timestamp of the marker was not chosen by a client.
    log = f"D 9 0 0-0 @0-0 T; M 9 0 C 1 @1; D 5 0 0-0 @2-2 N ts {old}; D 5 0 42-42 @3-3 N"
    _, findings = evaluated(tmp_path, Example(log))
    by_code = {finding.code.name: finding for finding in findings}
    assert by_code.keys() == {"producer-expired-by-timestamp", "seq-gap"}
    assert str(by_code["seq-gap"].severity) == "warning"
    assert any("expir" in cause for cause in by_code["seq-gap"].benign)


def test_example_22_compaction_leaves_offset_gaps_and_empty_batches(tmp_path: Path) -> None:
    log = {
        0: "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 @15; plain @19-19",
        20: "plain @20-20",
    }
    state, findings = evaluated(tmp_path, Example(log, options={"first_dirty": 20}))
    assert {finding.code.name for finding in findings} == {"control-shell"}
    assert _entries(state) == [(2, 9, 12, 13)]


def _entry(**fields: int) -> SnapshotEntry:
    defaults = {
        "producer_id": 1,
        "producer_epoch": 1,
        "last_sequence": -1,
        "last_offset": -1,
        "offset_delta": 0,
        "timestamp": NOW + 3,
        "coordinator_epoch": 4,
        "current_txn_first_offset": -1,
    }
    return SnapshotEntry(**(defaults | fields))


@pytest.mark.parametrize(
    ("entries", "codes"),
    [
        ([_entry()], set()),
        (
            [_entry(producer_epoch=0, last_sequence=2, last_offset=2, offset_delta=2, current_txn_first_offset=0)],
            {"snapshot-open-txn-mismatch", "snapshot-state-mismatch"},
        ),
        ([], {"snapshot-missing-producer"}),
        ([_entry(last_sequence=0, last_offset=4)], {"snapshot-beyond-offset"}),
        ([_entry(timestamp=NOW)], {"snapshot-minor-mismatch"}),
    ],
    ids=["correct", "still-open", "missing", "beyond", "older"],
)
def test_example_23_a_snapshot_against_the_log(entries: list[SnapshotEntry], codes: set[str], tmp_path: Path) -> None:
    log = {0: "D 1 0 0-2 @0-2 T; M 1 1 A 4 @3", 4: "D 1 2 0-0 @4-4 T"}
    forge(tmp_path, log, snapshots={4: entries})
    # A producer may be missing only if it can have expired by the time of the snapshot.
    os.utime(tmp_path / "t-0" / "00000000000000000004.snapshot", (NOW // 1000, NOW // 1000))
    (partition,) = partitions_under(tmp_path)
    findings = findings_of(examine(partition, Rules(SOON), collectors_of(PARTITION_CHECKS)), PARTITION_CHECKS)
    assert {finding.code.name for finding in findings} - IMPLIED == codes


def test_example_38_the_newest_batch_was_partially_compacted(tmp_path: Path) -> None:
    """A snapshot keeps the timestamp that the cleaner removed from the log; a lower one would be wrong."""
    for number, (timestamp, codes) in enumerate([(NOW + 5000, set()), (NOW + 4000, {"snapshot-minor-mismatch"})]):
        entry = SnapshotEntry(5, 0, 9, 9, 9, timestamp, -1, -1)
        log = {0: f"D 5 0 0-9 @0-9 N cnt 3 ts {NOW + 4200}", 10: "plain @10-10"}
        options = {"first_dirty": 10, "snapshots": {10: [entry], 11: [entry]}}
        _, findings = evaluated(tmp_path / str(number), Example(log, options=options))
        assert {finding.code.name for finding in findings} == codes
