"""Snapshots of very many producers: read in ranges of producer ids, and compared in little memory."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kforensics.forensics.core.producer_states import PRODUCER_ENTRY, ProducerStates, entry_records
from kforensics.forensics.core.record_types import PRODUCER, ProducerArray
from kforensics.forensics.partition.snapshot_records import (
    BLOCK,
    RANGE,
    boundary_states,
    paired_blocks,
    snapshot_entries,
    snapshot_records,
)
from tests.forensics.forge import SnapshotEntry, snapshot_bytes
from tests.forensics.large_logs import many_producers, write_producers
from tests.memory import only_linux, run_measured

# Bytes of memory for each further producer: its entry of 46 bytes while it is sorted, and never its record of 167.
MOST_BYTES = 150
FEW, MANY = 400_000, 1_600_000


def records(*ids: int, epoch: int = 0) -> ProducerArray:
    entries = np.zeros(len(ids), PRODUCER_ENTRY)
    entries["producer_id"], entries["producer_epoch"], entries["last_offset"] = ids, epoch, np.arange(len(ids))
    return entry_records(entries)


def entries_of(rows: ProducerArray) -> ProducerArray:
    entries = np.zeros(len(rows), PRODUCER_ENTRY)
    for name in PRODUCER_ENTRY.names or ():
        entries[name] = rows[name]
    return entries


@pytest.mark.parametrize("old_ids", [(10, 20, 30, 40), (10,)])
@pytest.mark.parametrize("ids", [(), (5,), (10, 20, 30), (1, 10, 15, 30, 99), (98, 99)])
def test_states_of_entries_and_records_are_those_of_all_records(ids: tuple[int, ...], old_ids: tuple[int, ...]) -> None:
    """Records replace the entries of the same producers, and add others; the entries stay as they are."""
    old, new = records(*old_ids), records(*ids, epoch=1)
    states = ProducerStates(new, entries_of(old))
    whole = np.concatenate([old[~np.isin(old["producer_id"], new["producer_id"])], new])
    whole = whole[np.argsort(whole["producer_id"])]
    assert len(states) == len(whole)
    for name in PRODUCER_ENTRY.names or ():
        assert states[name].tolist() == whole[name].tolist()
    every_second = np.arange(len(whole)) % 2 == 0
    for key in (slice(None), slice(1, 3), every_second, np.flatnonzero(every_second)[::-1]):
        assert states[key].tobytes() == whole[key].tobytes()
    assert states.entries.tobytes() == entries_of(old).tobytes()


def test_a_snapshot_of_more_than_a_range_is_read_in_blocks(tmp_path: Path) -> None:
    """Blocks are sorted by producer id and contain every entry; those of one producer stay together."""
    path, count = tmp_path / "0.snapshot", RANGE + 3 * BLOCK
    path.write_bytes(many_producers(count, 900, repeated=7))
    entries = snapshot_entries(str(path))
    assert entries is not None
    blocks = list(entries.blocks())
    assert 5 < len(blocks) < 20
    assert max(map(len, blocks)) <= BLOCK + 1
    for before, after in pairwise(blocks):
        assert before["producer_id"][-1] < after["producer_id"][0]
    whole = snapshot_records(str(path))
    assert whole is not None
    assert entry_records(np.concatenate(blocks)).tobytes() == whole.tobytes()
    states = boundary_states(str(path))
    assert states is not None
    assert len(states) == count - 7


def test_blocks_are_paired_with_the_producers_of_the_same_ids(tmp_path: Path) -> None:
    path = tmp_path / "0.snapshot"
    path.write_bytes(many_producers(RANGE + 1, 900))
    entries = snapshot_entries(str(path))
    assert entries is not None
    known = records(1, 1003, 1004, 1005 + RANGE // 2, 5000 + RANGE)
    pairs = list(paired_blocks(entries, ProducerStates(known)))
    assert np.concatenate([replayed for _, replayed in pairs]).tobytes() == known.tobytes()
    for (stored, replayed), (stored_after, _) in pairwise(pairs):
        assert (replayed["producer_id"] <= stored["producer_id"][-1]).all()
        assert (replayed["producer_id"] < stored_after["producer_id"][0]).all()


def test_an_empty_snapshot_is_paired_with_all_producers(tmp_path: Path) -> None:
    path = tmp_path / "0.snapshot"
    path.write_bytes(snapshot_bytes([]))
    entries = snapshot_entries(str(path))
    assert entries is not None
    known = np.zeros(2 * BLOCK + 5, PRODUCER)
    known["producer_id"] = np.arange(len(known))
    pairs = list(paired_blocks(entries, ProducerStates(known)))
    assert [(len(stored), len(replayed)) for stored, replayed in pairs] == [(0, BLOCK), (0, BLOCK), (0, 5)]


def test_a_producer_without_a_batch_has_none_at_the_boundary_either(tmp_path: Path) -> None:
    path = tmp_path / "0.snapshot"
    path.write_bytes(snapshot_bytes([SnapshotEntry(7, 1, 5, -1, 3), SnapshotEntry(8, 1, 5, 6, 3)]))
    states = boundary_states(str(path))
    assert states is not None
    names = ["producer_id", "last_sequence", "last_offset", "offset_delta", "recent_count"]
    assert states[:][names].tolist() == [(7, -1, -1, 0, 0), (8, 5, 6, 3, 1)]


@only_linux
@pytest.mark.slow
@pytest.mark.parametrize("topic", ["extra", "before", "grown"])
def test_memory_grows_little_with_the_producers_of_snapshots(tmp_path: Path, topic: str) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    write_producers(few, FEW, topic)
    write_producers(many, MANY, topic)
    assert peak(many) - peak(few) < (MANY - FEW) * MOST_BYTES


def peak(folder: Path) -> int:
    """Return the most memory of a verification in bytes."""
    return run_measured("import sys, kforensics; kforensics.verify(sys.argv[1])", folder)[1]
