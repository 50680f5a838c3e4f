"""Rows as JSON, NDJSON and CSV, written by kernels and by pure Python: the same bytes and damage, whatever the log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from itertools import product
from random import Random
from typing import Any

import pytest

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.tables.file_rows import ReadOptions, file_rows
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.formats import LINE_FORMATS, BytesFormat, Format, LineStyle
from kforensics.render.payloads import Redactor, row_converter
from kforensics.render.row_lines import read_row_lines
from kforensics.render.writers import open_writer
from lab.places import SAMPLES
from tests.parsers.builders import GZIP, LZ4, NONE, SNAPPY, ZSTD, batch, legacy_segment, record
from tests.thorough import some

pytestmark = pytest.mark.exhaustive

LOGS = sorted(path for suffix in ("log", "checkpoint") for path in SAMPLES.rglob(f"*.{suffix}"))
NAME = "/logs/orders-0/00000000000000000000.log"
PAYLOADS = [item for item in BytesFormat if item is not BytesFormat.JSON]
every_format = pytest.mark.parametrize("output_format", LINE_FORMATS)
every_table = pytest.mark.parametrize("table", ["batches", "records"])
# Bytes that JSON escapes, that terminals act on, that CSV quotes, and that are no text.
TRICKY = (
    *range(0x23),
    *b",\\~\x7f",
    *"\x80\x9f\xa0\u061c\u200d\u200e\u200f\u2010\u2027\u2028\u202e\u202f\u2065\u2066\u2069\u206a\U0001f600é\ufffd".encode(),
    *(0xC2, 0xE0, 0xED, 0xA0, 0xBF, 0xF0, 0xF4, 0x90, 0xFF),
)


@pytest.fixture(scope="module", autouse=True)
def _one_processor() -> Iterator[None]:
    """Use one thread, because starting others takes longer than reading a small segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _process: {0})
        yield


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    """Return the kernels."""
    loaded = load_kernels()
    assert loaded, "the kernels cannot be compiled here"
    return loaded


def found(data: bytes, path: str) -> FoundFile:
    """Return a segment as it is found in a folder, with a place that JSON and CSV have to quote."""
    return FoundFile(path, "log", len(data), broker_id=None, log_dir='/l, "1"', topic="ordërs{0}", partition=0)


def same(data: bytes, style: LineStyle, kernels: Kernels, path: str = NAME) -> tuple[bytes, int]:
    """Check that kernels and pure Python write the same; return the output and the number of texts by kernels."""
    file, source = found(data, path), BytesSource(data, path)
    options = ReadOptions(records=style.table.name == "records")
    convert: Any = row_converter(TABLES[style.table.name], style.key, style.value, style.redact)
    expected, written = BytesIO(), BytesIO()
    expected_damage: list[Damage] = []
    damage: list[Damage] = []
    by_kernels = 0
    writer: Any = open_writer(style.output_format, expected)
    writer.write(style.table, map(convert, file_rows(file, source, options, expected_damage.append)))
    writer.close()

    def parts() -> Iterator[Any]:
        nonlocal by_kernels
        for part in read_row_lines(file, source, options, damage.append, kernels, style):
            is_text = isinstance(part, memoryview)
            by_kernels += is_text
            yield part if is_text else map(convert, part)

    writer = open_writer(style.output_format, written)
    writer.write_lines(style.table, parts())
    writer.close()
    assert written.getvalue() == expected.getvalue()
    assert damage == expected_damage
    return written.getvalue(), by_kernels


def style_of(
    table: str, output_format: Format, key: BytesFormat = BytesFormat.UTF8, value: BytesFormat = BytesFormat.UTF8
) -> LineStyle:
    """Return how rows are written, with the columns as they are after the conversion."""
    return LineStyle(output_format, row_converter(TABLES[table], key, value).table, key, value)


