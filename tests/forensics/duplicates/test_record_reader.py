"""Which batches are hidden from read_committed consumers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kforensics.forensics.core.record_types import TRANSACTION
from kforensics.forensics.duplicates.record_reader import hidden_batches, hidden_transactions
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT
from tests.forensics.batch_notation import columns_of, parse_batches
from tests.forensics.duplicate_logs import hidden_rows

LARGEST = np.iinfo("i8").max


def test_an_open_transaction_hides_everything_from_its_first_offset_on() -> None:
    transactions = np.zeros(2, TRANSACTION)
    transactions["producer_id"], transactions["first_offset"] = [1, 2], [5, 7]
    transactions["marker_offset"] = [9, -1]
    assert hidden_transactions(transactions).tolist() == [(1, 5, 9), (2, 7, LARGEST)]
    text = "D 1 0 0-0 @6 T; D 2 0 0-0 @8 T; D 1 0 1-1 @10 T; D 2 0 1-1 @11 T; D 2 0 2-2 @12 N"
    log = columns_of(parse_batches(text))
    assert hidden_batches(log, hidden_transactions(transactions)).tolist() == [True, True, False, True, False]


def test_offsets_at_the_end_of_their_range_are_compared() -> None:
    text = f"D 1 0 0-0 @0 T; D 1 0 0-0 @{LARGEST - 1} T ts 0; D 2 0 0-0 @{LARGEST - 1} T ts 0"
    log = columns_of(parse_batches(text))
    assert hidden_batches(log, hidden_rows([(1, LARGEST - 1, -1)])).tolist() == [False, True, False]


@pytest.mark.parametrize("seed", range(20))
def test_hidden_batches_of_random_logs(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  # not for cryptography
    transactions, offset = [], 0
    for _ in range(dice.randint(0, 12)):
        offset += dice.randint(1, 5)
        transactions.append((dice.randint(1, 4) + 10 * (offset % 7), offset, offset + dice.randint(1, 4)))
    transactions = _without_overlap(transactions)
    offsets = range(dice.randint(0, 10), 80, dice.randint(1, 3))
    text = "; ".join(f"D {dice.choice([1, 2, 13, 24, 61])} 0 0-0 @{offset} {dice.choice('TN')}" for offset in offsets)
    log = columns_of(parse_batches(text))
    assert hidden_batches(log, hidden_rows(transactions)).tolist() == [
        any(_hides(transaction, log, index) for transaction in transactions) for index in range(len(log))
    ]


def _without_overlap(transactions: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    kept: list[tuple[int, int, int]] = []
    for producer_id, first, marker in transactions:
        if not any(other[0] == producer_id and other[2] > first for other in kept):
            kept.append((producer_id, first, marker))
    return kept


def _hides(transaction: tuple[int, int, int], log: BatchColumns, index: int) -> bool:
    producer_id, first, marker = transaction
    is_transactional = bool(log.attributes[index] & TRANSACTIONAL_BIT)
    is_inside = bool(first <= log.base_offset[index] < marker)
    return is_transactional and log.producer_id[index] == producer_id and is_inside
