"""Open transactions for which a coordinator will send a marker."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.core.record_types import Records

__all__ = ["is_awaited", "is_illegible"]


def is_awaited(cluster: Cluster, partition: int, opened: Records, ids: Records) -> Records:
    """Return which open transactions their coordinators will end.

    Args:
        cluster: the cluster.
        partition: number of their partition.
        opened: OPEN records.
        ids: number of the transactional id of each.
    """
    last = cluster.coordinators.ids[ids]
    active = np.isin(last["status"], (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT))
    name = cluster.joined.partitions[partition]
    # Behind the last set, where -1 finds it, there is none.
    lists = np.array([name in one for one in cluster.coordinators.sets] + [False], bool)
    awaited: Records = active & lists[last["partitions"]] & (last["producer_id"] == opened["producer_id"])
    return awaited


def is_illegible(cluster: Cluster, ids: Records) -> Records:
    """Return of which ids the last record cannot be read, or has no state that is written.

    Args:
        cluster: the cluster.
        ids: numbers of transactional ids.
    """
    last = cluster.coordinators.ids[ids]
    lasting = (last["status"] != NONE) & (last["status"] <= State.COMPLETE_ABORT)
    illegible: Records = ~lasting & ~last["is_removed"]
    return illegible
