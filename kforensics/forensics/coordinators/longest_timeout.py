"""The longest timeout of a transaction in the log of a transaction coordinator.

Rule: ``TransactionCoordinator.handleInitProducerId`` refuses a timeout above ``transaction.max.timeout.ms``. So a
longer one shows that the setting was larger, at least at that time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NO_TIMEOUT
from kforensics.forensics.coordinators.transactions.state_columns import NO_STATUS, StateCache, state_columns
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.columns.record_columns import RECORD_CHUNK_ROWS, record_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import kernels_for

__all__ = ["LongestTimeout", "longest_timeout"]


class LongestTimeout(NamedTuple):
    """The longest timeout.

    Attributes:
        timeout_ms: the timeout.
        transactional_id: whose it is.
    """

    timeout_ms: int
    transactional_id: str | None


def longest_timeout(partition: Partition) -> LongestTimeout | None:
    """Return the longest timeout in a partition of ``__transaction_state``, None if there is none.

    Raises:
        InputError: a segment cannot be read.
    """
    longest, cache = None, StateCache()
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            for records in record_chunks(source, kernels_for(source.size), RECORD_CHUNK_ROWS):
                states = state_columns(number, records, cache)
                is_sound = (states.rows["status"] != NO_STATUS) & ~states.rows["is_wrong"]
                timeouts = np.where(is_sound & (states.rows["timeout_ms"] < NO_TIMEOUT), states.rows["timeout_ms"], 0)
                if len(timeouts) and timeouts.max() > (longest.timeout_ms if longest else 0):
                    name = states.name(int(timeouts.argmax()))
                    longest = LongestTimeout(int(timeouts.max()), name)
    return longest
