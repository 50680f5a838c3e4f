"""Transactions page by page, what follows a page, and findings of rows that come in parts."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kforensics.forensics.core.external_sort import ExternalSort
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.record_types import TRANSACTION, TransactionArray, TransactionOutcome
from kforensics.forensics.core.reporting import MOST, Row, RowPart, first_n, first_n_of_parts
from kforensics.forensics.partition.transaction_store import TransactionStore, transaction_store_of
from kforensics.forensics.sidecar.aborted_entries import ABORTED_START
from kforensics.forensics.sidecar.index_visibility import IndexSweep, MarkerSweep
from kforensics.forensics.sidecar.visibility import Batches, BatchVisibility, view_by_index, view_by_markers
from kforensics.parsers.state.indexes import TransactionIndexEntry
from tests.forensics.batch_notation import parse_batches, records_of_replay
from tests.forensics.forge import forge
from tests.forensics.partition.small_pages import use_small_pages
from tests.forensics.partition_states import random_leader_log, state_under
from tests.reference.fold import fold

MEMORY_LIMIT, PAGE_SIZE = 4 * TRANSACTION.itemsize, 3
CODES = by_name(Code("made-up", Severity.WARNING, meaning="Nothing in particular."))


def transaction_stores() -> Iterator[tuple[TransactionArray, TransactionStore]]:
    """Yield the transactions of random logs, in one array and in small pages."""
    dice = Random(5)  # noqa: S311  # a seed, not a secret
    for _ in range(40):
        transactions, _ = records_of_replay(fold(parse_batches(random_leader_log(dice, 100))))
        order = np.argsort([dice.random() for _ in range(len(transactions))])
        yield transactions, transaction_store_of(transactions[order], MEMORY_LIMIT, PAGE_SIZE)


def keys(rows: TransactionArray) -> list[tuple[int, int]]:
    """Return first offsets and producer ids, which identify a transaction."""
    pairs: list[tuple[int, int]] = rows[["first_offset", "producer_id"]].tolist()
    return pairs


def test_closed_transactions_are_sorted_by_marker_and_open_ones_by_first_offset() -> None:
    for transactions, store in transaction_stores():
        closed = transactions[transactions["outcome"] != TransactionOutcome.OPEN]
        opened = transactions[transactions["outcome"] == TransactionOutcome.OPEN]
        expected = [*keys(closed[np.argsort(closed["marker_offset"])]), *sorted(keys(opened))]
        assert [key for rows in store for key in keys(rows)] == expected
        assert (len(store), len(store.closed), len(store.opened)) == (len(transactions), len(closed), len(opened))
        assert store.aborted == int((closed["outcome"] == TransactionOutcome.ABORTED).sum())
        assert [store.earliest_first_offset(number) for number in range(store.closed.page_count)] == [
            int(rows["first_offset"].min()) for rows in store.closed
        ]


def test_a_page_is_followed_by_the_earliest_later_transactions_of_two_producers() -> None:
    page_count = 0
    for transactions, store in transaction_stores():
        *pages, last = store.pages()
        assert (last.upto, keys(last.rows), len(last.following)) == (None, keys(store.opened), 0)
        for page in pages:
            assert page.rows["marker_offset"].min() > page.after
            assert page.rows["marker_offset"].max() == page.upto
            assert page.upto is not None
            is_open = transactions["outcome"] == TransactionOutcome.OPEN
            later = sorted(keys(transactions[is_open | (transactions["marker_offset"] > page.upto)]))
            others = [key for key in later if key[1] != later[0][1]]
            assert sorted(keys(page.following)) == [*later[:1], *others[:1]]
            assert keys(page.with_following) == [*keys(page.rows), *keys(page.following)]
        page_count += len(pages)
    assert page_count > 100


def test_since_an_offset_yields_all_transactions_that_end_after_it() -> None:
    for transactions, store in transaction_stores():
        last = int(transactions["marker_offset"].max(initial=0))
        for offset in range(0, last + 3, 3):
            yielded = [key for rows in store.since(offset) for key in keys(rows)]
            expected = transactions[
                (transactions["marker_offset"] >= offset) | (transactions["outcome"] == TransactionOutcome.OPEN)
            ]
            assert set(keys(expected)) <= set(yielded)
            assert len(yielded) <= len(expected) + PAGE_SIZE + 4


def test_a_marker_sweep_agrees_with_the_view_of_all_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch)
    dice, windows = Random(9), 0  # noqa: S311  # a seed, not a secret
    for transactions, store in transaction_stores():
        end = int(max(transactions["last_offset"].max(initial=0), transactions["marker_offset"].max(initial=0))) + 2
        view, sweep = view_by_markers(transactions, 3, end - 5), MarkerSweep(store, 3, end - 5)
        offsets = sorted(dice.randrange(end) for _ in range(12))
        for first in (*offsets, *offsets[::2], *reversed(offsets)):
            batches = _batches(first, min(first + 6, end))
            around = sweep.around(first, min(first + 6, end) - 1)
            assert around.visibilities(batches).tolist() == view.visibilities(batches).tolist()
            windows += len(sweep._window) < len(store.closed)
    assert windows > 100


@pytest.mark.slow
def test_an_index_sweep_agrees_with_the_view_of_all_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_pages(monkeypatch)
    dice, hidden = Random(10), 0  # noqa: S311  # a seed, not a secret
    for _ in range(25):
        forge(tmp_path, random_leader_log(dice, 100) or "plain @0")
        state, end = state_under(tmp_path), state_under(tmp_path).log_end_offset
        entries = np.array([(dice.randrange(1, 6), dice.randrange(end + 1)) for _ in range(12)], ABORTED_START)
        starts = ExternalSort(ABORTED_START, itemgetter("first_offset"), 4 * ABORTED_START.itemsize, 3)
        starts.add(entries)
        index = [TransactionIndexEntry(0, 0, producer_id, first, 0, 0) for producer_id, first in entries.tolist()]
        markers = [*state.transaction_store.closed, state.empty_markers]
        view = view_by_index(index, markers, state.log_start_offset, end - 5)
        sweep = IndexSweep(starts.finish(), state, end - 5)
        offsets = sorted(dice.randrange(end) for _ in range(12))
        for first in (*offsets, *offsets[::2], *reversed(offsets)):
            batches = _batches(first, min(first + 6, end))
            around = sweep.around(first, min(first + 6, end) - 1).visibilities(batches).tolist()
            assert around == view.visibilities(batches).tolist()
            hidden += around.count(BatchVisibility.ABORTED)
    assert hidden > 1000


def _batches(first: int, end: int) -> Batches:
    """Return a transactional batch of each of six producers at each of these offsets."""
    offsets = np.arange(first, end)
    ids, yes = np.repeat(np.arange(1, 7), len(offsets)), np.ones(6 * len(offsets), bool)
    return Batches(ids, np.tile(offsets, 6), np.tile(offsets, 6), is_transactional=yes, is_control=~yes)


@pytest.mark.parametrize("count", [0, 1, MOST - 1, MOST, MOST + 1, 25 * MOST])
@pytest.mark.parametrize("by", [None, "last_offset"])
def test_rows_in_parts_give_the_same_findings_as_all_rows_at_once(count: int, by: str | None, tmp_path: Path) -> None:
    forge(tmp_path, "plain @0")
    state = state_under(tmp_path)

    def finding(row: Row) -> Finding:
        return state.finding(CODES["made-up"], f"{row['last_offset']} {row['more']}", evidence={"at": row["at"]})

    rows = np.zeros(count, TRANSACTION)
    rows["last_offset"] = np.arange(count)
    more = {"more": np.arange(count) * 2, "at": np.arange(count) % 7}
    parts = [RowPart(rows, more).taken(slice(first, first + 700)) for first in range(0, count, 700)]
    expected = list(first_n(rows, finding, **more))
    assert list(first_n_of_parts(parts[::-1] if by else parts, finding, by)) == expected
    assert len(expected) == min(count, MOST)
    left_out = [one.evidence["left_out"] for one in expected if "left_out" in one.evidence]
    assert left_out == ([count - MOST] if count > MOST else [])
    assert all(one.severity is Severity.WARNING for one in expected)
