"""Messages of format 0 and 1: kernels print the same text and report the same damage as pure Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.kafka_dump.plain_run import PlainRun
from kforensics.kafka_dump.styles import STYLES
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.kafka_dump.tool_run import run_tool
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.checksums import crc32
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.selection import Selection
from lab.places import SAMPLES
from tests.parsers.builders import (
    GZIP,
    LEGACY_CRC_START,
    LENGTH_END,
    LZ4,
    NONE,
    NOW,
    SNAPPY,
    ZSTD,
    batch,
    batches,
    compressed,
    legacy_segment,
    message,
    record,
    wrapped_set,
    wrapper,
)

NAME = "00000000000000000000.log"
BATCHES, DATA = ToolOptions(), ToolOptions(print_data_log=True)
CONTENTS = ToolOptions(print_data_log=True, skip_record_metadata=True)
every_option = pytest.mark.parametrize("options", [BATCHES, DATA, CONTENTS], ids=["batches", "data", "contents"])
magics = pytest.mark.parametrize("magic", [0, 1])
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4}
SMALL = {
    "format 0, lz4": "legacy-magic-0/broker-0/compact-lz4-0/00000000000000000079.log",
    "format 1, gzip": "legacy-magic-1/broker-0/compact-gzip-0/00000000000000000079.log",
}


@dataclass(frozen=True)
class Dump:
    """The output for a segment.

    Attributes:
        text: without headings.
        damage: as the plain style reports it.
        summary: of the gaps between offsets.
    """

    text: str
    damage: list[Damage]
    summary: list[str]


@pytest.fixture(scope="module", autouse=True)
def _one_processor() -> Iterator[None]:
    """Do all work in this thread, because starting threads costs more than reading a small segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _process: {0})
        yield


def forced_kernels(_size: int) -> Kernels | None:
    """Choose kernels for every size."""
    kernels = load_kernels()
    assert kernels, "the kernels cannot be compiled here"
    return kernels


def dumped(data: bytes, options: ToolOptions, choice: KernelPolicy) -> tuple[Dump, list[str]]:
    """Return the dump of a segment, and the parts of its text that kernels wrote."""
    run = PlainRun(options, Selection(), DEFAULT_BUDGET, kernels=choice)
    texts, damage, taken = list[str](), list[Damage](), list[str]()
    for part in run.text(FoundFile(NAME, "log", len(data)), BytesSource(data, NAME)):
        if isinstance(part, Damage):
            damage.append(part)
        elif isinstance(part, memoryview):
            taken.append(str(part, "utf-8"))
            texts.append(taken[-1])
        else:
            texts.append(part)
    return Dump("".join(texts[2:]), damage, run.summary()), taken


def same(data: bytes, options: ToolOptions = DATA) -> tuple[Dump, str]:
    """Return the dump of a segment, which must be the same with kernels, and the text that kernels wrote."""
    expected, by_kernels = dumped(data, options, no_kernels)
    assert not by_kernels
    dump, by_kernels = dumped(data, options, forced_kernels)
    assert dump == expected
    return dump, "".join(by_kernels)


def entries(text: str) -> int:
    """Count the batch lines of a text."""
    return sum(line.startswith(("offset: ", "baseOffset: ")) for line in text.splitlines())


def all_taken(data: bytes, options: ToolOptions = DATA) -> Dump:
    """Return the dump of a segment that kernels must read without pure Python."""
    dump, taken = same(data, options)
    assert dump.text == taken
    assert not dump.damage
    return dump


def resealed(entry: bytes) -> bytes:
    """Return an entry with its checksum corrected."""
    return entry[:LENGTH_END] + crc32(entry[LEGACY_CRC_START:]).to_bytes(4, "big") + entry[LEGACY_CRC_START:]


def with_size(entry: bytes) -> bytes:
    """Return an entry with its size and checksum corrected."""
    return resealed(entry[:8] + (len(entry) - LENGTH_END).to_bytes(4, "big") + entry[LENGTH_END:])


SEALS: list[Callable[[bytes], bytes]] = [bytes, resealed, with_size]


# Entries for kernels ------------------------------------------------------------------------------------------------


@magics
@every_option
@pytest.mark.parametrize("codec", CODECS)
def test_kernels_read_everything_that_brokers_write(magic: int, codec: str, options: ToolOptions) -> None:
    """Null and empty keys and values, wrappers of each codec, and the shortest entry at the very end."""
    segment = [*legacy_segment(magic, CODECS[codec]), message(6, None, None, magic=magic)]
    assert entries(all_taken(b"".join(segment), options).text) == len(segment)


