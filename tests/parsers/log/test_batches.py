"""The walk: every byte is covered by a row and every valid batch is found, whatever the damage."""

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kforensics.parsers.files.source import BytesSource, LocalSource, Source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.log import batches as module
from kforensics.parsers.log import resync
from kforensics.parsers.log.batch_headers import batch_header
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.log_rows import read_records
from tests.parsers.builders import (
    CODECS,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    batch,
    batches,
    legacy_segment,
    message,
    ranges,
    record,
)
from tests.parsers.ranges import ShrunkSource
from tests.reference.construct_decoder import reference_header

SEGMENTS = {
    **{f"v2 {name}": batches(6, codec=codec) for name, codec in CODECS.items()},
    "v0": legacy_segment(0) * 2,
    "v1": legacy_segment(1) * 2,
    "v0 gzip": legacy_segment(0, GZIP),
    "v0 lz4": legacy_segment(0, LZ4),
    "v1 snappy": legacy_segment(1, SNAPPY),
    "moved on": [*legacy_segment(0), *legacy_segment(1), *batches(2, first=10)],
}
segments = pytest.mark.parametrize("name", SEGMENTS)
# The brokers' own files may contain no other damage than the tails of a crash.
KNOWN_TAILS = {
    "crash-before-recovery/broker-1/preallocated-0/00000000000000000000.log": [(3615, 40000, "zero-tail")],
    "crash-before-recovery/broker-1/torn-0/00000000000000000000.log": [(9848, 9985, "truncated")],
}


def walked(source: Source) -> list[Batch | Damage]:
    """Return all rows of a log, after checking that they cover every byte and that damage is consistent."""
    rows = list(walk(source))
    reached, last = 0, None
    for row in rows:
        if isinstance(row, Batch):
            assert (row.position, row.size > 0) == (reached, True), row
            reached, last = reached + row.size, row
            continue
        assert row.reason
        assert row.detail
        if row.inside_batch is None:
            assert (row.start, row.end > row.start) == (reached, True), row
            assert row.next_good_position in (None, row.end)
            reached = row.end
        else:
            assert last is not None
            assert row.inside_batch == last.position <= row.start < row.end <= last.position + last.size
            if row.reason == "truncated":  # the next batch begins inside the torn one
                reached = row.start
    assert reached == source.size
    return rows


def valid_batches(data: bytes) -> set[tuple[int, int]]:
    """Return position and size of all batches of a log with a valid checksum."""
    return {(row.position, row.size) for row in walked(BytesSource(data)) if isinstance(row, Batch) and row.crc_valid}


def spans(parts: list[bytes], start: int = 0) -> list[tuple[int, int]]:
    """Return position and size of consecutive batches."""
    return [(start + sum(map(len, parts[:n])), len(part)) for n, part in enumerate(parts)]


# Valid logs ----------------------------------------------------------------------------------------------------------


@segments
def test_a_valid_log_has_no_damage(name: str) -> None:
    parts = SEGMENTS[name]
    rows = walked(BytesSource(b"".join(parts)))
    assert [(row.position, row.size) for row in rows if isinstance(row, Batch)] == spans(parts)
    assert len(rows) == len(parts)


def test_an_empty_log_has_no_rows() -> None:
    assert walked(BytesSource(b"")) == []


def test_a_batch_is_read_completely_or_in_part() -> None:
    parts = batches(3)
    source = BytesSource(b"".join(parts))
    _, second, _ = walked(source)
    assert isinstance(second, Batch)
    assert batch_bytes(source, second) == parts[1]
    assert batch_bytes(source, second, 70) == parts[1][:70]
    assert batch_bytes(source, second, 7000) == parts[1]


@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_walk_may_begin_and_end_anywhere(start: int) -> None:
    parts = batches(5)
    starts = [at for at, _ in spans(parts)]
    rows = list(walk(BytesSource(b"".join(parts)), starts[start], starts[4] + 10))
    assert ranges(iter(rows)) == [
        *((at, at + size, "batch") for at, size in spans(parts)[start:4]),
        (starts[4], starts[4] + 10, "truncated"),
    ]


def test_a_batch_larger_than_the_window() -> None:
    big = batch(record(value=random.Random(1).randbytes(3 << 20)))  # noqa: S311 - dice for a test
    old = message(2, value=bytes(range(256)) * 9000)
    parts = [batches(1)[0], big, old, *batches(2, first=9)]
    assert valid_batches(b"".join(parts)) == set(spans(parts))


# Samples -------------------------------------------------------------------------------------------------------------


