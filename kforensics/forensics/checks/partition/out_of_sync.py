"""Checks whether a replica is out of sync although its broker is at work, by the metadata of the cluster.

Rule: ``Partition.maybeShrinkIsr`` takes a follower out of the ISR that does not catch up, and
``Partition.maybeExpandIsr`` takes it in again.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import UNDER_REPLICATED
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_time
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.lagging_replica import lag_of, seen_running
from kforensics.forensics.partition.partition_state import PartitionState

CODES = by_name(
    Code(
        "replica-out-of-sync",
        Severity.WARNING,
        meaning="A replica is out of sync although its broker is at work.",
        remedy=(
            f"Look for the partition in {UNDER_REPLICATED}. If it is listed, look in the broker's own log for the "
            "reason: a replica fetcher that failed, a full or slow disk, a replication throttle. Ask the leader about "
            "the partition, not this replica."
        ),
        why=(
            "It lacks what its leader has appended since, so transactions may look open, and offsets of consumer "
            "groups old, that are not. While it lacks it, the partition has one replica less to lose."
        ),
        benign=(
            "The broker was started not long ago and catches up, or a reassignment fills the replica: then the "
            "severity is only info. The metadata log was copied before the replica had caught up."
        ),
    ),
)
# How long a replica may take to catch up before that is unusual.
CATCHES_UP_MS = 600_000


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield that a replica is out of sync."""
    lag, until = lag_of(state), seen_running(state)
    if lag is None or lag.left_by_shutdown or (until is None and lag.since != NO_TIME):
        return
    since = lag.since
    lagged = None if until is None or since == NO_TIME else until - since
    how_long = "" if lagged is None else f" since {format_time(since)}, for {format_duration(lagged)} when copied"
    yield state.finding(
        CODES["replica-out-of-sync"],
        f"This replica has been out of sync{how_long}. It ends at offset {state.log_end_offset}; its leader may have "
        "more.",
        severity=None if lagged is not None and lagged > CATCHES_UP_MS else Severity.INFO,
        evidence={"since_ms": None if since == NO_TIME else since, "lagged_ms": lagged},
        benign=(
            f"a reassignment fills it, and it has never been in sync: {'likely' if since == NO_TIME else 'no'}",
            "copied while it caught up after a start of its broker: possible",
        ),
    )


CHECK = Check("out_of_sync", CODES, findings)
