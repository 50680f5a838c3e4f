"""Which transaction data belonged to that the COMMIT of a later one of its producer has committed in a partition.

If that transaction was committed as well, and only its marker is missing in the partition, consumers receive what they
should, only later.
"""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.reporting import Row

__all__ = ["own_commit"]

COMMITTED = (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)


def own_commit(cluster: Cluster, marker: Row, begun_epoch: int, start: int) -> int | None:
    """Return when the transaction of absorbed data was itself decided to be committed, in ms; None if it was not.

    Several transactions may have lost their markers; then all of them have to be committed.

    Args:
        cluster: the cluster.
        marker: the TRANSACTION_MARKER row of the COMMIT, with the lowest epoch of what it ended.
        begun_epoch: epoch of the data of the transaction that it belongs to.
        start: when that transaction began, in ms.
    """
    listed = cluster.marker_join.transaction_partitions
    lacking = (listed["partition"] == marker["partition"]) & (listed["marker_status"] == MarkerStatus.MISSING)
    decided = cluster.coordinators.transactions[listed["transaction"][lacking]]
    epochs = decided["data_epoch"]
    is_earlier = (epochs < begun_epoch) | ((epochs == begun_epoch) & (decided["decided"] < start))
    decided = decided[
        (decided["producer_id"] == marker["producer_id"]) & (epochs >= marker["lowest_epoch"]) & is_earlier
    ]
    is_own = decided["data_epoch"] == marker["lowest_epoch"]
    if not is_own.any() or not np.isin(decided["status"], COMMITTED).all():
        return None
    return int(decided["decided"][is_own][-1])
