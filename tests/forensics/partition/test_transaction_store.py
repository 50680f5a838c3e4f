"""Transactions range by range, what follows a range, and what is told of many rows that come in parts."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kforensics.forensics.core.external_sort import Sorting
from kforensics.forensics.core.findings import Finding, Severity, codes
from kforensics.forensics.core.record_types import TRANSACTION, Ending, Records
from kforensics.forensics.core.reporting import MOST, Part, Row, each, each_of
from kforensics.forensics.partition.transaction_store import Ledger, ledger_of
from kforensics.forensics.replay.fold import fold
from kforensics.forensics.sidecar.aborted_entries import BEGUN
from kforensics.forensics.sidecar.visibility import Batches, Verdict, visible_by_index, visible_by_log
from kforensics.forensics.sidecar.visibility_sweep import IndexSweep, VisibilitySweep
from kforensics.parsers.state.transaction_index import TransactionIndexEntry
from tests.forensics.cases import case_of, random_log
from tests.forensics.events import events, records_of_replay
from tests.forensics.forge import forge
from tests.forensics.ranges import tiny_ranges

ROOM, SIZE = 4 * TRANSACTION.itemsize, 3
CODES = codes("""
made-up warning
Nothing of the kind.
""")


def ledgers() -> Iterator[tuple[Records, Ledger]]:
    """Yield the transactions of random logs, in one array and in small ranges."""
    dice = Random(5)  # noqa: S311  # a seed, not a secret
    for _ in range(40):
        transactions, _ = records_of_replay(fold(events(random_log(dice, 100))))
        order = np.argsort([dice.random() for _ in range(len(transactions))])
        yield transactions, ledger_of(transactions[order], ROOM, SIZE)


def keys(rows: Records) -> list[tuple[int, int]]:
    """Return first offsets and producer ids: no two transactions have the same."""
    found: list[tuple[int, int]] = rows[["first_offset", "producer_id"]].tolist()
    return found


def test_closed_ones_come_by_marker_and_open_ones_by_first_offset() -> None:
    for transactions, ledger in ledgers():
        closed = transactions[transactions["ending"] != Ending.OPEN]
        opened = transactions[transactions["ending"] == Ending.OPEN]
        expected = [*keys(closed[np.argsort(closed["marker_offset"])]), *sorted(keys(opened))]
        assert [key for rows in ledger for key in keys(rows)] == expected
        assert (len(ledger), len(ledger.closed), len(ledger.opened)) == (len(transactions), len(closed), len(opened))
        assert ledger.aborted == int((closed["ending"] == Ending.ABORTED).sum())
        assert [ledger.earliest(at) for at in range(ledger.closed.ranges)] == [
            int(rows["first_offset"].min()) for rows in ledger.closed
        ]


def test_what_follows_a_range_are_the_earliest_of_two_producers_behind_it() -> None:
    ranges = 0
    for transactions, ledger in ledgers():
        *spans, last = ledger.spans()
        assert (last.upto, keys(last.rows), len(last.following)) == (None, keys(ledger.opened), 0)
        for span in spans:
            assert span.rows["marker_offset"].min() > span.after
            assert span.rows["marker_offset"].max() == span.upto
            assert span.upto is not None
            is_open = transactions["ending"] == Ending.OPEN
            behind = sorted(keys(transactions[is_open | (transactions["marker_offset"] > span.upto)]))
            others = [key for key in behind if key[1] != behind[0][1]]
            assert sorted(keys(span.following)) == [*behind[:1], *others[:1]]
            assert keys(span.both) == [*keys(span.rows), *keys(span.following)]
        ranges += len(spans)
    assert ranges > 100


def test_since_an_offset_there_is_all_that_ends_behind_it() -> None:
    for transactions, ledger in ledgers():
        last = int(transactions["marker_offset"].max(initial=0))
        for offset in range(0, last + 3, 3):
            found = [key for rows in ledger.since(offset) for key in keys(rows)]
            still = transactions[(transactions["marker_offset"] >= offset) | (transactions["ending"] == Ending.OPEN)]
            assert set(keys(still)) <= set(found)
            assert len(found) <= len(still) + SIZE + 4


def test_who_goes_through_a_log_learns_the_same_as_who_knows_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_ranges(monkeypatch)
    dice, windows = Random(9), 0  # noqa: S311  # a seed, not a secret
    for transactions, ledger in ledgers():
        end = int(max(transactions["last_offset"].max(initial=0), transactions["marker_offset"].max(initial=0))) + 2
        whole, sweep = visible_by_log(transactions, 3, end - 5), VisibilitySweep(ledger, 3, end - 5)
        places = sorted(dice.randrange(end) for _ in range(12))
        for first in (*places, *places[::2], *reversed(places)):
            batches = _batches(first, min(first + 6, end))
            found = sweep.around(first, min(first + 6, end) - 1)
            assert found.verdicts(batches).tolist() == whole.verdicts(batches).tolist()
            windows += len(sweep._window) < len(ledger.closed)
    assert windows > 100


def test_who_goes_through_a_log_with_its_indexes_learns_the_same_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_ranges(monkeypatch)
    dice, hidden = Random(10), 0  # noqa: S311  # a seed, not a secret
    for _ in range(25):
        forge(tmp_path, random_log(dice, 100) or "plain @0")
        case, end = case_of(tmp_path), case_of(tmp_path).log_end_offset
        entries = np.array([(dice.randrange(1, 6), dice.randrange(end + 1)) for _ in range(12)], BEGUN)
        begun = Sorting(BEGUN, itemgetter("first_offset"), 4 * BEGUN.itemsize, 3)
        begun.add(entries)
        index = [TransactionIndexEntry(0, 0, owner, first, 0, 0) for owner, first in entries.tolist()]
        whole = visible_by_index(index, [*case.ledger.closed, case.empty_markers], case.log_start_offset, end - 5)
        sweep = IndexSweep(begun.finish(), case, end - 5)
        places = sorted(dice.randrange(end) for _ in range(12))
        for first in (*places, *places[::2], *reversed(places)):
            batches = _batches(first, min(first + 6, end))
            found = sweep.around(first, min(first + 6, end) - 1).verdicts(batches).tolist()
            assert found == whole.verdicts(batches).tolist()
            hidden += found.count(Verdict.ABORTED)
    assert hidden > 1000


def _batches(first: int, end: int) -> Batches:
    """Return a transactional batch of each of six producers at each of these offsets."""
    offsets = np.arange(first, end)
    ids, yes = np.repeat(np.arange(1, 7), len(offsets)), np.ones(6 * len(offsets), bool)
    return Batches(ids, np.tile(offsets, 6), np.tile(offsets, 6), is_transactional=yes, is_control=~yes)


@pytest.mark.parametrize("count", [0, 1, MOST - 1, MOST, MOST + 1, 25 * MOST])
@pytest.mark.parametrize("by", [None, "last_offset"])
def test_rows_in_parts_are_told_as_rows_at_once(count: int, by: str | None, tmp_path: Path) -> None:
    forge(tmp_path, "plain @0")
    case = case_of(tmp_path)

    def finding(row: Row) -> Finding:
        return case.finding(CODES["made-up"], f"{row['last_offset']} {row['more']}", evidence={"at": row["at"]})

    rows = np.zeros(count, TRANSACTION)
    rows["last_offset"] = np.arange(count)
    more = {"more": np.arange(count) * 2, "at": np.arange(count) % 7}
    parts = [Part(rows, more).taken(slice(first, first + 700)) for first in range(0, count, 700)]
    expected = list(each(rows, finding, **more))
    assert list(each_of(parts[::-1] if by else parts, finding, by)) == expected
    assert len(expected) == min(count, MOST)
    left_out = [one.evidence["left_out"] for one in expected if "left_out" in one.evidence]
    assert left_out == ([count - MOST] if count > MOST else [])
    assert all(one.severity is Severity.WARNING for one in expected)
