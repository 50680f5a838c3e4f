"""Groups that go back or start again without their offset: the causes by real brokers, and what looks alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.parsers.messages.group import CONSUMER_GROUP_METADATA_KEY, CONSUMER_GROUP_METADATA_VALUE
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON, cluster_under, commit_record, found_in, group_record
from tests.forensics.forge import Content, forge
from tests.parsers.messages.encoder import encode

FIRES = {
    "group-offset-reset": "test_the_causes_on_real_brokers",
    "group-offset-out-of-range": "test_the_causes_on_real_brokers",
}
SILENT = {
    "group-offset-reset": "test_groups_that_are_well",
    "group-offset-out-of-range": "test_groups_that_are_well",
}
LABS = Path(__file__).parents[3] / "data" / "group-resets"
RELEASES = ("4.4.0", "3.9.1")
MINUTE, DAY = 60_000, 86_400_000
# What the lab did to each group, as the finding names it.
CAUSES = {
    "expired": ("offset-expired", "warning"),
    "expired-modern": ("offset-expired", "warning"),
    "truncated": ("log-truncated", "warning"),
    "recreated": ("topic-recreated", "info"),
    "offsets-deleted": ("offset-deleted", "info"),
    "group-deleted": ("group-deleted", "info"),
    "reset-by-tool": ("administrator", "info"),
    "member": ("member", "info"),
    "simple": ("simple-consumer", "info"),
}
# The coordinator before 4.0 removes an empty group with its last offset; the consumer protocol was not yet enabled.
CAUSES_BEFORE_4 = {name: cause for name, cause in CAUSES.items() if name != "expired-modern"}
CAUSES_BEFORE_4["offsets-deleted"] = ("group-deleted", "info")
WELL = {"well", "lags", "deleted-for-good", "expired-abandoned"}


def group_findings(release: str, **given: Any) -> list[dict[str, Any]]:
    options: dict[str, Any] = {"settings": {"offsets.retention.minutes": 1}, **given}
    audit = kforensics.audit(LABS / release / "broker-1", as_of="2026-11-24", **options)
    rows: list[dict[str, Any]] = audit.findings.to_pylist()
    for row in rows:
        row["evidence"] = json.loads(row["evidence"])
    return [row for row in rows if "group" in row["evidence"]]


@pytest.mark.parametrize("release", RELEASES)
def test_the_causes_on_real_brokers(release: str) -> None:
    """Ten causes, one group each."""
    rows = group_findings(release)
    resets = [row for row in rows if row["code"] == "group-offset-reset"]
    found = {row["evidence"]["group"]: (row["evidence"]["reset_by"], row["severity"]) for row in resets}
    assert found == (CAUSES if release == "4.4.0" else CAUSES_BEFORE_4)
    assert len(resets) == len(found)
    others = {(row["code"], row["evidence"]["group"]): row["severity"] for row in rows if row not in resets}
    assert others == {
        ("eos-offset-regressed", "transaction"): "warning",
        ("group-offset-out-of-range", "retained"): "warning",
        ("group-offset-out-of-range", "retained-abandoned"): "info",
    }


@pytest.mark.parametrize("release", RELEASES)
def test_groups_that_are_well(release: str) -> None:
    """One that restarted where it was, one that lags, one deleted and one expired for good: the log has them all."""
    truth = json.loads((LABS / release / "truth.json").read_text("utf-8"))
    (commits,) = cluster_under(LABS / release / "broker-1").commits
    assert set(commits.groups) >= WELL
    assert truth["groups"].keys() >= {"well", "lags"}
    assert not WELL & {row["evidence"]["group"] for row in group_findings(release)}


def test_the_remedy_names_the_offset_of_the_group() -> None:
    (row,) = (row for row in group_findings("4.4.0") if row["evidence"]["group"] == "expired")
    assert "--reset-offsets --group expired --topic orders:0 --to-offset 10 --dry-run`" in row["remedy"]
    assert "expired at" in row["message"]
    assert "at least 7 offsets read again" in row["message"]


def test_processes_find_the_same() -> None:
    assert group_findings("4.4.0", processes=2) == group_findings("4.4.0", processes=1)


@pytest.mark.parametrize("release", RELEASES)
def test_without_the_retention_the_times_show_the_causes(release: str) -> None:
    """Kafka's default is seven days. What was removed just over a minute later may have expired, but is no warning."""
    rows = [row for row in group_findings(release, settings={}) if row["code"] == "group-offset-reset"]
    causes = CAUSES if release == "4.4.0" else CAUSES_BEFORE_4
    assert {row["evidence"]["group"]: row["evidence"]["reset_by"] for row in rows} == {
        group: cause for group, (cause, _) in causes.items()
    }
    removed = {row["evidence"]["group"]: row for row in rows if row["evidence"]["removed_at_offset"] is not None}
    expired = removed["expired"]
    assert (expired["severity"], expired["exactness"]) == ("info", "approximate")
    assert "idle for just over 1 min, which offsets.retention.minutes may be" in expired["message"]
    deleted = removed["group-deleted"]
    assert (deleted["severity"], deleted["exactness"]) == ("info", "exact")
    assert "offsets.retention.minutes is at least 1" in deleted["message"]


