"""Markers that no copy can contain: their partition had no leader when the coordinator completed the transaction.

A coordinator takes a partition without a leader for deleted, and completes the transaction without it. Rule:
``TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue``. So it does not matter when the partition was copied.
"""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["are_skipped"]


def are_skipped(markers: PartitionMarkers, decided: IntArray, completed: IntArray, rules: Rules) -> BoolArray:
    """Return for which transactions a partition surely has its markers up to their end, whenever it was copied.

    That is so if it had no leader from the decision to the end. If its log has the epoch of the leader that followed,
    the copy is later, and has what was written before it had none.

    Args:
        markers: a replica of the partition.
        decided: when each transaction was decided, in ms.
        completed: when each was complete, in ms.
        rules: when partitions had no leader, and by how much clocks may differ.
    """
    own = {epoch for epoch, _ in markers.epoch_starts}
    skipped = np.zeros(len(decided), bool)
    for since, until, next_epoch in rules.leaderless_times(markers.topic_id, markers.name[1]):
        within = (since <= completed) & (completed <= until - rules.clock_skew_ms)
        if next_epoch not in own:
            within &= decided >= since + rules.clock_skew_ms
        skipped |= within
    are_known: BoolArray = (decided != NO_TIME) & (completed != NO_TIME)
    return skipped & are_known
