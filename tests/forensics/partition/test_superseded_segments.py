"""Copies that have segments which were no longer in the log: merged by a cleaner, or deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kforensics
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from tests.forensics.coordinators.clusters import forge_coordinator
from tests.forensics.forge import cut, file_of, forge, patch
from tests.forensics.forged_state import SnapshotEntry
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.parsers.builders import message

FIRST = "D 1 0 0-4 @0-4 T; M 1 0 A 3 @5"
SECOND = "D 1 1 0-3 @6-9 T; D 2 0 0-3 @10-13 T; M 1 1 C 3 @14; M 2 0 C 3 @15"
THIRD = "D 1 2 0-4 @16-20 T; M 1 2 C 3 @21"
LAST = "plain @22-29"
WRITTEN = {0: FIRST, 6: SECOND, 16: THIRD, 22: LAST}
CLEANED_SECOND = "gone D 1 1 0-3 @6-9 T; D 2 0 0-3 @10-13 T cnt 1; M 1 1 C 3 @14; M 2 0 C 3 @15"
CLEANED = f"gone D 1 0 0-4 @0-4 T; M 1 0 A 3 @5; {CLEANED_SECOND}; {THIRD}"


def hot_copy(
    folder: Path, merged: str = CLEANED, *, first_dirty: int | None = 22, clean_shutdown: bool = False
) -> Path:
    """Write what a cleaner has merged, and beside it the second of the segments as it was; return the partition."""
    before = forge(folder / "before", WRITTEN)
    partition = forge(
        folder / "copy", {0: merged, 22: LAST}, first_dirty=first_dirty, clean_shutdown=clean_shutdown, snapshots={}
    )
    for kind in ("log", "index", "timeindex"):
        shutil.copy2(file_of(before, 6, kind), partition)
    return partition


def superseded_in(partition: Path) -> list[str]:
    """Return the names of the files that are not read."""
    (found,) = partitions_under(partition.parent)
    return [Path(file.path).name for file in found.superseded]


def severities(partition: Path) -> dict[str, str]:
    """Return the codes of an audit's findings with their severities."""
    rows = kforensics.audit(str(partition.parent)).tables["findings"].to_pylist()
    return {row["code"]: row["severity"] for row in rows}


def test_what_two_segments_have_is_replayed_once(tmp_path: Path) -> None:
    partition = hot_copy(tmp_path)
    names = [file_of(partition, 6, kind).name for kind in ("log", "index", "timeindex")]
    assert superseded_in(partition) == names
    (found,) = partitions_under(partition.parent)
    producers = examine(found, Rules(0)).producers
    assert producers["producer_epoch"].tolist() == [2, 0]
    found_here = severities(partition)
    assert found_here["segment-overlap"] == "info"
    assert set(found_here.values()) <= {"info"}


def test_the_finding_names_what_is_not_read(tmp_path: Path) -> None:
    partition = hot_copy(tmp_path)
    rows = kforensics.audit(str(partition.parent)).tables["findings"].to_pylist()
    (row,) = (row for row in rows if row["code"] == "segment-overlap")
    assert (row["first_offset"], row["last_offset"], row["path"]) == (6, 21, str(file_of(partition)))
    assert f"{file_of(partition, 6).name} has the same batches from before the cleaner merged the two" in row["message"]


def test_a_folder_copied_into_twice_has_segments_from_before_the_broker_cleaned_and_stopped(tmp_path: Path) -> None:
    """A stopped broker has no such segments, but one that starts on the folder would read both."""
    partition = hot_copy(tmp_path, clean_shutdown=True)
    assert superseded_in(partition) == [file_of(partition, 6, kind).name for kind in ("log", "index", "timeindex")]
    rows = kforensics.audit(str(partition.parent)).tables["findings"].to_pylist()
    (row,) = (row for row in rows if row["severity"] != "info")
    assert (row["code"], row["severity"]) == ("segment-overlap", "warning")
    assert "left in the folder by an earlier copy: likely, all batches are equal" in row["benign"]
    assert row["remedy"].startswith("Start no broker on this folder.")


