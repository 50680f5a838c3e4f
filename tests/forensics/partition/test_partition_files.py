"""Which files belong to a partition, and what the files of the log directory say about it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import segments
from kforensics.forensics.partition.partition_files import (
    CLEANER,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    Partition,
    partitions_of,
)
from kforensics.forensics.partition.splits import SegmentSplit, splits_of
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.forge import cut, forge
from tests.forensics.partition_states import SAMPLES, partitions_under, state_of, state_under

LOG = "D 1 0 0-4 @0-4 T; M 1 0 A 3 @5; D 1 0 5-5 @6-6 T; M 1 0 C 3 @7"


def test_files_are_assigned_by_kind(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: LOG, 8: "plain @8-9"}, log_start=3, high_watermark=9, first_dirty=8)
    (partition,) = partitions_under(tmp_path)
    assert [segment.base_offset for segment in partition.segments] == [0, 8]
    assert (set(partition.indexes), set(partition.time_indexes), set(partition.transaction_indexes)) == (
        {0, 8},
        {0, 8},
        {0},
    )
    assert set(partition.snapshots) == {8, 10}
    assert partition.leader_epochs is not None
    checkpoints = {name: partition.checkpoint(name) for name in (LOG_START, HIGH_WATERMARK, CLEANER, RECOVERY_POINT)}
    assert checkpoints == {LOG_START: 3, HIGH_WATERMARK: 9, CLEANER: 8, RECOVERY_POINT: 10}
    assert (partition.name, partition.folder, partition.first_offset) == ("t-0", str(folder), 0)
    assert partition.log_dir.clean_shutdown
    assert partition.size == sum(path.stat().st_size for path in folder.glob("*.log"))


def test_a_partition_folder_is_read_with_the_checkpoints_of_its_log_directory(tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG, high_watermark=5)
    (partition,) = partitions_under(folder)
    assert partition.checkpoint(HIGH_WATERMARK) == 5
    assert partition.log_dir == partitions_under(tmp_path)[0].log_dir


def test_a_checkpoint_that_a_broker_would_reject_is_ignored_with_the_reason(tmp_path: Path) -> None:
    forge(tmp_path, LOG, high_watermark=5)
    cut(tmp_path / HIGH_WATERMARK, -3)
    (partition,) = partitions_under(tmp_path)
    assert partition.checkpoint(HIGH_WATERMARK) is None
    assert partition.log_dir.damaged.keys() == {HIGH_WATERMARK}


def test_partitions_are_sorted_by_log_directory_topic_and_number(tmp_path: Path) -> None:
    for topic, number in (("b", 10), ("b", 9), ("a", 0)):
        forge(tmp_path / "two", LOG, topic=topic, partition=number)
    forge(tmp_path / "one", LOG, topic="z")
    assert [partition.name for partition in partitions_under(tmp_path)] == ["z-0", "a-0", "b-9", "b-10"]


@pytest.mark.parametrize("state", ["deleted", "cleaned", "swap"])
def test_files_in_another_state_are_not_part_of_the_log(state: str, tmp_path: Path) -> None:
    folder = forge(tmp_path, LOG)
    (folder / f"00000000000000000050.log.{state}").write_bytes(b"old")
    (partition,) = partitions_under(tmp_path)
    assert len(partition.segments) == 1
    assert [other.state for other in partition.others] == [state]


def _moved(tmp_path: Path, node_id: int = 1, log: dict[int, str] | None = None) -> Path:
    """Return a log directory to which someone has moved a compacted partition, from that of a broker with some id."""
    folder = forge(tmp_path / "disk-1", log or {0: "plain @0-0; plain @7-9", 10: "plain @10-10"}, first_dirty=10)
    forge(tmp_path / "disk-2", LOG, topic="other")
    shutil.move(folder, tmp_path / "disk-2")
    (tmp_path / "disk-2" / CLEANER).write_text("0\n0\n")
    for disk in ("disk-1", "disk-2"):
        meta = f"version=1\nnode.id={node_id if disk == 'disk-1' else 1}\ndirectory.id={disk:A<22}\n"
        (tmp_path / disk / "meta.properties").write_text(meta)
    return tmp_path / "disk-2"


def _of_topic(folder: Path, topic: str) -> Partition:
    (partition,) = (partition for partition in partitions_under(folder) if partition.place.topic == topic)
    return partition


def test_the_cleaner_knows_a_partition_that_was_moved_to_another_log_directory_by_hand(tmp_path: Path) -> None:
    _moved(tmp_path)
    state = state_of(_of_topic(tmp_path, "t"))
    assert (state.first_dirty_offset, state.is_known_uncleaned) == (10, False)
    assert _of_topic(tmp_path, "other").checkpoint(CLEANER) is None


@pytest.mark.parametrize("why", ["another broker", "another copy", "still there", "not given"])
def test_the_entry_of_another_log_does_not_count(why: str, tmp_path: Path) -> None:
    """Its log directory is that of another broker, a copy of the same one, has the partition, or is not in sight."""
    disk = _moved(tmp_path, 2 if why == "another broker" else 1)
    if why == "another copy":
        for path in tmp_path.glob("*/meta.properties"):
            path.write_text(path.read_text().replace("disk-2", "disk-1"))
    elif why == "still there":
        (tmp_path / "disk-1" / "t-0").mkdir()
    state = state_of(_of_topic(disk if why == "not given" else tmp_path, "t"))
    assert (state.first_dirty_offset, state.is_known_uncleaned) == (None, True)


def test_the_entry_of_a_moved_partition_does_not_explain_a_loss_above_it(tmp_path: Path) -> None:
    """It is reported as in the log directory that it was moved from, which has the entry itself."""
    log = {0: "plain @0-0; plain @7-9", 10: "plain @10-10", 20: "plain @20-20"}
    forge(tmp_path / "before", log, first_dirty=10)
    before, moved = (
        state_under(tmp_path / "before"),
        state_of(_of_topic(_moved(tmp_path / "moved", log=log).parent, "t")),
    )
    assert moved.first_uncompacted_offset == before.first_uncompacted_offset == 10
    lost = [[(one.severity, one.message, one.benign) for one in segments.findings(state)] for state in (before, moved)]
    assert lost[0] == lost[1] != []


def test_a_folder_marked_for_deletion_is_not_a_partition() -> None:
    files = [row for row in discover([str(SAMPLES / "deletion")]) if isinstance(row, FoundFile)]
    marked = {row.topic for row in files if row.state == "deleted" and row.path.endswith(".log")}
    assert marked
    assert not [partition.folder for partition in partitions_of(files) if partition.folder.endswith("-delete")]


def test_a_large_segment_is_split_at_sound_batches_that_its_index_names(tmp_path: Path) -> None:
    log = "; ".join(f"plain @{offset}-{offset}" for offset in range(50))
    folder = forge(tmp_path, log)
    (partition,) = partitions_under(tmp_path)
    splits = splits_of(partition, 400)
    assert len(splits) > 5
    assert [split.stop for split in splits[:-1]] == [split.start for split in splits[1:]]
    assert (splits[0].start, splits[-1].stop) == (0, None)
    # A wrong index names no position to split at.
    (folder / "00000000000000000000.index").write_bytes(bytes.fromhex("00000001000000070000000200000190"))
    (partition,) = partitions_under(tmp_path)
    assert splits_of(partition, 100) == [SegmentSplit(0)]
    assert splits_of(replace(partition, indexes={}), 100) == [SegmentSplit(0)]
