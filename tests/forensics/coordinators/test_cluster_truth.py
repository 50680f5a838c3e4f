"""What applications did on real brokers and what Kafka's tools reported, across several partitions."""

from __future__ import annotations

import pytest

from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from tests.forensics.coordinators.clusters import found_in
from tests.forensics.coordinators.doctored import (
    MINUTE,
    alarms,
    each_protocol,
    original,
    taken,
    transactions_of,
    truth_of,
)
from tests.forensics.partition_states import SAMPLES, partitions_under

DAY = 1440 * MINUTE
# Commits and aborts of the clients of each id in lab/scenarios/consume_transform_produce.py. The abort of slow-app was
# a timeout, that of fenced-app a fencing.
ENDS = {
    "billing-app": (4, 2),
    "shipping-app": (3, 2),
    "skipping-app": (2, 2),
    "slow-app": (1, 1),
    "fenced-app": (2, 1),
    "late-app": (1, 0),
    "pending-app": (1, 0),
}


@each_protocol()
def test_every_transaction_ended_as_its_client_requested(sample: str) -> None:
    found = transactions_of(original(sample))
    assert {one["transactional_id"] for one in found} == ENDS.keys()
    for name, ends in ENDS.items():
        states = [one["state"] for one in found if one["transactional_id"] == name]
        assert (states.count("CompleteCommit"), states.count("CompleteAbort")) == ends
        assert states.count("Ongoing") == (name == "pending-app") == len(states) - sum(ends)


@each_protocol()
def test_transactions_were_over_several_partitions(sample: str) -> None:
    """Some span all of the output and a group coordinator, some a part of it."""
    lists = {one["partitions"] for one in transactions_of(original(sample))}
    assert {"__consumer_offsets-1,output-0,output-1,output-2", "__consumer_offsets-0,output-0,output-1"} <= lists
    assert {"__consumer_offsets-1", "output-1,output-2"} <= lists


def commits_in(sample: str) -> list[Commits]:
    """Return the committed offsets on the first broker."""
    partitions = partitions_under(SAMPLES / sample / "broker-1")
    rules = Rules(taken(sample) + MINUTE)
    return [commits_of(examine(one, rules)) for one in partitions if one.place.topic == CONSUMER_OFFSETS]


@each_protocol()
def test_groups_without_stable_offsets_are_those_with_pending_ones(sample: str) -> None:
    pending = {group for commits in commits_in(sample) for groups in commits.pending.values() for group in groups}
    assert pending == truth_of(sample)["unstable"].keys()


@each_protocol()
def test_a_day_later_pending_offsets_are_reported(sample: str) -> None:
    """Both those that hang, which Kafka's tool listed, and those that their coordinator should have aborted."""
    found = [one for one in alarms(original(sample, DAY)) if one.finding.code.name == "eos-offsets-pending"]
    assert {one.finding.severity for one in found} == {Severity.CRITICAL}
    groups = {group for one in found for group in one.finding.evidence["groups"]}
    assert groups == truth_of(sample)["unstable"].keys()


@each_protocol()
@pytest.mark.parametrize("after_ms", [MINUTE, DAY])
def test_hanging_transactions_are_those_that_the_tool_listed(sample: str, after_ms: int) -> None:
    """However young they are: the brokers were shut down cleanly, so the coordinators' logs are as new as the data."""
    found = [one for one in found_in(original(sample, after_ms)) if one.finding.code.name == "txn-hanging"]
    reported = {
        (
            one.place.topic,
            one.place.partition,
            one.finding.first_offset,
            one.finding.producer_id,
            one.finding.producer_epoch,
        )
        for one in found
    }
    names = ("topic", "partition", "start_offset", "producer_id", "producer_epoch")
    listed = {tuple(one[name] for name in names) for one in truth_of(sample)["hanging"]}
    assert len(listed) == 2
    assert reported == listed
    assert {one.finding.exactness for one in found} == {Exactness.EXACT}