def offset(committed: int | None) -> Content:
    return commit_record("g", "in-0", committed)


def reset_of(folder: Path, *steps: tuple[int, Content]) -> dict[str, Any] | None:
    """Return the finding on a log of records with these times after NOW, one batch each; None without one."""
    batches = "; ".join(f"plain @{at}-{at} ts {NOW + time}" for at, (time, _) in enumerate(steps))
    forge(folder, batches, topic="__consumer_offsets", records={at: [step] for at, (_, step) in enumerate(steps)})
    placed = found_in(cluster_under(folder, as_of_ms=SOON + 30 * DAY))
    resets = [finding for _, finding in placed if finding.code.name == "group-offset-reset"]
    assert len(resets) < 2
    return {"severity": str(resets[0].severity), **resets[0].evidence} if resets else None


def test_retention_counts_from_when_the_last_member_left(tmp_path: Path) -> None:
    """The last commit is older than the retention in both; in one the group was in use until a day before."""
    records = [(0, group_record("g", 1)), (1, offset(9))]
    idle = [*records, (2, group_record("g", 0, 2)), (8 * DAY, offset(None)), (9 * DAY, offset(3))]
    expired = reset_of(tmp_path / "idle", *idle)
    left = 7 * DAY - MINUTE // 2
    used = [*records, (left, group_record("g", 0, left)), (8 * DAY, offset(None)), (9 * DAY, offset(3))]
    deleted = reset_of(tmp_path / "used", *used)
    assert expired is not None
    assert deleted is not None
    assert (expired["reset_by"], expired["severity"]) == ("offset-expired", "warning")
    assert (deleted["reset_by"], deleted["severity"]) == ("offset-deleted", "info")


IDLE = 5 * MINUTE + 39_000


@pytest.mark.parametrize(
    ("kind", "idle", "minutes", "cause"),
    [
        (3, IDLE, None, "offset-removed"),
        (3, IDLE, 10_080, "group-deleted"),
        (3, 223, None, "group-deleted"),
        (2, IDLE, None, "group-deleted"),
    ],
    ids=["unknown retention", "known retention", "soon", "classic"],
)
def test_a_consumer_group_that_is_removed_with_its_offsets(
    kind: int, idle: int, minutes: int | None, cause: str, tmp_path: Path
) -> None:
    """A group of KIP-848 expired so on a broker of 4.4.0 with a retention of one minute.

    Its offsets did not expire while it had members, and did as soon as the last one left: not at a whole minute.
    """
    key = b"\x00\x03" + encode(CONSUMER_GROUP_METADATA_KEY, 0, {"groupId": "g"})
    epoch = b"\x00\x00" + encode(CONSUMER_GROUP_METADATA_VALUE, 0, {"epoch": 3, "metadataHash": 0})
    group, removed = ((key, epoch), (key, None)) if kind == 3 else (group_record("g", 0), group_record("g", None))
    records = {0: [group], 1: [offset(5)], 2: [offset(None), removed], 4: [group], 5: [offset(2)]}
    times = {"0-0": 0, "1-1": 0, "2-3": idle, "4-4": idle + DAY, "5-5": idle + DAY}
    batches = "; ".join(f"plain @{offsets} ts {NOW + time}" for offsets, time in times.items())
    forge(tmp_path, batches, topic="__consumer_offsets", records=records)
    settings = {} if minutes is None else {"offsets.retention.minutes": minutes}
    audit = kforensics.audit(tmp_path, as_of=NOW + 30 * DAY, settings=settings)
    (row,) = (row for row in audit.findings.to_pylist() if row["code"] == "group-offset-reset")
    assert json.loads(row["evidence"])["reset_by"] == cause
    is_certain = minutes is not None or idle < MINUTE
    assert row["exactness"] == ("exact" if is_certain else "approximate")
    assert ("was likely deleted with its group" in row["message"]) == (kind == 2)
    assert ("by expiry or by a deletion (idle for 5 min 39 s" in row["message"]) == (cause == "offset-removed")


