"""Evidence about indexes: against the rules entry by entry, and however the log is split."""

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
from kforensics.forensics.partition.index_entries import Fault, IndexEntries
from kforensics.forensics.partition.index_evidence import NO_EVIDENCE, IndexEvidence, IndexFaults, IndexWatch
from kforensics.forensics.partition.offset_index_evidence import LAST, offset_index_faults, offset_index_marks
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.time_index_evidence import seen, time_index_faults, time_index_marks
from kforensics.parsers.columns.batch_columns import BatchColumns, joined
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY
from kforensics.parsers.kernels.policy import kernels_for
from tests.forensics.cases import partitions_under
from tests.forensics.forge import file_of, forge

LOG = {
    0: "plain @0-4 ts 100; plain @5-9 ts 300; plain @10-14 ts 200; plain @15-19 ts 400",
    20: "plain @20-24 ts 500; plain @25-29 ts 600; plain @30-34 ts 610",
    35: "plain @35-39 ts 700; plain @40-44 ts 800; plain @45-49 ts 900; plain @50 ts 950",
}
# A smaller one behind a larger one; not the largest at the end; offsets that fall.
TIMES = {0: [(100, 4), (200, 14), (400, 19)], 20: [(500, 4)], 35: [(700, 4), (950, 3)]}


