"""What the log of a coordinator's partition amounts to: its ids, their transactions, and what is wrong with records.

The log is read once. What is kept grows with the number of ids and of transactions, not with that of records; histories
of several partitions can be made anywhere, for an id lives in one of them.
"""

from __future__ import annotations

from collections.abc import Callable

from kforensics.forensics.coordinators.transactions.history_records import history_by_record
from kforensics.forensics.coordinators.transactions.history_replay import SeenColumns, history_in_columns
from kforensics.forensics.coordinators.transactions.history_types import ALWAYS, NEVER, USE, History, Seen
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.record_columns import WORTH_COLUMNS
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["ALWAYS", "NEVER", "USE", "History", "Seen", "SeenColumns", "history_of"]


def history_of(
    case: Case, keep: Callable[[Seen | SeenColumns], None] | None = None, kernels: Choice = kernels_for
) -> History:
    """Return the history of a coordinator's partition; its log is read once more.

    Args:
        case: the partition, examined as any other one is.
        keep: told of all records and how they follow those before them, in the order of the log; of those of a log that
            is not small many at a time.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.

    Raises:
        InputError: a segment cannot be read.
    """
    if case.partition.size < WORTH_COLUMNS:
        return history_by_record(case, keep)
    return history_in_columns(case, keep, kernels)
