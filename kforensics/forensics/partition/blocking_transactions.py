"""Open transactions: how long they have been silent, what speaks for a hanging one, what the oldest holds back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.core.observations import Noticed, of_kind
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.marker_times import marker_times
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import NOTHING, last_before, markers_before

__all__ = ["SIGN", "Wait", "signs_of_hanging", "silence_of", "since"]

BEYOND = np.iinfo("i8").max
SIGN = np.dtype(
    [
        ("behind_marker", "?"),  # a marker stands before it that may have ended what was of its epoch
        ("marker_cleaned", "?"),
        ("marker_offset", "i8"),  # of the last marker of the producer before the data; NOTHING if there is none
        ("marker_epoch", "i2"),  # the highest one before the data
        ("coordinator_epoch", "i4"),
    ]
)


@dataclass(frozen=True, slots=True)
class Wait:
    """What the oldest open transaction holds back.

    Attributes:
        offset: the last stable offset, if all of the log is replicated.
        holder: first offset of the transaction.
        ended: transactions that have a marker, and data at the last stable offset or behind it.
        open: further open transactions.
    """

    offset: int
    holder: int
    ended: int
    open: int

    @classmethod
    def of(cls, case: Case) -> Wait | None:
        """Return what waits in a partition, None if nothing does."""
        found = case.open_transactions
        if not len(found):
            return None
        holder = int(found["first_offset"][0])
        offset = max(holder, case.log_start_offset)
        if offset >= case.log_end_offset:
            return None
        waiting = sum(int((rows["last_offset"] >= offset).sum()) for rows in case.ledger.since(offset))
        opened = int((found["last_offset"] >= offset).sum())
        return cls(offset, holder, waiting - opened, len(found) - 1)

    def __str__(self) -> str:
        return f"{self.ended} ended and {self.open} other open transactions wait behind it"


def since(case: Case, timestamps: Any) -> Any:
    """Return how long ago something was, as far as the copy of a partition can know of silence.

    A copy that was taken before the time of evaluation does not know what came since. But where the user says as of
    when to judge, nothing has.

    Args:
        case: the partition.
        timestamps: a time in ms, or several.
    """
    rules, taken = case.rules, case.partition.taken_ms
    ages = rules.as_of_ms - timestamps
    if not rules.is_assumed or taken is None or taken >= rules.as_of_ms:
        return ages
    # A file may have been written to between the look at its time and the copying of its bytes.
    return np.minimum(ages, np.maximum(taken - timestamps, 0))


def silence_of(case: Case, found: Records) -> tuple[Records, Records]:
    """Return for how long each transaction has had no batch, and whether a marker before its last one tells that.

    A client may write timestamps of long ago. Its last batch is no older than the marker of anybody that stands
    before it. Like a broker, this takes a batch without timestamp for a young one.
    """
    own = np.where(found["last_timestamp"] > 0, found["last_timestamp"], case.rules.as_of_ms)
    told = marker_times(case, found["last_offset"])
    implied = told > own + case.rules.clock_skew_ms
    return since(case, np.where(implied, told, own)), implied


def signs_of_hanging(case: Case, transactions: Records) -> Records:
    """Return as SIGN records what the log has to say for transactions that nobody will end.

    Args:
        case: the partition.
        transactions: open ones.
    """
    ids = transactions["producer_id"]
    before = markers_before(case, ids, transactions["first_offset"])
    signs = np.empty(len(transactions), SIGN)
    epoch = transactions["lowest_epoch"]
    # A marker that raised the epoch makes room for the next transaction; one that did not may have come too early.
    same = (before["data_epoch"] == epoch) & (before["marker_epoch"] == epoch)
    signs["behind_marker"] = (before["marker_offset"] != NOTHING) & ((before["highest_epoch"] > epoch) | same)
    signs["marker_cleaned"] = _markers_cleaned(case, transactions)
    signs["marker_offset"], signs["marker_epoch"] = before["marker_offset"], before["highest_epoch"]
    signs["coordinator_epoch"] = before["coordinator_epoch"]
    return signs


def _markers_cleaned(case: Case, found: Records) -> Records:
    """Return whether an empty control batch of the same producer stands behind the data of each transaction."""
    shells = of_kind(case.log.notes, Noticed.CONTROL_SHELL)
    at = last_before(shells["producer_id"], shells["last_offset"], found["producer_id"], np.full(len(found), BEYOND))
    last = np.append(shells["last_offset"], NOTHING)[at]
    cleaned: Records = last > found["last_offset"]
    return cleaned