@dataclass(frozen=True)
class Plain:
    """A batch, as the rules speak of it."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    count: int
    timestamp: int
    magic: int = 2
    exact: bool = True


def columns(batches: Sequence[Plain]) -> BatchColumns:
    """Return batches as columns."""
    values: dict[str, list[Any]] = {
        "position": [one.position for one in batches],
        "size": [one.size for one in batches],
        "base_offset": [one.base_offset if one.exact else one.last_offset for one in batches],
        "last_offset": [one.last_offset for one in batches],
        "count": [one.count if one.exact else 1 for one in batches],
        "magic": [one.magic for one in batches],
        "max_timestamp": [one.timestamp for one in batches],
        "exact": [one.exact for one in batches],
    }
    others = dict.fromkeys(BatchColumns.__slots__, [0] * len(batches))
    return BatchColumns.of_rows(zip(*(others | values).values(), strict=True))


@st.composite
def logs(draw: st.DrawFn) -> list[Plain]:
    """Draw a segment without damage: with holes, thinned batches and wrappers of old formats."""
    found, position, offset = [], 0, 0
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 2]))
        span, size = draw(st.integers(1, 4)), draw(st.integers(1, 3)) * 10
        kind = draw(st.sampled_from(["whole", "whole", "thinned", "wrapper", "format 0"]))
        found.append(
            Plain(
                position,
                size,
                offset,
                offset + span - 1,
                draw(st.integers(0, span)) if kind == "thinned" else span,
                -1 if kind == "format 0" else draw(st.integers(0, 9)) * 10,
                magic={"whole": 2, "thinned": 2, "wrapper": 1, "format 0": 0}[kind],
                exact=kind != "wrapper",
            )
        )
        position, offset = position + size, offset + span
    return found


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


def chunks(log: Sequence[Plain], cuts: Sequence[int]) -> list[Sequence[Plain]]:
    """Return a log in pieces."""
    edges = sorted({0, len(log), *(cut % (len(log) + 1) for cut in cuts)})
    return [log[start:stop] for start, stop in pairwise(edges)]


def fits(log: Sequence[Plain], offset: int, position: int) -> bool:
    """Whether an entry of an offset index fits, as the rules put it."""
    here = next((one for one in log if one.position == position), None)
    if here is None or any(one.last_offset >= offset for one in log if one.position < position):
        return False
    if here.base_offset == offset or (not here.exact and offset <= here.last_offset):
        return True
    later = [one for one in log if one.position >= position]
    return any(
        one.last_offset == offset
        or (one.magic == 2 and one.base_offset <= offset <= one.last_offset < one.base_offset + _hull(one))
        for one in later
    )


def _hull(one: Plain) -> int:
    """Return the span of a thinned batch, 0 for a whole one."""
    span = one.last_offset - one.base_offset + 1
    return span if one.count < span else 0


def tells_time(log: Sequence[Plain], offset: int, timestamp: int) -> bool:
    """Whether an entry of a time index fits, as the rules put it."""
    here = [
        number
        for number, one in enumerate(log)
        if (one.base_offset if one.exact else one.last_offset) <= offset <= one.last_offset
    ]
    if not here:
        return False
    one = log[here[0]]
    return (one.timestamp == timestamp or one.magic == 0) and all(
        before.timestamp <= timestamp for before in log[: here[0]]
    )


CUTS = st.lists(st.integers(0, 12), max_size=4)
ROWS = st.lists(st.tuples(st.integers(-1, 40), st.integers(-10, 320)), max_size=12)
NEAR = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30).map(lambda place: place * 10)), max_size=12)


@given(logs(), NEAR | ROWS, CUTS)
def test_offset_entries_are_judged_by_the_rules(log: list[Plain], rows: list[tuple[int, int]], cuts: list[int]) -> None:
    entries = entries_of(rows)
    marks = reduce(np.bitwise_or, [offset_index_marks(entries, columns(part)) for part in chunks(log, cuts)])
    found = offset_index_faults(entries, marks, 0, log[-1].position + log[-1].size, is_whole=True)
    struck = {int(row["position"]) // 8 for row in found}
    assert struck == {number for number, row in enumerate(rows) if not fits(log, *row)}


@given(logs(), st.lists(st.tuples(st.integers(-1, 40), st.integers(-1, 9).map(lambda ts: ts * 10)), max_size=12), CUTS)
def test_time_entries_are_judged_by_the_rules(log: list[Plain], rows: list[tuple[int, int]], cuts: list[int]) -> None:
    entries = entries_of(rows)
    parts = chunks(log, cuts)
    before = accumulate((max(one.timestamp for one in part) for part in parts), max, initial=NO_TIME)
    marks = np.zeros(len(rows), np.uint8)
    for part, largest in zip(parts, before, strict=False):
        marks |= seen(entries, time_index_marks(entries, columns(part)), largest)
    found = time_index_faults(entries, marks, 0, NO_TIME, is_closed=False, is_whole=True)
    struck = {int(row["position"]) // 8 for row in found}
    assert struck == {number for number, row in enumerate(rows) if not tells_time(log, *row)}


@pytest.mark.parametrize("cuts", [[], [1]], ids=["one chunk", "two chunks"])
@pytest.mark.parametrize(("before", "struck"), [(50, []), (51, [Fault.LARGER_BEFORE])])
def test_only_a_larger_timestamp_before_is_a_fault(before: int, struck: list[Fault], cuts: list[int]) -> None:
    parts = chunks([Plain(0, 10, 0, 4, 5, before), Plain(10, 10, 5, 9, 5, 50)], cuts)
    entries = entries_of([(9, 50)])
    marks = time_index_marks(entries, columns(parts[0]))
    for part in parts[1:]:
        marks |= seen(entries, time_index_marks(entries, columns(part)), before)
    found = time_index_faults(entries, marks, 0, before, is_closed=False, is_whole=True)
    assert found["fault"].tolist() == struck


@given(logs(), ROWS)
def test_batches_out_of_order_are_searched_all_the_same(log: list[Plain], rows: list[tuple[int, int]]) -> None:
    """Only the last offsets count here: where a batch stands is another matter."""
    backwards = columns(log[::-1])
    ends = entries_of([(one.last_offset, 0) for one in log])
    assert (offset_index_marks(ends, backwards) & LAST != 0).all()
    assert len(offset_index_marks(entries_of(rows), backwards)) == len(rows)


def spoil(folder: Path) -> None:
    """Give each segment wrong entries beside right ones, some of which only two batches together show to be wrong."""
    for base in LOG:
        index = file_of(folder, base, "index")
        wrong = [{"relative_offset": 90 + at, "position": 100_000 + at} for at in range(2)]
        index.write_bytes(index.read_bytes() + b"".join(map(bytes, map(OFFSET_INDEX_ENTRY.build, wrong))) + b"\0")
    for base, times in TIMES.items():
        built = (TIME_INDEX_ENTRY.build({"timestamp": at, "relative_offset": offset}) for at, offset in times)
        file_of(folder, base, "timeindex").write_bytes(b"".join(map(bytes, built)))


def pieces(partition: Partition) -> list[BatchColumns]:
    """Return the log batch by batch."""
    found = []
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            whole = joined(list(batch_chunks(source, number, lambda _: None, kernels_for, workers=0)))
        found += [whole[at : at + 1] for at in range(len(whole))]
    return found


def evidence_of(partition: Partition, some: Sequence[BatchColumns]) -> IndexEvidence:
    """Return what some batches say, as a worker of its own would send it."""
    watch = IndexWatch(partition)
    for batches in some:
        watch.see(batches)
    return pickle.loads(pickle.dumps(watch.evidence))  # type: ignore[no-any-return]  # noqa: S301  # our own


def as_rows(faults: IndexFaults) -> tuple[Any, ...]:
    """Return faults as values that can be compared."""
    return faults.corrupt.tolist(), faults.misfits.tolist(), faults.times.tolist(), faults.counts


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Partition, list[BatchColumns]]:
    """Return a partition with wrong indexes, and its log batch by batch."""
    folder = tmp_path_factory.mktemp("spoilt")
    spoil(forge(folder, LOG))
    (partition,) = partitions_under(folder)
    return partition, pieces(partition)


def test_every_fault_of_every_segment_is_there(spoilt: tuple[Partition, list[BatchColumns]]) -> None:
    partition, log = spoilt
    found = evidence_of(partition, log).finish(partition, {0, 1, 2})
    assert found.counts == (3, 6, 3)
    assert found.corrupt["fault"].tolist() == [Fault.RAGGED] * 3
    assert found.misfits["fault"].tolist() == [Fault.BEYOND_LOG] * 6
    assert found.misfits["segment"].tolist() == [0, 0, 1, 1, 2, 2]
    assert found.times["fault"].tolist() == [Fault.LARGER_BEFORE, Fault.NOT_LARGEST, Fault.NOT_ASCENDING]


@given(st.lists(st.integers(0, 11), max_size=11), st.data())
def test_any_grouping_gives_the_same(
    spoilt: tuple[Partition, list[BatchColumns]], cuts: list[int], data: st.DataObject
) -> None:
    partition, log = spoilt
    edges = sorted({0, len(log), *cuts})
    parts = [evidence_of(partition, log[start:stop]) for start, stop in pairwise(edges)]
    while len(parts) > 1:
        at = data.draw(st.integers(0, len(parts) - 2))
        parts[at : at + 2] = [parts[at].merged(parts[at + 1])]
    whole = evidence_of(partition, [joined(log[:4]), joined(log[4:7]), joined(log[7:])])
    assert as_rows(parts[0].finish(partition, {0, 1, 2})) == as_rows(whole.finish(partition, {0, 1, 2}))


def test_nothing_merges_with_everything(spoilt: tuple[Partition, list[BatchColumns]]) -> None:
    partition, log = spoilt
    evidence = evidence_of(partition, log)
    for merged in (NO_EVIDENCE.merged(evidence), evidence.merged(NO_EVIDENCE)):
        assert as_rows(merged.finish(partition, {0, 1, 2})) == as_rows(evidence.finish(partition, {0, 1, 2}))


def test_entries_are_kept_only_while_more_of_their_segment_may_come(
    spoilt: tuple[Partition, list[BatchColumns]],
) -> None:
    partition, log = spoilt
    assert [one.number for one in evidence_of(partition, log).segments] == []
    assert [one.number for one in evidence_of(partition, log[2:9]).segments] == [0, 2]


def test_segments_without_batches_are_read_at_the_end(spoilt: tuple[Partition, list[BatchColumns]]) -> None:
    partition, log = spoilt
    found = evidence_of(partition, log[4:]).finish(partition, {1, 2})
    assert set(found.misfits["segment"].tolist()) == {0, 1, 2}
    assert found.counts[1] == 2 + 2 + 2 + 3  # the three right entries of the first segment too


@given(st.binary(max_size=200), st.binary(max_size=200), st.booleans())
def test_no_bytes_of_an_index_are_too_much(
    spoilt: tuple[Partition, list[BatchColumns]], index: bytes, times: bytes, behind: bool
) -> None:
    """Whatever stands there, each entry is judged, and no more faults are told than there are things to be wrong."""
    partition, log = spoilt
    folder = Path(partition.folder)
    right = file_of(folder, 0, "index").read_bytes(), file_of(folder, 0, "timeindex").read_bytes()
    file_of(folder, 0, "index").write_bytes(right[0] + index if behind else index + right[0])
    file_of(folder, 0, "timeindex").write_bytes(right[1] + times if behind else times + right[1])
    found = evidence_of(partition, log).finish(partition, {0, 1, 2})
    file_of(folder, 0, "index").write_bytes(right[0])
    file_of(folder, 0, "timeindex").write_bytes(right[1])
    corrupt, misfits, late = (rows[rows["segment"] == 0] for rows in (found.corrupt, found.misfits, found.times))
    assert len(corrupt) + len(misfits) <= (len(right[0]) + len(index)) // 8 + 3
    assert len(late) <= (len(right[1]) + len(times)) // 12 + 4