def logs_of(folder: Path) -> list[Path]:
    """Return all logs and snapshots under a folder, including renamed ones."""
    paths = {
        path for pattern in ("*.log", "*.log.*", "*.checkpoint", "*.checkpoint.*") for path in folder.rglob(pattern)
    }
    return sorted(path for path in paths if path.is_file())


def test_every_byte_of_every_sample_is_covered(sample_logs: Path) -> None:
    logs = logs_of(sample_logs)
    assert len(logs) > 1000
    for path in logs:
        with LocalSource(path) as source:
            rows = walked(source)
            for row in rows:
                if isinstance(row, Batch):
                    inside = [inner for inner in read_records(source, row) if isinstance(inner, Damage)]
                    assert all(inner.inside_batch == row.position for inner in inside)
                    if not row.is_legacy:
                        data = batch_bytes(source, row)
                        assert batch_header(data, row.position) == row == reference_header(data, row.position)


def test_logs_of_brokers_are_valid_except_for_the_tails_of_a_crash(sample_logs: Path) -> None:
    damage = {}
    for path in logs_of(sample_logs):
        name = path.relative_to(sample_logs).as_posix()
        if name.startswith("damaged/"):
            continue
        with LocalSource(path) as source:
            rows = walked(source)
            ranges_of_damage = [(row.start, row.end, row.reason) for row in rows if isinstance(row, Damage)]
            lost = [at for row in rows if isinstance(row, Batch) for at in read_records(source, row)]
            assert all(isinstance(row, Record) for row in lost), name
        if ranges_of_damage:
            damage[name] = ranges_of_damage
    assert damage == KNOWN_TAILS


# Truncation ----------------------------------------------------------------------------------------------------------


@segments
def test_a_log_truncated_at_any_length_keeps_all_whole_batches(name: str) -> None:
    parts = SEGMENTS[name]
    data = b"".join(parts)
    whole = spans(parts)
    for length in range(len(data)):
        rows = walked(BytesSource(data[:length]))
        kept = [(at, size) for at, size in whole if at + size <= length]
        assert [(row.position, row.size) for row in rows if isinstance(row, Batch)] == kept
        tail = [row for row in rows if isinstance(row, Damage)]
        assert [row.reason for row in tail] == ([] if sum(kept[-1] if kept else (0,)) == length else ["truncated"]) or (
            _only_zeros(data[sum(kept[-1] if kept else (0,)) : length]) and tail[0].reason == "zero-tail"
        )


def _only_zeros(data: bytes) -> bool:
    return bool(data) and not data.strip(b"\0")


@pytest.mark.parametrize("count", [1, 17, 18, 61, 62, 5000, 1 << 20])
def test_a_tail_of_zeros_is_a_zero_tail(count: int) -> None:
    parts = batches(2)
    size = sum(map(len, parts))
    rows = walked(BytesSource(b"".join(parts) + bytes(count)))
    assert ranges(iter(rows))[2:] == [(size, size + count, "zero-tail")]


# Damage --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "at", "reason"),
    [
        ("length 0", {"length": 0}, "length"),
        ("length -5", {"length": -5}, "length"),
        ("length 13", {"length": 13}, "length"),
        ("length 14", {"length": 14}, "length"),
        ("length 48", {"length": 48}, "length"),
        ("smallest length", {"length": -(2**31)}, "length"),
        ("largest length", {"length": 2**31 - 1}, "length"),
        ("negative magic", {"magic": -128}, "magic"),
    ],
)
def test_an_invalid_header_costs_only_its_batch(field: str, at: dict[str, int], reason: str) -> None:
    parts = batches(5)
    parts[2] = batch(record(0, b"other"), record(1), base_offset=4, **at)
    (start, size) = spans(parts)[2]
    rows = walked(BytesSource(b"".join(parts)))
    assert ranges(iter(rows)) == [
        (place, place + length, reason if place == start else "batch") for place, length in spans(parts)
    ]
    (damage,) = [row for row in rows if isinstance(row, Damage)]
    assert damage.next_good_position == start + size


def test_a_wrong_checksum_is_damage_inside_a_batch() -> None:
    parts = batches(3)
    parts[1] = batch(record(), record(1), base_offset=2, crc=7)
    rows = walked(BytesSource(b"".join(parts)))
    assert [row.crc_valid for row in rows if isinstance(row, Batch)] == [True, False, True]
    (damage,) = [row for row in rows if isinstance(row, Damage)]
    start, size = spans(parts)[1]
    assert (damage.start, damage.end, damage.reason, damage.inside_batch) == (start, start + size, "crc", start)


