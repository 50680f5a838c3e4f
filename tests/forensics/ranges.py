"""Ledgers that hold next to nothing in memory, so that what is done range by range shows in small logs."""

from __future__ import annotations

from functools import partial

import pytest

from kforensics.forensics.core.external_sort import Sorting
from kforensics.forensics.core.record_types import TRANSACTION
from kforensics.forensics.partition.transaction_store import sorting_by_marker

__all__ = ["SIZE", "tiny_ranges"]

# Transactions of a range, and bytes of them that are kept in memory.
SIZE = 2
ROOM = 4 * TRANSACTION.itemsize


def tiny_ranges(patch: pytest.MonkeyPatch) -> None:
    """Have whatever examines a partition from now on make ranges of two transactions, most of them in a file."""
    patch.setattr("kforensics.forensics.partition.examine.sorting_by_marker", _sorting_by_marker)
    patch.setattr("kforensics.forensics.audit.audit_scope.sorting_by_marker", _sorting_by_marker)
    patch.setattr("kforensics.forensics.sidecar.visibility_sweep.Sorting", partial(Sorting, room=ROOM, size=SIZE))
    patch.setattr("kforensics.analyses.questions.Sorting", partial(Sorting, room=ROOM, size=SIZE))


def _sorting_by_marker(*_: int) -> Sorting:
    return sorting_by_marker(ROOM, SIZE)
