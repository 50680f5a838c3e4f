"""Which cluster a log directory belongs to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES, partitions_under

DATA = "D 1 0 0-0 @0-0 N"


def _log_dir(folder: Path, cluster_id: str | None, topic: str = "t") -> None:
    forge(folder, DATA, topic=topic)
    named = "" if cluster_id is None else f"cluster.id={cluster_id}\n"
    (folder / "meta.properties").write_text(f"version=0\nbroker.id=1\n{named}", "ascii")


def _names(partitions: list[Partition]) -> dict[str, str]:
    clusters = Clusters.of(partitions)
    return {Path(partition.log_dir.path or "").name: clusters.name_of(partition) for partition in partitions}


def test_brokers_of_one_cluster_have_its_id() -> None:
    partitions = partitions_under(SAMPLES / "replication")
    assert len({partition.log_dir.path for partition in partitions}) == 3
    (name,) = {*_names(partitions).values()}
    (given,) = (SAMPLES / "replication" / "broker-1" / "meta.properties").read_text("ascii").split("cluster.id=")[1:]
    assert name == given.split()[0].replace("\\", "")
    clusters = Clusters.of(partitions)
    assert clusters.coordinated == {name}
    assert not clusters.grouped


def test_a_log_directory_without_a_cluster_id_belongs_to_the_only_cluster(tmp_path: Path) -> None:
    for name, cluster_id in (("a", "one"), ("b", None)):
        _log_dir(tmp_path / name, cluster_id, name)
    assert _names(partitions_under(tmp_path)) == {"a": "one", "b": "one"}


def test_with_several_clusters_a_log_directory_without_an_id_is_its_own_cluster(tmp_path: Path) -> None:
    for name, cluster_id in (("a", "one"), ("b", "two"), ("c", None), ("d", None)):
        _log_dir(tmp_path / name, cluster_id)
    alone = {name: str(tmp_path / name) for name in "cd"}
    assert _names(partitions_under(tmp_path)) == {"a": "one", "b": "two", **alone}


def test_log_directories_without_ids_are_one_cluster(tmp_path: Path) -> None:
    _log_dir(tmp_path / "a", None)
    _log_dir(tmp_path / "b", None, "__consumer_offsets")
    partitions = partitions_under(tmp_path)
    assert {*_names(partitions).values()} == {""}
    clusters = Clusters.of(partitions)
    assert clusters.grouped == {""}
    assert clusters.has_cluster_checks("")


def test_a_partition_folder_belongs_to_the_cluster_of_its_log_directory(tmp_path: Path) -> None:
    _log_dir(tmp_path, "one")
    (partition,) = partitions_under(tmp_path / "t-0")
    assert partition.log_dir.cluster_id == "one"


def test_a_damaged_file_has_no_cluster_id(tmp_path: Path) -> None:
    _log_dir(tmp_path, None)
    (tmp_path / "meta.properties").write_bytes(b"\xff\xfe")
    (partition,) = partitions_under(tmp_path)
    assert partition.log_dir.cluster_id is None


def test_copies_of_different_times_are_distinguished_by_their_folders(tmp_path: Path) -> None:
    """A broker has a partition only once; if all of a log directory are there twice, the cluster was copied twice."""
    for when in ("monday", "tuesday"):
        for broker in (1, 2):
            folder = tmp_path / when / f"broker-{broker}"
            _log_dir(folder, "one", f"t{broker}")
            (folder / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=one\n", "ascii")
    partitions = partitions_under(tmp_path)
    clusters = Clusters.of(partitions)
    names = {partition.folder: clusters.name_of(partition) for partition in partitions}
    for when in ("monday", "tuesday"):
        assert {name for folder, name in names.items() if when in folder} == {f"one in {tmp_path / when}"}


@pytest.mark.parametrize("shared", [True, False])
def test_a_topic_that_was_recreated_between_two_copies_does_not_make_clones(tmp_path: Path, shared: bool) -> None:
    """Clones of a cluster have no topic with the same id."""
    for broker in (1, 2):
        folder = tmp_path / f"host-{broker}" / "data"
        _log_dir(folder, "one", "t" if shared else f"t{broker}")
        forge(folder, DATA, topic="again")
        topic_id = str(broker) * 22
        (folder / "again-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}", "ascii")
        (folder / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=one\n", "ascii")
    partitions = partitions_under(tmp_path)
    clusters = Clusters.of(partitions)
    assert bool(clusters.copies) is not shared
    assert len({clusters.name_of(partition) for partition in partitions}) == (1 if shared else 2)


def test_several_log_directories_of_a_broker_are_not_copies(tmp_path: Path) -> None:
    for disk in ("disk-1", "disk-2"):
        _log_dir(tmp_path / disk, "one", disk)
    partitions = partitions_under(tmp_path)
    clusters = Clusters.of(partitions)
    assert not clusters.copies
    assert len({clusters.name_of(partition) for partition in partitions}) == 1


@pytest.mark.parametrize(
    ("ids", "shared", "copied"),
    [
        (("A" * 22, "B" * 22), 1, False),  # moved to another disk during the copy
        (("A" * 22, "B" * 22), 3, False),
        ((None, None), 1, False),  # before 3.7
        ((None, None), 2, True),
        ((None, "B" * 22), 1, False),
        ((None, "B" * 22), 3, True),
        (("A" * 22, "A" * 22), 1, True),  # the same disk, copied twice
    ],
)
def test_disks_that_share_a_moved_partition_are_not_copies(
    ids: tuple[str | None, str | None], shared: int, copied: bool, tmp_path: Path
) -> None:
    """It was copied from the first disk, moved, or deleted and created again, and copied from the second one."""
    for disk, directory_id in zip(("disk-1", "disk-2"), ids, strict=True):
        for number in range(3):
            topic = f"both-{number}" if number < shared else f"{disk}-{number}"
            _log_dir(tmp_path / "broker-1" / disk, "one", topic)
        named = "" if directory_id is None else f"directory.id={directory_id}\n"
        meta = tmp_path / "broker-1" / disk / "meta.properties"
        meta.write_text(f"version=1\nnode.id=1\ncluster.id=one\n{named}", "ascii")
    clusters = Clusters.of(partitions_under(tmp_path))
    assert bool(clusters.copies) is copied


def test_clusters_that_were_set_up_with_the_same_id_are_told_apart(tmp_path: Path) -> None:
    """As with an example configuration; brokers before 2.8 have no topic ids that would show it."""
    for case, topic in (("first", "orders"), ("second", "payments")):
        for each in (topic, f"more-{topic}", f"other-{topic}", "shared"):
            _log_dir(tmp_path / case / "broker-1", "one", each)
    assert Clusters.of(partitions_under(tmp_path)).copies


def _three_brokers(root: Path, inner: str) -> None:
    """Each broker has a topic of its own, and one that all have; ids show that they are of one cluster."""
    for broker in (1, 2, 3):
        _broker(root / f"broker-{broker}" / inner, broker)


def _broker(folder: Path, broker: int, records: int = 1) -> None:
    for topic in ("shared", f"t{broker}"):
        forge(folder, f"D 1 0 0-{records - 1} @0-{records - 1} N", topic=topic)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=one\n", "ascii")


def _groups(root: Path) -> set[frozenset[str]]:
    partitions = partitions_under(root)
    clusters, groups = Clusters.of(partitions), dict[str, set[str]]()
    for partition in partitions:
        folder = str(Path(partition.log_dir.path or "").relative_to(root)).split("/var")[0]
        groups.setdefault(clusters.name_of(partition), set()).add(folder)
    return set(map(frozenset, groups.values()))


@pytest.mark.parametrize("copy", ["broker-1-before", "broker-1.bak", "a-first-try"])
def test_a_second_copy_of_one_broker_does_not_part_the_others(copy: str, tmp_path: Path) -> None:
    """The newest copy of the broker stays with the other brokers, however deep their log directories lie."""
    _three_brokers(tmp_path, "var/lib/kafka/data")
    _broker(tmp_path / copy / "var/lib/kafka/data", 1)
    _broker(tmp_path / "broker-1/var/lib/kafka/data", 1, records=9)
    assert _groups(tmp_path) == {frozenset({"broker-1", "broker-2", "broker-3"}), frozenset({copy})}


def test_copies_of_two_days_are_two_groups_however_deep_the_log_directories_lie(tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        _three_brokers(tmp_path / day, "disk-1")
    days = {frozenset(f"{day}/broker-{broker}/disk-1" for broker in (1, 2, 3)) for day in ("monday", "tuesday")}
    assert _groups(tmp_path) == days


@pytest.mark.parametrize(("ids", "copied"), [(("A" * 22, "B" * 22), False), ((None, None), True)])
def test_disks_in_folders_of_their_own_are_told_by_their_ids(
    ids: tuple[str | None, str | None], copied: bool, tmp_path: Path
) -> None:
    """A partition was moved from one to the other while they were copied; each has partitions of its own."""
    for disk, directory_id in zip(("data-0", "data-1"), ids, strict=True):
        folder = tmp_path / disk / "kafka-log1"
        for topic in ("moved", *(f"{disk}-{each}" for each in range(3))):
            _log_dir(folder, "one", topic)
        named = "" if directory_id is None else f"directory.id={directory_id}\n"
        (folder / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id=one\n{named}", "ascii")
    assert bool(Clusters.of(partitions_under(tmp_path)).copies) is copied


def test_metadata_logs_do_not_show_that_log_directories_are_of_one_cluster(tmp_path: Path) -> None:
    """The topic id of the metadata log is the same in every cluster."""
    for case, topic_id in (("first", "1"), ("second", "2")):
        for topic, number in (("orders", topic_id * 22), ("__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ")):
            _log_dir(tmp_path / case / "broker", None, topic)
            metadata = tmp_path / case / "broker" / f"{topic}-0" / "partition.metadata"
            metadata.write_text(f"version: 0\ntopic_id: {number}", "ascii")
        (tmp_path / case / "broker" / "meta.properties").unlink()
        (tmp_path / case / "broker" / "recovery-point-offset-checkpoint").write_text("0\n0\n", "ascii")
    assert _groups(tmp_path) == {frozenset({"first/broker"}), frozenset({"second/broker"})}


def test_of_copies_of_each_broker_the_newest_are_one(tmp_path: Path) -> None:
    """As after ``rsync`` into a folder per host and day; the sizes of segments, which begin small, do not matter."""
    for broker in (1, 2):
        for day, name in enumerate(("monday", "tuesday")):
            folder = tmp_path / f"host-{broker}" / name
            _broker(folder, broker, records=9 if (broker, day) in {(1, 0), (2, 1)} else 1)
            for path in filter(Path.is_file, folder.rglob("*")):
                os.utime(path, (1_700_000_000 + 86_400 * day,) * 2)
    assert _groups(tmp_path) == {
        frozenset(f"host-{broker}/{name}" for broker in (1, 2)) for name in ("monday", "tuesday")
    }


def test_many_copies_of_a_broker_are_grouped_at_once() -> None:
    """Once the time grew with the fourth power of their number."""
    names = ("cluster", "directory", "topic")
    members = [
        PartitionMembership(names[0], f"/backups/day-{day}/broker-1", 1, names[2], number, "1" * 22, names[1])
        for day in range(300)
        for number in range(3)
    ]
    clusters = Clusters.of_members(members)
    assert len({*map(clusters.name_of_member, members)}) == 300


def test_clusters_with_one_id_are_not_joined_because_they_have_nothing_in_common(tmp_path: Path) -> None:
    """As those of a lab, which all have the id of its configuration, in folders of their own."""
    for case, broker, topic in (("a", 1, "t"), ("a", 2, "t"), ("b", 1, "t"), ("c", 3, "u")):
        folder = tmp_path / case / f"broker-{broker}"
        _log_dir(folder, "one", topic)
        (folder / f"{topic}-0" / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {'123'['abc'.index(case)] * 22}", "ascii"
        )
        (folder / "meta.properties").write_text(f"version=1\nnode.id={broker}\ncluster.id=one\n", "ascii")
    expected = {frozenset({"a/broker-1", "a/broker-2"}), frozenset({"b/broker-1"}), frozenset({"c/broker-3"})}
    assert _groups(tmp_path) == expected