@pytest.mark.parametrize("magic", [3, 9, 127])
def test_an_unknown_magic_is_read_as_2_and_reported(magic: int) -> None:
    parts = batches(3)
    parts[1] = batch(record(), record(1), base_offset=2, magic=magic)
    rows = walked(BytesSource(b"".join(parts)))
    assert [row.magic for row in rows if isinstance(row, Batch)] == [2, magic, 2]
    (damage,) = [row for row in rows if isinstance(row, Damage)]
    start, _ = spans(parts)[1]
    assert (damage.start, damage.end, damage.reason, damage.inside_batch) == (start + 16, start + 17, "magic", start)


@pytest.mark.parametrize("noise", [1, 20, 61, 97, 300_000])
def test_noise_between_two_batches_is_skipped(noise: int) -> None:
    parts = batches(4)
    between = b"\xee" + random.Random(noise).randbytes(noise - 1)  # noqa: S311 - dice for a test
    data = b"".join(parts[:2]) + between + b"".join(parts[2:])
    start = sum(map(len, parts[:2]))
    assert valid_batches(data) == {*spans(parts[:2]), *spans(parts[2:], start + noise)}


@pytest.mark.parametrize("zeros", [18, 512, 4096, 3 << 20])
def test_zeros_between_two_batches_are_zeros_damage(zeros: int) -> None:
    parts = batches(4)
    data = b"".join(parts[:2]) + bytes(zeros) + b"".join(parts[2:])
    start = sum(map(len, parts[:2]))
    expected = "zeros" if zeros > 61 else "length"
    assert (start, start + zeros, expected) in ranges(iter(walked(BytesSource(data))))


def test_a_length_that_covers_the_next_batch_does_not_hide_it() -> None:
    parts = batches(5)
    parts[1] = parts[1][:8] + (len(parts[1] + parts[2]) - 12).to_bytes(4, "big") + parts[1][12:]
    whole = spans(parts)
    assert valid_batches(b"".join(parts)) == {place for place in whole if place != whole[1]}
    (damage,) = [row for row in walked(BytesSource(b"".join(parts))) if isinstance(row, Damage)]
    assert (damage.reason, damage.detail.endswith("; another batch begins inside it")) == ("length", True)


def test_the_length_of_an_invalid_header_hides_nothing() -> None:
    parts = batches(5)
    spoilt = batch(record(), record(1), base_offset=2, magic=-1)
    parts[1] = spoilt[:8] + (len(spoilt + parts[2]) - 12).to_bytes(4, "big") + spoilt[12:]
    whole = spans(parts)
    assert valid_batches(b"".join(parts)) == {place for place in whole if place != whole[1]}


@pytest.mark.parametrize("flipped", [False, True], ids=["length", "length and offset"])
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_length_up_to_the_end_hides_nothing_even_with_more_damage(number: int, flipped: bool) -> None:
    parts = batches(8)
    if flipped:
        parts[0] = (1 << 40).to_bytes(8, "big") + parts[0][8:]
    parts[0] = parts[0][:8] + (len(b"".join(parts)) - 12).to_bytes(4, "big") + parts[0][12:]
    parts[number] = parts[number][:8] + bytes(8) + parts[number][16:]
    whole = spans(parts)
    assert valid_batches(b"".join(parts)) == {place for place in whole if place not in (whole[0], whole[number])}


def test_a_valid_batch_in_a_value_after_an_invalid_header_is_not_part_of_the_log() -> None:
    inner = batch(record(value=b"".join(batches(3))), record(1), base_offset=100, magic=-1)
    parts = [batches(1, first=49)[0], inner, *batches(2, first=51)]
    whole = spans(parts)
    assert valid_batches(b"".join(parts)) == {place for place in whole if place != whole[1]}


@pytest.mark.parametrize("name", ["v2 none", "v1"])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_an_invalid_header_that_ends_at_a_batch_by_chance_hides_nothing(name: str, number: int) -> None:
    """A batch inside has a flipped bit, so no chain of valid batches leads to the end."""
    parts = batches(6) if name == "v2 none" else [message(n) for n in range(6)]
    parts[1] = (
        parts[1][:8] + (len(b"".join(parts[1:5])) - 12).to_bytes(4, "big") + parts[1][12:16] + b"\xff" + parts[1][17:]
    )
    parts[number] = parts[number][:-1] + bytes([parts[number][-1] ^ 1])
    whole = spans(parts)
    assert valid_batches(b"".join(parts)) == {place for place in whole if place not in (whole[1], whole[number])}


