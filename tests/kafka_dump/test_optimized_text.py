"""The plain style printed by kernels and by pure Python: the same text, damage and summary, whatever the bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.kafka_dump.plain_run import PlainRun
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import CODECS, Batch, Damage
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
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
from tests.thorough import some

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
# Ten kinds of segments, in which every bit is flipped.
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
    """The dump of a file.

    Attributes:
        pieces: text and damage in order; consecutive texts are joined.
        summary: the lines after the file.
    """

    pieces: list[str | Damage]
    summary: list[str]


@pytest.fixture(scope="module", autouse=True)
def _one_processor() -> Iterator[None]:
    """Use one thread, because starting others takes longer than reading a small segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _process: {0})
        yield


def forced_kernels(_size: int) -> Kernels | None:
    """Load the kernels for a log of any size."""
    loaded = load_kernels()
    assert loaded, "the kernels cannot be compiled here"
    return loaded


def dumped(
    data: bytes,
    options: ToolOptions,
    choice: KernelPolicy,
    path: str = NAME,
    *,
    start: int = 0,
    budget: int = DEFAULT_BUDGET,
) -> tuple[Dump, int]:
    """Return the dump of a segment, and the number of pieces printed by kernels."""
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
    """Check that kernels and pure Python print the same; return the dump and the number of pieces by kernels."""
    expected, by_plain = dumped(data, options, no_kernels, path, start=start, budget=budget)
    output, by_kernels = dumped(data, options, forced_kernels, path, start=start, budget=budget)
    assert output == expected
    assert by_plain == 0
    return output, by_kernels


def begins_soundly(data: bytes, options: ToolOptions) -> bool:
    """Return whether the first batch of a segment is intact, so that kernels must not refuse it."""
    source = BytesSource(data)
    first = next(walk(source), None)
    if not isinstance(first, Batch) or first.magic != 2 or not first.crc_valid or first.codec >= len(CODECS):
        return False
    if (first.base_offset or 0) < 0 or (first.count or 0) < 0:
        return False
    rows = list(read_records(source, first)) if options.prints_records else []
    # A control batch may have records that are not markers.
    readable = all(not isinstance(row, Damage) and row.offset >= 0 for row in rows)
    return readable and not (first.is_control and options.prints_records)


def sample(name: str) -> bytes:
    """Return the bytes of a sample: of a file, or of the segment with base offset 0 in a folder."""
    path = SAMPLES / name
    return (path if path.is_file() else path / "00000000000000000000.log").read_bytes()


def spans(data: bytes) -> list[tuple[int, int]]:
    """Return the start and the end of each batch of an intact segment."""
    ranges = []
    start = 0
    while start < len(data):
        end = start + LENGTH_END + int.from_bytes(data[start + LENGTH_END - 4 : start + LENGTH_END])
        ranges.append((start, end))
        start = end
    return ranges


def resealed(data: bytes, start: int, end: int) -> bytes:
    """Return a segment with a valid checksum in one batch."""
    return data[:start] + sealed(data[start:end]) + data[end:]


# Samples -------------------------------------------------------------------------------------------------------------


@every_option
def test_every_sample_is_printed_the_same(options: ToolOptions) -> None:
    """Kernels print at least a part of each segment that begins with an intact batch."""
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
def test_kernels_print_the_ten_samples_completely(name: str, options: ToolOptions) -> None:
    """Otherwise the tests with flipped bits would compare pure Python with itself."""
    dump, by_kernels = same(sample(FLIPPED[name]), options)
    assert by_kernels == 1
    assert len(dump.pieces) == 1
    output, _ = dumped(sample(FLIPPED[name]), options, forced_kernels)
    assert output == dump


def test_the_ten_samples_are_of_ten_kinds() -> None:
    """Each sample has the feature it is named after: a codec, markers, headers, append time, a horizon, sequences."""
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


def test_kernels_print_markers() -> None:
    dump, by_kernels = same(sample(FLIPPED["markers"]), DATA)
    assert by_kernels == 1
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in str(dump.pieces)
    built = batch(record(0, b"\0\0\0\0", b"\0\0\0\0\0\x07"), attributes=0x30)
    dump, by_kernels = same(built, DATA)
    assert by_kernels == 1
    assert "endTxnMarker: ABORT coordinatorEpoch: 7\n" in str(dump.pieces[0])


# Truncated at every length -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain", "markers", "gzip", "append time", "compacted"])
def test_a_small_sample_truncated_at_any_length_is_printed_the_same(name: str) -> None:
    data = sample(FLIPPED[name])
    _, first_end = spans(data)[0]
    for length in range(len(data) + 1):
        _, by_kernels = same(data[:length], DATA)
        assert bool(by_kernels) == (length >= first_end)


@pytest.fixture(scope="module")
def mixed() -> bytes:
    """Return a segment of a few KB with batches of every codec."""
    parts: list[bytes] = []
    for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD, NONE):
        records = [record(n, b"key-%d" % n, b"value %d " % n * 9, [(b"h", b"%d" % n)]) for n in range(8)]
        parts.append(batch(*records, base_offset=10 * len(parts), codec=codec))
    return b"".join(parts)


@pytest.mark.parametrize("options", [BATCHES, DATA], ids=["batch lines", "contents"])
def test_all_codecs_truncated_at_any_length_are_printed_the_same(mixed: bytes, options: ToolOptions) -> None:
    assert len(mixed) > 2000
    _, first_end = spans(mixed)[0]
    for length in some(range(len(mixed))):
        _, by_kernels = same(mixed[:length], options)
        assert bool(by_kernels) == (length >= first_end)


