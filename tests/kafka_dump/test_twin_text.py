"""The plain style written by kernels and by plain Python: the same text, damage and summary, whatever the bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.kafka_dump.options import ToolOptions
from kforensics.kafka_dump.plain_run import PlainRun
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import CODECS, Batch, Damage
from kforensics.parsers.kernels.library import Kernels, kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from kforensics.parsers.log.selection import Selection
from lab.places import SAMPLES
from tests.parsers.builders import (
    CRC_START,
    GZIP,
    LENGTH_END,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    batch,
    batches,
    legacy_segment,
    record,
    sealed,
)

pytestmark = pytest.mark.exhaustive

LOGS = sorted(path for suffix in ("log", "checkpoint") for path in SAMPLES.rglob(f"*.{suffix}"))
NAME = "/logs/orders-0/00000000000000000000.log"
BATCHES, DATA = ToolOptions(), ToolOptions(print_data_log=True)
OPTIONS = {
    "batch lines": BATCHES,
    "metadata": ToolOptions(deep_iteration=True),
    "contents": DATA,
    "contents alone": ToolOptions(print_data_log=True, skip_record_metadata=True),
    "empty lines": ToolOptions(deep_iteration=True, skip_record_metadata=True),
}
every_option = pytest.mark.parametrize("options", [pytest.param(value, id=name) for name, value in OPTIONS.items()])
# Ten kinds of segments whose every bit is flipped.
FLIPPED = {
    "plain": "records/broker-1/grown-3",
    "lz4": "damaged/codecs/lz4-healthy-0",
    "zstd": "compaction/broker-1/horizon-kept-0",
    "snappy": "damaged/codecs/snappy-healthy-0",
    "gzip": "legacy-2.7/broker-0/output-1",
    "markers": "compaction/broker-1/emptied-0",
    "headers": "remote-storage/broker-1/tiered-0/00000000000000000026.log",
    "append time": "compaction/broker-1/compact-append-time-0",
    "compacted": "coordinators-cleaned/broker-1/__consumer_offsets-0/00000000000000000018.log",
    "idempotent": "records/broker-1/sequence-wrap-0",
}


@dataclass(frozen=True)
class Dump:
    """What a dump of one file gives.

    Attributes:
        pieces: text and damage in their order; neighbouring texts are one.
        summary: what is said behind the file.
    """

    pieces: list[str | Damage]
    summary: list[str]


@pytest.fixture(scope="module", autouse=True)
def _one_processor() -> Iterator[None]:
    """Do all work in this thread: starting others costs more than reading a small segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _process: {0})
        yield


def forced_kernels(_size: int) -> Kernels | None:
    """Choose kernels whatever the size."""
    found = kernels()
    assert found, "the kernels cannot be compiled here"
    return found


def dumped(
    data: bytes, options: ToolOptions, choice: Choice, path: str = NAME, *, start: int = 0, budget: int = DEFAULT_BUDGET
) -> tuple[Dump, int]:
    """Return the dump of a segment, and how many pieces of its text kernels wrote."""
    run = PlainRun(options, Selection(), budget, kernels=choice)
    by_kernels = 0
    pieces: list[str | Damage] = []
    for piece in run.text(FoundFile(path, "log", len(data)), BytesSource(data, path), start):
        if isinstance(piece, Damage):
            pieces.append(piece)
            continue
        by_kernels += isinstance(piece, memoryview)
        text = piece if isinstance(piece, str) else str(piece, "utf-8")
        before = pieces[-1] if pieces else None
        if isinstance(before, str):
            pieces[-1] = before + text
        else:
            pieces.append(text)
    return Dump(pieces, run.summary()), by_kernels


def same(
    data: bytes, options: ToolOptions, path: str = NAME, *, start: int = 0, budget: int = DEFAULT_BUDGET
) -> tuple[Dump, int]:
    """Return what both print of a segment, having checked that it is the same; and the number of kernels' pieces."""
    expected, by_plain = dumped(data, options, no_kernels, path, start=start, budget=budget)
    found, by_kernels = dumped(data, options, forced_kernels, path, start=start, budget=budget)
    assert found == expected
    assert by_plain == 0
    return found, by_kernels


