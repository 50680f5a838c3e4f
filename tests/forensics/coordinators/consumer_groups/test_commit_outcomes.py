"""How the transactions ended that committed offsets of groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_result import group_commits
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.clusters import forge_offsets
from tests.forensics.events import NOW

SCENARIOS = ("consume-transform-produce", "consume-transform-produce-v1", "consume-transform-produce-3.9")


def _outcomes(folder: Path) -> dict[tuple[str, int], str | None]:
    """Return for each record with an offset, by group and its own offset, what became of it."""
    rows: list[Rows] = []
    for one in partitions_under(folder):
        if one.place.topic == CONSUMER_OFFSETS:
            group_commits(examine(one, Rules(NOW)), rows.append)
    return {(group, offset): said for some in rows for group, offset, said in some.only("group", "offset", "outcome")}


def test_a_commit_is_as_its_transaction_ended(tmp_path: Path) -> None:
    text = (
        "D 1 0 0-0 @0-0 T; M 1 0 C 0 @1; D 1 1 0-0 @2-2 T; M 1 1 A 0 @3; D -1 -1 -1--1 @4-4 N; D 2 0 0-0 @5-5 T; "
        "D 1 2 0-0 @6-6 T; M 1 2 C 0 @7"
    )
    committed = {offset: ("g", "t-0", offset) for offset in (0, 2, 4, 5, 6)}
    forge_offsets(tmp_path, text.replace("D -1 -1 -1--1 @4-4 N", "D 3 0 0-0 @4-4 N"), committed)
    found = {offset: said for (_, offset), said in _outcomes(tmp_path).items()}
    assert found == {0: "committed", 2: "aborted", 4: None, 5: "pending", 6: "committed"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_groups_that_wait_are_those_that_gave_no_stable_offset(scenario: str) -> None:
    """And nobody else has anything pending."""
    unstable = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))["unstable"]
    found = _outcomes(SAMPLES / scenario)
    assert {group for (group, _), said in found.items() if said == "pending"} == set(unstable)
    assert "committed" in found.values()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_waits_is_what_the_broker_did_not_give_as_stable(scenario: str) -> None:
    """Partition by partition: a group may have a stable offset in one and none in another."""
    unstable = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))["unstable"]
    cases = [examine(one, Rules(NOW)) for one in partitions_under(SAMPLES / scenario)]
    offsets = [case for case in cases if case.partition.place.topic == CONSUMER_OFFSETS]
    waiting = {key for case in offsets for key in group_commits(case).waiting}
    assert waiting == {(group, *_split(name)) for group, partitions in unstable.items() for name in partitions}


def _split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)