def test_the_byte_limit_may_be_anywhere(mixed: bytes) -> None:
    """A batch that extends past the limit is not printed."""
    for most in range(1, len(mixed) + 2, 7):
        dump, _ = same(mixed, ToolOptions(print_data_log=True, max_bytes=most))
        whole = sum(end <= most for _, end in spans(mixed))
        assert str(dump.pieces).count("baseOffset: ") == whole


def test_a_dump_may_start_at_any_batch(mixed: bytes) -> None:
    for start, _ in spans(mixed):
        dump, by_kernels = same(mixed, DATA, start=start)
        assert by_kernels == 1
        assert str(dump.pieces).count("baseOffset: ") == sum(batch_start >= start for batch_start, _ in spans(mixed))


# Every bit flipped ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLIPPED)
def test_every_flipped_bit_is_printed_the_same(name: str) -> None:
    """The checksum is wrong, unless the bit is in a field that it does not cover."""
    data = sample(FLIPPED[name])
    _, first_end = spans(data)[0]
    for bit in some(range(8 * len(data))):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        _, by_kernels = same(bytes(flipped), DATA)
        assert by_kernels or bit >> 3 < first_end


@pytest.mark.parametrize("name", FLIPPED)
def test_every_flipped_bit_with_a_valid_checksum_is_printed_the_same(name: str) -> None:
    """Kernels cannot rely on the checksum to find wrong fields and records."""
    data = sample(FLIPPED[name])
    for start, end in spans(data):
        for bit in some(range(8 * (start + CRC_START), 8 * end)):
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
intact_batches = st.builds(
    lambda records, codec, base: batch(*records, base_offset=base, codec=codec),
    st.lists(some_records, max_size=4),
    codecs,
    st.integers(0, 50),
)
odd_batches = st.builds(
    lambda records, codec, changed: batch(*records, codec=codec, **changed),
    st.lists(some_records, max_size=4),
    codecs,
    fields,
)
marker_batches = st.builds(
    lambda records, bits: batch(*records, attributes=bits), st.lists(markers, max_size=2), st.sampled_from([0x20, 0x30])
)
old = st.sampled_from([part for magic in (0, 1) for part in legacy_segment(magic, LZ4)])
parts = st.one_of(intact_batches, intact_batches, odd_batches, marker_batches, old, st.binary(max_size=80))
segments = st.lists(parts, max_size=6).map(b"".join)


@given(data=segments, options=st.sampled_from(list(OPTIONS.values())))
@settings(max_examples=1500)
def test_random_segments_are_printed_the_same(data: bytes, options: ToolOptions) -> None:
    _, by_kernels = same(data, options)
    assert by_kernels or not begins_soundly(data, options)


@given(data=st.data(), segment=segments)
@settings(max_examples=700)
def test_damaged_segments_are_printed_the_same(data: st.DataObject, segment: bytes) -> None:
    """Bytes are overwritten, removed or doubled, and the end is cut off."""
    broken = bytearray(segment)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(broken)))
        end = data.draw(st.integers(position, len(broken)))
        how = data.draw(st.sampled_from(["overwrite", "take out", "double", "cut"]))
        if how == "overwrite":
            new = data.draw(st.binary(max_size=6))
            broken[position : position + len(new)] = new
        elif how == "take out":
            del broken[position:end]
        elif how == "double":
            broken[position:position] = broken[position:end]
        else:
            del broken[position:]
    whole, options = bytes(broken), data.draw(st.sampled_from(list(OPTIONS.values())))
    _, by_kernels = same(whole, options)
    assert by_kernels or not begins_soundly(whole, options)


@given(data=st.data(), records=st.lists(some_records, min_size=1, max_size=4), codec=codecs)
@settings(max_examples=700)
def test_damaged_records_with_a_valid_checksum_are_printed_the_same(
    data: st.DataObject, records: list[bytes], codec: int
) -> None:
    """The payload is damaged before it is compressed, so that decompression succeeds."""
    broken = bytearray(b"".join(records))
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, len(broken) - 1))
        broken[position] = data.draw(st.one_of(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]), st.integers(0, 255)))
    count = data.draw(st.one_of(st.just(len(records)), st.integers(0, len(records) + 1)))
    built = batch(bytes(broken), base_offset=5, codec=codec, count=count, last_offset_delta=3)
    _, by_kernels = same(batch(record()) + built + batch(record(), base_offset=9), DATA)
    assert by_kernels, "the first batch is sound"


@given(groups=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), max_size=5))
@settings(max_examples=300)
def test_offset_gaps_are_summarized_the_same(groups: list[list[int]]) -> None:
    """Gaps within batches, between batches, and backwards."""
    built = [batch(*(record(offset) for offset in group)) for group in groups]
    dump, _ = same(b"".join(built), DATA)
    offsets = [offset for group in groups for offset in group]
    assert bool(dump.summary) == any(after != before + 1 for before, after in pairwise(offsets))


# Limits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("budget", [1, 500])
def test_the_decompression_budget_is_respected(codec: str, budget: int) -> None:
    """A batch that exceeds the budget is damage, also with kernels, which only know their own budget."""
    built = [
        *batches(2),
        batch(record(value=bytes(4000)), base_offset=4, codec=CODECS.index(codec)),
        batch(base_offset=5),
    ]
    dump, _ = same(b"".join(built), DATA, budget=budget)
    assert any(isinstance(piece, Damage) and piece.reason == "limit" for piece in dump.pieces)
