"""Which replica reports the duplicates of a partition: one for all, and what only another one has."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import kforensics
from tests.command import SAMPLES

Pairs = list[tuple[int, int, int]]
# Broker, first and second offset of the duplicates within replicated-0, which all three brokers have.
ALL = [(1, 9, 24), (1, 24, 36), (1, 36, 48)]


def audited(folder: Path, processes: int | None = None) -> list[dict[str, Any]]:
    audit = kforensics.audit(str(folder), records=True, processes=processes)
    return sorted(audit.tables["duplicates"].to_pylist(), key=str)


def commanded(folder: Path) -> list[dict[str, Any]]:
    return sorted(kforensics.duplicates(str(folder)).to_pylist(), key=str)


def within_partition(rows: list[dict[str, Any]]) -> Pairs:
    selected = [row for row in rows if row["partition"] == 0 and row["first_partition"] is None]
    return sorted((row["broker_id"], row["first_offset"], row["second_offset"]) for row in selected)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Return a copy of a cluster whose topic has three replicas, with several segments each."""
    return Path(shutil.copytree(SAMPLES / "replication", tmp_path / "cluster"))


def delete_segment(cluster: Path, broker: int, base_offset: int) -> None:
    for file in (cluster / f"broker-{broker}" / "replicated-0").glob(f"{base_offset:020}.*"):
        file.unlink()


def shorten(cluster: Path) -> None:
    """Delete the first segment on broker 1, as retention does there first, and the last one on the followers."""
    delete_segment(cluster, 1, 0)
    for broker in (2, 3):
        delete_segment(cluster, broker, 39)


def write_epochs(cluster: Path, broker: int, epochs: str) -> None:
    lines = epochs.split(", ")
    checkpoint = cluster / f"broker-{broker}" / "replicated-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


@pytest.mark.parametrize("scenario", ["replication", "unclean-election", "groups", "duplicates"])
def test_the_audit_has_the_rows_of_the_command(scenario: str) -> None:
    assert audited(SAMPLES / scenario) == commanded(SAMPLES / scenario)


def test_processes_have_the_rows_of_the_command(cluster: Path) -> None:
    shorten(cluster)
    assert audited(cluster, processes=2) == commanded(cluster)


def test_one_replica_reports_rows_and_findings(cluster: Path) -> None:
    audit = kforensics.audit(str(cluster), records=True)
    assert within_partition(audit.tables["duplicates"].to_pylist()) == ALL
    across = [row for row in audit.tables["findings"].to_pylist() if row["code"] == "content-duplicate-cross-producer"]
    assert [(row["broker_id"], row["first_offset"]) for row in across] == [(broker, again) for broker, _, again in ALL]


def test_what_only_shorter_replicas_still_have_is_reported_once(cluster: Path) -> None:
    shorten(cluster)
    assert within_partition(commanded(cluster)) == [*ALL[1:], (2, 9, 24)]
    assert within_partition(audited(cluster)) == [*ALL[1:], (2, 9, 24)]


def test_of_equally_long_replicas_the_one_that_begins_first_reports(cluster: Path) -> None:
    delete_segment(cluster, 1, 0)
    assert within_partition(commanded(cluster)) == [(2, first, again) for _, first, again in ALL]


def test_a_replica_reports_its_batches_of_another_leader(cluster: Path) -> None:
    """Offsets from 48 on were written by the leader of epoch 3 on broker 2, and by that of epoch 2 elsewhere."""
    write_epochs(cluster, 2, "0 0, 1 14, 2 27, 3 48")
    assert within_partition(commanded(cluster)) == [*ALL, (2, 36, 48)]
    assert within_partition(audited(cluster)) == [*ALL, (2, 36, 48)]


@pytest.mark.parametrize("epochs", ["0 0, 1 14, 2 27, 5 51", "2 27", "2 27, 6 60"])
def test_epochs_of_the_end_and_of_a_later_beginning_do_not_differ(cluster: Path, epochs: str) -> None:
    """A leader without records has an epoch that followers do not have, and retention removes the oldest ones."""
    write_epochs(cluster, 2, epochs)
    assert within_partition(audited(cluster)) == ALL


def test_internal_topics_are_left_out_of_the_audit() -> None:
    audit = kforensics.audit(str(SAMPLES / "groups"), records=True)
    assert not [row for row in audit.tables["duplicates"].to_pylist() if row["topic"].startswith("__")]