@pytest.mark.parametrize("offsets", [(50, 0), (50, 100)], ids=["lower", "higher"])
def test_batches_in_a_value_are_not_part_of_the_log_if_their_offsets_do_not_fit(offsets: tuple[int, int]) -> None:
    offset, first = offsets
    outer = batch(record(value=b"".join(batches(3, first=first))), record(1), base_offset=offset, magic=-1)
    parts = [batches(1, first=49)[0], outer, *batches(2, first=52)]
    whole = spans(parts)
    assert valid_batches(b"".join(parts)) == {place for place in whole if place != whole[1]}


def test_a_range_that_ends_after_an_invalid_header_has_the_same_batches() -> None:
    """A segment may be read in ranges; what follows one decides about the batches in a value at its end."""
    outer = batch(record(value=b"".join(batches(3))), record(1), base_offset=50, magic=-1)
    data, end = batches(1, first=24)[0] + outer, len(batches(1, first=24)[0] + outer)
    source = BytesSource(data + b"".join(batches(2, first=26)))
    separate = [*walk(source, 0, end), *walk(source, end)]
    assert ranges(iter(separate)) == ranges(walk(source))
    assert len(separate) == 4


def test_a_valid_batch_in_a_value_is_not_part_of_the_log() -> None:
    """A topic contains a backup of another topic, and the outer batch has a flipped bit."""
    inner = batches(3)
    outer = batch(record(value=b"".join(inner)), record(1), base_offset=100)
    flipped = outer[:-1] + bytes([outer[-1] ^ 1])
    parts = [batches(1, first=49)[0], flipped, *batches(2, first=51)]
    rows = walked(BytesSource(b"".join(parts)))
    assert [(row.position, row.size) for row in rows if isinstance(row, Batch)] == spans(parts)


@pytest.mark.parametrize("name", ["v2 none", "v2 zstd", "v0", "v1", "v1 snappy"])
@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_bytes_missing_from_a_batch_cost_no_other_batch(name: str, cut: int) -> None:
    parts = SEGMENTS[name]
    spoilt = [*parts[:1], parts[1][:20] + parts[1][20 + cut :], *parts[2:]]
    whole = spans(spoilt)
    assert valid_batches(b"".join(spoilt)) >= {place for place in whole if place != whole[1]}


@settings(max_examples=500)
@given(data=st.data(), name=st.sampled_from(sorted(SEGMENTS)))
def test_every_intact_batch_is_found(data: st.DataObject, name: str) -> None:
    """If one batch is damaged in any way, all others are found."""
    parts = SEGMENTS[name]
    number = data.draw(st.integers(0, len(parts) - 1))
    spoilt = data.draw(_damaged(parts[number]))
    batches_after = valid_batches(b"".join([*parts[:number], spoilt, *parts[number + 1 :]]))
    before = spans(parts[:number])
    start = sum(map(len, parts[:number]))
    # If removed trailing bytes equal the first bytes of the next batch, the damage is in that batch.
    assume(len(spoilt) == len(parts[number]) or not any(position == start for position, _ in batches_after))
    assert batches_after >= {*before, *spans(parts[number + 1 :], start + len(spoilt))}


@settings(max_examples=400)
@given(data=st.data())
def test_real_segments_with_any_damage_are_covered(sample_logs: Path, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(_small_logs(sample_logs)))
    for _ in range(data.draw(st.integers(1, 4))):
        raw = data.draw(_damaged(raw)) or b"\0"
    source = BytesSource(raw)
    for row in walked(source):
        if isinstance(row, Batch):
            records = list(read_records(source, row, 1 << 20))
            assert all(isinstance(inner, Record) for inner in records[:-1])


@given(raw=st.binary(max_size=400))
def test_noise_alone_is_covered(raw: bytes) -> None:
    walked(BytesSource(raw))


# Bounded work; see also test_hostile.py ------------------------------------------------------------------------------


def calls(name: str, data: bytes) -> int:
    """Return how often a walk calls the function with this name."""
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == name

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        list(walk(BytesSource(data)))
    finally:
        sys.setprofile(before)
    return count


def test_bytes_with_many_damaged_ranges_are_searched_once() -> None:
    data = (b"\xee" * 20 + batches(1)[0]) * 5000
    assert 0 < calls("_candidates", data) <= len(data) // resync.SEARCH_CHUNK + 1


def test_headers_that_all_extend_to_the_end_are_not_searched_repeatedly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The floor of the budget is disabled, because it would hide the limit in a file this small."""
    monkeypatch.setattr(module, "FAILED_FLOOR", 0)
    good, count = batch(), 500
    data = b"".join(batch(crc=5, length=(count - n) * 2 * len(good) - 12) + good for n in range(count))
    assert count < calls("valid_batch", data) < 60 * count


def test_headers_that_all_extend_to_a_valid_batch_are_not_searched_repeatedly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each header hides the batches after it; only the offset of the last one shows that they are of this log."""
    monkeypatch.setattr(module, "FAILED_FLOOR", 0)
    count, size = 500, len(batch())
    hidden = [
        batch(base_offset=count - 2, magic=-1, length=(count - n) * 2 * size - 12) + batch(base_offset=n)
        for n in range(count)
    ]
    data = b"".join([*hidden, batch(base_offset=count + 1)])
    assert len(valid_batches(data)) == count + 1
    assert count < calls("valid_batch", data) < 60 * count


