"""Which incidents are one, although their findings have different keys: evidence links them, or a short time.

``incident_kinds`` states which findings have equal keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

from kforensics.forensics.audit.incident_kinds import IncidentKey, PlacedEvidence
from kforensics.forensics.core.findings import Severity

__all__ = ["Edges", "failovers", "links", "outages"]

Edges: TypeAlias = set[tuple[IncidentKey, IncidentKey]]
# Elections of one leader within this time are one failover, and so are partitions that lose their leaders.
FAILOVER_MS = 30_000
# What the key of a time without a leader begins with; its last value is when that began, in ms.
LEADERLESS = "leaderless"
SHORTENED = ("log-missing", "checkpoint-hw-beyond-end", "replica-truncated")


def links(placed: PlacedEvidence, key: IncidentKey) -> Iterator[IncidentKey]:
    """Yield further keys of the incident of a finding, by its evidence; incidents that share one are the same.

    Args:
        placed: the finding.
        key: its key; kinds by producer also have the transactional id, which keeps its name with a new producer id. A
            coordinator's log is one incident, whichever ids it has.
    """
    kind, cluster = key[:2]
    evidence, code = placed.finding.evidence, placed.finding.code.name
    if kind != "coordinator-log" and isinstance(name := evidence.get("transactional_id"), str):
        yield kind, cluster, "transactional id", name
    if code == "unclean-election-loss":
        yield from (("committed", cluster, group, offset) for group, offset in evidence.get("groups", {}).items())
    is_of_election = "unclean-election-loss" in (code, placed.finding.cause) or code == "atomicity-marker-missing"
    if is_of_election and "leader_epoch" in evidence:
        yield "led", cluster, *placed.topic_partition, evidence["leader_epoch"]
    # A coordinator skips every partition without a leader, so one outage takes markers of many producers.
    if code == "atomicity-marker-missing" and "leaderless_from" in evidence:
        yield LEADERLESS, cluster, evidence["leaderless_from"]
    # What has lost its marker is ended by that of a later transaction.
    if code in ("atomicity-marker-missing", "txn-foreign-data-absorbed"):
        yield "unended", cluster, *placed.topic_partition, placed.finding.producer_id
    # Several replicas that lost the end of a log, and the comparison of one with another.
    if code in SHORTENED and placed.finding.severity > Severity.INFO:
        yield "shortened", cluster, *placed.topic_partition
    if code == "eos-offset-beyond-log":
        yield "committed", cluster, evidence.get("group"), evidence.get("committed")
    if code == "replica-divergence" and (epochs := evidence.get("leader_epochs_of_others")):
        yield from (("led", cluster, *placed.topic_partition, epoch) for epoch in {epochs[0], epochs[-1]})


def failovers(incidents: Iterable[IncidentKey]) -> Edges:
    """Return pairs of elections of the same leader within a short time."""
    elections = sorted(key for key in incidents if key[0] == "unclean-election" and isinstance(key[2], int))
    return {
        (first, second)
        for first, second in pairwise(elections)
        if first[:3] == second[:3] and second[3] - first[3] <= FAILOVER_MS
    }


def outages(edges: Edges) -> Edges:
    """Return pairs of times at which partitions lost their leaders, if little time is between them."""
    lost = sorted({key for pair in edges for key in pair if key[0] == LEADERLESS})
    return {
        (first, second)
        for first, second in pairwise(lost)
        if first[:2] == second[:2] and second[2] - first[2] <= FAILOVER_MS
    }
