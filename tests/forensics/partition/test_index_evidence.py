"""Evidence about indexes, compared with the rules entry by entry, for any split of the log."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.index_entries import IndexEntries, IndexFault
from kforensics.forensics.partition.index_entry_faults import (
    IS_LAST_OFFSET,
    offset_entry_flags,
    offset_index_faults,
    time_entry_flags,
    time_index_faults,
    with_larger_before,
)
from kforensics.forensics.partition.index_evidence import NO_EVIDENCE, IndexEvidence, IndexFaults, IndexWatch
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.columns.batch_columns import BatchColumns, concat_batches
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kforensics.parsers.kernels.policy import kernels_for
from tests.forensics.forge import file_of, forge
from tests.forensics.partition_states import partitions_under

LOG = {
    0: "plain @0-4 ts 100; plain @5-9 ts 300; plain @10-14 ts 200; plain @15-19 ts 400",
    20: "plain @20-24 ts 500; plain @25-29 ts 600; plain @30-34 ts 610",
    35: "plain @35-39 ts 700; plain @40-44 ts 800; plain @45-49 ts 900; plain @50 ts 950",
}
# A smaller timestamp after a larger one; not the largest at the end; offsets that decrease.
TIMES = {0: [(100, 4), (200, 14), (400, 19)], 20: [(500, 4)], 35: [(700, 4), (950, 3)]}


@dataclass(frozen=True)
class SimpleBatch:
    """The fields of a batch that the rules refer to."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    count: int
    timestamp: int
    magic: int = 2
    exact: bool = True


def columns(batches: Sequence[SimpleBatch]) -> BatchColumns:
    """Return batches as columns."""
    values: dict[str, list[Any]] = {
        "position": [batch.position for batch in batches],
        "size": [batch.size for batch in batches],
        "base_offset": [batch.base_offset if batch.exact else batch.last_offset for batch in batches],
        "last_offset": [batch.last_offset for batch in batches],
        "count": [batch.count if batch.exact else 1 for batch in batches],
        "magic": [batch.magic for batch in batches],
        "max_timestamp": [batch.timestamp for batch in batches],
        "exact": [batch.exact for batch in batches],
    }
    others = dict.fromkeys(BatchColumns.__slots__, [0] * len(batches))
    return BatchColumns.of_rows(zip(*(others | values).values(), strict=True))


@st.composite
def logs(draw: st.DrawFn) -> list[SimpleBatch]:
    """Draw a segment without damage: with offset gaps, partially compacted batches and wrappers of old formats."""
    batches, position, offset = [], 0, 0
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 2]))
        span, size = draw(st.integers(1, 4)), draw(st.integers(1, 3)) * 10
        kind = draw(st.sampled_from(["whole", "whole", "compacted", "wrapper", "format 0"]))
        batches.append(
            SimpleBatch(
                position,
                size,
                offset,
                offset + span - 1,
                draw(st.integers(0, span)) if kind == "compacted" else span,
                -1 if kind == "format 0" else draw(st.integers(0, 9)) * 10,
                magic={"whole": 2, "compacted": 2, "wrapper": 1, "format 0": 0}[kind],
                exact=kind != "wrapper",
            )
        )
        position, offset = position + size, offset + span
    return batches


def entries_of(rows: Sequence[tuple[int, int]]) -> IndexEntries:
    """Return offsets and values as sound entries."""
    table = np.array(rows, np.int64).reshape(-1, 2)
    offsets, values = table[:, 0], table[:, 1]
    return IndexEntries(
        offsets=offsets,
        values=values,
        positions=np.arange(len(rows)) * 8,
        offsets_ascend=bool((np.diff(offsets) >= 0).all()),
        values_ascend=bool((np.diff(values) >= 0).all()),
        is_sound=np.ones(len(rows), bool),
        is_there=True,
    )


def chunks(log: Sequence[SimpleBatch], cuts: Sequence[int]) -> list[Sequence[SimpleBatch]]:
    """Return a log in pieces."""
    edges = sorted({0, len(log), *(cut % (len(log) + 1) for cut in cuts)})
    return [log[start:stop] for start, stop in pairwise(edges)]


def is_valid_offset_entry(log: Sequence[SimpleBatch], offset: int, position: int) -> bool:
    """Return whether an entry of an offset index is valid according to the rules."""
    named = next((batch for batch in log if batch.position == position), None)
    if named is None or any(batch.last_offset >= offset for batch in log if batch.position < position):
        return False
    if named.base_offset == offset or (not named.exact and offset <= named.last_offset):
        return True
    later = [batch for batch in log if batch.position >= position]
    return any(batch.last_offset == offset or _is_in_compacted(batch, offset) for batch in later)


def _is_in_compacted(batch: SimpleBatch, offset: int) -> bool:
    is_compacted = batch.magic == 2 and batch.count < batch.last_offset - batch.base_offset + 1
    return is_compacted and batch.base_offset <= offset <= batch.last_offset


