"""The story of a transactional id: as its coordinator described it, and as its partitions have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.explain.transactional_id_story import (
    TransactionalIdStory,
    coordinator_partition,
    partitions_of_id,
    transactional_id_story,
)
from tests.forensics.cases import SAMPLES
from tests.forensics.coordinators.clusters import at, cluster_under, forge_coordinator
from tests.forensics.forge import forge

SCENARIOS = ("transactions-v0", "transactions-v1", "transactions-v2")
LISTED = "{p-0,p-1}"


def told(cluster: Cluster, transactional_id: str) -> TransactionalIdStory:
    """Return the story of an id that the coordinator knows."""
    story = transactional_id_story(cluster, transactional_id)
    assert story is not None
    return story


def _coordinated(folder: Path, last: str) -> None:
    forge_coordinator(folder, f"a Empty 1 0 t 0; a Ongoing 1 0 {LISTED} t 10; {last}")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ids_are_as_their_coordinator_described_them(scenario: str) -> None:
    cluster = cluster_under(SAMPLES / scenario)
    said = json.loads((SAMPLES / scenario / "truth.json").read_bytes())["transactions"]
    assert said
    for name, truth in said.items():
        story = told(cluster, name)
        facts = {key: story.facts[key] for key in ("producer_id", "producer_epoch")}
        assert {"state": story.state, **facts} == {key: truth[key] for key in ("state", *facts)}, name
        assert truth["producer_id"] in story.producer_ids, name
        listed = story.transactions[-1].partitions("undecided") if story.transactions else []
        assert sorted(listed) == sorted(f"{one[0]}-{one[1]}" for one in map(_pair, truth["topic_partitions"])), name


def _pair(partition: object) -> tuple[str, int]:
    if isinstance(partition, dict):
        return partition["topic"], partition["partition"]
    topic, _, number = str(partition).rpartition("-")
    return topic, int(number)


def test_what_hangs_of_an_id_is_told() -> None:
    cluster = cluster_under(SAMPLES / "transactions-v2")
    story = told(cluster, "hanging")
    assert [(one.partition, one.producer_id, one.first_offset) for one in story.strays] == [(("hanging", 0), 12, 3)]
    assert [one.partitions("marked") for one in story.transactions] == [["hanging-0"]]
    assert told(cluster, "open-first").strays == ()


def test_partitions_with_and_without_markers(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a PrepareCommit 1 0 {LISTED} t 20; a CompleteCommit 1 0 {{}} t 40")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; M 1 0 C 0 @1 {at(30)}", topic="p", partition=0)
    forge(
        tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; D 2 0 0-0 @1-1 T {at(50)}; M 2 0 C 0 @2 {at(60)}", topic="p", partition=1
    )
    (one,) = told(cluster_under(tmp_path), "a").transactions
    assert {part.partition: part.verdict for part in one.parts} == {("p", 0): "marked", ("p", 1): "missing"}
    marked, missing = one.parts
    assert marked.marker is not None
    assert (marked.marker["marker_offset"], marked.marker["first_offset"]) == (1, 0)
    assert (missing.marker, missing.open_from) == (None, 0)


def test_a_partition_that_is_not_under_the_paths_is_not_on_hand(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a PrepareCommit 1 0 {LISTED} t 20; a CompleteCommit 1 0 {{}} t 40")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; M 1 0 C 0 @1 {at(30)}", topic="p", partition=0)
    story = told(cluster_under(tmp_path), "a")
    assert story.transactions[0].partitions("not-on-hand") == ["p-1"]


def test_a_transaction_without_an_end_is_undecided_everywhere(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a Ongoing 1 0 {LISTED} t 15")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}", topic="p", partition=0)
    story = told(cluster_under(tmp_path), "a")
    (one,) = story.transactions
    assert (story.state, one.partitions("undecided")) == ("Ongoing", ["p-0", "p-1"])
    assert [part.open_from for part in one.parts] == [0, None]
    assert story.strays == ()


def test_a_marker_that_is_on_its_way_leaves_nothing_behind(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a PrepareCommit 1 0 {LISTED} t 20")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; M 1 0 C 0 @1 {at(30)}", topic="p", partition=0)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}", topic="p", partition=1)
    story = told(cluster_under(tmp_path), "a")
    assert story.transactions[0].partitions("awaited") == ["p-1"]
    assert story.strays == ()


def test_of_an_id_that_was_cleaned_no_partition_is_known(tmp_path: Path) -> None:
    others = "b Empty 2 0 t 15; b Ongoing 2 0 {p-3} t 20; c Empty 3 0 t 25; c Ongoing 3 0 {p-4} t 30"
    forge_coordinator(tmp_path, f"a CompleteCommit 1 0 {{}} t 10; {others}")
    (history,) = cluster_under(tmp_path).coordinators.histories
    assert partitions_of_id(history, "a") == set()
    assert partitions_of_id(history, "b") == {("p", 3)}


def test_an_id_nobody_knows_has_no_story(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a Ongoing 1 0 {LISTED} t 15")
    cluster = cluster_under(tmp_path)
    assert transactional_id_story(cluster, "b") is None
    (history,) = cluster.coordinators.histories
    assert partitions_of_id(history, "a") == {("p", 0), ("p", 1)}
    assert partitions_of_id(history, "b") == set()


def test_the_partition_of_a_coordinator_is_the_one_kafka_takes() -> None:
    for path in SAMPLES.glob("transactions-v*/truth.json"):
        names = json.loads(path.read_bytes())["transactions"]
        assert {coordinator_partition(name, 1) for name in names} == {0}
    # What Java's String.hashCode gives for it.
    assert coordinator_partition("id-a", 50) == 3225647 % 50
