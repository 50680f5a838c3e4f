"""The outcomes of transactions that committed offsets of groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_result import group_commits
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import forge_offsets
from tests.forensics.partition_states import SAMPLES, partitions_under

SCENARIOS = ("consume-transform-produce", "consume-transform-produce-v1", "consume-transform-produce-3.9")


def _outcomes(folder: Path) -> dict[tuple[str, int], str | None]:
    """Return the outcome of each record with a committed offset, by group and offset of the record."""
    rows: list[Rows] = []
    for one in partitions_under(folder):
        if one.place.topic == CONSUMER_OFFSETS:
            group_commits(examine(one, Rules(NOW)), rows.append)
    return {
        (group, offset): outcome for some in rows for group, offset, outcome in some.only("group", "offset", "outcome")
    }


def test_a_commit_has_the_outcome_of_its_transaction(tmp_path: Path) -> None:
    text = (
        "D 1 0 0-0 @0-0 T; M 1 0 C 0 @1; D 1 1 0-0 @2-2 T; M 1 1 A 0 @3; D -1 -1 -1--1 @4-4 N; D 2 0 0-0 @5-5 T; "
        "D 1 2 0-0 @6-6 T; M 1 2 C 0 @7"
    )
    committed = {offset: ("g", "t-0", offset) for offset in (0, 2, 4, 5, 6)}
    forge_offsets(tmp_path, text.replace("D -1 -1 -1--1 @4-4 N", "D 3 0 0-0 @4-4 N"), committed)
    outcomes = {offset: outcome for (_, offset), outcome in _outcomes(tmp_path).items()}
    assert outcomes == {0: "committed", 2: "aborted", 4: None, 5: "pending", 6: "committed"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_pending_groups_are_those_without_a_stable_offset(scenario: str) -> None:
    """No other group has pending commits."""
    unstable = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))["unstable"]
    outcomes = _outcomes(SAMPLES / scenario)
    assert {group for (group, _), outcome in outcomes.items() if outcome == "pending"} == set(unstable)
    assert "committed" in outcomes.values()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_waiting_partitions_are_those_without_a_stable_offset(scenario: str) -> None:
    """Partition by partition: a group may have a stable offset in one and none in another."""
    unstable = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))["unstable"]
    states = [examine(one, Rules(NOW)) for one in partitions_under(SAMPLES / scenario)]
    offsets = [state for state in states if state.partition.place.topic == CONSUMER_OFFSETS]
    waiting = {key for state in offsets for key in group_commits(state).waiting}
    assert waiting == {(group, *_split(name)) for group, partitions in unstable.items() for name in partitions}


def _split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)