def begins_soundly(data: bytes, options: ToolOptions) -> bool:
    """Tell whether kernels cannot have a reason to refuse the first batch of a segment."""
    source = BytesSource(data)
    first = next(walk(source), None)
    if not isinstance(first, Batch) or first.magic != 2 or not first.crc_valid or first.codec >= len(CODECS):
        return False
    if (first.base_offset or 0) < 0 or (first.count or 0) < 0:
        return False
    rows = list(records_of(source, first)) if options.prints_records else []
    # A control batch may hold what is no marker.
    readable = all(not isinstance(row, Damage) and row.offset >= 0 for row in rows)
    return readable and not (first.is_control and options.prints_records)


def sample(name: str) -> bytes:
    """Return the bytes of a sample, given by its folder if there is one segment in it from offset 0 on."""
    path = SAMPLES / name
    return (path if path.is_file() else path / "00000000000000000000.log").read_bytes()


def spans(data: bytes) -> list[tuple[int, int]]:
    """Return where the batches of a sound segment begin and end."""
    found = []
    at = 0
    while at < len(data):
        end = at + LENGTH_END + int.from_bytes(data[at + LENGTH_END - 4 : at + LENGTH_END])
        found.append((at, end))
        at = end
    return found


def resealed(data: bytes, start: int, end: int) -> bytes:
    """Return a segment in which the batch at a place has the right checksum."""
    return data[:start] + sealed(data[start:end]) + data[end:]


# Samples -------------------------------------------------------------------------------------------------------------


@every_option
def test_every_sample_is_printed_alike(options: ToolOptions) -> None:
    """Of what brokers wrote and of what the lab broke; kernels write where the segment begins soundly."""
    assert len(LOGS) > 1000
    sound = 0
    for path in LOGS:
        data = path.read_bytes()
        _, by_kernels = same(data, options, str(path))
        begins = begins_soundly(data, options)
        assert by_kernels or not begins, path
        sound += begins
    assert sound > 600


@pytest.mark.parametrize("name", FLIPPED)
@every_option
def test_the_ten_samples_are_taken_by_kernels_to_their_end(name: str, options: ToolOptions) -> None:
    """Else flipping their bits would compare plain Python with itself."""
    dump, by_kernels = same(sample(FLIPPED[name]), options)
    assert by_kernels == 1
    assert len(dump.pieces) == 1
    found, _ = dumped(sample(FLIPPED[name]), options, forced_kernels)
    assert found == dump


def test_the_ten_samples_are_of_ten_kinds() -> None:
    """Codecs, markers, headers, append time, a delete horizon, sequences: each is in the sample named for it."""
    rows = {}
    for name, path in FLIPPED.items():
        source = BytesSource(sample(path))
        rows[name] = [row for row in walk(source) if isinstance(row, Batch)]
    for codec in CODECS[1:]:
        assert any(row.compression_type == codec for row in rows[codec]), codec
    assert any(row.is_control for row in rows["markers"])
    assert any(row.timestamp_type == "LogAppendTime" for row in rows["append time"])
    assert any(row.delete_horizon_ms is not None for row in rows["compacted"])
    assert any((row.last_sequence or 0) < (row.base_sequence or 0) for row in rows["idempotent"])
    dump, _ = same(sample(FLIPPED["headers"]), OPTIONS["metadata"])
    assert "headerKeys: []" not in str(dump.pieces[0]).splitlines()[2]


def test_markers_are_written_by_kernels() -> None:
    dump, by_kernels = same(sample(FLIPPED["markers"]), DATA)
    assert by_kernels == 1
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in str(dump.pieces)
    built = batch(record(0, b"\0\0\0\0", b"\0\0\0\0\0\x07"), attributes=0x30)
    dump, by_kernels = same(built, DATA)
    assert by_kernels == 1
    assert "endTxnMarker: ABORT coordinatorEpoch: 7\n" in str(dump.pieces[0])


# Cut at every length -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain", "markers", "gzip", "append time", "compacted"])
def test_a_small_sample_is_printed_alike_cut_at_any_length(name: str) -> None:
    data = sample(FLIPPED[name])
    _, first_end = spans(data)[0]
    for length in range(len(data) + 1):
        _, by_kernels = same(data[:length], DATA)
        assert bool(by_kernels) == (length >= first_end)