@every_option
def test_formats_may_change_within_a_segment(options: ToolOptions) -> None:
    legacy = [*legacy_segment(0, GZIP), *legacy_segment(1, SNAPPY), wrapped_set(1, LZ4, 6)]
    all_taken(b"".join([*legacy, *batches(3, first=5, codec=ZSTD), *legacy, *batches(2, first=20)]), options)


@pytest.mark.parametrize(
    "entry",
    [
        wrapper(message(0, timestamp=1), message(1, timestamp=2), offset=1, attributes=GZIP | 8, timestamp=NOW),
        wrapper(message(0, magic=0), message(1, magic=1), offset=1),
        wrapper(message(5, magic=1), message(6, magic=0), offset=6, magic=0),
        wrapper(*(message(n) for n in range(3)), offset=0),
        wrapper(*(message(n) for n in (1, 4, 9)), offset=109),
        wrapper(message(0, crc=1), message(1), offset=1),
        wrapper(*(message(n, timestamp=-(2**63)) for n in (2, 0, 1)), offset=7),
        message(3, attributes=8),
        message(3, magic=0, attributes=8),
        message(3, attributes=0x50),
        message((1 << 63) - 1, timestamp=-1),
        message(3, b"\xff\xed\xa0\x80 key", b"\0\n\xc3"),
        message(3, b"k" * 40, b"v" * 200_000),
    ],
    ids=[
        *("append time of a wrapper", "format 0 in 1", "format 1 in 0", "wrapper at 0", "gaps", "inner checksum"),
        *("offsets that go back", "append time", "append time in format 0", "spare bits", "largest offset"),
        *("invalid UTF-8", "larger than the first read"),
    ],
)
@every_option
def test_kernels_read_rare_entries_too(entry: bytes, options: ToolOptions) -> None:
    all_taken(entry + message(8), options)


@magics
@pytest.mark.parametrize("size", [-1, -129, -(2**31)])
def test_any_negative_length_is_null_and_printed_as_stored(magic: int, size: int) -> None:
    entry = message(0, None, None, magic=magic)
    entry = resealed(entry[:-8] + size.to_bytes(4, "big", signed=True) * 2)
    assert f"keySize: {size} valueSize: {size} " in all_taken(entry).text


def test_a_wrong_inner_checksum_is_reported_and_the_next_one_is_valid() -> None:
    text = all_taken(wrapper(message(0, crc=7), message(1), offset=1)).text
    assert text.count("isValid: false crc: 7 ") == text.count("isValid: true crc: ") == 1


def test_more_text_than_fits() -> None:
    """A block is written in several steps that each decompress again."""
    large = [wrapper(message(n, None, b"a" * (1 << 20)), offset=n) for n in range(24)]
    dump = all_taken(b"".join(large))
    assert len(dump.text) > 24 << 20


# Entries for pure Python ----------------------------------------------------------------------------------

INNER = message(0) + message(1)
DECLINED = {
    "wrong checksum": message(3, crc=1),
    "negative offset": message(-3),
    "codec 5": message(3, attributes=5),
    "too short for format 1": with_size(message(3)[:30]),
}
DECLINED_WITH_RECORDS = {
    "zstd": wrapper(message(0), codec=ZSTD, offset=3),
    "null in a wrapper": message(3, None, None, attributes=GZIP),
    "empty wrapper": wrapper(offset=3),
    "not gzip": wrapper(offset=3, value=b"no gzip"),
    "a wrapper in a wrapper": wrapper(message(0), message(1, None, b"x", attributes=GZIP), offset=3),
    "wrapper before its last message": wrapper(message(5), offset=3),
    "negative offset inside": wrapper(message(-1), message(1), offset=3),
    "inner message cut": wrapper(offset=3, value=compressed(GZIP, INNER[:-1])),
    "bytes after the messages": wrapper(offset=3, value=compressed(GZIP, INNER + b"\0")),
    "format 2 inside": wrapper(message(0), message(1)[:16] + b"\2" + message(1)[17:], offset=3),
    "inner key too long": wrapper(message(0)[:26] + b"\0\0\1\0" + message(0)[30:], message(1), offset=3),
    "bytes after the value": with_size(message(3) + b"\0"),
    "key too long": resealed(message(3)[:26] + b"\0\0\0\7" + message(3)[30:]),
    "value too long": resealed(message(3)[:-5] + b"\0\0\0\2v"),
}


@pytest.mark.parametrize("name", [*DECLINED, *DECLINED_WITH_RECORDS])
def test_kernels_read_the_entries_around_a_declined_one(name: str) -> None:
    """Pure Python prints the declined entry, kernels those around it."""
    whole = b"".join([message(2), (DECLINED | DECLINED_WITH_RECORDS)[name], message(4), *batches(1, first=5)])
    _, taken = same(whole)
    assert entries(taken) == 3
    _, taken = same(whole, BATCHES)
    assert entries(taken) == (3 if name in DECLINED else 4)


