"""What producer snapshots show of the expiry of producers, and what they do not show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kforensics.analyses.settings import rules_for
from kforensics.forensics.core.rules import DAY_MS, Rules
from kforensics.forensics.sidecar.snapshot_expiry import snapshot_expiry
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import SnapshotEntry, file_of, forge
from tests.forensics.partition_states import partitions_under

SECOND = 1_000
LATER = NOW + 60 * SECOND
LOG = {0: "plain @0-9", 10: "plain @10-19", 20: "plain @20-29"}
Snapshots = dict[int, list[SnapshotEntry]]


def _producer(producer_id: int, offset: int, seconds: int, txn: int = -1) -> SnapshotEntry:
    return SnapshotEntry(producer_id, 0, 0, offset, 0, NOW + seconds * SECOND, -1, txn)


OLD, MIDDLE, YOUNG = _producer(1, 1, 0), _producer(2, 3, 6), _producer(3, 5, 9)
NEW = _producer(4, 15, 19)


def _rules(folder: Path, snapshots: Snapshots) -> Rules:
    """Return the rules that follow from snapshots that were taken 10, 20 and 30 s after the first write."""
    partition_folder = forge(folder, LOG, snapshots=snapshots)
    for offset in (10, 20, 30):
        time = (NOW + offset * SECOND) / 1000
        os.utime(file_of(partition_folder, offset, "snapshot"), (time, time))
    partitions = partitions_under(folder)
    return rules_for(Rules(LATER), (), partitions).at(partitions[0].place.log_dir)


SHOWN: dict[str, tuple[Snapshots, int]] = {
    "one": ({10: [OLD, YOUNG], 20: [YOUNG, NEW], 30: [YOUNG, NEW]}, 20),
    "all": ({10: [OLD, MIDDLE], 20: [], 30: []}, 14),
    "one after the other": ({10: [OLD, YOUNG], 20: [YOUNG], 30: []}, 20),
    "others had been idle for much longer": ({10: [_producer(1, 1, -100)], 20: [YOUNG], 30: []}, 120),
    # Seen on 3.3.2 with clocks 30 s apart: the snapshot seems older than the marker that it lacks.
    "a leader's clock is ahead": ({10: [OLD, YOUNG], 20: [_producer(5, 8, 40), _producer(6, 9, 40)], 30: []}, 11),
    "an open transaction stays": ({10: [_producer(1, 1, 0, 1), MIDDLE], 20: [_producer(1, 1, 0, 1)], 30: []}, 14),
}


@pytest.mark.parametrize(("snapshots", "seconds"), SHOWN.values(), ids=SHOWN)
def test_forgotten_producers_show_a_shorter_expiry(tmp_path: Path, snapshots: Snapshots, seconds: int) -> None:
    rules = _rules(tmp_path, snapshots)
    assert rules.pid_expiry_ms == seconds * SECOND
    assert rules.source("producer.id.expiration.ms").startswith("proof: ")
    assert rules.possible_pid_expiry_ms <= rules.pid_expiry_ms


INNOCENT: dict[str, Snapshots] = {
    "nothing is missing": {10: [OLD], 20: [OLD, NEW], 30: [OLD, NEW]},
    "an older one is still there": {10: [OLD, YOUNG], 20: [OLD], 30: [OLD]},
    "it is there again": {10: [OLD, YOUNG], 20: [YOUNG], 30: [OLD, YOUNG]},
    "no snapshot has had it": {10: [], 20: [NEW], 30: [NEW]},
    "an open transaction, ended since": {10: [_producer(1, 1, 0, 1)], 20: [], 30: []},
}


@pytest.mark.parametrize("snapshots", INNOCENT.values(), ids=INNOCENT)
def test_what_expiry_does_not_explain_shows_nothing(tmp_path: Path, snapshots: Snapshots) -> None:
    rules = _rules(tmp_path, snapshots)
    assert (rules.pid_expiry_ms, rules.possible_pid_expiry_ms) == (DAY_MS, DAY_MS)


def test_a_single_snapshot_shows_nothing(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-4 @0-4 N"})
    (partition,) = partitions_under(tmp_path)
    assert snapshot_expiry(partition, LATER) is None