def is_valid_time_entry(log: Sequence[SimpleBatch], offset: int, timestamp: int) -> bool:
    """Return whether an entry of a time index is valid according to the rules."""
    numbers = [
        number
        for number, batch in enumerate(log)
        if (batch.base_offset if batch.exact else batch.last_offset) <= offset <= batch.last_offset
    ]
    if not numbers:
        return False
    named = log[numbers[0]]
    return (named.timestamp == timestamp or named.magic == 0) and all(
        before.timestamp <= timestamp for before in log[: numbers[0]]
    )


CUTS = st.lists(st.integers(0, 12), max_size=4)
ROWS = st.lists(st.tuples(st.integers(-1, 40), st.integers(-10, 320)), max_size=12)
NEAR = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30).map(lambda place: place * 10)), max_size=12)


@given(logs(), NEAR | ROWS, CUTS)
def test_offset_entries_are_evaluated_by_the_rules(
    log: list[SimpleBatch], rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    entries = entries_of(rows)
    flags = reduce(np.bitwise_or, [offset_entry_flags(entries, columns(part)) for part in chunks(log, cuts)])
    faults = offset_index_faults(entries, flags, 0, log[-1].position + log[-1].size, is_whole=True)
    faulty = {int(row["position"]) // 8 for row in faults}
    assert faulty == {number for number, row in enumerate(rows) if not is_valid_offset_entry(log, *row)}


@given(logs(), st.lists(st.tuples(st.integers(-1, 40), st.integers(-1, 9).map(lambda ts: ts * 10)), max_size=12), CUTS)
def test_time_entries_are_evaluated_by_the_rules(
    log: list[SimpleBatch], rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    entries = entries_of(rows)
    parts = chunks(log, cuts)
    before = accumulate((max(batch.timestamp for batch in part) for part in parts), max, initial=NO_TIME)
    flags = np.zeros(len(rows), np.uint8)
    for part, largest in zip(parts, before, strict=False):
        flags |= with_larger_before(entries, time_entry_flags(entries, columns(part)), largest)
    faults = time_index_faults(entries, flags, 0, NO_TIME, is_closed=False, is_whole=True)
    faulty = {int(row["position"]) // 8 for row in faults}
    assert faulty == {number for number, row in enumerate(rows) if not is_valid_time_entry(log, *row)}


@pytest.mark.parametrize("cuts", [[], [1]], ids=["one chunk", "two chunks"])
@pytest.mark.parametrize(("before", "expected"), [(50, []), (51, [IndexFault.LARGER_BEFORE])])
def test_only_a_larger_timestamp_before_is_a_fault(before: int, expected: list[IndexFault], cuts: list[int]) -> None:
    parts = chunks([SimpleBatch(0, 10, 0, 4, 5, before), SimpleBatch(10, 10, 5, 9, 5, 50)], cuts)
    entries = entries_of([(9, 50)])
    flags = time_entry_flags(entries, columns(parts[0]))
    for part in parts[1:]:
        flags |= with_larger_before(entries, time_entry_flags(entries, columns(part)), before)
    faults = time_index_faults(entries, flags, 0, before, is_closed=False, is_whole=True)
    assert faults["fault"].tolist() == expected


@given(logs(), ROWS)
def test_batches_out_of_order_are_searched_correctly(log: list[SimpleBatch], rows: list[tuple[int, int]]) -> None:
    """Only the last offsets matter here; misplaced batches are reported elsewhere."""
    backwards = columns(log[::-1])
    ends = entries_of([(batch.last_offset, 0) for batch in log])
    assert (offset_entry_flags(ends, backwards) & IS_LAST_OFFSET != 0).all()
    assert len(offset_entry_flags(entries_of(rows), backwards)) == len(rows)


def add_wrong_entries(folder: Path) -> None:
    """Add wrong entries to the indexes of each segment; some are wrong only because of two batches together."""
    for base in LOG:
        index = file_of(folder, base, "index")
        wrong = [{"relative_offset": 90 + at, "position": 100_000 + at} for at in range(2)]
        index.write_bytes(index.read_bytes() + b"".join(map(bytes, map(OFFSET_INDEX_ENTRY.build, wrong))) + b"\0")
    for base, times in TIMES.items():
        built = (TIME_INDEX_ENTRY.build({"timestamp": at, "relative_offset": offset}) for at, offset in times)
        file_of(folder, base, "timeindex").write_bytes(b"".join(map(bytes, built)))


def pieces(partition: Partition) -> list[BatchColumns]:
    """Return the log batch by batch."""
    batches = []
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            whole = concat_batches(list(batch_chunks(source, number, lambda _: None, kernels_for, workers=0)))
        batches += [whole[row : row + 1] for row in range(len(whole))]
    return batches


def sent_evidence(partition: Partition, chunks_of_batches: Sequence[BatchColumns]) -> IndexEvidence:
    """Return the evidence of some batches, as another process would send it."""
    watch, evidence = IndexWatch(partition), NO_EVIDENCE
    for batches in chunks_of_batches:
        evidence = evidence.merged(watch.see(batches))
    return pickle.loads(pickle.dumps(evidence))  # type: ignore[no-any-return]  # noqa: S301  # our own


def as_rows(faults: IndexFaults) -> tuple[Any, ...]:
    """Return faults as comparable values."""
    return faults.corrupt.tolist(), faults.misfits.tolist(), faults.times.tolist(), faults.counts


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Partition, list[BatchColumns]]:
    """Return a partition with wrong indexes, and its log batch by batch."""
    folder = tmp_path_factory.mktemp("damaged")
    add_wrong_entries(forge(folder, LOG))
    (partition,) = partitions_under(folder)
    return partition, pieces(partition)


def test_all_faults_of_all_segments_are_reported(damaged: tuple[Partition, list[BatchColumns]]) -> None:
    partition, log = damaged
    faults = sent_evidence(partition, log).finish(partition, {0, 1, 2})
    assert faults.counts == (3, 6, 3)
    assert faults.corrupt["fault"].tolist() == [IndexFault.RAGGED] * 3
    assert faults.misfits["fault"].tolist() == [IndexFault.BEYOND_LOG] * 6
    assert faults.misfits["segment"].tolist() == [0, 0, 1, 1, 2, 2]
    assert faults.times["fault"].tolist() == [
        IndexFault.LARGER_BEFORE,
        IndexFault.NOT_LARGEST,
        IndexFault.NOT_ASCENDING,
    ]


@given(st.lists(st.integers(0, 11), max_size=11), st.data())
def test_evidence_merges_in_any_grouping(
    damaged: tuple[Partition, list[BatchColumns]], cuts: list[int], data: st.DataObject
) -> None:
    partition, log = damaged
    edges = sorted({0, len(log), *cuts})
    parts = [sent_evidence(partition, log[start:stop]) for start, stop in pairwise(edges)]
    while len(parts) > 1:
        left = data.draw(st.integers(0, len(parts) - 2))
        parts[left : left + 2] = [parts[left].merged(parts[left + 1])]
    whole = sent_evidence(partition, [concat_batches(log[:4]), concat_batches(log[4:7]), concat_batches(log[7:])])
    assert as_rows(parts[0].finish(partition, {0, 1, 2})) == as_rows(whole.finish(partition, {0, 1, 2}))


def test_no_evidence_is_neutral_in_merging(damaged: tuple[Partition, list[BatchColumns]]) -> None:
    partition, log = damaged
    evidence = sent_evidence(partition, log)
    for merged in (NO_EVIDENCE.merged(evidence), evidence.merged(NO_EVIDENCE)):
        assert as_rows(merged.finish(partition, {0, 1, 2})) == as_rows(evidence.finish(partition, {0, 1, 2}))


def test_entries_are_kept_only_while_batches_of_their_segment_may_follow(
    damaged: tuple[Partition, list[BatchColumns]],
) -> None:
    partition, log = damaged
    assert [segment.number for segment in sent_evidence(partition, log).segments] == []
    assert [segment.number for segment in sent_evidence(partition, log[2:9]).segments] == [0, 2]


def test_segments_without_batches_are_read_at_the_end(damaged: tuple[Partition, list[BatchColumns]]) -> None:
    partition, log = damaged
    faults = sent_evidence(partition, log[4:]).finish(partition, {1, 2})
    assert set(faults.misfits["segment"].tolist()) == {0, 1, 2}
    assert faults.counts[1] == 2 + 2 + 2 + 3  # including the three correct entries of the first segment


@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_any_bytes_of_an_index_are_evaluated(
    damaged: tuple[Partition, list[BatchColumns]], index: bytes, times: bytes, appended: bool
) -> None:
    """Each entry is evaluated, whatever its bytes are, and the number of faults is bounded."""
    partition, log = damaged
    folder = Path(partition.folder)
    original = file_of(folder, 0, "index").read_bytes(), file_of(folder, 0, "timeindex").read_bytes()
    file_of(folder, 0, "index").write_bytes(original[0] + index if appended else index + original[0])
    file_of(folder, 0, "timeindex").write_bytes(original[1] + times if appended else times + original[1])
    faults = sent_evidence(partition, log).finish(partition, {0, 1, 2})
    file_of(folder, 0, "index").write_bytes(original[0])
    file_of(folder, 0, "timeindex").write_bytes(original[1])
    rows_of_first = (rows[rows["segment"] == 0] for rows in (faults.corrupt, faults.misfits, faults.times))
    corrupt, misfits, time_faults = rows_of_first
    assert len(corrupt) + len(misfits) <= (len(original[0]) + len(index)) // 8 + 3
    assert len(time_faults) <= (len(original[1]) + len(times)) // 12 + 4
