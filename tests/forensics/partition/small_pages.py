"""Transaction stores that keep almost nothing in memory, so that small logs test what is done page by page."""

from __future__ import annotations

from functools import partial

import pytest

from kforensics.forensics.core.external_sort import ExternalSort
from kforensics.forensics.core.record_types import TRANSACTION
from kforensics.forensics.partition.transaction_store import sort_by_marker

__all__ = ["PAGE_SIZE", "use_small_pages"]

# Transactions per page, and bytes of them that are kept in memory.
PAGE_SIZE = 2
MEMORY_LIMIT = 4 * TRANSACTION.itemsize


def use_small_pages(patch: pytest.MonkeyPatch) -> None:
    """Make all code that reads a partition use pages of two transactions, most of them in a file."""
    external_sort = partial(ExternalSort, room=MEMORY_LIMIT, size=PAGE_SIZE)
    patch.setattr("kforensics.forensics.partition.examine.sort_by_marker", _sort_by_marker)
    patch.setattr("kforensics.forensics.audit.audit_scope.sort_by_marker", _sort_by_marker)
    patch.setattr("kforensics.forensics.sidecar.index_visibility.ExternalSort", external_sort)
    patch.setattr("kforensics.analyses.transactions.ExternalSort", external_sort)


def _sort_by_marker(*_: int) -> ExternalSort:
    return sort_by_marker(MEMORY_LIMIT, PAGE_SIZE)