# Damaged bytes -------------------------------------------------------------------------------------------------------


def sample(name: str) -> bytes:
    """Return the bytes of a small sample."""
    data = (SAMPLES / SMALL[name]).read_bytes()
    assert len(data) < 200
    return data


@pytest.mark.parametrize("name", SMALL)
def test_kernels_read_all_of_the_small_samples(name: str) -> None:
    """Otherwise the following tests would compare pure Python with itself."""
    all_taken(sample(name))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("trailing", [b"", message(200)], ids=["alone", "before another"])
def test_a_sample_cut_at_any_length_is_printed_alike(name: str, trailing: bytes) -> None:
    data = sample(name)
    for length in range(len(data)):
        same(data[:length] + trailing)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("seal", [bytes, resealed], ids=["unchanged", "checksum corrected"])
def test_every_flipped_bit_is_printed_alike(name: str, seal: Callable[[bytes], bytes]) -> None:
    """A flipped bit makes the checksum wrong, or with a corrected checksum looks intended."""
    data = sample(name)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        same(seal(bytes(flipped)))


small_bytes = st.one_of(st.none(), st.binary(max_size=40))
int64 = st.integers(-(2**63), 2**63 - 1)
messages = st.builds(
    lambda offset, key, value, magic, timestamp, attributes: message(
        offset, key, value, magic=magic, timestamp=timestamp, attributes=attributes
    ),
    st.one_of(st.integers(0, 9), int64),
    small_bytes,
    small_bytes,
    st.sampled_from([0, 1, 1, 2]),
    st.one_of(st.just(NOW), int64),
    st.sampled_from([0, 0, 0, 0, 8, 1, -128]),
)
codecs = st.sampled_from([GZIP, GZIP, SNAPPY, LZ4, ZSTD])


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Return bytes with a few of them changed and the end possibly cut off."""
    broken = bytearray(data)
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        index = draw(st.integers(0, len(broken) - 1))
        broken[index] = draw(st.one_of(st.sampled_from([0, 1, 2, 13, 14, 0x7F, 0x80, 0xFF]), st.integers(0, 255)))
    return bytes(broken[: draw(st.one_of(st.just(len(broken)), st.integers(0, len(broken))))])


@st.composite
def wrappers(draw: st.DrawFn) -> bytes:
    """Return a wrapper whose messages may be damaged before compression, so that the codec accepts them."""
    inner = b"".join(draw(st.lists(messages, max_size=4)))
    codec, magic = draw(codecs), draw(st.sampled_from([0, 1]))
    value = compressed(codec, draw(st.one_of(st.just(inner), mutated(inner))), magic)
    attributes, offset = codec | draw(st.sampled_from([0, 0, 8])), draw(st.integers(0, 12))
    return wrapper(codec=codec, magic=magic, offset=offset, value=value, attributes=attributes)


@st.composite
def broken_entries(draw: st.DrawFn) -> bytes:
    """Return a damaged entry, possibly with checksum and size corrected."""
    entry = draw(st.one_of(messages, wrappers()).flatmap(mutated))
    seal = draw(st.sampled_from(SEALS))
    return seal(entry) if len(entry) >= LEGACY_CRC_START else entry


modern = st.builds(lambda offset: batch(record(), base_offset=offset), st.integers(0, 20))
segments = st.lists(st.one_of(messages, wrappers(), broken_entries(), modern), max_size=6).map(b"".join)


@pytest.mark.slow
@settings(max_examples=600)
@given(data=segments, options=st.sampled_from([BATCHES, DATA, CONTENTS]))
def test_valid_and_damaged_segments_are_printed_alike(data: bytes, options: ToolOptions) -> None:
    same(data, options)


def imitated(path: Path, style: str, options: ToolOptions, choice: KernelPolicy) -> tuple[str, str, int]:
    """Return the output of a style on both streams, and its exit code."""
    out, err = list[str](), list[str]()

    def write(text: str | memoryview) -> None:
        out.append(text if isinstance(text, str) else str(text, "utf-8"))

    code = run_tool(options, STYLES[style], write, err.append, str(path.parent), kernels=choice)
    return "".join(out), "".join(err), code


@pytest.mark.slow
@settings(max_examples=250)
@given(data=segments, prints_records=st.booleans(), style=st.sampled_from(sorted(STYLES)))
def test_styles_print_alike(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, prints_records: bool, style: str
) -> None:
    path = tmp_path_factory.getbasetemp() / NAME
    path.write_bytes(data)
    options = ToolOptions(files=(str(path),), print_data_log=prints_records)
    assert imitated(path, style, options, forced_kernels) == imitated(path, style, options, no_kernels)
