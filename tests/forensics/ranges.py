"""Ledgers that hold next to nothing in memory, so that what is done range by range shows in small logs."""

from __future__ import annotations

from functools import partial

import pytest

from kforensics.forensics.ledger import sorting_by_marker
from kforensics.forensics.replay.results import TRANSACTION
from kforensics.forensics.sorting import Sorting

__all__ = ["SIZE", "tiny_ranges"]

# Transactions of a range, and bytes of them that are kept in memory.
SIZE = 2
ROOM = 4 * TRANSACTION.itemsize


def tiny_ranges(patch: pytest.MonkeyPatch) -> None:
    """Have whatever examines a partition from now on make ranges of two transactions, most of them in a file."""
    patch.setattr("kforensics.forensics.examine.sorting_by_marker", _sorting_by_marker)
    patch.setattr("kforensics.forensics.asked.sorting_by_marker", _sorting_by_marker)
    patch.setattr("kforensics.forensics.beside.visibility_sweep.Sorting", partial(Sorting, room=ROOM, size=SIZE))
    patch.setattr("kforensics.answers.Sorting", partial(Sorting, room=ROOM, size=SIZE))


def _sorting_by_marker(*_: int) -> Sorting:
    return sorting_by_marker(ROOM, SIZE)