@pytest.mark.parametrize(
    ("number", "table", "output_format"),
    [(number, *case) for number, case in enumerate(product(("batches", "records"), LINE_FORMATS))],
)
def test_every_sample_is_written_the_same(number: int, output_format: Format, table: str, kernels: Kernels) -> None:
    style, logs = style_of(table, output_format), some(LOGS, 5, number % 5)
    texts = sum(bool(same(path.read_bytes(), style, kernels, str(path))[1]) for path in logs)
    assert texts > 0.4 * len(logs)


@every_format
@pytest.mark.parametrize("payloads", PAYLOADS)
def test_payloads_in_every_format_are_written_the_same(
    output_format: Format, payloads: BytesFormat, kernels: Kernels
) -> None:
    """Integers have four bytes or eight; payloads of other sizes are hexadecimal."""
    dice = Random(payloads)  # noqa: S311  # dice for a test
    parts = []
    for number, codec in enumerate((NONE, GZIP, SNAPPY, LZ4, ZSTD)):
        records = [
            record(index, tricky(dice), tricky(dice), [(tricky(dice) or b"", tricky(dice))] * dice.choice([0, 0, 1, 3]))
            for index in range(60)
        ]
        parts.append(batch(*records, base_offset=100 * number, codec=codec, base_timestamp=dice.randint(-9, 10**15)))
    parts += legacy_segment(0, NONE) + legacy_segment(1, LZ4)
    _, by_kernels = same(b"".join(parts), style_of("records", output_format, payloads, payloads), kernels)
    assert by_kernels == 1


def tricky(dice: Random) -> bytes | None:
    """Return bytes that are hard to quote, or None."""
    size = dice.choice([-1, 0, 1, 2, 3, 4, 8, 9, 40])
    if dice.random() < 0.3:
        return "".join(dice.choices('\x7f\x80\u061c\u200e\u2028\u2069\ufffd\U0001f600aé"\\,\n', k=9)).encode()
    return None if size < 0 else bytes(dice.choices(TRICKY, k=size))


@every_format
@every_table
def test_mutated_and_truncated_samples_are_written_the_same(
    output_format: Format, table: str, kernels: Kernels
) -> None:
    dice, style = Random(20), style_of(table, output_format)  # noqa: S311  # dice for a test
    texts = 0
    for path in dice.sample(LOGS, 150):
        data = bytearray(path.read_bytes())
        for _ in range(dice.choice([0, 1, 1, 3])):
            if data:
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        texts += same(bytes(data[: dice.choice([None, dice.randint(0, len(data))])]), style, kernels, str(path))[1]
    assert texts > 50


@pytest.mark.parametrize(
    ("output_format", "codec", "damaged"), [(Format.CSV, NONE, False), (Format.NDJSON, ZSTD, True)]
)
def test_batches_larger_than_a_block_are_written_the_same(
    output_format: Format, codec: int, damaged: bool, kernels: Kernels
) -> None:
    """Kernels write them part by part, up to the first record that cannot be read."""
    records = [record(number, b"key", b"x" * 2000, timestamp_delta=number) for number in range(6_000)]
    records[5_900] = b"\x02" if damaged else records[5_900]
    data = batch(*records, codec=codec) + batch(record(), base_offset=100_000)
    text, by_kernels = same(data, style_of("records", output_format), kernels)
    assert by_kernels >= 3
    assert len(text) > 5 << 20


@pytest.mark.parametrize("key", [b"k", b"a secret of sixty-four bytes, the most that the hash takes: 123456"[:64]])
def test_payloads_of_any_length_are_redacted_the_same(key: bytes, kernels: Kernels) -> None:
    """The hash takes blocks of 128 bytes; an empty payload leaves the block with the key as the last."""
    records = [
        record(size, bytes(size), b"\xff" * size, [(b"h", b"v" * size)]) for size in [*range(260), 1023, 1024, 4097]
    ]
    style = replace(style_of("records", Format.CSV), redact=Redactor(key))
    text, by_kernels = same(batch(*records), style, kernels)
    assert by_kernels == 1
    assert text.count(b"redacted:") == 3 * 263