@pytest.fixture(scope="module")
def mixed() -> bytes:
    """Return a segment of some KB with batches of every codec."""
    parts: list[bytes] = []
    for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD, NONE):
        records = [record(n, b"key-%d" % n, b"value %d " % n * 9, [(b"h", b"%d" % n)]) for n in range(8)]
        parts.append(batch(*records, base_offset=10 * len(parts), codec=codec))
    return b"".join(parts)


@pytest.mark.parametrize("options", [BATCHES, DATA], ids=["batch lines", "contents"])
def test_a_segment_of_all_codecs_is_printed_alike_cut_at_any_length(mixed: bytes, options: ToolOptions) -> None:
    assert len(mixed) > 2000
    _, first_end = spans(mixed)[0]
    for length in range(len(mixed)):
        _, by_kernels = same(mixed[:length], options)
        assert bool(by_kernels) == (length >= first_end)


def test_a_limit_of_bytes_may_fall_anywhere(mixed: bytes) -> None:
    """A batch that reaches over the limit is not printed."""
    for most in range(1, len(mixed) + 2, 7):
        dump, _ = same(mixed, ToolOptions(print_data_log=True, max_bytes=most))
        whole = sum(end <= most for _, end in spans(mixed))
        assert str(dump.pieces).count("baseOffset: ") == whole


def test_a_dump_may_begin_at_any_batch(mixed: bytes) -> None:
    for start, _ in spans(mixed):
        dump, by_kernels = same(mixed, DATA, start=start)
        assert by_kernels == 1
        assert str(dump.pieces).count("baseOffset: ") == sum(at >= start for at, _ in spans(mixed))


# Every bit flipped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLIPPED)
def test_every_flipped_bit_is_printed_alike(name: str) -> None:
    """Flipped on its way: the checksum tells, or it stands in a field that the checksum leaves out."""
    data = sample(FLIPPED[name])
    _, first_end = spans(data)[0]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        _, by_kernels = same(bytes(flipped), DATA)
        assert by_kernels or bit >> 3 < first_end


@pytest.mark.parametrize("name", FLIPPED)
def test_every_flipped_bit_under_a_right_checksum_is_printed_alike(name: str) -> None:
    """Flipped by whoever wrote it: fields and records are wrong, and kernels have no checksum to hide behind."""
    data = sample(FLIPPED[name])
    for start, end in spans(data):
        for bit in range(8 * (start + CRC_START), 8 * end):
            flipped = bytearray(data)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            whole = resealed(bytes(flipped), start, end)
            _, by_kernels = same(whole, DATA)
            assert by_kernels or start == 0


# Built segments ------------------------------------------------------------------------------------------------------

some_bytes = st.one_of(
    st.none(),
    st.binary(max_size=60),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b"a" * 31 + b"\xff", b"plain text of more than thirty-two bytes, with a \xc3", b"\0\n\x1b[31m,"]),
)
some_headers = st.lists(st.tuples(st.binary(max_size=8), st.one_of(st.none(), st.binary(max_size=8))), max_size=3)
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
numbers = st.one_of(st.sampled_from([-1, 0, 1, 2**31 - 1]), st.integers(0, 2000))
some_records = st.builds(
    lambda delta, key, value, headers, time: record(delta, key, value, headers, timestamp_delta=time),
    st.one_of(st.integers(0, 5), int32),
    some_bytes,
    some_bytes,
    some_headers,
    st.one_of(st.integers(0, 9), int64),
)
marker_keys = st.one_of(
    st.sampled_from([b"\0\0\0\0", b"\0\0\0\1"]), st.binary(min_size=3, max_size=5), st.just(b"\0\0\0\2")
)
markers = st.builds(
    lambda key, value: record(0, key, value),
    marker_keys,
    st.one_of(st.builds(lambda epoch: b"\0\0" + epoch, st.binary(min_size=4, max_size=4)), some_bytes),
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": st.one_of(st.integers(0, 50), int64),
        "last_offset_delta": int32,
        "base_sequence": st.one_of(numbers, int32),
        "producer_id": int64,
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "partition_leader_epoch": int32,
        "base_timestamp": int64,
        "max_timestamp": int64,
        "attributes": st.one_of(st.integers(0, 127), st.integers(-(2**15), 2**15 - 1)),
        "count": st.one_of(st.integers(-1, 5), int32),
        "magic": st.sampled_from([2, 2, 2, 3, 1, -1]),
        "length": st.integers(40, 200),
    },
)
codecs = st.sampled_from([NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD])
sound_batches = st.builds(
    lambda records, codec, base: batch(*records, base_offset=base, codec=codec),
    st.lists(some_records, max_size=4),
    codecs,
    st.integers(0, 50),
)
strange_batches = st.builds(
    lambda records, codec, changed: batch(*records, codec=codec, **changed),
    st.lists(some_records, max_size=4),
    codecs,
    fields,
)
marker_batches = st.builds(
    lambda records, bits: batch(*records, attributes=bits), st.lists(markers, max_size=2), st.sampled_from([0x20, 0x30])
)
old = st.sampled_from([part for magic in (0, 1) for part in legacy_segment(magic, LZ4)])
parts = st.one_of(sound_batches, sound_batches, strange_batches, marker_batches, old, st.binary(max_size=80))
segments = st.lists(parts, max_size=6).map(b"".join)