# Shrinking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v2 gzip", "v0", "v1 snappy"])
def test_a_file_that_shrinks_is_covered_up_to_its_original_size(name: str) -> None:
    parts = SEGMENTS[name]
    data = b"".join(parts)
    for length in range(len(data)):
        rows = walked(ShrunkSource(data[:length], len(data)))
        assert [(row.position, row.size) for row in rows if isinstance(row, Batch)] == [
            (at, size) for at, size in spans(parts) if at + size <= length
        ]
        assert isinstance(rows[-1], Damage)
        assert (rows[-1].end, rows[-1].reason) == (len(data), "shrunk")


@pytest.mark.parametrize("old", [False, True], ids=["v2", "v1"])
def test_a_batch_that_lost_its_end_is_truncated(old: bool) -> None:
    """It is larger than the buffer, so its header is read before the file turns out to have shrunk."""
    value = bytes(range(256)) * 6000
    data = message(value=value) if old else batch(record(value=value))
    rows = walked(ShrunkSource(data[:1_200_000], len(data)))
    assert ranges(iter(rows)) == [(0, 1_200_000, "truncated"), (1_200_000, len(data), "shrunk")]


class ShrinkingSource(BytesSource):
    """A file that is truncated during one of its reads."""

    def __init__(self, data: bytes, length: int, after: int) -> None:
        super().__init__(data)
        self.length, self.after = length, after

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range, fewer after the file has shrunk."""
        self.after -= 1
        return super().read(position, length) if self.after >= 0 else self.data[: self.length][position:][:length]


@pytest.mark.parametrize("after", range(1, 6))
@pytest.mark.parametrize("old", [False, True], ids=["v2", "v1"])
def test_a_file_that_shrinks_at_any_read_is_covered(after: int, old: bool) -> None:
    value = bytes(range(256)) * 6000
    parts = [message(n, value=value) if old else batch(record(value=value), base_offset=n) for n in range(3)]
    parts[1] = parts[1][:-1] + b"\0"
    data = b"".join(parts)
    for length in (0, 10, 61, len(parts[0]), len(parts[0]) + 30, len(data) - 1):
        source = ShrinkingSource(data, length, after)
        for row in walked(source):
            if isinstance(row, Batch):
                assert list(read_records(source, row))


@cache
def _small_logs(sample_logs: Path) -> list[bytes]:
    logs = {path.read_bytes() for path in logs_of(sample_logs) if 0 < path.stat().st_size < 3000}
    assert len(logs) > 200
    return sorted(logs)


@st.composite
def _damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a damaged form of a batch: flipped bits, zeros, noise, wrong length or magic, missing or extra bytes."""
    raw = bytearray(content)
    at = draw(st.integers(0, max(0, len(raw) - 1)))
    stop = draw(st.integers(at, len(raw)))
    kind = draw(st.sampled_from(["bit", "zero", "noise", "length", "magic", "header", "insert", "remove"]))
    match kind:
        case "bit" if raw:
            raw[at] ^= 1 << draw(st.integers(0, 7))
        case "zero":
            raw[at:stop] = bytes(stop - at)
        case "noise":
            raw[at:stop] = draw(st.randoms(use_true_random=False)).randbytes(stop - at)
        case "length" if len(raw) > 12:
            wild = st.sampled_from([-(2**31), -1, 0, 13, 14, 48, 49, 2**31 - 1]) | st.integers(14, 900)
            raw[8:12] = draw(wild).to_bytes(4, "big", signed=True)
        case "magic" if len(raw) > 16:
            raw[16] = draw(st.integers(0, 255))
        case "header":
            raw[: min(61, len(raw))] = draw(st.binary(min_size=min(61, len(raw)), max_size=min(61, len(raw))))
        case "insert":
            raw[at:at] = draw(st.binary(min_size=1, max_size=30))
        case "remove":
            del raw[at : min(stop, at + 40)]
    return bytes(raw)


def test_an_uncompressed_batch_has_no_codec() -> None:
    (row,) = walked(BytesSource(batch(record(), codec=NONE)))
    assert isinstance(row, Batch)
    assert row.compression_type == "none"
