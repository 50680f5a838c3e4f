"""The last stable offset that brokers of several releases answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kforensics
from kforensics.forensics.explain.offset_explainer import bounds_of
from kforensics.forensics.partition.stable_offset import stable_offset
from tests.command import SAMPLES
from tests.forensics.checks.partition.producer_states import forged_state


@pytest.mark.parametrize(
    ("release", "lowest"), [(None, 4), ((3, 9), 6), ((4, 4), 4)], ids=["unknown release", "3.9", "4.4"]
)
def test_brokers_differ_where_the_log_starts_within_an_open_transaction(
    release: tuple[int, int] | None, lowest: int, tmp_path: Path
) -> None:
    """Brokers of 4.3.1 and 4.4.0 answered where the batch with the log start begins, one of 3.9.1 the log start."""
    state = forged_state(tmp_path, "D 1 0 0-3 @0-3 T; D 1 0 4-7 @4-7 T; plain @8-22", log_start=6)
    releases = {} if release is None else {state.partition.place.log_dir: release}
    state = replace(state, rules=replace(state.rules, releases=releases))
    stable = stable_offset(state)
    assert (stable.last_stable_offset, stable.lowest, stable.exact) == (6, lowest, lowest == 6)
    bounds = bounds_of(state)
    assert (bounds.last_stable_offset, bounds.exact) == (6, lowest == 6)


@pytest.mark.parametrize("log_start", [4, 8])
def test_brokers_agree_where_the_log_starts_with_a_batch(log_start: int, tmp_path: Path) -> None:
    state = forged_state(tmp_path, "D 1 0 0-3 @0-3 T; D 1 0 4-7 @4-7 T; plain @8-22", log_start=log_start)
    stable = stable_offset(state)
    assert (stable.last_stable_offset, stable.exact) == (log_start, True)


@pytest.mark.parametrize(("sample", "exact"), [("ghosts", False), ("ghosts-3.9", True)])
def test_the_metadata_log_shows_the_release(sample: str, *, exact: bool) -> None:
    rows = kforensics.lso(str(SAMPLES / sample / "broker-1" / "running-open-in-part-0")).to_pylist()
    assert [(row["last_stable_offset"], row["exact"]) for row in rows] == [(3, exact)]