def test_a_segment_between_two_may_have_no_record_left(tmp_path: Path) -> None:
    emptied = "gone D 1 1 0-3 @6-9 T; gone D 2 0 0-3 @10-13 T; gone M 1 1 C 3 @14; gone M 2 0 C 3 @15"
    merged = f"gone D 1 0 0-4 @0-4 T; M 1 0 A 3 @5; {emptied}; {THIRD}"
    partition = hot_copy(tmp_path, merged)
    assert superseded_in(partition) == []
    for kind in ("log", "index", "timeindex"):
        shutil.copy2(file_of(tmp_path / "before" / "t-0", 16, kind), partition)
    assert [name for name in superseded_in(partition) if name.endswith("log")] == [
        file_of(partition, 6).name,
        file_of(partition, 16).name,
    ]


@pytest.mark.parametrize(
    ("merged", "first_dirty", "clean_shutdown"),
    [
        (CLEANED, None, True),
        (CLEANED, None, False),
        (CLEANED.replace("D 2 0 0-3 @10-13 T", "D 2 1 0-3 @10-13 T"), 22, False),
        (CLEANED.replace("D 2 0 0-3 @10-13 T", "D 2 0 4-7 @10-13 T"), 22, False),
        (CLEANED.replace("gone D 1 1 0-3 @6-9 T", "plain @6; gone D 1 1 0-3 @7-9 T"), 22, False),
    ],
    ids=[
        "of a broker that was stopped, not listed as cleaned",
        "not listed as cleaned",
        "other epoch",
        "other sequences",
        "another batch",
    ],
)
def test_an_overlap_with_another_cause_stays(
    tmp_path: Path, merged: str, first_dirty: int | None, clean_shutdown: bool
) -> None:
    partition = hot_copy(tmp_path, merged, first_dirty=first_dirty, clean_shutdown=clean_shutdown)
    assert superseded_in(partition) == []
    assert severities(partition)["segment-overlap"] == ("critical" if clean_shutdown else "warning")


@pytest.mark.parametrize("base_offset", [0, 6], ids=["merged", "old"])
@pytest.mark.parametrize("damage", ["torn", "bad checksum"])
def test_damage_decides_nothing(tmp_path: Path, base_offset: int, damage: str) -> None:
    partition = hot_copy(tmp_path)
    if damage == "torn":
        cut(file_of(partition, base_offset), -1)
    else:
        patch(file_of(partition, base_offset), 10, crc=1)
    assert superseded_in(partition) == []


@pytest.mark.parametrize("sample", ["compaction", "compaction-3.9"])
def test_segments_of_two_generations_of_a_broker(tmp_path: Path, sample: str) -> None:
    """Its cleaner merged the segments at offsets 0 and 24; the old ones were marked for deletion."""
    source, log_dir = SAMPLES / sample / "broker-1", tmp_path / "broker-1"
    shutil.copytree(source / "old-generation-kept-0", log_dir / "old-generation-kept-0")
    shutil.copy2(source / "cleaner-offset-checkpoint", log_dir)
    partition = log_dir / "old-generation-kept-0"
    for kind in ("log", "index", "timeindex"):
        file = file_of(partition, 24, kind)
        Path(f"{file}.deleted").rename(file)
    assert superseded_in(partition) == [file_of(partition, 24, kind).name for kind in ("log", "index", "timeindex")]
    (whole,) = (each for each in partitions_under(source) if each.place.topic == "old-generation-kept")
    (copied,) = partitions_under(log_dir)
    assert examine(copied, Rules(0)).log.batches == examine(whole, Rules(0)).log.batches


OLD_FIRST = "D 1 0 0-3 @0-3 T; gone M 1 0 A 3 @4; gone plain @5-9"
LACKING = {0: OLD_FIRST, 10: "M 1 5 A 3 @10; plain @11-15", 16: "plain @16-20", 21: "plain @21"}
FOLLOWS = ("snapshot-open-txn-mismatch", "txnindex-missing-entry", "visibility-mismatch", "marker-epoch-jump")


