"""Converts keys, values and header values to the format in which they are shown, or redacts them."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import isinf
from typing import TYPE_CHECKING, Any

from kforensics.parsers.kernels.templates import (
    AS_BASE64,
    AS_HEX,
    AS_INT,
    AS_LONG,
    AS_REDACTED,
    AS_UTF8,
    redaction_memory,
)
from kforensics.parsers.tables.arrow import as_text, byte_strings
from kforensics.parsers.tables.schemas import Column, Table
from kforensics.render.formats import BytesFormat

if TYPE_CHECKING:
    import pyarrow as pa

INT_SIZE, LONG_SIZE = 4, 8
# What the hash of a redacted payload begins with.
REDACTED = "redacted:"
Conversion = Callable[[Any], Any]


class Redactor:
    """Replaces payloads by a keyed hash: equal payloads have equal hashes.

    Args:
        key: the secret, at most 64 bytes.

    Attributes:
        key: the same.
    """

    def __init__(self, key: bytes) -> None:
        self.key = key

    @cached_property
    def memory(self) -> ctypes.Array[ctypes.c_char]:
        """The memory with which kernels do the same."""
        return redaction_memory(self.key, REDACTED.encode())

    def __call__(self, data: bytes | None) -> bytes | None:
        """Return the hash as ASCII text, None for None."""
        if data is None:
            return None
        digest = hashlib.blake2b(data, key=self.key, digest_size=16).hexdigest()
        return f"{REDACTED}{digest}".encode()


def _integer(size: int) -> Conversion:
    def convert(data: bytes) -> int | str:
        # Bytes of another size are shown in hex, because they are no such integer.
        return int.from_bytes(data, signed=True) if len(data) == size else f"0x{data.hex()}"

    return convert


def _json(data: bytes) -> Any:
    """Return parsed JSON, or the text itself if parsing and writing it again would change it."""
    try:
        return json.loads(data, object_pairs_hook=_object, parse_constant=_reject_constant, parse_float=_float)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("duplicate name in an object")
    return members


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is too large for a float")
    return number


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not valid JSON")


CONVERSIONS: dict[BytesFormat, Conversion] = {
    BytesFormat.UTF8: lambda data: data.decode("utf-8", "replace"),
    BytesFormat.HEX: bytes.hex,
    BytesFormat.BASE64: lambda data: base64.b64encode(data).decode(),
    BytesFormat.INT: _integer(INT_SIZE),
    BytesFormat.LONG: _integer(LONG_SIZE),
    BytesFormat.JSON: _json,
}


# The formats by what kernels call them; JSON is none of theirs.
PAYLOAD_FORMATS = {
    BytesFormat.UTF8: AS_UTF8,
    BytesFormat.HEX: AS_HEX,
    BytesFormat.BASE64: AS_BASE64,
    BytesFormat.INT: AS_INT,
    BytesFormat.LONG: AS_LONG,
}
FORMATS_OF_KERNELS = {CONVERSIONS[name]: number for name, number in PAYLOAD_FORMATS.items()}


def text_converter(bytes_format: BytesFormat, redact: Redactor | None = None) -> Callable[[bytes], str]:
    """Return a function that converts a key or value to text.

    Args:
        bytes_format: format of the text; a redacted payload is text already.
        redact: redacts the payload first.
    """
    convert = CONVERSIONS[BytesFormat.UTF8 if redact else bytes_format]

    def text(data: bytes) -> str:
        value = convert(redact(data) or b"" if redact else data)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    return text


@dataclass(frozen=True, slots=True)
class RowConverter:
    """Converts the payload columns of rows.

    Attributes:
        table: the table after the conversion, with the new column types.
        conversions: column indexes and their conversions; nulls stay null.
    """

    table: Table
    conversions: tuple[tuple[int, Conversion], ...]

    def __call__(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return a row with its columns converted."""
        if not self.conversions:
            return row
        values = list(row)
        for index, convert in self.conversions:
            if values[index] is not None:
                values[index] = convert(values[index])
        return values

    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a record batch from kernels with its columns converted."""
        if not self.conversions:
            return batch
        import pyarrow as pa  # needed for Arrow formats only

        columns = batch.columns
        for index, convert in self.conversions:
            column = columns[index]
            columns[index] = (
                _converted_headers(column, convert) if isinstance(convert, _Headers) else _converted(column, convert)
            )
        names = batch.schema.names
        return pa.RecordBatch.from_arrays(columns, names)


def _converted_headers(column: pa.Array, convert: _Headers) -> pa.Array:
    """Return a column of headers with their values converted; it is not part of a larger one."""
    import pyarrow as pa  # needed for Arrow formats only

    headers = column.values
    if not len(headers) or not convert.conversions:
        return column
    values = headers.field("value")
    for conversion in convert.conversions:
        values = _converted(values, conversion)
    values = pa.Array.from_buffers(pa.binary(), len(values), values.buffers(), offset=values.offset)
    fields = [headers.type.field(index) for index in range(headers.type.num_fields)]
    converted = pa.StructArray.from_arrays([headers.field("key"), values], fields=fields)
    return pa.ListArray.from_arrays(column.offsets, converted, type=column.type)


def _converted(column: pa.Array, convert: Conversion) -> pa.Array:
    """Return a column of payloads converted, as text unless the conversion returns bytes."""
    import pyarrow as pa  # needed for Arrow formats only

    if convert is CONVERSIONS[BytesFormat.UTF8]:
        with suppress(pa.ArrowInvalid):  # bytes that are no text are replaced below
            return column.cast(pa.string())
    kind = pa.binary() if isinstance(convert, Redactor) else pa.string()
    if (texts := _by_kernel(column, kind, convert)) is not None:
        return texts
    values = [None if value is None else convert(value) for value in column.to_pylist()]
    if kind == pa.binary():
        return byte_strings(values, kind)
    return byte_strings([None if value is None else as_text(value).encode() for value in values], kind)


def _by_kernel(column: pa.Array, kind: pa.DataType, convert: Conversion) -> pa.Array | None:
    """Return a column of payloads converted by a kernel, None if there is none for it."""
    from kforensics.parsers.columns.payload_columns import payload_texts  # needed for Arrow formats only
    from kforensics.parsers.kernels.library import load_kernels

    redactor = convert if isinstance(convert, Redactor) else None
    payload_format = AS_REDACTED if redactor else FORMATS_OF_KERNELS.get(convert)
    kernels = load_kernels(compile_missing=False)
    if payload_format is None or kernels is None:
        return None
    return payload_texts(column, kind, kernels, payload_format, redactor.memory if redactor else None)


def row_converter(
    table: Table,
    key_format: BytesFormat | None,
    value_format: BytesFormat | None,
    redact: Redactor | None = None,
) -> RowConverter:
    """Return the converter for the rows of a table.

    Args:
        table: the table.
        key_format: format of keys; None leaves bytes.
        value_format: format of values and header values; None leaves bytes.
        redact: redacts keys, values and header values first.
    """
    formats = {"key": key_format, "value": value_format, "headers": value_format}
    if redact:  # a redacted payload is text
        formats = {name: bytes_format and BytesFormat.UTF8 for name, bytes_format in formats.items()}
    conversions: list[tuple[int, Conversion]] = []
    columns = list(table.columns)
    for index, column in enumerate(table.columns):
        if column.type not in ("binary", "headers"):
            continue
        bytes_format = formats.get(column.name)
        if column.type == "headers":
            conversions.append((index, _headers(bytes_format, redact)))
            continue
        if redact:
            conversions.append((index, redact))
        if bytes_format:
            conversions.append((index, CONVERSIONS[bytes_format]))
            columns[index] = Column(column.name, "string", column.doc)
    return RowConverter(Table(table.name, table.row, tuple(columns)), tuple(conversions))


@dataclass(frozen=True, slots=True)
class _Headers:
    """Converts the headers of a record.

    Attributes:
        conversions: what is done with each value, one after the other.
    """

    conversions: tuple[Conversion, ...]

    def __call__(self, headers: Sequence[tuple[bytes, bytes | None]]) -> list[dict[str, Any]]:
        """Return the headers with their values converted; nulls stay null."""
        return [{"key": key.decode("utf-8", "replace"), "value": self._value(data)} for key, data in headers]

    def _value(self, data: bytes | None) -> Any:
        value: Any = data
        for convert in self.conversions if data is not None else ():
            value = convert(value)
        return value


def _headers(bytes_format: BytesFormat | None, redact: Redactor | None) -> _Headers:
    # Integers and JSON are formats of the topic's values; header values are shown as text instead.
    keep_format = bytes_format in (None, BytesFormat.HEX, BytesFormat.BASE64)
    header_format = bytes_format if keep_format else BytesFormat.UTF8
    formatting = () if header_format is None else (CONVERSIONS[header_format],)
    return _Headers((*((redact,) if redact else ()), *formatting))
