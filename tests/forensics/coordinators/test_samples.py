"""Clusters of real brokers: healthy to the last record, and as the brokers described them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import pytest

from kforensics.forensics.audit.cluster_result import (
    ClusterResult,
    coordinator_history,
    evaluate_cluster,
    is_coordinator,
)
from kforensics.forensics.coordinators.cluster_evidence import Cluster, partition_name
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.coordinators.transactions.transitions import StateStep
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from tests.forensics.partition_states import SAMPLES, partitions_under

MINUTE, DAY = 60_000, 86_400_000
SCENARIOS = sorted(path.parent.name for path in SAMPLES.glob("*/truth.json"))
# Producers that continued after an error, or old producers that wrote: the data hangs, as intended. For the other
# scenarios Kafka's tool was asked.
HANGING = {
    "state-lost-after-stop": {("zombie", 0, 5)},
    "transactions-v0": {("hanging", 0, 3)},
    "transactions-v1": {("hanging", 0, 3)},
    "transactions-v2": {("hanging", 0, 3)},
}
# Markers that no coordinator sent contradict the decision.
SPLIT = "atomicity-split-outcome"
FORGED = {("aborted", SPLIT), ("committed", SPLIT)}
# A group had read what an unclean election lost.
LOST = {"unclean-election": {"eos-offset-beyond-log"}}
COMPLETE = ("CompleteCommit", "CompleteAbort")
# Compaction removed what the brokers had already forgotten.
CLEANED = ("coordinators-cleaned",)
OTHER_ROLES = {
    "coordinators-cleaned": {MarkerRole.UNKNOWN_PRODUCER},
    "rolling-restart": {MarkerRole.DUPLICATE},
    "forged-markers": {MarkerRole.UNMATCHED},
}


class Evidence(NamedTuple):
    """The evidence in the files of a scenario, and the rules to evaluate it."""

    histories: list[History]
    markers: list[PartitionMarkers]
    commits: list[Commits]
    rows: list[Rows]
    rules: Rules

    def evaluated(self) -> ClusterResult:
        """Return the result of the cluster's checks."""
        return evaluate_cluster(self.histories, self.markers, self.rules, commits=self.commits)


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@cache
def truth_of(scenario: str) -> dict[str, Any]:
    """Return what the brokers reported before they were stopped."""
    truth: dict[str, Any] = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))
    return truth


def taken(scenario: str) -> int:
    """Return when the brokers were asked."""
    return int(datetime.fromisoformat(truth_of(scenario)["taken"]).timestamp() * 1000)


@cache
def evidence(scenario: str, after_ms: int = MINUTE) -> Evidence:
    """Return the evidence in the files of a scenario, and the rules to evaluate it."""
    rules, rows = Rules(taken(scenario) + after_ms), list[Rows]()
    cases = [examine(one, rules) for one in partitions_under(SAMPLES / scenario)]
    histories = [coordinator_history(case, rows.append) for case in cases if is_coordinator(case)]
    offsets = [commits_of(case) for case in cases if case.partition.place.topic == CONSUMER_OFFSETS]
    return Evidence(
        histories, [PartitionMarkers.of(case) for case in cases if not is_coordinator(case)], offsets, rows, rules
    )


def cluster(scenario: str) -> Cluster:
    """Return the cluster of a scenario, from its most complete replicas."""
    return evidence(scenario).evaluated().cluster


def test_a_healthy_cluster_raises_no_alarm(scenario: str) -> None:
    """Late writes hang at once, however young they are: the brokers were shut down cleanly.

    Where an unclean election lost records, the offset of a group that had read them is beyond the end.
    """
    alarms = [one for one in evidence(scenario).evaluated().findings if one.finding.severity >= Severity.WARNING]
    late = [one for one in alarms if one.finding.code.name in {"txn-hanging", "txn-write-after-marker"}]
    assert {(*one.place[2:], one.finding.first_offset) for one in late} == hanging_in(scenario)
    others = [one for one in alarms if one not in late]
    if scenario.startswith("forged-markers"):
        assert {(one.place.topic, one.finding.code.name) for one in others} == FORGED
    else:
        assert {one.finding.code.name for one in others} == LOST.get(scenario, set())


def test_a_day_later_hanging_transactions_are_reported(scenario: str) -> None:
    """Transactions that brokers kept open until they were stopped are overdue."""
    found = evidence(scenario, DAY).evaluated().findings
    alarming = [one for one in found if one.finding.severity >= Severity.ERROR]
    codes = {one.finding.code.name for one in alarming}
    overdue = {"txn-hanging", "txn-write-after-marker", "txnlog-ongoing-overdue", "eos-offsets-pending"}
    provoked = {SPLIT} if scenario.startswith("forged-markers") else LOST.get(scenario, set())
    assert codes <= overdue | provoked
    hanging = {(*one.place[2:], one.finding.first_offset) for one in alarming if one.finding.code.name == "txn-hanging"}
    assert hanging == hanging_in(scenario)


def hanging_in(scenario: str) -> set[tuple[str, int, int]]:
    """Return topic, partition and first offset of the hanging transactions."""
    listed = truth_of(scenario).get("hanging", [])
    return HANGING.get(scenario, {(one["topic"], one["partition"], one["start_offset"]) for one in listed})


def test_every_record_follows_the_one_before_it(scenario: str) -> None:
    steps = {step for some in evidence(scenario).rows for (step,) in some.only("step")}
    assert steps <= ({str(StateStep.FIRST), str(StateStep.NEXT)} if scenario not in CLEANED else {"next", "unknown"})


