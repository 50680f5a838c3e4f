from __future__ import annotations

import random

import numpy as np
import pytest

from kforensics.forensics.core.record_types import TRANSACTION
from kforensics.forensics.duplicates.content_entries import hidden_batches, hidden_intervals
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT
from tests.forensics.duplicate_logs import intervals
from tests.forensics.events import columns_of, events

LARGEST = np.iinfo("i8").max


def test_an_open_transaction_hides_all_behind_its_first_offset() -> None:
    transactions = np.zeros(2, TRANSACTION)
    transactions["producer_id"], transactions["first_offset"] = [1, 2], [5, 7]
    transactions["marker_offset"] = [9, -1]
    assert hidden_intervals(transactions).tolist() == [(1, 5, 9), (2, 7, LARGEST)]
    log = columns_of(events("D 1 0 0-0 @6 T; D 2 0 0-0 @8 T; D 1 0 1-1 @10 T; D 2 0 1-1 @11 T; D 2 0 2-2 @12 N"))
    assert hidden_batches(log, hidden_intervals(transactions)).tolist() == [True, True, False, True, False]


def test_offsets_at_the_end_of_their_range_are_compared_too() -> None:
    log = columns_of(events(f"D 1 0 0-0 @0 T; D 1 0 0-0 @{LARGEST - 1} T ts 0; D 2 0 0-0 @{LARGEST - 1} T ts 0"))
    assert hidden_batches(log, intervals([(1, LARGEST - 1, -1)])).tolist() == [False, True, False]


@pytest.mark.parametrize("seed", range(20))
def test_hidden_batches_by_definition(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  # dice for a test
    transactions, offset = [], 0
    for _ in range(dice.randint(0, 12)):
        offset += dice.randint(1, 5)
        transactions.append((dice.randint(1, 4) + 10 * (offset % 7), offset, offset + dice.randint(1, 4)))
    transactions = _without_overlap(transactions)
    places = range(dice.randint(0, 10), 80, dice.randint(1, 3))
    text = "; ".join(f"D {dice.choice([1, 2, 13, 24, 61])} 0 0-0 @{place} {dice.choice('TN')}" for place in places)
    log = columns_of(events(text))
    assert hidden_batches(log, intervals(transactions)).tolist() == [
        any(_hides(one, log, at) for one in transactions) for at in range(len(log))
    ]


def _without_overlap(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    kept: list[tuple[int, int, int]] = []
    for one in found:
        if not any(other[0] == one[0] and other[2] > one[1] for other in kept):
            kept.append(one)
    return kept


def _hides(transaction: tuple[int, int, int], log: BatchColumns, at: int) -> bool:
    producer_id, first, marker = transaction
    is_transactional = bool(log.attributes[at] & TRANSACTIONAL_BIT)
    return is_transactional and log.producer_id[at] == producer_id and bool(first <= log.base_offset[at] < marker)
