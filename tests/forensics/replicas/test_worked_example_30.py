"""Worked example 30 of the rules: two replicas that have diverged, with and without committed records."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.replicas.divergence import findings
from kforensics.forensics.core.findings import Severity
from tests.forensics.replicas.replicas import brief, compare, forged

COMMON = "plain @0-4; plain @5"
X = f"{COMMON}; D 1 0 6-6 @6-6 T"
Y = f"{COMMON}; D 2 0 0-0 @6-6 N"


@pytest.mark.parametrize(
    ("high_watermark", "severity"), [(6, Severity.WARNING), (7, Severity.CRITICAL)], ids=["uncommitted", "committed"]
)
def test_a_tail_of_an_old_leader_is_a_warning_unless_it_was_committed(
    tmp_path: Path, high_watermark: int, severity: Severity
) -> None:
    forged(
        tmp_path,
        (X, {"leader_epochs": {0: 2, 6: 3}, "high_watermark": high_watermark}),
        (Y, {"leader_epochs": {0: 2, 6: 4}, "high_watermark": 6}),
    )
    (found,) = findings(compare(tmp_path))
    assert brief([found]) == [("replica-divergence", severity, 6, 6)]
    assert found.path is not None
    assert "broker-1" in found.path
    assert found.evidence["truncates_to"] == 6
    assert found.message.startswith("broker 1 and broker 2 differ at offset 6: 1 batch of leader epoch 3 against")


def test_the_high_watermark_of_the_new_leader_does_not_matter(tmp_path: Path) -> None:
    forged(
        tmp_path,
        (X, {"leader_epochs": {0: 2, 6: 3}, "high_watermark": 6}),
        (Y, {"leader_epochs": {0: 2, 6: 4}, "high_watermark": 7}),
    )
    assert brief(list(findings(compare(tmp_path)))) == [("replica-divergence", Severity.WARNING, 6, 6)]
