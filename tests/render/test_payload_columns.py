"""Columns of payloads from the kernel equal those that Python converts value by value."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kforensics.parsers.columns import payload_columns
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.templates import AS_HEX, AS_REDACTED, PUT_WIDTH
from kforensics.parsers.tables.arrow import arrow_batch, arrow_schema_of, as_text
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.formats import BytesFormat
from kforensics.render.payloads import PAYLOAD_FORMATS, Redactor, RowConverter, row_converter

RECORDS = TABLES["records"]
REDACTOR = Redactor(b"0123456789abcdef")
# The sizes around those of a number, of a group of base64 and of a block of the hash.
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 127, 128, 129, 255, 256, 257, 300)
TEXTS = ("plain", "é", "\u20ac", "\U0001f600", "\x00", '"')
FORMATS = [None, *PAYLOAD_FORMATS]


def payloads(*, with_nulls: bool) -> list[bytes | None]:
    """Return payloads of all sizes, valid and invalid UTF-8 among them."""
    chosen = np.random.default_rng(7)
    values: list[bytes | None] = [chosen.bytes(size) for size in SIZES for _ in range(5)]
    values += [text.encode() for text in TEXTS]
    values += [text.encode()[:-1] + b"a" for text in TEXTS]
    return [None if with_nulls and chosen.random() < 0.2 else value for value in values]


def record_batch(values: list[bytes | None]) -> pa.RecordBatch:
    """Return records with these keys, values and header values."""
    rows = []
    for number, (key, value) in enumerate(zip(values, values[::-1], strict=True)):
        headers = [{"key": "h", "value": key}, {"key": "", "value": None}][: number % 3]
        known = {"path": "p", "key": key, "value": value, "headers": headers}
        rows.append(tuple(known.get(name) for name in RECORDS.names))
    return arrow_batch(arrow_schema_of(RECORDS), rows)


def converted(batch: pa.RecordBatch, convert: RowConverter) -> dict[str, list[Any]]:
    """Return the columns of payloads as Python converts them, by name."""
    columns: dict[str, list[Any]] = {"key": [], "value": [], "headers": []}
    for row in batch.to_pylist():
        row["headers"] = [(header["key"].encode(), header["value"]) for header in row["headers"]]
        shown = dict(zip(batch.schema.names, convert(list(row.values())), strict=True))
        for header in shown["headers"]:
            header["value"] = header["value"].encode() if isinstance(header["value"], str) else header["value"]
        for name, values in columns.items():
            values.append(as_text(shown[name]) if isinstance(shown[name], int) else shown[name])
    return columns


@pytest.mark.parametrize("with_nulls", [False, True], ids=["every value", "nulls"])
@pytest.mark.parametrize("redact", [None, REDACTOR], ids=["shown", "redacted"])
@pytest.mark.parametrize(("key", "value"), list(product(FORMATS, FORMATS)))
def test_payloads_are_those_of_python(
    key: BytesFormat | None, value: BytesFormat | None, redact: Redactor | None, *, with_nulls: bool
) -> None:
    assert load_kernels(), "the kernels cannot be compiled here"
    whole = record_batch(payloads(with_nulls=with_nulls))
    convert = row_converter(RECORDS, key, value, redact)
    for batch in (whole, whole.slice(3, 20), whole.slice(0, 0)):
        result = convert.columns(batch)
        result.validate(full=True)
        for name, values in converted(batch, convert).items():
            assert result.column(name).to_pylist() == values


@pytest.mark.parametrize(("payload_format", "redact"), [(AS_HEX, None), (AS_REDACTED, REDACTOR)])
def test_what_would_be_too_large_for_an_array_is_left_to_python(
    monkeypatch: pytest.MonkeyPatch, payload_format: int, redact: Redactor | None
) -> None:
    kernels = load_kernels()
    assert kernels, "the kernels cannot be compiled here"
    column = pa.array([b"k" * 10] * 10)
    memory = redact.memory if redact else None
    limit = payload_columns.WIDTHS[payload_format] * 100 + PUT_WIDTH * 10
    monkeypatch.setattr(payload_columns, "MAX_SIZE", limit)
    assert payload_columns.payload_texts(column, pa.binary(), kernels, payload_format, memory) is not None
    monkeypatch.setattr(payload_columns, "MAX_SIZE", limit - 1)
    assert payload_columns.payload_texts(column, pa.binary(), kernels, payload_format, memory) is None
