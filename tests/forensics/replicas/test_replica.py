"""Which copies are replicas of one partition, their names, and how far they were cleaned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.audit.copies import compare_copies, replica_findings
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.differences import DifferenceKind
from kforensics.forensics.replicas.replica import all_copies_of, replica_groups, replicas_of
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.forensics.replicas.replicas import GROUPS, RULES, compare, compared_group, forged


def _folders(group: Iterable[Partition]) -> list[str]:
    return [Path(one.folder).name.partition(".")[0] for one in group]


def test_the_copies_of_three_brokers_belong_together() -> None:
    assert {name: len(group) for name, group in GROUPS.items()} == {
        "__cluster_metadata-0": 3,
        "__transaction_state-0": 3,
        "durable-0": 3,
        "reassigned-0": 3,
        "replicated-0": 3,
        "replicated-1": 3,
        "stray-0": 2,
        "unclean-0": 2,
    }


def test_copies_that_brokers_have_set_aside_are_among_them() -> None:
    """A reassigned replica is deleted; one whose topic was deleted meanwhile is stray."""
    assert [one.name for one in compared_group("reassigned-0").replicas] == [
        "the deleted copy of broker 1",
        "broker 2",
        "broker 3",
    ]
    assert [one.name for one in compared_group("stray-0").replicas] == [
        "the stray copy of broker 1",
        "the deleted copy of broker 2",
    ]


def test_a_copy_that_moves_to_another_disk_is_a_replica(tmp_path: Path) -> None:
    forge(tmp_path / "disk-1", "plain @0-4; plain @5-9")
    forge(tmp_path / "disk-2", "plain @0-4")
    future = tmp_path / "disk-2" / "t-0.0123456789abcdef0123456789abcdef-future"
    (tmp_path / "disk-2" / "t-0").rename(future)
    (group,) = replica_groups(all_copies_of(row for row in discover([str(tmp_path)]) if isinstance(row, FoundFile)))
    comparison = compare_copies(group, RULES)
    assert [one.name for one in comparison.replicas] == ["broker 1", "the future copy of broker 1"]
    assert [one.kind for one in comparison.differences] == [DifferenceKind.BEHIND]
    assert replica_findings(comparison) == ()


def test_copies_with_the_same_name_are_named_by_their_folders(tmp_path: Path) -> None:
    forge(tmp_path / "disk-1", "plain @0-4")
    forge(tmp_path / "disk-2", "plain @0-4")
    names = [one.name for one in compare(tmp_path).replicas]
    assert names == [str(tmp_path / "disk-1" / "t-0"), str(tmp_path / "disk-2" / "t-0")]


def test_copies_of_recreated_topics_are_not_replicas_of_each_other(tmp_path: Path) -> None:
    forged(tmp_path, ("plain @0", {}), ("plain @0", {}))
    one, other = partitions_under(tmp_path)
    assert replica_groups([one, other]) == [(one, other)]
    assert replica_groups([one, replace(other, topic_id="another")]) == []
    without_id = replace(other, topic_id=None)
    assert replica_groups([one, without_id]) == [(one, without_id)]
    assert replica_groups([one, replace(one, topic_id="another"), without_id]) == []


def test_partitions_of_a_single_broker_have_no_replicas() -> None:
    assert replica_groups(partitions_under(SAMPLES / "compaction")) == []


def test_a_follower_of_a_cleaned_leader_has_no_findings(tmp_path: Path) -> None:
    """Its own cleaner has not run; the leader has cleaned more since, and a third replica was never cleaned."""
    whole = "; ".join(f"plain @{offset}" for offset in range(7))
    records = {at: [(b"k", b"%d" % at)] for at in range(8)}
    forged(
        tmp_path,
        ({0: "plain @6", 7: "plain @7"}, {"compacted": True, "records": records}),
        ({0: "plain @2; plain @5; plain @6", 7: "plain @7"}, {"records": records}),
        ({0: whole, 7: "plain @7"}, {"records": records}),
    )
    comparison = compare(tmp_path)
    assert {one.kind for one in comparison.differences} == {DifferenceKind.CLEANED}
    assert [(one.first_offset, one.last_offset) for one in comparison.differences] == [(2, 5), (0, 5), (0, 4)]
    assert replica_findings(comparison) == ()


def test_an_epoch_starts_at_the_checkpointed_offset_or_at_its_first_batch(tmp_path: Path) -> None:
    """Its first batch may have been removed by the cleaner; a broker may stop before it checkpoints an epoch."""
    checkpoint = {"t-0/leader-epoch-checkpoint": b"0\n2\n0 0\n3 4\n"}
    log = {0: "plain @0-2; plain @6", 7: "plain @7"}
    forge(tmp_path, log, leader_epochs={0: 0, 6: 3, 7: 5}, compacted=True, replaced=checkpoint)
    (replica,) = replicas_of([examine(one, RULES) for one in partitions_under(tmp_path)])
    assert replica.epoch_starts == ((0, 0), (3, 4), (5, 7))
    assert replica.checkpointed_epochs == {0: 0, 3: 4}


@pytest.mark.parametrize("content", [b"0\n1\n0 -4\n", b"0\nmany\n", None], ids=["negative", "unparsable", "absent"])
def test_an_epoch_checkpoint_that_a_broker_would_reject_is_ignored(tmp_path: Path, content: bytes | None) -> None:
    forge(tmp_path, "plain @0; plain @1", leader_epochs={0: 2}, replaced={"t-0/leader-epoch-checkpoint": content})
    (replica,) = replicas_of([examine(one, RULES) for one in partitions_under(tmp_path)])
    assert replica.epoch_starts == ((2, 0),)


def test_an_empty_replica_lacks_everything(tmp_path: Path) -> None:
    forged(tmp_path, ("plain @0-4", {}), ({0: ""}, {"high_watermark": 0}))
    (found,) = replica_findings(compare(tmp_path))
    assert (found.code.name, found.first_offset, found.last_offset) == ("replica-truncated", 0, 4)
