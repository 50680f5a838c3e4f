"""Copies of partitions whose topic was deleted while their files were copied: what is missing then is no finding."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.core.rules import COPY_MS, Rules
from kforensics.forensics.partition.topic_deletion import deletion_during_copy
from lab.places import SAMPLES
from tests.forensics.forge import file_of, forge, keep_times, patch
from tests.forensics.partition_states import partitions_under

# A topic that a broker of 4.4.0 deleted, and one that it kept; both are in its metadata log.
DELETED, KEPT = "HoJOmO6CS0CQhFOBlkZa7Q", "E9cxC9pbT9qjUe_QvFTLcA"
DELETED_MS = 1_795_262_898_627
METADATA = SAMPLES / "deletion" / "broker-1" / "__cluster_metadata-0"
LOG = {0: "plain @0-4", 5: "D 1 0 0-4 @5-9 T; M 1 0 A 3 @10", 11: "plain @11-14", 15: "plain @15-19"}
LONGER = LOG | {20: "plain @20-24", 25: "plain @25-29"}
PHRASE = "topic deleted at 2026-11-21 12:08:18 UTC, before its files were copied or meanwhile: possible"


def copied(  # what a copy has
    folder: Path,
    topic_id: str,
    *,
    node_id: int,
    lost: tuple[int, ...],
    clean_shutdown: bool = False,
    log: dict[int, str] = LOG,
) -> None:
    """Write the log directory of a broker with the metadata log, and a partition that lacks some segments."""
    metadata = {"t-0/partition.metadata": f"version: 0\ntopic_id: {topic_id}".encode()}
    partition = forge(folder, log, node_id=node_id, clean_shutdown=clean_shutdown, replaced=metadata)
    for base in lost:
        for kind in ("log", "index", "timeindex", "txnindex", "snapshot"):
            file_of(partition, base, kind).unlink(missing_ok=True)
    shutil.copytree(METADATA, folder / METADATA.name)


def findings_in(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kforensics.audit(str(folder)).findings.to_pylist()
    return [row for row in rows if row["topic"] == "t"]


@pytest.mark.parametrize(
    ("topic_id", "clean_shutdown", "worst"),
    [(DELETED, False, "info"), (KEPT, False, "critical"), (DELETED, True, "critical")],
    ids=["deleted", "another topic was deleted", "deleted while the broker was stopped"],
)
def test_segments_that_vanish_with_their_topic(
    tmp_path: Path, topic_id: str, *, clean_shutdown: bool, worst: str
) -> None:
    """A broker of 4.3.1 renamed the folder during the copy, which had logs, indexes and snapshots of some segments."""
    copied(tmp_path, topic_id, node_id=1, lost=(5,), clean_shutdown=clean_shutdown)
    rows = findings_in(tmp_path)
    assert [row["severity"] for row in rows if row["code"] == "segment-missing"] == [worst]
    assert (rows[0]["severity"], PHRASE in rows[0]["benign"]) == (worst, worst == "info")


@pytest.mark.parametrize(("topic_id", "worst"), [(DELETED, "info"), (KEPT, "critical")])
def test_a_replica_that_was_copied_before_has_them(tmp_path: Path, topic_id: str, worst: str) -> None:
    copied(tmp_path / "broker-1", topic_id, node_id=1, lost=())
    copied(tmp_path / "broker-2", topic_id, node_id=2, lost=(5,))
    rows = findings_in(tmp_path)
    (divergence,) = (row for row in rows if row["code"] == "replica-divergence")
    assert divergence["severity"] == worst
    assert divergence["benign"].count(PHRASE) == (worst == "info")
    assert max(rows, key=lambda row: row["severity"] != "info")["severity"] == worst


@pytest.mark.parametrize(("later_ms", "explains"), [(-1, True), (COPY_MS, True), (COPY_MS + 1, False)])
def test_a_deletion_long_after_the_copy_explains_nothing(tmp_path: Path, later_ms: int, *, explains: bool) -> None:
    copied(tmp_path, DELETED, node_id=1, lost=())
    keep_times(tmp_path, DELETED_MS - later_ms, DELETED_MS - later_ms)
    (partition,) = (one for one in partitions_under(tmp_path) if one.place.topic == "t")
    rules = Rules(DELETED_MS, deleted_topics={DELETED: DELETED_MS})
    deletion = deletion_during_copy(partition, rules)
    assert (deletion is not None and deletion.phrase == PHRASE) is explains


VANISHED = ((0, "index"), (11, "log"), (20, "log"))


@pytest.mark.parametrize(
    ("vanished", "clean_shutdown", "worst"),
    [
        (VANISHED, False, "warning"),
        (VANISHED, True, "critical"),
        (VANISHED[1:], False, "critical"),
        ((*VANISHED, *((base, kind) for base in (11, 20) for kind in ("index", "timeindex"))), False, "critical"),
        ((*((base, kind) for base in LONGER for kind in ("index", "timeindex")), (11, "log")), False, "critical"),
        ((*((base, "timeindex") for base in LONGER), (11, "log")), False, "critical"),
    ],
    ids=[
        "of all kinds",
        "broker stopped",
        "of two segments",
        "a whole segment",
        "only logs were copied",
        "no time index was copied",
    ],
)
def test_files_that_vanish_in_any_order(
    tmp_path: Path, vanished: tuple[tuple[int, str], ...], *, clean_shutdown: bool, worst: str
) -> None:
    """Seen on 3.7.2: the topic was deleted after the metadata log had been copied, while the folder was."""
    copied(tmp_path, KEPT, node_id=1, lost=(), clean_shutdown=clean_shutdown, log=LONGER)
    for base, kind in vanished:
        file_of(tmp_path / "t-0", base, kind).unlink()
    rows = [row for row in findings_in(tmp_path) if row["code"] == "segment-missing"]
    assert {row["severity"] for row in rows} == {worst}
    said = "topic deleted while its files were copied, or files lost on the disk: likely, 3 segments lack"
    assert all((said in row["benign"]) is (worst == "warning") for row in rows)


def test_a_metadata_log_that_goes_on_without_a_deletion(tmp_path: Path) -> None:
    """Then the files were lost otherwise."""
    copied(tmp_path, KEPT, node_id=1, lost=(), log=LONGER)
    for base, kind in VANISHED:
        file_of(tmp_path / "t-0", base, kind).unlink()
    keep_times(tmp_path, DELETED_MS - 3 * COPY_MS, DELETED_MS - 3 * COPY_MS)
    rows = [row for row in findings_in(tmp_path) if row["code"] == "segment-missing"]
    assert {row["severity"] for row in rows} == {"critical"}


def test_a_guessed_deletion_explains_only_what_is_missing(tmp_path: Path) -> None:
    """Corrupt bytes matter if the topic exists."""
    copied(tmp_path, KEPT, node_id=1, lost=(), log=LONGER)
    for base, kind in VANISHED:
        file_of(tmp_path / "t-0", base, kind).unlink()
    patch(file_of(tmp_path / "t-0", 15, "log"), 15, crc=1)
    rows = {row["code"]: row["severity"] for row in findings_in(tmp_path)}
    assert (rows["segment-missing"], rows["batch-crc-mismatch"]) == ("warning", "critical")