@given(data=segments, options=st.sampled_from(list(OPTIONS.values())))
@settings(max_examples=1500)
def test_built_segments_are_printed_alike(data: bytes, options: ToolOptions) -> None:
    _, by_kernels = same(data, options)
    assert by_kernels or not begins_soundly(data, options)


@given(data=st.data(), segment=segments)
@settings(max_examples=700)
def test_broken_segments_are_printed_alike(data: st.DataObject, segment: bytes) -> None:
    """Bytes are overwritten, taken out, doubled, and the end cut off."""
    broken = bytearray(segment)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(broken)))
        end = data.draw(st.integers(at, len(broken)))
        how = data.draw(st.sampled_from(["overwrite", "take out", "double", "cut"]))
        if how == "overwrite":
            new = data.draw(st.binary(max_size=6))
            broken[at : at + len(new)] = new
        elif how == "take out":
            del broken[at:end]
        elif how == "double":
            broken[at:at] = broken[at:end]
        else:
            del broken[at:]
    whole, options = bytes(broken), data.draw(st.sampled_from(list(OPTIONS.values())))
    _, by_kernels = same(whole, options)
    assert by_kernels or not begins_soundly(whole, options)


@given(data=st.data(), records=st.lists(some_records, min_size=1, max_size=4), codec=codecs)
@settings(max_examples=700)
def test_broken_records_under_a_right_checksum_are_printed_alike(
    data: st.DataObject, records: list[bytes], codec: int
) -> None:
    """The payload is broken before it is compressed, so that codecs have nothing to complain of."""
    broken = bytearray(b"".join(records))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] = data.draw(st.one_of(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]), st.integers(0, 255)))
    count = data.draw(st.one_of(st.just(len(records)), st.integers(0, len(records) + 1)))
    built = batch(bytes(broken), base_offset=5, codec=codec, count=count, last_offset_delta=3)
    _, by_kernels = same(batch(record()) + built + batch(record(), base_offset=9), DATA)
    assert by_kernels, "the first batch is sound"


@given(groups=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), max_size=5))
@settings(max_examples=300)
def test_gaps_between_offsets_are_summed_up_alike(groups: list[list[int]]) -> None:
    """Within batches, between them, and backwards."""
    built = [batch(*(record(offset) for offset in group)) for group in groups]
    dump, _ = same(b"".join(built), DATA)
    offsets = [offset for group in groups for offset in group]
    assert bool(dump.summary) == any(behind != before + 1 for before, behind in pairwise(offsets))


# Limits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("budget", [1, 500])
def test_the_most_bytes_to_decompress_are_kept_to(codec: str, budget: int) -> None:
    """A batch of more is damage, with kernels too, which know no budget but their own."""
    built = [
        *batches(2),
        batch(record(value=bytes(4000)), base_offset=4, codec=CODECS.index(codec)),
        batch(base_offset=5),
    ]
    dump, _ = same(b"".join(built), DATA, budget=budget)
    assert any(isinstance(piece, Damage) and piece.reason == "limit" for piece in dump.pieces)
