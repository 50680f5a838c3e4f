"""Findings about a file of a segment say when that segment was written, and nothing that the files do not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.reporting import newest_time
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.damage_times import with_times_of_segments
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partition_states import partitions_under

CODES = {name: code for check in ALL_CHECKS for name, code in check.codes.items()}
LOG = {0: f"plain @0-0 ts {NOW + 1}", 1: f"plain @1-1 ts {NOW + 2}", 2: f"plain @2-2 ts {NOW + 3}"}


def _state(folder: Path) -> PartitionState:
    (partition,) = partitions_under(folder)
    collectors = [check.collector for check in PARTITION_CHECKS if check.collector]
    return examine(partition, Rules(NOW + 1000), collectors)


def _times(state: PartitionState, name: str, *, code: str = "index-mismatch", **evidence: object) -> dict[str, Any]:
    """Return the times in the evidence of a finding about a file."""
    path = f"{state.partition.folder}/{name}"
    finding = Finding(CODES[code], "", Severity.ERROR, path=path, evidence=evidence)
    (dated,) = with_times_of_segments(state, [finding])
    return {**dated.evidence}


@pytest.mark.parametrize(
    ("name", "first", "between"),
    [
        ("00000000000000000000.index", NOW + 1, [None, NOW + 1]),
        ("00000000000000000001.log", NOW + 2, [NOW + 1, NOW + 2]),
        ("00000000000000000002.txnindex", NOW + 3, [NOW + 2, NOW + 3]),
        ("00000000000000000002.snapshot", NOW + 2, [NOW + 2, None]),
        ("00000000000000000003.snapshot", NOW + 3, [NOW + 3, None]),
    ],
)
def test_a_file_has_the_times_of_its_segment(tmp_path: Path, name: str, first: int, between: list[int | None]) -> None:
    forge(tmp_path, LOG)
    assert _times(_state(tmp_path), name) == {"written_ms": first, "written_between_ms": between}


def test_times_that_go_back_are_in_order(tmp_path: Path) -> None:
    forge(tmp_path, {0: f"plain @0-0 ts {NOW + 9}", 1: f"plain @1-1 ts {NOW + 2}"})
    times = _times(_state(tmp_path), "00000000000000000001.index")
    assert times == {"written_ms": NOW + 2, "written_between_ms": [NOW + 2, NOW + 2]}


def test_the_time_of_a_damaged_batch_is_not_known(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, LOG), 1), 1, max_timestamp=72_059_386_751_527_940, crc=1)
    state = _state(tmp_path)
    assert _times(state, "00000000000000000001.index")["written_between_ms"] == [NOW + 1, None]
    assert _times(state, "00000000000000000002.index")["written_between_ms"] == [None, NOW + 3]


def test_a_finding_that_states_a_time_keeps_it(tmp_path: Path) -> None:
    forge(tmp_path, LOG)
    assert _times(_state(tmp_path), "00000000000000000001.index", since_ms=5) == {"since_ms": 5}
    assert _times(_state(tmp_path), "leader-epoch-checkpoint") == {}


def test_what_has_no_known_end_may_be_of_any_later_time() -> None:
    assert newest_time({"written_ms": 3, "written_between_ms": [3, 7]}) == 7
    assert newest_time({"written_ms": 3, "written_between_ms": [3, None]}) is None
    assert newest_time({"written_ms": 7, "written_between_ms": [None, 7]}) == 7
    assert newest_time({"began_ms": 4, "appended_ms": 5}) == 5
    assert newest_time({"records": 1}) is None
