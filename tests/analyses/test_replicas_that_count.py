"""Commands answer from the replica that counts, not from the longest one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kforensics
from kforensics.errors import UsageError
from tests.command import run
from tests.forensics.audit.test_deleted_topics import DELETED, KEPT, METADATA
from tests.forensics.coordinators.clusters import forge_offsets
from tests.forensics.forge import forge

AS_OF = "2026-11-29"
COMMITTED = {0: ("g", "t-0", 10), 1: ("g", "t-0", 30), 2: ("new", "t-0", 30)}


def metadata_of(topic: str, topic_id: str) -> dict[str, bytes | None]:
    return {f"{topic}-0/partition.metadata": f"version: 0\ntopic_id: {topic_id}".encode()}


def deleted_and_created_again(folder: Path, *, with_metadata_log: bool) -> None:
    """Broker 1 was away when a topic was deleted and created again: it has the longer log, with an open transaction."""
    for broker, log, topic_id in ((1, "plain @0-19; D 1 0 0-4 @20-24 T", DELETED), (2, "plain @0-2", KEPT)):
        log_dir = folder / f"broker-{broker}"
        forge(log_dir, log, node_id=broker, replaced=metadata_of("t", topic_id))
        forge_offsets(log_dir, "plain @0-0", {0: ("g", "t-0", 3, KEPT)}, node_id=broker)
        if with_metadata_log:
            shutil.copytree(METADATA, log_dir / METADATA.name)


def test_lags_are_those_of_the_topic_that_exists(tmp_path: Path) -> None:
    deleted_and_created_again(tmp_path, with_metadata_log=True)
    (row,) = kforensics.groups(tmp_path, as_of=AS_OF).to_pylist()
    assert (row["lag"], row["stable_lag"]) == (0, 0)
    alone = kforensics.groups(tmp_path / "broker-2", as_of=AS_OF).to_pylist()
    assert (alone[0]["lag"], alone[0]["stable_lag"]) == (0, 0)


def test_a_transaction_in_a_deleted_topic_waits_for_no_marker(tmp_path: Path) -> None:
    deleted_and_created_again(tmp_path / "known", with_metadata_log=True)
    text = " ".join(run("lso", str(tmp_path / "known"), "--as-of", AS_OF).text.split())
    assert "its topic was deleted at 2026-11-21 12:08:18 UTC: no consumer reads this log" in text
    deleted_and_created_again(tmp_path / "unknown", with_metadata_log=False)
    text = " ".join(run("lso", str(tmp_path / "unknown"), "--as-of", AS_OF).text.split())
    assert "LSO stuck at 20" in text
    assert "deleted" not in text


def test_groups_are_those_of_the_leader_that_was_elected_last(tmp_path: Path) -> None:
    """Broker 1 was elected while it lacked two commits, which broker 2 had alone."""
    first = {0: COMMITTED[0]}
    forge_offsets(tmp_path / "broker-1", "plain @0-0", first, node_id=1, leader_epochs={0: 0, 1: 2})
    forge_offsets(tmp_path / "broker-2", "plain @0-0; plain @1-1; plain @2-2", COMMITTED, node_id=2)
    rows = kforensics.groups(tmp_path, group="g", as_of=AS_OF).to_pylist()
    assert [row["last_committed"] for row in rows if row["event"] == "lag"] == [10]
    assert [row["group"] for row in kforensics.groups(tmp_path, as_of=AS_OF).to_pylist()] == ["g"]
    with pytest.raises(UsageError, match=r"broker-1, which is newer than the one in .*broker-2, where it has some"):
        kforensics.groups(tmp_path, group="new", as_of=AS_OF).to_pylist()


def test_groups_of_a_follower_that_was_copied_later_are_all_there(tmp_path: Path) -> None:
    first = {0: COMMITTED[0]}
    forge_offsets(tmp_path / "broker-1", "plain @0-0", first, node_id=1)
    forge_offsets(tmp_path / "broker-2", "plain @0-0; plain @1-1; plain @2-2", COMMITTED, node_id=2)
    assert [row["group"] for row in kforensics.groups(tmp_path, as_of=AS_OF).to_pylist()] == ["g", "new"]
