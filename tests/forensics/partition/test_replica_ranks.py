"""Which replica of a partition counts: one of the topic that exists, then the last leader epoch, then the longest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.replica_ranks import ReplicaRank, best_ranked
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import cut, drop, file_of, forge
from tests.forensics.partition_states import HOUR, partitions_under

OLD, NEW = "HoJOmO6CS0CQhFOBlkZa7Q", "E9cxC9pbT9qjUe_QvFTLcA"
LONG, SHORT = "plain @0-13; plain @14-32", "plain @0-13"
CHECKPOINT = "t-0/leader-epoch-checkpoint"
IDS = "t-0/partition.metadata"


def with_id(topic_id: str) -> dict[str, bytes | None]:
    return {IDS: f"version: 0\ntopic_id: {topic_id}".encode()}


def chosen(folder: Path, rules: Rules | None = None) -> int | None:
    """Return the broker of the replica that counts, whatever the order is."""
    states = [examine(one, rules or Rules(NOW + HOUR)) for one in partitions_under(folder)]
    brokers = {
        one.partition.place.broker_id
        for order in permutations(states)
        for one in best_ranked(order, partition_of, ReplicaRank.of, length_of)
    }
    (broker,) = brokers
    return broker


def partition_of(state: PartitionState) -> int | None:
    return state.partition.place.partition


def length_of(state: PartitionState) -> tuple[int, ...]:
    return (state.log_end_offset,)


@pytest.mark.parametrize(
    ("log", "epochs"),
    [
        (SHORT, {0: 0, 14: 2}),
        ("plain @0-13; plain @14-15", {0: 0, 14: 2}),
        ("gone plain @0-9; plain @14-15", {14: 2}),
    ],
    ids=["has written nothing yet", "has written", "its log begins later"],
)
def test_a_later_epoch_overrules_a_longer_log(tmp_path: Path, log: str, epochs: dict[int, int]) -> None:
    """Broker 1 was elected while it lacked what the others had, which were away."""
    forge(tmp_path / "broker-1", log, node_id=1, leader_epochs=epochs)
    forge(tmp_path / "broker-2", LONG, node_id=2)
    forge(tmp_path / "broker-3", "plain @0-3", node_id=3)
    assert chosen(tmp_path) == 1


def lacks_its_end(folder: Path) -> None:
    """The leader was elected at 33, and its log ends before."""
    forge(folder, LONG, node_id=1, leader_epochs={0: 0, 33: 2})
    drop(file_of(folder / "t-0"), 14)


def is_torn(folder: Path) -> None:
    forge(folder, LONG, node_id=1, leader_epochs={0: 0, 33: 2})
    log = file_of(folder / "t-0")
    cut(log, log.stat().st_size - 9)


def has_an_old_checkpoint(folder: Path) -> None:
    """Its batches show the same epoch as those of the longer replica."""
    checkpoint: dict[str, bytes | None] = {CHECKPOINT: b"0\n1\n0 0\n"}
    forge(folder, "plain @0-13; plain @14-15", node_id=1, leader_epochs={0: 0, 14: 2}, replaced=checkpoint)


def has_a_wrong_checkpoint(folder: Path) -> None:
    """An epoch cannot begin amid batches of an earlier one."""
    forge(folder, SHORT, node_id=1, replaced={CHECKPOINT: b"0\n2\n0 0\n9 5\n"})


def is_empty(folder: Path) -> None:
    forge(folder, "", node_id=1, leader_epochs={0: 0})


@pytest.mark.parametrize("write", [lacks_its_end, is_torn, has_an_old_checkpoint, has_a_wrong_checkpoint, is_empty])
def test_otherwise_the_longest_counts(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path / "broker-1")
    epochs = {0: 0, 14: 2} if write is has_an_old_checkpoint else {0: 0}
    forge(tmp_path / "broker-2", LONG, node_id=2, leader_epochs=epochs)
    assert chosen(tmp_path) == 2


def test_the_end_of_a_leader_that_was_copied_later_counts(tmp_path: Path) -> None:
    """A follower has the epoch of the leader from its batches."""
    forge(tmp_path / "broker-1", LONG, node_id=1, leader_epochs={0: 0, 14: 2})
    forge(tmp_path / "broker-2", "plain @0-13; plain @14-20", node_id=2, leader_epochs={0: 0, 14: 2})
    assert chosen(tmp_path) == 1


def test_formats_without_leader_epochs(tmp_path: Path) -> None:
    """A topic was switched back to an older format: what is left of its epochs decides nothing."""
    forge(tmp_path / "broker-1", SHORT, node_id=1)
    forge(tmp_path / "broker-2", LONG, node_id=2, replaced={CHECKPOINT: b"0\n0\n"})
    epochs = {1: 3, 2: None}

    def rank(state: PartitionState) -> ReplicaRank:
        return replace_epoch(ReplicaRank.of(state), epochs[state.partition.place.broker_id or 0])

    states = [examine(one, Rules(NOW + HOUR)) for one in partitions_under(tmp_path)]
    (one,) = best_ranked(states, partition_of, rank, length_of)
    assert one.partition.place.broker_id == 2


def replace_epoch(rank: ReplicaRank, epoch: int | None) -> ReplicaRank:
    return rank._replace(last_epoch=epoch)


@pytest.mark.parametrize("epoch", [0, 9])
def test_a_replica_of_a_deleted_topic_does_not_count(tmp_path: Path, epoch: int) -> None:
    """Its broker was away when the topic was deleted and created again; leader epochs begin again, too."""
    forge(tmp_path / "broker-1", LONG, node_id=1, leader_epochs={0: epoch}, replaced=with_id(OLD))
    forge(tmp_path / "broker-2", "plain @0-2", node_id=2, replaced=with_id(NEW))
    rules = Rules(NOW + HOUR)
    assert chosen(tmp_path, replace(rules, deleted_topics={OLD: NOW})) == 2
    assert chosen(tmp_path, replace(rules, deleted_topics={NEW: NOW})) == 1


def test_without_the_metadata_log_the_newer_topic_counts(tmp_path: Path) -> None:
    """The metadata log may be missing, or end before the topic was deleted."""
    forge(tmp_path / "broker-1", LONG, node_id=1, leader_epochs={0: 9}, replaced=with_id(OLD))
    later = NOW + HOUR // 2
    forge(tmp_path / "broker-2", f"plain @0-2 ts {later}", node_id=2, replaced=with_id(NEW))
    assert chosen(tmp_path) == 2


@pytest.mark.parametrize("deleted", [{}, {OLD: NOW}])
def test_a_folder_without_a_topic_id_is_of_the_only_topic(tmp_path: Path, deleted: dict[str, int]) -> None:
    forge(tmp_path / "broker-1", LONG, node_id=1, replaced=with_id(OLD))
    forge(tmp_path / "broker-2", SHORT, node_id=2, replaced={IDS: None})
    assert chosen(tmp_path, replace(Rules(NOW + HOUR), deleted_topics=deleted)) == 1


def test_no_folder_has_a_topic_id(tmp_path: Path) -> None:
    forge(tmp_path / "broker-1", LONG, node_id=1, replaced={IDS: None})
    forge(tmp_path / "broker-2", SHORT, node_id=2, replaced={IDS: None})
    assert chosen(tmp_path) == 1


@pytest.mark.parametrize(("unknown", "known"), [("a", "b"), ("b", "a")])
def test_of_equal_logs_that_of_a_known_broker_counts(unknown: str, known: str, tmp_path: Path) -> None:
    """Someone has copied the folder of the partition to another place, which sorts before or after it."""
    forge(tmp_path / unknown, LONG, replaced={"meta.properties": None})
    forge(tmp_path / known, LONG, node_id=2)
    assert chosen(tmp_path) == 2


def test_of_equal_logs_that_of_a_broker_that_was_stopped_counts(tmp_path: Path) -> None:
    forge(tmp_path / "broker-1", LONG, node_id=1, clean_shutdown=False)
    forge(tmp_path / "broker-2", LONG, node_id=2)
    assert chosen(tmp_path) == 2


def test_a_longer_log_counts_whoever_has_it(tmp_path: Path) -> None:
    """The broker with the longer one was at work when its files were copied."""
    forge(tmp_path / "a", LONG, node_id=3, clean_shutdown=False, replaced={"meta.properties": None})
    forge(tmp_path / "broker-2", SHORT, node_id=2)
    assert chosen(tmp_path) is None
