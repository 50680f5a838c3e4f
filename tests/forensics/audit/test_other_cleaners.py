"""Replicas that were fetched from a leader that had compacted its log, before the topic's policy became ``delete``."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.parsers.messages import metadata as schemas
from lab.places import SAMPLES
from tests.forensics.forge import Segments, forge
from tests.forensics.metadata.random_metadata import TIME, metadata_record, uuid, write_log

TOPIC, OTHER = uuid(1), uuid(2)
# What a cleaner has left of offsets 0 to 9.
CLEANED = "plain @0-4 cnt 2; plain @9-9; plain @10-14"
WHOLE = "plain @0-4; plain @5-9; plain @10-14"
# The same, as its cleaner has left it: it does not touch the active segment.
IN_SEGMENTS: Segments = {0: "plain @0-4 cnt 2; plain @9-9", 10: "plain @10-14"}
HOUR = 3_600_000
SMALLER = ("seq-count-mismatch", "offset-gap")


def replica(folder: Path, node_id: int, log: Segments = CLEANED, **options: Any) -> Path:
    """Write the log directory of a broker."""
    ids = {"t-0/partition.metadata": f"version: 0\ntopic_id: {TOPIC}".encode()}
    forge(folder / f"broker-{node_id}", log, node_id=node_id, replaced=ids, **options)
    return folder / f"broker-{node_id}"


def metadata_of(folder: Path, *policies: str | None, topic_id: str = TOPIC, times: Sequence[int] | None = None) -> None:
    """Add a metadata log with a topic and its policies, at the given times or one each second from ``TIME`` on."""
    records = [[metadata_record(schemas.TOPIC_RECORD, name="t", topicId=topic_id)]]
    given = {"resourceType": 2, "resourceName": "t", "name": "cleanup.policy"}
    records += [[metadata_record(schemas.CONFIG_RECORD, **given, value=policy)] for policy in policies]
    write_log(folder, records, times=times)


def severities(*paths: Path) -> dict[str, str]:
    """Return the severities of missing offsets and of smaller batches, by code."""
    rows = kforensics.audit([str(path) for path in paths]).findings.to_pylist()
    return {row["code"]: row["severity"] for row in rows if row["code"] in SMALLER}


def fate(path: Path, offset: int = 1) -> tuple[str, str]:
    """Return the fate of an offset of the partition, and why."""
    stories = kforensics.explain(str(path), topic="t", offset=offset).table.to_pylist()
    (row,) = (row for row in stories if row["broker_id"] == 2)
    return row["fate"], row["why"]


@pytest.mark.parametrize("reached", [10, 5])
def test_the_checkpoint_of_another_cleaner_explains_what_it_has_reached(tmp_path: Path, reached: int) -> None:
    replica(tmp_path, 1, IN_SEGMENTS, compacted=True, first_dirty=reached)
    replica(tmp_path, 2)
    gap = "info" if reached == 10 else "warning"
    assert severities(tmp_path) == {"seq-count-mismatch": "info", "offset-gap": gap}
    explained, why = fate(tmp_path)
    assert explained == "compacted"
    assert why.endswith(f"because the cleaner of broker 1 has compacted its replica up to offset {reached}")


@pytest.mark.parametrize(
    ("policies", "worst"),
    [
        (("delete", "compact", "compact,delete", "delete"), "info"),
        (("compact", None), "info"),
        (("delete",), "warning"),
        ((), "warning"),
    ],
)
def test_an_earlier_policy_in_the_metadata_explains_them(
    tmp_path: Path, policies: tuple[str | None, ...], worst: str
) -> None:
    metadata_of(replica(tmp_path, 2), *policies)
    assert set(severities(tmp_path).values()) == {worst}
    assert fate(tmp_path)[0] == "compacted"
    assert ("cleanup.policy was compact" in fate(tmp_path)[1]) == (worst == "info")


def test_the_policy_of_a_deleted_topic_with_the_same_name_explains_nothing(tmp_path: Path) -> None:
    metadata_of(replica(tmp_path, 2), "compact", "delete", topic_id=OTHER)
    assert set(severities(tmp_path).values()) == {"warning"}


def test_a_loss_in_a_topic_that_was_never_compacted_stays_an_error(tmp_path: Path) -> None:
    """The other replica has the records, and no cleaner has been at work on either."""
    metadata_of(replica(tmp_path, 1, WHOLE), "delete")
    replica(tmp_path, 2, "plain @0-4; plain @10-14")
    assert severities(tmp_path) == {"offset-gap": "error"}
    assert fate(tmp_path, 7)[0] == "lost"


def test_a_replica_alone_may_be_either(tmp_path: Path) -> None:
    rows = kforensics.audit(str(replica(tmp_path, 2))).findings.to_pylist()
    smaller = [row for row in rows if row["code"] in SMALLER]
    assert {row["severity"] for row in smaller} == {"warning"}
    assert all(row["message"].endswith("A cleaner on another broker may have removed them instead.") for row in smaller)
    assert not any("corruption" in row["remedy"] for row in smaller)
    assert fate(tmp_path)[0] == "compacted"


def test_a_cleaner_that_was_running_has_only_reached_its_checkpoint(tmp_path: Path) -> None:
    replica(tmp_path, 1, IN_SEGMENTS, compacted=True, first_dirty=5, clean_shutdown=False)
    replica(tmp_path, 2)
    assert severities(tmp_path) == {"seq-count-mismatch": "info", "offset-gap": "warning"}
    assert "up to offset 5" in fate(tmp_path)[1]


@pytest.mark.parametrize("shows", ["folder", "end"])
def test_the_checkpoint_of_a_deleted_log_explains_nothing(tmp_path: Path, shows: str) -> None:
    """The log that was created again has not reached the entry, or the folder of the deleted one is still there."""
    folder = replica(tmp_path, 1, IN_SEGMENTS, compacted=True, first_dirty=100_000 if shows == "end" else 10)
    if shows == "folder":
        shutil.copytree(folder / "t-0", folder / f"t-0.{'0' * 32}-delete")
    replica(tmp_path, 2)
    assert severities(tmp_path / "broker-2") == severities(tmp_path)
    assert set(severities(tmp_path).values()) == {"warning"}


# Policies from an hour before the batches on, and from an hour after them on.
@pytest.mark.parametrize(("ended", "gap", "count"), [(-HOUR, "error", "error"), (HOUR, "info", "info")])
def test_an_earlier_policy_explains_only_what_is_older_than_its_end(
    tmp_path: Path, ended: int, gap: str, count: str
) -> None:
    for name, log in {"gap": "plain @0-4; plain @10-14", "count": "plain @0-4; plain @5-9 cnt 2"}.items():
        times = [TIME - 10 * HOUR, TIME - 9 * HOUR, TIME + ended]
        metadata_of(replica(tmp_path / name, 2, log), "compact", "delete", times=times)
    assert severities(tmp_path / "gap") == {"offset-gap": gap}
    assert severities(tmp_path / "count") == {"seq-count-mismatch": count}
    assert fate(tmp_path / "gap", 7)[0] == ("compacted" if ended > 0 else "lost")
    assert fate(tmp_path / "count", 5)[0] == ("compacted" if ended > 0 else "not-in-batch")


def test_it_explains_old_offsets_and_no_new_ones(tmp_path: Path) -> None:
    """The batches after the policy are in the same segment as those before it, as a follower may have rolled them."""
    log = f"plain @0-4; plain @10-14; plain @15-19 ts {TIME + 2 * HOUR}; plain @25-29 ts {TIME + 2 * HOUR}"
    metadata_of(replica(tmp_path, 2, log), "compact", "delete", times=[TIME - HOUR, TIME - HOUR, TIME + HOUR])
    rows = kforensics.audit(str(tmp_path)).findings.to_pylist()
    gaps = {row["first_offset"]: row["severity"] for row in rows if row["code"] == "offset-gap"}
    assert gaps == {5: "info", 20: "error"}
    assert [fate(tmp_path, offset)[0] for offset in (7, 22)] == ["compacted", "lost"]


@pytest.mark.parametrize(("ended", "worst"), [(-HOUR, "critical"), (HOUR, "warning")])
def test_it_explains_no_newer_segment_that_is_missing(tmp_path: Path, ended: int, worst: str) -> None:
    log = {0: "plain @0-4", 5: "plain @5-9", 20: f"plain @20-24; plain @25-29 ts {TIME + 2 * HOUR}"}
    metadata_of(replica(tmp_path, 2, log), "compact", "delete", times=[TIME - 9 * HOUR, TIME - 9 * HOUR, TIME + ended])
    rows = kforensics.audit(str(tmp_path)).findings.to_pylist()
    assert {row["severity"] for row in rows if row["code"] == "segment-missing"} == {worst}


def test_a_partition_without_topic_id_has_no_past_policy(tmp_path: Path) -> None:
    """The metadata log lacks the record of a topic, so the id of that one is unknown, too."""
    folder = tmp_path / "broker-2"
    forge(folder, CLEANED, node_id=2, replaced={"t-0/partition.metadata": None})
    given = {"resourceType": 2, "resourceName": "other", "name": "cleanup.policy"}
    policies = ("compact", "delete")
    write_log(folder, [[metadata_record(schemas.CONFIG_RECORD, **given, value=policy)] for policy in policies])
    assert set(severities(folder).values()) == {"warning"}


def test_a_follower_of_a_real_cleaner(tmp_path: Path) -> None:
    """A new disk of another broker, which has fetched what the cleaner of 4.4.0 has left, and has cleaned nothing."""
    source = SAMPLES / "compaction" / "broker-1"
    for number in (1, 2):
        folder = tmp_path / f"broker-{number}"
        folder.mkdir()
        shutil.copytree(source / "compact-0", folder / "compact-0")
        for path in source.glob("*offset-checkpoint"):
            shutil.copy(path, folder)
        (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":11}')
        properties = (source / "meta.properties").read_text().splitlines()
        kept = [line for line in properties if not line.startswith(("node.id", "directory.id"))]
        (folder / "meta.properties").write_text("\n".join([*kept, f"node.id={number}", f"directory.id={uuid(number)}"]))
    (tmp_path / "broker-2" / "cleaner-offset-checkpoint").write_text("0\n0\n")
    assert set(severities(tmp_path).values()) <= {"info"}
    assert set(severities(tmp_path / "broker-2").values()) == {"warning"}


def test_the_time_of_the_change_is_named(tmp_path: Path) -> None:
    metadata_of(replica(tmp_path, 2), "compact", "delete")
    assert TIME + 2000 == 1_700_000_002_000
    assert "until 2023-11-14 22:13:22 UTC (metadata log)" in fate(tmp_path)[1]
