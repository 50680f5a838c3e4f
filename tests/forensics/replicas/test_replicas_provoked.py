"""Replicas that three real brokers left in order, and what is found once one of them is spoilt."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path

import pytest

from kforensics.forensics.audit.replica_result import compare_replicas
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.elections import elections_in
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.doctored import batch_at, flip_outcome
from tests.forensics.forge import cut, drop, file_of, patch
from tests.forensics.replicas.replicas import groups_under

SAMPLE = SAMPLES / "consume-transform-produce"
DIVERGED, STATE, TRUNCATED = "replica-divergence", "replica-txn-state-divergence", "replica-truncated"
# Offsets of a marker, in ``output-0`` of the first batch that it commits, and of the last marker there.
MARKER, DATA, LAST = 8, 6, 35


@cache
def rules() -> Rules:
    """Return rules for a minute after the brokers were asked."""
    taken = json.loads((SAMPLE / "truth.json").read_text("utf-8"))["taken"]
    return Rules(int(datetime.fromisoformat(taken).timestamp() * 1000) + 60_000)


def found_under(folder: Path) -> dict[str, list[Finding]]:
    """Return what is found of the replicas under a folder, by partition."""
    elections = elections_in(partitions_under(folder))
    found = {}
    for group in groups_under(folder):
        of_group = elections.get((group[0].topic_id or "", group[0].place.partition or 0), ())
        found[group[0].name] = list(compare_replicas(group, rules(), of_group, workers=0).findings)
    return found


def spoilt(folder: Path, broker: int, spoil: Callable[[Path], None], partition: str = "output-0") -> list[Finding]:
    """Return what is found once the log of a partition was spoilt on one broker; nothing is found in any other one."""
    copy = Path(shutil.copytree(SAMPLE, folder / "copy", ignore=shutil.ignore_patterns("__cluster_metadata-0")))
    spoil(file_of(copy / f"broker-{broker}" / partition))
    found = found_under(copy)
    assert {name for name, findings in found.items() if findings} == {partition}
    return found[partition]


def brokers(finding: Finding) -> set[str]:
    """Return the brokers whose replicas a finding speaks of."""
    return set(re.findall(r"broker (\d)", finding.message))


def test_untouched_they_are_all_the_same() -> None:
    found = found_under(SAMPLE)
    assert set(found) >= {"output-0", "output-1", "output-2", "__consumer_offsets-0", "__transaction_state-1"}
    assert not any(found.values())


@pytest.mark.parametrize("partition", ["output-0", "__consumer_offsets-1"])
def test_an_outcome_flipped_on_one_broker(partition: str, tmp_path: Path) -> None:
    """Each of the others contradicts it."""
    found = spoilt(tmp_path, 3, lambda log: flip_outcome(log, MARKER), partition)
    assert [(one.code.name, one.severity, one.first_offset, one.last_offset) for one in found] == [
        (DIVERGED, Severity.CRITICAL, MARKER, MARKER)
    ] * 2
    assert [brokers(one) for one in found] == [{"1", "3"}, {"2", "3"}]


def test_a_decision_changed_in_one_copy_of_a_coordinator(tmp_path: Path) -> None:
    found = spoilt(tmp_path, 2, lambda log: patch(log, 8, max_timestamp=1), "__transaction_state-1")
    assert {(one.code.name, one.first_offset) for one in found} == {(DIVERGED, 8)}


def test_a_marker_cut_out_on_one_broker(tmp_path: Path) -> None:
    """There the transaction goes on into the next one, and has its end."""
    hole, *states = spoilt(tmp_path, 2, lambda log: drop(log, MARKER))
    assert (hole.code.name, hole.severity, hole.first_offset, hole.last_offset) == (
        *(DIVERGED, Severity.CRITICAL),
        *(MARKER, MARKER),
    )
    assert {(one.code.name, one.severity, one.first_offset) for one in states} == {(STATE, Severity.ERROR, DATA)}
    assert {str(one.evidence["replica"]).rsplit("/", 2)[-2] for one in [hole, *states]} == {"broker-2"}


def test_a_tail_cut_off_on_one_broker(tmp_path: Path) -> None:
    """What the others know to be committed ends behind it."""
    (lost,) = spoilt(tmp_path, 2, lambda log: cut(log, batch_at(log, LAST).position))
    assert (lost.code.name, lost.severity, lost.first_offset, lost.last_offset) == (
        *(TRUNCATED, Severity.WARNING),
        *(LAST, LAST + 1),
    )
    assert str(lost.evidence["replica"]).rsplit("/", 2)[-2] == "broker-2"


def test_the_same_records_of_another_leader(tmp_path: Path) -> None:
    """The checksum does not cover the leader epoch."""
    found = spoilt(tmp_path, 1, lambda log: patch(log, DATA, partition_leader_epoch=3))
    assert {(one.code.name, one.severity, one.first_offset) for one in found} == {(DIVERGED, Severity.CRITICAL, DATA)}
    assert all("have the same records" in one.message for one in found)
