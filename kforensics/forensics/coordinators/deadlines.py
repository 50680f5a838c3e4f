"""Until when a coordinator lets a transaction go on, and whether that is over as of its copy.

Rule: ``TransactionStateManager.timedOutTransactions`` for what is aborted, and when.
"""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.transactions.history import NEVER
from kforensics.forensics.core.record_types import NO_TIME, Records

__all__ = ["NO_TIMEOUT", "allowed_until", "is_overdue", "is_stuck", "told_until"]

# What a producer of a two-phase commit has, whose transactions are never timed out (KIP-939).
NO_TIMEOUT = 2_147_483_647


def told_until(cluster: Cluster) -> Records:
    """Return until when each coordinator's log would tell an end: a running broker may have been copied before others.

    What was copied with it tells when that was.
    """
    taken: dict[str | None, int] = {}
    for markers in cluster.joined.markers.values():
        log_dir = markers.place.log_dir
        taken[log_dir] = max(markers.taken, taken.get(log_dir, NO_TIME))
    times = [taken.get(history.place.log_dir, NEVER) for history in cluster.coordinators.histories]
    until: Records = np.minimum(np.array(times, "i8"), cluster.rules.as_of_ms)
    return until


def allowed_until(cluster: Cluster) -> Records:
    """Return for each id until when its coordinator lets its last transaction go on, NEVER where it has no timeout."""
    ids, rules = cluster.coordinators.ids, cluster.rules
    told = (ids["timeout_ms"] != NO_TIMEOUT) & (ids["start"] != NO_TIME)
    allowed: Records = np.where(
        told, ids["start"] + ids["timeout_ms"] + rules.abort_scan_ms + rules.clock_skew_ms, NEVER
    )
    return allowed


def is_overdue(cluster: Cluster) -> Records:
    """Return for each id whether a transaction goes on beyond its timeout."""
    ids = cluster.coordinators.ids
    overdue: Records = (ids["status"] == State.ONGOING) & (
        allowed_until(cluster) < told_until(cluster)[ids["coordinator"]]
    )
    return overdue


def is_stuck(cluster: Cluster) -> Records:
    """Return for each id whether the end of its transaction was decided long ago, and is not everywhere."""
    ids = cluster.coordinators.ids
    prepared = np.isin(ids["status"], (State.PREPARE_COMMIT, State.PREPARE_ABORT))
    old = told_until(cluster)[ids["coordinator"]] - cluster.rules.max_txn_timeout_ms > ids["last_time"]
    stuck: Records = prepared & old & (ids["last_time"] != NO_TIME)
    return stuck