@pytest.mark.parametrize(
    ("first_dirty", "clean_shutdown", "severities_then"),
    [
        (21, False, ["info"] * 4),
        (21, True, ["critical", "critical", "critical", "warning"]),
        (0, False, ["info"] * 4),
        (None, False, ["info"] * 4),
    ],
    ids=["cleaned", "stopped", "cleaned meanwhile", "never cleaned, so that a segment is lost"],
)
def test_a_copy_may_lack_a_segment_that_was_merged_meanwhile(
    tmp_path: Path, first_dirty: int | None, clean_shutdown: bool, severities_then: list[str]
) -> None:
    """The marker at offset 4 was in a segment that is now part of the first one, which was copied before."""
    partition = forge(tmp_path, LACKING, first_dirty=first_dirty, clean_shutdown=clean_shutdown)
    found_here = severities(partition)
    assert [found_here[code] for code in FOLLOWS] == severities_then


@pytest.mark.parametrize(("clean_shutdown", "severity"), [(False, None), (True, "warning")])
def test_a_copy_may_lack_the_marker_without_which_the_last_stable_offset_is_lower(
    tmp_path: Path, clean_shutdown: bool, severity: str | None
) -> None:
    """The cleaner of a broker of 4.2.1 merged the segment with the marker while the files were copied."""
    log = {0: OLD_FIRST, 10: "plain @10-15", 16: "D 2 0 0-0 @16 T; M 2 0 A 3 @17; plain @18"}
    partition = forge(tmp_path, log, first_dirty=16, clean_shutdown=clean_shutdown)
    assert severities(partition).get("txnindex-lso-mismatch") == severity


# The copy lacks the marker at offset 4. The cleaner has passed it, and no later snapshot has the transaction as open.
PASSED = {0: OLD_FIRST, 10: "plain @10-15", 16: "plain @16-20", 21: "plain @21"}