def test_an_expired_offset_without_a_lower_commit_is_information(tmp_path: Path) -> None:
    """The topic may have had no records meanwhile; then nothing was read again or skipped."""
    reset = reset_of(tmp_path, (0, offset(9)), (8 * DAY, offset(None)), (9 * DAY, offset(9)))
    assert reset is not None
    assert (reset["reset_by"], reset["severity"], reset["before"]) == ("offset-expired", "info", 9)


def test_several_tombstones_are_one_removal(tmp_path: Path) -> None:
    """The first one removed the offset."""
    removals = [(8 * DAY, offset(None)), (8 * DAY + 1, offset(None)), (8 * DAY + 2, group_record("g", None))]
    reset = reset_of(tmp_path, (0, offset(9)), *removals, (9 * DAY, offset(3)))
    assert reset is not None
    assert (reset["reset_by"], reset["removed_at_offset"], reset["before"]) == ("offset-expired", 1, 9)


def test_compaction_took_the_commit_before(tmp_path: Path) -> None:
    """Of the offset only its tombstone is left: neither where it was nor since when is known."""
    reset = reset_of(tmp_path, (8 * DAY, offset(None)), (9 * DAY, offset(3)))
    assert reset is not None
    assert (reset["reset_by"], reset["severity"], reset["before"]) == ("offset-removed", "info", None)


def test_commits_that_only_rise(tmp_path: Path) -> None:
    """Also the same one again, as of a member that has read nothing, and a removal that nothing follows."""
    assert reset_of(tmp_path / "rising", (0, offset(3)), (1, offset(3)), (2, offset(4))) is None
    assert reset_of(tmp_path / "gone", (0, offset(3)), (9 * DAY, offset(None))) is None


@pytest.mark.parametrize(("members", "cause"), [(2, "member"), (0, "administrator")])
def test_who_may_commit_depends_on_the_members(members: int, cause: str, tmp_path: Path) -> None:
    reset = reset_of(
        tmp_path, (0, group_record("g", 2)), (1, offset(9)), (2, group_record("g", members)), (3, offset(4))
    )
    assert reset is not None
    assert (reset["reset_by"], reset["members"], reset["severity"]) == (cause, members, "info")


@pytest.mark.parametrize(
    ("log", "members", "severity"), [("plain @20-29", 1, "warning"), ("plain @20-29", 0, "info"), ("", 1, "info")]
)
def test_an_offset_before_the_log_start(log: str, members: int, severity: str, tmp_path: Path) -> None:
    """A warning only for a group in use, of a partition that still has records."""
    records = {0: [group_record("g", members)], 1: [commit_record("g", "in-0", 9)]}
    forge(tmp_path, "plain @0-0; plain @1-1", topic="__consumer_offsets", records=records)
    forge(tmp_path, {20: log}, topic="in", snapshots={})
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity)) == ("group-offset-out-of-range", severity)


def test_an_offset_at_the_log_start(tmp_path: Path) -> None:
    records = {0: [group_record("g", 1)], 1: [commit_record("g", "in-0", 20)]}
    forge(tmp_path, "plain @0-0; plain @1-1", topic="__consumer_offsets", records=records)
    forge(tmp_path, {20: "plain @20-29"}, topic="in", snapshots={})
    assert found_in(cluster_under(tmp_path)) == []
