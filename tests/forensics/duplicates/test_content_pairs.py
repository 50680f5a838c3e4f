"""Pairs of records of equal content, and their runs."""

from __future__ import annotations

import numpy as np
import pytest

from kforensics.forensics.duplicates.content_pairs import (
    CONTENT_PAIR,
    DuplicateRunArray,
    RetryWindow,
    join_runs,
    pair_entries,
    partition_reasons,
    repeated_hashes,
    single_runs,
)
from kforensics.forensics.duplicates.duplicate_rows import DuplicateReason, DuplicateView
from kforensics.forensics.duplicates.record_reader import RECORD_ENTRY, RecordEntryArray


def entries(*hashes: tuple[int, int], **columns: object) -> RecordEntryArray:
    """Return one entry per hash, each in its own batch of a different producer."""
    rows = np.zeros(len(hashes), RECORD_ENTRY)
    rows["low"], rows["high"] = [low for low, _ in hashes], [high for _, high in hashes]
    for name in ("ordinal", "batch", "offset", "producer_id"):
        rows[name] = np.arange(len(rows))
    rows["count"] = 1
    for name, values in columns.items():
        rows[name] = values
    return rows


def paired_offsets(rows: RecordEntryArray, parts: int = 1, window: RetryWindow | None = None) -> list[tuple[int, int]]:
    """Return the offsets of all pairs of entries, which are given in several parts."""
    pair_parts = [np.empty(0, CONTENT_PAIR), *pair_entries(np.array_split(rows, parts), window or RetryWindow())]
    pairs = np.concatenate(pair_parts)
    return sorted(zip(pairs["first"]["offset"].tolist(), pairs["second"]["offset"].tolist(), strict=True))


def runs_of(rows: RecordEntryArray) -> DuplicateRunArray:
    """Return the runs of all pairs of entries."""
    pairs = np.concatenate(list(pair_entries([rows], RetryWindow())))
    return join_runs(single_runs(pairs, RetryWindow(), partition_reasons))


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_records_that_share_half_a_hash_are_not_paired(parts: int) -> None:
    """Buckets use one half of the hash; a collision in it is detected by the other half."""
    rows = entries((1, 1), (1, 2), (2, 1), (1, 1), (1, 2), (3, 3))
    assert paired_offsets(rows, parts) == [(0, 3), (1, 4)]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_each_record_is_paired_with_the_nearest_earlier_one(parts: int) -> None:
    assert paired_offsets(entries((1, 1), (1, 1), (2, 2), (1, 1)), parts) == [(0, 1), (1, 3)]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_visible_record_is_also_paired_with_a_visible_one(parts: int) -> None:
    """The middle one is the nearest, but in an aborted transaction: a read_committed consumer does not receive it."""
    rows = entries((1, 1), (1, 1), (1, 1), is_hidden=[False, True, False])
    assert paired_offsets(rows, parts) == [(0, 1), (0, 2), (1, 2)]
    views = {(int(run["first_offset"]), int(run["second_offset"])): DuplicateView(run["view"]) for run in runs_of(rows)}
    assert views == {(0, 1): DuplicateView.RAW, (1, 2): DuplicateView.RAW, (0, 2): DuplicateView.COMMITTED}


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_retry_is_paired_with_the_record_of_its_timestamp(parts: int) -> None:
    """Not with the heartbeat in between, which has the same content at another time."""
    rows = entries((1, 1), (1, 1), (1, 1), producer_id=-1, timestamp=[5, 6, 5], has_create_time=True)
    assert paired_offsets(rows, parts) == [(0, 1), (0, 2)]


def test_a_record_far_away_is_not_a_retry() -> None:
    rows = entries((1, 1), (1, 1), (1, 1), producer_id=-1, timestamp=[5, 6, 5], has_create_time=True)
    assert paired_offsets(rows, window=RetryWindow(offsets=2)) == [(0, 1), (1, 2)]


def test_a_batch_with_repeated_sequences_is_excluded() -> None:
    same = entries((1, 1), (1, 1), (1, 1), producer_id=3, sequence=9)
    assert paired_offsets(same) == []
    # After the sequences have wrapped around, it is another batch.
    later = entries((1, 1), (1, 1), producer_id=3, sequence=9, offset=[0, 1 << 31])
    assert paired_offsets(later) == [(0, 1 << 31)]
    other_size = entries((1, 1), (1, 1), producer_id=3, sequence=9, count=[1, 2])
    assert paired_offsets(other_size) == [(0, 1)]
    assert runs_of(other_size)["why"].tolist() == [DuplicateReason.OTHER_BATCH]


def test_consecutive_pairs_are_one_run_unless_the_producer_changes() -> None:
    hashes = [(n, n) for n in range(4)]
    runs = runs_of(entries(*hashes, *hashes, producer_id=[1] * 4 + [2, 2, 3, 3], sequence=range(8)))
    assert runs["records"].tolist() == [2, 2]
    assert runs["first_offset"].tolist() == [0, 2]
    assert runs["second_last_offset"].tolist() == [5, 7]


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_repeated_hashes_are_recognized_across_parts(parts: int) -> None:
    hashes = np.array([5, 1, 5, 2, 2, 3, 2, 1, 9], "u8")
    repeated = {int(value) for part in repeated_hashes(np.array_split(hashes, parts)) for value in part}
    assert repeated == {1, 2, 5}
