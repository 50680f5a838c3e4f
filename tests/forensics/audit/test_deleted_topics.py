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
from tests.forensics.forge import file_of, forge, keep_times
from tests.forensics.partition_states import partitions_under

# A topic that a broker of 4.4.0 deleted, and one that it kept; both are in its metadata log.
DELETED, KEPT = "HoJOmO6CS0CQhFOBlkZa7Q", "E9cxC9pbT9qjUe_QvFTLcA"
DELETED_MS = 1_795_262_898_627
METADATA = SAMPLES / "deletion" / "broker-1" / "__cluster_metadata-0"
LOG = {0: "plain @0-4", 5: "D 1 0 0-4 @5-9 T; M 1 0 A 3 @10", 11: "plain @11-14", 15: "plain @15-19"}
PHRASE = "topic deleted at 2026-11-21 12:08:18 UTC, before its files were copied or meanwhile: possible"


def copied(folder: Path, topic_id: str, *, node_id: int, lost: tuple[int, ...], clean_shutdown: bool = False) -> None:
    """Write the log directory of a broker with the metadata log, and a partition that lacks some segments."""
    metadata = {"t-0/partition.metadata": f"version: 0\ntopic_id: {topic_id}".encode()}
    partition = forge(folder, LOG, node_id=node_id, clean_shutdown=clean_shutdown, replaced=metadata)
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
    assert (deletion_during_copy(partition, rules) == PHRASE) is explains
