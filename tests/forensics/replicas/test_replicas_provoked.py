"""Intact replicas of three real brokers, and the findings after one of them is damaged."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path

import pytest

from kforensics.forensics.audit.copies import compare_replicas
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.cluster_metadata import elections_in
from tests.forensics.coordinators.doctored import batch_at, flip_outcome
from tests.forensics.forge import cut, drop, file_of, patch
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.forensics.replicas.replicas import groups_under

SAMPLE = SAMPLES / "consume-transform-produce"
DIVERGED, STATE, TRUNCATED = "replica-divergence", "replica-txn-state-divergence", "replica-truncated"
# Offsets in ``output-0``: of a marker, of the first batch that it commits, and of the last marker.
MARKER, DATA, LAST = 8, 6, 35


@cache
def rules() -> Rules:
    """Return rules for a minute after the truth was recorded."""
    recorded = json.loads((SAMPLE / "truth.json").read_text("utf-8"))["taken"]
    return Rules(int(datetime.fromisoformat(recorded).timestamp() * 1000) + 60_000)


def findings_under(folder: Path) -> dict[str, list[Finding]]:
    """Return the findings on the replicas under a folder, by partition."""
    elections = elections_in(partitions_under(folder))
    findings = {}
    for group in groups_under(folder):
        of_group = elections.get((group[0].topic_id or "", group[0].place.partition or 0), ())
        findings[group[0].name] = list(compare_replicas(group, rules(), of_group, workers=0).findings)
    return findings


def findings_after(
    folder: Path, broker: int, damage: Callable[[Path], None], partition: str = "output-0"
) -> list[Finding]:
    """Return the findings after the log of a partition was damaged on one broker; other partitions must have none."""
    copy = Path(shutil.copytree(SAMPLE, folder / "copy", ignore=shutil.ignore_patterns("__cluster_metadata-0")))
    damage(file_of(copy / f"broker-{broker}" / partition))
    found = findings_under(copy)
    assert {name for name, findings in found.items() if findings} == {partition}
    return found[partition]


def brokers(finding: Finding) -> set[str]:
    """Return the brokers in the message of a finding."""
    return set(re.findall(r"broker (\d)", finding.message))


def test_intact_replicas_have_no_findings() -> None:
    found = findings_under(SAMPLE)
    assert set(found) >= {"output-0", "output-1", "output-2", "__consumer_offsets-0", "__transaction_state-1"}
    assert not any(found.values())


@pytest.mark.parametrize("partition", ["output-0", "__consumer_offsets-1"])
def test_an_outcome_flipped_on_one_broker(partition: str, tmp_path: Path) -> None:
    """Each of the other replicas contradicts it."""
    found = findings_after(tmp_path, 3, lambda log: flip_outcome(log, MARKER), partition)
    assert [(one.code.name, one.severity, one.first_offset, one.last_offset) for one in found] == [
        (DIVERGED, Severity.CRITICAL, MARKER, MARKER)
    ] * 2
    assert [brokers(one) for one in found] == [{"1", "3"}, {"2", "3"}]


def test_a_decision_changed_in_one_copy_of_a_coordinator(tmp_path: Path) -> None:
    found = findings_after(tmp_path, 2, lambda log: patch(log, 8, max_timestamp=1), "__transaction_state-1")
    assert {(one.code.name, one.first_offset) for one in found} == {(DIVERGED, 8)}


def test_a_marker_cut_out_on_one_broker(tmp_path: Path) -> None:
    """On that broker the transaction continues into the next one, and ends with its marker."""
    offset_gap, *states = findings_after(tmp_path, 2, lambda log: drop(log, MARKER))
    assert (offset_gap.code.name, offset_gap.severity, offset_gap.first_offset, offset_gap.last_offset) == (
        *(DIVERGED, Severity.CRITICAL),
        *(MARKER, MARKER),
    )
    assert {(one.code.name, one.severity, one.first_offset) for one in states} == {(STATE, Severity.ERROR, DATA)}
    assert {str(one.evidence["replica"]).rsplit("/", 2)[-2] for one in [offset_gap, *states]} == {"broker-2"}


def test_a_tail_cut_off_on_one_broker(tmp_path: Path) -> None:
    """The high watermark of the others is above its end."""
    (lost,) = findings_after(tmp_path, 2, lambda log: cut(log, batch_at(log, LAST).position))
    assert (lost.code.name, lost.severity, lost.first_offset, lost.last_offset) == (
        *(TRUNCATED, Severity.WARNING),
        *(LAST, LAST + 1),
    )
    assert str(lost.evidence["replica"]).rsplit("/", 2)[-2] == "broker-2"


def test_the_same_records_of_another_leader(tmp_path: Path) -> None:
    """The checksum does not cover the leader epoch. Consumers receive the same, whichever replica leads."""
    found = findings_after(tmp_path, 1, lambda log: patch(log, DATA, partition_leader_epoch=3))
    assert {(one.code.name, one.severity, one.first_offset) for one in found} == {(DIVERGED, Severity.WARNING, DATA)}
    assert all("have the same records" in one.message for one in found)
