"""The explanation of a transactional id: as its coordinator described it, and as its partitions show it."""

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
from kforensics.render.explanation_text import transactional_id_lines
from tests.forensics.coordinators.clusters import at, cluster_under, forge_coordinator
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES

SCENARIOS = ("transactions-v0", "transactions-v1", "transactions-v2")
LISTED = "{p-0,p-1}"


def story_of(cluster: Cluster, transactional_id: str) -> TransactionalIdStory:
    """Return the explanation of an id that the coordinator has."""
    story = transactional_id_story(cluster, transactional_id)
    assert story is not None
    return story


def _coordinated(folder: Path, last: str) -> None:
    forge_coordinator(folder, f"a Empty 1 0 t 0; a Ongoing 1 0 {LISTED} t 10; {last}")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ids_are_as_their_coordinator_described_them(scenario: str) -> None:
    cluster = cluster_under(SAMPLES / scenario)
    described = json.loads((SAMPLES / scenario / "truth.json").read_bytes())["transactions"]
    assert described
    for name, truth in described.items():
        story = story_of(cluster, name)
        facts = {key: story.facts[key] for key in ("producer_id", "producer_epoch")}
        assert {"state": story.state, **facts} == {key: truth[key] for key in ("state", *facts)}, name
        assert truth["producer_id"] in story.producer_ids, name
        undecided = story.transactions[-1].partition_names("undecided") if story.transactions else []
        assert sorted(undecided) == sorted(
            f"{topic}-{number}" for topic, number in map(_pair, truth["topic_partitions"])
        ), name


def _pair(partition: object) -> tuple[str, int]:
    if isinstance(partition, dict):
        return partition["topic"], partition["partition"]
    topic, _, number = str(partition).rpartition("-")
    return topic, int(number)


def test_orphaned_data_of_an_id_is_reported() -> None:
    cluster = cluster_under(SAMPLES / "transactions-v2")
    story = story_of(cluster, "hanging")
    assert [(orphan.partition, orphan.producer_id, orphan.first_offset) for orphan in story.orphaned] == [
        (("hanging", 0), 12, 3)
    ]
    assert [transaction.partition_names("marked") for transaction in story.transactions] == [["hanging-0"]]
    assert story_of(cluster, "open-first").orphaned == ()


def test_partitions_with_and_without_markers(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a PrepareCommit 1 0 {LISTED} t 20; a CompleteCommit 1 0 {{}} t 40")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; M 1 0 C 0 @1 {at(30)}", topic="p", partition=0)
    forge(
        tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; D 2 0 0-0 @1-1 T {at(50)}; M 2 0 C 0 @2 {at(60)}", topic="p", partition=1
    )
    (transaction,) = story_of(cluster_under(tmp_path), "a").transactions
    assert {listed.partition: listed.verdict for listed in transaction.partitions} == {
        ("p", 0): "marked",
        ("p", 1): "missing",
    }
    marked, missing = transaction.partitions
    assert marked.marker is not None
    assert (marked.marker["marker_offset"], marked.marker["first_offset"]) == (1, 0)
    assert (missing.marker, missing.open_from) == (None, 0)


def test_a_partition_that_is_not_under_the_paths_is_not_available(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a PrepareCommit 1 0 {LISTED} t 20; a CompleteCommit 1 0 {{}} t 40")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; M 1 0 C 0 @1 {at(30)}", topic="p", partition=0)
    story = story_of(cluster_under(tmp_path), "a")
    assert story.transactions[0].partition_names("not-on-hand") == ["p-1"]


def test_an_ongoing_transaction_is_undecided_in_all_partitions(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a Ongoing 1 0 {LISTED} t 15")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}", topic="p", partition=0)
    story = story_of(cluster_under(tmp_path), "a")
    (transaction,) = story.transactions
    assert (story.state, transaction.partition_names("undecided")) == ("Ongoing", ["p-0", "p-1"])
    assert [listed.open_from for listed in transaction.partitions] == [0, None]
    assert story.orphaned == ()


def test_data_whose_marker_is_awaited_is_not_orphaned(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a PrepareCommit 1 0 {LISTED} t 20")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}; M 1 0 C 0 @1 {at(30)}", topic="p", partition=0)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(15)}", topic="p", partition=1)
    story = story_of(cluster_under(tmp_path), "a")
    assert story.transactions[0].partition_names("awaited") == ["p-1"]
    assert story.orphaned == ()


def test_an_id_whose_records_were_compacted_has_no_partitions(tmp_path: Path) -> None:
    others = "b Empty 2 0 t 15; b Ongoing 2 0 {p-3} t 20; c Empty 3 0 t 25; c Ongoing 3 0 {p-4} t 30"
    forge_coordinator(tmp_path, f"a CompleteCommit 1 0 {{}} t 10; {others}")
    (history,) = cluster_under(tmp_path).coordinators.histories
    assert partitions_of_id(history, "a") == set()
    assert partitions_of_id(history, "b") == {("p", 3)}


def test_an_unknown_id_has_no_story(tmp_path: Path) -> None:
    _coordinated(tmp_path, f"a Ongoing 1 0 {LISTED} t 15")
    cluster = cluster_under(tmp_path)
    assert transactional_id_story(cluster, "b") is None
    (history,) = cluster.coordinators.histories
    assert partitions_of_id(history, "a") == {("p", 0), ("p", 1)}
    assert partitions_of_id(history, "b") == set()


def test_the_coordinator_partition_of_an_id_is_that_of_kafka() -> None:
    for path in SAMPLES.glob("transactions-v*/truth.json"):
        names = json.loads(path.read_bytes())["transactions"]
        assert {coordinator_partition(name, 1) for name in names} == {0}
    # The value of Java's String.hashCode.
    assert coordinator_partition("id-a", 50) == 3225647 % 50


@pytest.mark.parametrize(("epoch", "follows"), [(0, False), (1, True)])
def test_open_data_of_a_newer_epoch_than_that_of_the_coordinators_log(
    *, epoch: int, follows: bool, tmp_path: Path
) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0")
    forge(tmp_path, f"D 1 {epoch} 0-0 @0-0 T {at(15)}", topic="p", partition=0)
    (orphan,) = (story := story_of(cluster_under(tmp_path), "a")).orphaned
    assert orphan.follows_copy is follows
    last = [*transactional_id_lines(story)][-1]
    words = (
        "and the copy of the coordinator's log may end before that" if follows else "but the coordinator has no ongoing"
    )
    assert f"open in p-0, {words}" in last
