from __future__ import annotations

import numpy as np
import pytest

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content_entries import ENTRY
from kforensics.forensics.duplicates.content_pairs import PAIR, Window, pairs_of, reasons_within, repeated, runs_of
from kforensics.forensics.duplicates.duplicate_rows import View, Why


def entries(*hashes: tuple[int, int], **columns: object) -> Records:
    """Return one record per hash, each in a batch of its own, of producers that are all different."""
    rows = np.zeros(len(hashes), ENTRY)
    rows["low"], rows["high"] = [low for low, _ in hashes], [high for _, high in hashes]
    for name in ("ordinal", "batch", "offset", "producer_id"):
        rows[name] = np.arange(len(rows))
    rows["count"] = 1
    for name, values in columns.items():
        rows[name] = values
    return rows


def offsets(rows: Records, parts: int = 1, window: Window | None = None) -> list[tuple[int, int]]:
    """Return the offsets of all pairs, the rows given in so many parts."""
    found = [np.empty(0, PAIR), *pairs_of(np.array_split(rows, parts), window or Window())]
    pairs = np.concatenate(found)
    return sorted(zip(pairs["first"]["offset"].tolist(), pairs["second"]["offset"].tolist(), strict=True))


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_records_that_share_half_a_hash_are_no_pair(parts: int) -> None:
    """A collision in the half by which records are looked for is told apart by the other one."""
    rows = entries((1, 1), (1, 2), (2, 1), (1, 1), (1, 2), (3, 3))
    assert offsets(rows, parts) == [(0, 3), (1, 4)]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_each_is_paired_with_the_nearest_before_it(parts: int) -> None:
    assert offsets(entries((1, 1), (1, 1), (2, 2), (1, 1)), parts) == [(0, 1), (1, 3)]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_what_a_consumer_gets_is_paired_with_what_it_gets(parts: int) -> None:
    """The middle one is in an aborted transaction: it is the nearest, and not there for a read_committed consumer."""
    rows = entries((1, 1), (1, 1), (1, 1), is_hidden=[False, True, False])
    assert offsets(rows, parts) == [(0, 1), (0, 2), (1, 2)]
    runs = runs_of(np.concatenate(list(pairs_of([rows], Window()))), Window(), reasons_within)
    views = {(int(run["first_offset"]), int(run["second_offset"])): View(run["view"]) for run in runs}
    assert views == {(0, 1): View.RAW, (1, 2): View.RAW, (0, 2): View.COMMITTED}


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_retry_is_paired_with_what_has_its_timestamp(parts: int) -> None:
    """Not with the heartbeat in between, which says the same at another time."""
    rows = entries((1, 1), (1, 1), (1, 1), producer_id=-1, timestamp=[5, 6, 5], is_stamped=True)
    assert offsets(rows, parts) == [(0, 1), (0, 2)]


def test_far_away_there_is_no_retry() -> None:
    rows = entries((1, 1), (1, 1), (1, 1), producer_id=-1, timestamp=[5, 6, 5], is_stamped=True)
    assert offsets(rows, window=Window(offsets=2)) == [(0, 1), (1, 2)]


def test_a_batch_that_was_written_twice_under_its_sequence_is_left_out() -> None:
    same = entries((1, 1), (1, 1), (1, 1), producer_id=3, sequence=9)
    assert offsets(same) == []
    # A whole round of sequences later it is another one.
    later = entries((1, 1), (1, 1), producer_id=3, sequence=9, offset=[0, 1 << 31])
    assert offsets(later) == [(0, 1 << 31)]
    cut = entries((1, 1), (1, 1), producer_id=3, sequence=9, count=[1, 2])
    assert offsets(cut) == [(0, 1)]
    runs = runs_of(np.concatenate(list(pairs_of([cut], Window()))), Window(), reasons_within)
    assert runs["why"].tolist() == [Why.OTHER_BATCH]


def test_consecutive_pairs_are_one_run_unless_something_changes() -> None:
    hashes = [(n, n) for n in range(4)]
    rows = entries(*hashes, *hashes, producer_id=[1] * 4 + [2, 2, 3, 3], sequence=range(8))
    runs = runs_of(np.concatenate(list(pairs_of([rows], Window()))), Window(), reasons_within)
    assert runs["records"].tolist() == [2, 2]
    assert runs["first_offset"].tolist() == [0, 2]
    assert runs["second_last_offset"].tolist() == [5, 7]


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_repeated_hashes_are_found_across_parts(parts: int) -> None:
    hashes = np.array([5, 1, 5, 2, 2, 3, 2, 1, 9], "u8")
    found = {int(one) for some in repeated(np.array_split(hashes, parts)) for one in some}
    assert found == {1, 2, 5}