def test_every_marker_belongs_to_a_transaction(scenario: str) -> None:
    """One was written by an operator; removed ids are unknown.

    Of the forged markers the ABORT looks like an operator's. New coordinators sent one marker again.
    """
    found = cluster(scenario)
    roles = [MarkerRole(role) for role in found.marker_join.roles.tolist()]
    operators = 2 if scenario.startswith("forged-markers") else int(scenario.startswith("transactions-v"))
    assert roles.count(MarkerRole.BY_OPERATOR) == operators
    assert set(roles) <= {MarkerRole.SENT, MarkerRole.BY_OPERATOR} | (
        OTHER_ROLES.get(scenario.rpartition("-v")[0] or scenario, set())
    )


def test_every_transaction_ended_the_same_everywhere(scenario: str) -> None:
    """As far as the files show: logs were truncated, compacted, deleted, or moved to remote storage."""
    statuses = {
        MarkerStatus(status)
        for status in cluster(scenario).marker_join.transaction_partitions["marker_status"].tolist()
    }
    partial = {MarkerStatus.NOT_COVERED, MarkerStatus.NOT_SUPPLIED} if scenario in PARTIAL else set()
    forged = {MarkerStatus.SPLIT} if scenario.startswith("forged-markers") else set()
    assert statuses <= {MarkerStatus.MATCHED, MarkerStatus.EMPTY} | partial | forged


def test_every_complete_transaction_was_atomic(scenario: str) -> None:
    tables = [rows for rows in evidence(scenario).evaluated().rows if rows.table.name == "distributed_transactions"]
    found = {atomic for rows in tables for state, atomic in rows.only("state", "atomic") if state in COMPLETE}
    forged = {"no"} if scenario.startswith("forged-markers") else set()
    assert found <= {"yes"} | forged | ({"unverifiable"} if scenario in (*PARTIAL, *CLEANED) else set())
    assert found or all(reported["state"] not in COMPLETE for reported in truth_of(scenario)["transactions"].values())


PARTIAL = ("compaction", "compaction-3.9", "ghosts", "legacy-2.7", "remote-storage", "remote-retention")


def described() -> Iterator[Any]:
    for scenario in SCENARIOS:
        for name, reported in truth_of(scenario)["transactions"].items():
            yield pytest.param(scenario, name, reported, id=f"{scenario}-{name}")


@pytest.mark.parametrize(("scenario", "name", "reported"), list(described()))
def test_the_last_state_is_what_the_coordinator_reported(scenario: str, name: str, reported: dict[str, Any]) -> None:
    """DescribeTransactions returns -1 or, up to 3.9, an old time if no transaction has begun since the last init."""
    rows = [one for one in evidence(scenario).evaluated().rows if one.table.name == "transactional_ids"]
    columns = ("state", "producer_id", "producer_epoch", "transaction_timeout_ms", "partitions", "start_timestamp")
    ids = {row[0]: row[1:] for some in rows for row in some.only("transactional_id", *columns)}
    *last_state, start = ids[name]
    assert last_state == [
        reported["state"],
        reported["producer_id"],
        reported["producer_epoch"],
        reported["transaction_timeout_ms"],
        ",".join(sorted(reported["topic_partitions"])) or None,
    ]
    if reported["state"] != "Empty":
        assert start == reported["transaction_start_time_ms"]


def groups_described() -> Iterator[Any]:
    for scenario in SCENARIOS:
        for name, reported in truth_of(scenario)["groups"].items():
            yield pytest.param(scenario, name, reported["offsets"], id=f"{scenario}-{name}")


@pytest.mark.parametrize(("scenario", "group", "reported"), list(groups_described()))
def test_offsets_in_force_are_those_of_the_broker(scenario: str, group: str, reported: dict[str, Any]) -> None:
    found = {
        partition_name(key[1:]): (
            commit.committed,
            None if commit.leader_epoch < 0 else commit.leader_epoch,
            commit.metadata,
        )
        for commits in evidence(scenario).commits
        for key, commit in commits.last.items()
        if key[0] == group
    }
    assert found == {name: (one["offset"], one["leader_epoch"], one["metadata"]) for name, one in reported.items()}


def test_ids_that_no_coordinator_listed_are_removed(scenario: str) -> None:
    truth = truth_of(scenario)
    there = {
        name
        for history in evidence(scenario).histories
        for name, removed in zip(history.names, history.ids["is_removed"].tolist(), strict=True)
        if not removed
    }
    # Kafka 2.7 and 2.8 do not list transactions.
    if truth["transactions"]:
        assert there >= set(truth["transactions"])
    written_later = {"ghosts", "ghosts-3.9"}
    if truth["transactions"] and scenario not in written_later:
        assert there == set(truth["transactions"])


def ends_described() -> Iterator[Any]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        truth = json.loads(path.read_text("utf-8"))
        for name, reported in truth["groups"].items():
            yield pytest.param(
                path.parent.name, name, reported["offsets"], truth["topics"], id=f"{path.parent.name}-{name}"
            )


@pytest.mark.parametrize(("scenario", "group", "reported", "topics"), list(ends_described()))
def test_the_lag_of_groups_is_that_of_the_live_broker(
    scenario: str, group: str, reported: dict[str, Any], topics: dict[str, Any]
) -> None:
    """Lag is the end for either kind of consumer, from the broker, minus the offset from the admin client."""
    rows = [one for one in evidence(scenario).evaluated().rows if one.table.name == "committed_offsets"]
    names = ("group", "committed_topic", "committed_partition", "lag", "stable_lag")
    found = {partition_name(row[1:3]): row[3:] for some in rows for row in some.only(*names) if row[0] == group}
    expected = {}
    for name, one in reported.items():
        topic, _, partition = name.rpartition("-")
        ends = topics.get(topic, {}).get(partition)
        latest = [None if ends is None else ends[key] - one["offset"] for key in ("latest", "latest_read_committed")]
        expected[name] = tuple(latest)
    assert found == expected
