"""What ``audit``, ``groups`` and ``explain`` say of one group does not differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kforensics
from tests.analyses.test_groups import AS_OF, history
from tests.command import run
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.cluster.test_group_resets import LABS, RELEASES
from tests.forensics.coordinators.clusters import commit_record, group_record
from tests.forensics.forge import forge

RETENTION = {"offsets.retention.minutes": 1}
# The kind of event for each finding, and the cause that its code has.
KINDS = {
    "group-offset-reset": ("reset", None),
    "eos-offset-regressed": ("reset", "transaction"),
    "group-offset-out-of-range": ("out-of-range", "records-deleted"),
    "eos-offset-beyond-log": ("out-of-range", "beyond-log-end"),
}


def audited(folder: Path, **options: Any) -> dict[str, set[tuple[Any, ...]]]:
    """Return what the findings of an audit say of each group: kind, partition, cause and whether it is certain."""
    said: dict[str, set[tuple[Any, ...]]] = {}
    for row in kforensics.audit(folder, as_of=AS_OF, **options).findings.to_pylist():
        if row["code"] in KINDS:
            evidence, (kind, cause) = json.loads(row["evidence"]), KINDS[row["code"]]
            shown = (evidence["partition"], cause or evidence["reset_by"], evidence["committed"])
            said.setdefault(evidence["group"], set()).add((kind, *shown, row["exactness"] == "exact"))
    return said


def told(folder: Path, group: str, **options: Any) -> set[tuple[Any, ...]]:
    """Return the same of the history of a group."""
    return {
        (
            event["event"],
            f"{event['committed_topic']}-{event['committed_partition']}",
            event["cause"],
            event["last_committed"],
            event["exact"],
        )
        for event in history(folder, group, **options)
        if event["event"] in {kind for kind, _ in KINDS.values()}
    }


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("settings", [RETENTION, {}])
def test_the_audit_and_the_history_of_every_group_say_the_same(release: str, settings: dict[str, int]) -> None:
    folder = LABS / release
    said = audited(folder, settings=settings)
    assert len(said) >= 11
    groups = [row["group"] for row in kforensics.groups(folder, as_of=AS_OF, settings=settings).to_pylist()]
    assert {name: told(folder, name, settings=settings) for name in groups} == {
        name: said.get(name, set()) for name in groups
    }


@pytest.mark.parametrize("release", RELEASES)
def test_a_log_start_beyond_the_offset_is_named(release: str) -> None:
    """By ``groups`` and ``explain``, in the same words as by ``audit``."""
    why = "the log starts at 6: 4 offsets deleted before the group committed them"
    (last,) = (event for event in history(LABS / release, "retained") if event["event"] == "out-of-range")
    assert (last["cause"], last["first_committed"], last["why"], last["first_timestamp"]) == (
        "records-deleted", 2, why, None,
    )  # fmt: skip
    for words in (("groups", "--group"), ("explain", "--group")):
        text = run(*words, "retained", "--quiet", "--as-of", AS_OF, LABS / release).text
        assert text.count(f"retained-0 out of range at 2: records deleted; {why}\n") == 2
    rows = kforensics.audit(LABS / release, as_of=AS_OF).findings.to_pylist()
    messages = [row["message"] for row in rows if row["code"] == "group-offset-out-of-range"]
    assert [why in message for message in messages] == [True, True]


@pytest.mark.parametrize(("first_epoch", "is_out"), [(0, False), (20, True)])
def test_records_in_remote_storage_are_not_deleted(first_epoch: int, is_out: bool, tmp_path: Path) -> None:
    """Leader epochs from before the first segment on disk show that older ones are in remote storage."""
    records = {0: [group_record("g", 1)], 1: [commit_record("g", "in-0", 9)]}
    times = f"plain @0-0 ts {NOW}; plain @1-1 ts {NOW}"
    forge(tmp_path, times, topic="__consumer_offsets", records=records)
    forge(tmp_path, {20: f"plain @20-29 ts {NOW}"}, topic="in", leader_epochs={first_epoch: 0}, snapshots={})
    said = audited(tmp_path)
    assert told(tmp_path, "g") == said.get("g", set())
    assert bool(said) is is_out


def test_a_log_start_that_a_broker_forgot_is_not_where_the_group_continues(tmp_path: Path) -> None:
    """With earliest its consumers get that log start, in remote storage, and the broker does not read it."""
    forge(tmp_path, f"plain @0-0 ts {NOW}", topic="__consumer_offsets", records={0: [commit_record("g", "in-0", 4)]})
    forge(tmp_path, {20: f"plain @20-29 ts {NOW}"}, topic="in", log_start=0, leader_epochs={9: 0}, snapshots={})
    (message,) = (
        row["message"]
        for row in kforensics.audit(tmp_path, as_of=NOW).findings.to_pylist()
        if row["code"] == "group-offset-out-of-range"
    )
    assert "the broker reads from 9 on, though the log starts at 0: 5 offsets deleted" in message
    assert message.endswith(
        "with earliest it gets the log start, which the broker does not read, and receives nothing."
    )
