"""Filters select the right batches and records, and an index is used only where it is verified."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.log.batch_headers import batch_header, legacy_header
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.log.selection import HalfOpenRange, Selection, selected_batches, start_position
from tests.parsers.builders import GZIP, NOW, batch, batches, message, record, wrapped_set

LOG = b"".join(batches(10))
STARTS = [row.position for row in walk(BytesSource(LOG)) if isinstance(row, Batch)]


def kept(selection: Selection, log: bytes = LOG) -> list[int | None]:
    """Return the base offsets of the selected batches."""
    rows = selected_batches(BytesSource(log), selection)
    return [row.base_offset for row in rows if isinstance(row, Batch)]


@pytest.mark.parametrize(
    ("wanted", "held", "refused"),
    [
        (HalfOpenRange(), [-5, 0, 2**63], []),
        (HalfOpenRange(3), [3, 4], [2]),
        (HalfOpenRange(None, 3), [2, -1], [3]),
        (HalfOpenRange(3, 5), [3, 4], [2, 5]),
        (HalfOpenRange(5, 3), [], [3, 4, 5]),
    ],
)
def test_a_range_is_half_open(wanted: HalfOpenRange, held: list[int], refused: list[int]) -> None:
    assert all(wanted.contains(value) for value in held)
    assert not any(wanted.contains(value) for value in refused)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_a_range_overlaps_any_range_with_a_common_value(first: int, end: int, low: int, more: int) -> None:
    wanted = HalfOpenRange(first, end)
    values = range(low, low + more + 1)
    assert wanted.overlaps(low, low + more) >= any(wanted.contains(value) for value in values)
    assert first >= end or wanted.overlaps(low, low + more) == any(wanted.contains(value) for value in values)


def test_an_empty_selection_matches_everything() -> None:
    assert kept(Selection()) == list(range(0, 20, 2))


def test_offsets() -> None:
    assert kept(Selection(offsets=HalfOpenRange(5, 9))) == [4, 6, 8]
    assert kept(Selection(offsets=HalfOpenRange(19))) == [18]
    assert kept(Selection(offsets=HalfOpenRange(None, 1))) == [0]


@pytest.mark.parametrize(
    ("selection", "fields"),
    [
        (Selection(producer_id=7), {"producer_id": 7}),
        (Selection(producer_epoch=3), {"producer_epoch": 3}),
        (Selection(leader_epoch=8), {"partition_leader_epoch": 8}),
        (Selection(transactional=True), {"attributes": 0x10}),
        (Selection(control=True), {"attributes": 0x20}),
        (Selection(times=HalfOpenRange(NOW + 5)), {"max_timestamp": NOW + 5}),
    ],
    ids=["producer", "epoch", "leader epoch", "transactional", "control", "time"],
)
def test_a_field_of_the_batch(selection: Selection, fields: dict[str, int]) -> None:
    assert selection.keeps_batch(batch_header(batch(record(), **fields), 0))
    assert not selection.keeps_batch(batch_header(batch(record()), 0))


def test_false_is_a_filter() -> None:
    ordinary, marker = (batch_header(batch(record(), attributes=bits), 0) for bits in (0, 0x30))
    for selection in (Selection(transactional=False), Selection(control=False)):
        assert (selection.keeps_batch(ordinary), selection.keeps_batch(marker)) == (True, False)


def test_producer_zero_is_a_filter() -> None:
    assert Selection(producer_id=0).keeps_batch(batch_header(batch(producer_id=0), 0))
    assert not Selection(producer_id=0).keeps_batch(batch_header(batch(producer_id=-1), 0))


def test_old_formats_have_no_producer_and_an_unknown_first_offset() -> None:
    wrapped = legacy_header(wrapped_set(1, GZIP, 40), 0)
    assert Selection(offsets=HalfOpenRange(40, 41)).keeps_batch(wrapped)
    assert not Selection(offsets=HalfOpenRange(43)).keeps_batch(wrapped)
    assert not Selection(producer_id=-1).keeps_batch(wrapped)


@pytest.mark.parametrize(
    ("selection", "offsets"),
    [
        (Selection(offsets=HalfOpenRange(1, 3)), [1, 2]),
        (Selection(times=HalfOpenRange(NOW + 2, NOW + 4)), [2, 3]),
        (Selection(key=re.compile("^b")), [1]),
        (Selection(key=re.compile("\ufffd")), [3]),
        (Selection(key=re.compile("")), [0, 1, 3]),
    ],
    ids=["offsets", "times", "key", "no text", "any key"],
)
def test_records(selection: Selection, offsets: list[int]) -> None:
    keys = [b"a", b"bc", None, b"\xff"]
    data = batch(*(record(n, key, timestamp_delta=n) for n, key in enumerate(keys)))
    rows = read_records(BytesSource(data), batch_header(data, 0))
    assert [row.offset for row in rows if isinstance(row, Record) and selection.keeps_record(row)] == offsets


@given(first=st.integers(0, 21), end=st.integers(0, 21))
def test_no_selected_record_is_lost_with_its_batch(first: int, end: int) -> None:
    selection = Selection(offsets=HalfOpenRange(first, end))
    source = BytesSource(LOG)
    offsets = [
        record.offset
        for row in selected_batches(source, selection)
        if isinstance(row, Batch)
        for record in read_records(source, row)
        if isinstance(record, Record) and selection.keeps_record(record)
    ]
    assert offsets == list(range(first, min(end, 20)))


def test_one_batch_beyond_the_end_may_have_a_corrupt_offset() -> None:
    """No checksum covers a base offset: reading continues after one that is too large and stops after two."""
    parts = batches(10)
    parts[1] = (1 << 40).to_bytes(8, "big") + parts[1][8:]
    assert kept(Selection(offsets=HalfOpenRange(0, 7)), b"".join(parts)) == [0, 4, 6]
    parts[2] = (1 << 40).to_bytes(8, "big") + parts[2][8:]
    assert kept(Selection(offsets=HalfOpenRange(0, 7)), b"".join(parts)) == [0]


def test_damage_between_batches_is_yielded() -> None:
    rows = list(selected_batches(BytesSource(LOG[:-5]), Selection(offsets=HalfOpenRange(18))))
    assert [row.reason for row in rows if isinstance(row, Damage)] == ["truncated"]


def test_a_batch_cut_at_the_stop_is_not_damage() -> None:
    rows = list(selected_batches(BytesSource(LOG), Selection(), stop=STARTS[3] + 20))
    assert [row.position for row in rows if isinstance(row, Batch)] == STARTS[:3]
    assert len(rows) == 3


# Index ---------------------------------------------------------------------------------------------------------------


def index(*entries: tuple[int, int], zeros: int = 0) -> BytesSource:
    """Return a preallocated index with these entries."""
    built = [OFFSET_INDEX_ENTRY.build({"relative_offset": offset, "position": at}) for offset, at in entries]
    return BytesSource(b"".join(built) + bytes(8 * zeros))


@pytest.mark.parametrize("zeros", [0, 1, 100])
@pytest.mark.parametrize(("offset", "number"), [(0, 0), (5, 0), (6, 3), (7, 3), (13, 3), (14, 7), (99, 7)])
def test_an_index_leads_to_a_batch_at_or_before_the_offset(offset: int, number: int, zeros: int) -> None:
    source = index((6, STARTS[3]), (14, STARTS[7]), zeros=zeros)
    assert start_position(BytesSource(LOG), source, 0, offset) == STARTS[number]


def test_offsets_of_an_index_are_relative_to_the_base_offset() -> None:
    log = BytesSource(b"".join(batches(10, first=50)))
    third = [row.position for row in walk(log) if isinstance(row, Batch)][3]
    assert start_position(log, index((6, third)), 100, 107) == third


@pytest.mark.parametrize(
    "entries",
    [[(6, STARTS[3] + 1)], [(6, len(LOG))], [(6, -5)], [(6, 2**31 - 1)], [(6, STARTS[8])], [(-9, 7), (5, 3), (-1, 2)]],
    ids=["between batches", "at the end", "negative", "beyond", "too far", "noise"],
)
def test_a_wrong_index_is_not_used(entries: list[tuple[int, int]]) -> None:
    assert start_position(BytesSource(LOG), index(*entries), 0, 7) == 0


def test_a_batch_with_a_wrong_checksum_is_not_a_start() -> None:
    parts = batches(10)
    parts[3] = parts[3][:-1] + b"\xee"
    assert start_position(BytesSource(b"".join(parts)), index((6, STARTS[3])), 0, 7) == 0


@pytest.mark.parametrize(("base", "offset"), [(None, 5), (0, None)])
def test_without_an_offset_the_index_is_not_used(base: int | None, offset: int | None) -> None:
    assert start_position(BytesSource(LOG), index((6, STARTS[3])), base, offset) == 0
    assert start_position(BytesSource(LOG), None, 0, 5) == 0


@given(raw=st.binary(max_size=80), offset=st.integers(-9, 30))
def test_with_any_index_no_selected_record_is_lost(raw: bytes, offset: int) -> None:
    source = BytesSource(LOG)
    start = start_position(source, BytesSource(raw), 0, offset)
    rows = [row for row in walk(source, start) if isinstance(row, Batch)]
    assert start in (0, *STARTS)
    assert [row.position for row in rows] == STARTS[STARTS.index(start) :]
    assert start == 0 or (rows[0].base_offset or 0) <= offset


def test_old_messages_are_selected_by_their_offset() -> None:
    log = b"".join(message(n) for n in range(6))
    assert kept(Selection(offsets=HalfOpenRange(2, 4)), log) == [2, 3]