@pytest.mark.parametrize(
    ("first_dirty", "clean_shutdown", "snapshots", "log_start", "last_stable_offset"),
    [
        (16, False, True, None, 22),
        (16, True, True, None, 0),  # no cleaner was at work during the copy
        (16, False, False, None, 0),
        (0, False, True, None, 0),
        (3, False, True, 3, 0),  # retention has moved the checkpoint of the cleaner to the log start
        (99, False, True, None, 0),  # of an earlier topic of this name
    ],
    ids=["passed", "stopped", "no snapshot", "never cleaned", "log start moved", "an earlier topic"],
)
def test_what_the_cleaner_has_passed_does_not_block_the_last_stable_offset(
    tmp_path: Path,
    first_dirty: int,
    *,
    clean_shutdown: bool,
    snapshots: bool,
    log_start: int | None,
    last_stable_offset: int,
) -> None:
    """Seen on 4.3.1 in a compacted topic: the marker was merged into a segment that had been copied before."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0", clean_shutdown=clean_shutdown)
    partition = forge(tmp_path, PASSED, first_dirty=first_dirty, clean_shutdown=clean_shutdown, log_start=log_start)
    if not snapshots:
        for snapshot in partition.glob("*.snapshot"):
            snapshot.unlink()
    (row,) = kforensics.lso(partition).to_pylist()
    assert row["last_stable_offset"] == max(last_stable_offset, log_start or 0)
    audit = kforensics.audit(tmp_path)
    found = {one["code"]: one["severity"] for one in audit.findings.to_pylist()}
    # Only where no broker has run since, the timestamps of clients show that it hangs.
    assert ("lso-stuck" in found) == (last_stable_offset == 0)
    assert ("txn-hanging" in found) == clean_shutdown
    open_from = [one["current_txn_first_offset"] for one in kforensics.producers(partition).to_pylist()]
    assert open_from == [-1 if last_stable_offset else 0]


@pytest.mark.parametrize(("clean_shutdown", "severity"), [(False, "info"), (True, "critical")])
def test_a_copy_may_lack_the_marker_of_an_entry_that_its_transaction_index_has(
    tmp_path: Path, clean_shutdown: bool, severity: str
) -> None:
    """The index of the merged segment was copied, its log before that; Kafka 4.2.1 served both as they should be."""
    log = {0: "plain @0-4; gone plain @5-9", 10: "D 1 0 0-1 @10-11 T; M 1 0 C 3 @12"}
    index = {0: [(1, 6, 7, 8)]}
    partition = forge(tmp_path, log, first_dirty=10, clean_shutdown=clean_shutdown, txnindex=index)
    assert severities(partition)["visibility-mismatch"] == severity


@pytest.mark.parametrize(("clean_shutdown", "severities_then"), [(False, ["info"] * 2), (True, ["error", "warning"])])
def test_epochs_are_mixed_where_a_copy_lacks_the_marker_between_them(
    tmp_path: Path, clean_shutdown: bool, severities_then: list[str]
) -> None:
    log = {0: "D 1 0 0-4 @0-4 T", 5: "M 1 0 C 3 @5; plain @6-7", 8: "D 1 7 0-0 @8 T; M 1 7 C 3 @9", 10: "plain @10"}
    partition = forge(tmp_path, log, first_dirty=10, clean_shutdown=clean_shutdown)
    file_of(partition, 5).unlink()
    found_here = severities(partition)
    assert [found_here[code] for code in ("txn-epoch-mixed", "epoch-bump-without-marker")] == severities_then


@pytest.mark.parametrize(
    ("first_dirty", "clean_shutdown", "severity"), [(10, False, "info"), (10, True, "error"), (None, False, "error")]
)
def test_an_entry_may_end_in_a_segment_that_was_merged_meanwhile(
    tmp_path: Path, first_dirty: int | None, clean_shutdown: bool, severity: str
) -> None:
    """Of a broker of 4.4.0: the transaction index of the merged segment, and its log from before that."""
    log = {0: "plain @0-4", 5: "D 1 0 0-1 @5-6 T; M 1 0 A 3 @7; gone plain @8-9", 10: "plain @10"}
    index = {0: [(1, 5, 7, 5)]}
    partition = forge(tmp_path, log, first_dirty=first_dirty, clean_shutdown=clean_shutdown, txnindex=index)
    assert severities(partition)["txnindex-corrupt"] == severity


@pytest.mark.parametrize(("clean_shutdown", "severity"), [(False, "info"), (True, "error")])
def test_an_index_may_be_from_before_a_cleaning(tmp_path: Path, clean_shutdown: bool, severity: str) -> None:
    """Even that of a segment that had been flushed, so that the broker will not rebuild it."""
    before = forge(tmp_path / "before", {0: "plain @0-4; plain @5-6; plain @7-9", 10: "plain @10"})
    log = {0: "plain @0-4; gone plain @5-6; plain @7-9", 10: "plain @10"}
    partition = forge(tmp_path / "copy", log, first_dirty=10, clean_shutdown=clean_shutdown)
    shutil.copy2(file_of(before, 0, "index"), partition)
    assert severities(partition)["index-mismatch"] == severity


@pytest.mark.parametrize(
    ("left", "clean_shutdown", "severity"),
    [
        ((), False, "warning"),
        ((), True, "critical"),
        (("index",), False, "warning"),
        (("timeindex",), False, "warning"),
        (("index", "timeindex"), False, "critical"),
    ],
)
def test_a_segment_whose_indexes_and_followers_were_deleted_during_the_copy_is_not_read(
    tmp_path: Path, left: tuple[str, ...], clean_shutdown: bool, severity: str
) -> None:
    """Retention renames the log of a segment before its indexes, and the segments after it later.

    A copy of a broker of 2.8.2 had log and offset index of the first segment, and none of its time index.
    """
    folder = forge(
        tmp_path, {0: "plain @0-4", 5: "plain @5-9", 10: "plain @10-14"}, clean_shutdown=clean_shutdown, snapshots={}
    )
    for kind in {"index", "timeindex"} - set(left):
        file_of(folder, 0, kind).unlink()
    for kind in ("log", "index", "timeindex"):
        file_of(folder, 5, kind).unlink()
    assert severities(folder)["segment-missing"] == severity
    (partition,) = partitions_under(folder.parent)
    assert partition.first_offset == (10 if severity == "warning" else 0)


@pytest.mark.parametrize(
    ("lost", "clean_shutdown", "severity", "first_offset"),
    [
        (((5, "log"), (10, "timeindex")), False, "warning", 10),
        (((5, "log"), (15, "index")), False, "warning", 10),
        (((5, "log"), (10, "index"), (20, "log")), False, "critical", 10),
        (((5, "log"),), False, "critical", 0),
        (((5, "log"), (25, "timeindex")), False, "critical", 0),
        (((0, "index"), (10, "log")), False, "critical", 0),
        (((5, "log"), (10, "timeindex")), True, "critical", 0),
    ],
    ids=[
        "next one lacks an index",
        "a later one does",
        "a gap after that",
        "none does",
        "the active one does",
        "only one before the last does",
        "stopped",
    ],
)
def test_segments_before_one_whose_index_was_renamed_during_the_copy_are_not_read(
    tmp_path: Path, lost: tuple[tuple[int, str], ...], severity: str, first_offset: int, *, clean_shutdown: bool
) -> None:
    """A broker of 3.6.2 deleted nine segments during a copy that had logs of some and indexes of others."""
    log = {base: f"plain @{base}-{base + 4}" for base in range(0, 30, 5)}
    folder = forge(tmp_path, log, clean_shutdown=clean_shutdown, snapshots={})
    for base, kind in lost:
        file_of(folder, base, kind).unlink()
    rows = kforensics.audit(str(folder.parent)).tables["findings"].to_pylist()
    is_critical = any((row["code"], row["severity"]) == ("segment-missing", "critical") for row in rows)
    assert is_critical is (severity == "critical")
    (partition,) = partitions_under(folder.parent)
    assert partition.first_offset == first_offset


@pytest.mark.parametrize(
    ("lost", "topic_id", "clean_shutdown", "severity"),
    [
        ((10, 15), True, False, "info"),
        ((10,), True, False, "critical"),
        ((10, 15, 20), True, False, "critical"),
        ((10, 15), False, False, "critical"),
        ((10, 15), True, True, "critical"),
        ((10, 15), None, False, "critical"),
    ],
    ids=["of both", "not of the missing one", "of one more", "before 2.8", "stopped", "without indexes"],
)
def test_segments_whose_snapshots_are_deleted_up_to_a_gap_are_not_read(
    tmp_path: Path, lost: tuple[int, ...], severity: str, *, topic_id: bool | None, clean_shutdown: bool
) -> None:
    """A broker of 3.9.1 deleted two segments: a copy had all files of the first but its snapshot, and two indexes."""
    log = {base: f"plain @{base}-{base + 4}" for base in range(10, 30, 5)}
    snapshots: dict[int, list[SnapshotEntry] | None] = {base: None if base in lost else [] for base in log}
    folder = forge(tmp_path, log, clean_shutdown=clean_shutdown, snapshots=snapshots)
    file_of(folder, 15).unlink()
    if topic_id is None:
        file_of(folder, 15, "index").unlink()
        file_of(folder, 15, "timeindex").unlink()
    elif not topic_id:
        (folder / "partition.metadata").unlink()
    assert severities(folder)["segment-missing"] == severity
    (partition,) = partitions_under(folder.parent)
    assert partition.first_offset == (20 if severity == "info" else 10)


@pytest.mark.parametrize(
    ("log_start", "clean_shutdown", "missing", "first_offset"),
    [
        (10, False, "info", 10),
        (12, False, "info", 10),
        (16, False, "info", 10),
        (9, False, "critical", 0),
        (12, True, "critical", 0),
    ],
)
def test_a_segment_below_the_log_start_is_not_read_if_others_are_missing_after_it(
    tmp_path: Path, *, log_start: int, clean_shutdown: bool, missing: str, first_offset: int
) -> None:
    """Of a running broker of 2.8.2, whose records had been deleted up to an offset while its files were copied."""
    log = {0: "plain @0-4", 5: "plain @5-9", 10: "plain @10-14", 15: "plain @15-19"}
    folder = forge(tmp_path, log, log_start=log_start, clean_shutdown=clean_shutdown, snapshots={})
    for kind in ("log", "index", "timeindex"):
        file_of(folder, 5, kind).unlink()
    assert severities(folder)["segment-missing"] == missing
    (partition,) = partitions_under(folder.parent)
    assert partition.first_offset == first_offset


@pytest.mark.parametrize("clean_shutdown", [False, True], ids=["running", "stopped"])
@pytest.mark.parametrize(
    ("first_epoch", "missing", "first_offset"),
    [(15, "warning", 10), (12, "warning", 10), (10, "warning", 10), (0, "critical", 0)],
)
def test_a_segment_from_before_the_first_leader_epoch_is_not_read_if_others_are_missing_after_it(
    tmp_path: Path, *, first_epoch: int, missing: str, first_offset: int, clean_shutdown: bool
) -> None:
    """Of brokers of 4.4.0 that were copied twice into a folder: retention had moved the first epoch between."""
    log = {0: "plain @0-4", 5: "plain @5-9", 10: "plain @10-14", 15: "plain @15-19"}
    epochs = {"t-0/leader-epoch-checkpoint": f"0\n1\n0 {first_epoch}\n".encode()}
    folder = forge(tmp_path, log, clean_shutdown=clean_shutdown, replaced=epochs)
    for kind in ("log", "index", "timeindex"):
        file_of(folder, 5, kind).unlink()
    rows = kforensics.audit(str(folder.parent)).tables["findings"].to_pylist()
    (row,) = (row for row in rows if row["code"] == "segment-missing")
    assert row["severity"] == ("info" if (missing, clean_shutdown) == ("warning", False) else missing)
    assert ("left in the folder by an earlier copy" in row["benign"]) is (missing == "warning")
    (partition,) = partitions_under(folder.parent)
    assert partition.first_offset == first_offset


@pytest.mark.parametrize(
    ("clean_shutdown", "has_index", "missing", "first_offset"),
    [(False, True, "info", 10), (False, False, "warning", 10), (True, True, "critical", 0)],
    ids=["deleted meanwhile", "without its index", "stopped"],
)
def test_a_segment_may_be_deleted_after_the_leader_epochs_have_been_copied(
    tmp_path: Path, *, clean_shutdown: bool, has_index: bool, missing: str, first_offset: int
) -> None:
    """Of a running broker of 4.4.0: the log began at the second segment, and of this one only the indexes were left."""
    log = {
        0: "D 1 0 0-4 @0-4 T",
        5: "M 1 0 A 3 @5; plain @6-9",
        10: "D 1 1 0-4 @10-14 T; M 1 1 C 3 @15",
        16: "plain @16",
    }
    epochs = {"t-0/leader-epoch-checkpoint": b"0\n1\n0 5\n"}
    folder = forge(tmp_path, log, clean_shutdown=clean_shutdown, replaced=epochs)
    for kind in ("log", "snapshot") if has_index else ("log", "snapshot", "index", "timeindex", "txnindex"):
        file_of(folder, 5, kind).unlink(missing_ok=True)
    found_here = severities(folder)
    assert found_here.pop("segment-missing") == missing
    assert {"error", "critical"}.isdisjoint(found_here.values())
    (partition,) = partitions_under(folder.parent)
    assert partition.first_offset == first_offset


def test_segments_of_message_format_1_are_from_before_the_leader_epochs(tmp_path: Path) -> None:
    """An upgraded broker writes leader epochs from its first batch of format 2 on; before it nothing was deleted."""
    log = {0: "plain @0-4", 10: "plain @10-14", 15: "plain @15"}
    epochs = {"t-0/leader-epoch-checkpoint": b"0\n1\n0 7\n"}
    folder = forge(tmp_path, log, clean_shutdown=False, replaced=epochs)
    assert len(superseded_in(folder)) == 3
    file_of(folder, 0, "log").write_bytes(b"".join(message(offset, magic=1) for offset in range(5)))
    assert superseded_in(folder) == []


def test_a_copy_of_logs_without_indexes_is_read_as_a_whole(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0-4", 5: "plain @5-9"}, clean_shutdown=False, snapshots={})
    for kind in ("index", "timeindex"):
        file_of(folder, 0, kind).unlink()
    assert superseded_in(folder) == []
