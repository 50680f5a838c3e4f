"""Keys, values and header values as people want to see them, or hidden from them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

from kforensics.parsers.tables.schemas import Column, Table
from kforensics.render.formats import BytesFormat

__all__ = ["Redactor", "Shape", "shape", "text_of"]

INT_SIZE, LONG_SIZE = 4, 8
Convert = Callable[[Any], Any]


class Redactor:
    """Replaces bytes by a keyed hash: the same for the same bytes and key, and no way back without the key.

    Args:
        key: the secret, at most 64 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, data: bytes | None) -> bytes | None:
        """Return the hash as ASCII text, None for None."""
        if data is None:
            return None
        digest = hashlib.blake2b(data, key=self._key, digest_size=16).hexdigest()
        return f"redacted:{digest}".encode()


def _integer(size: int) -> Convert:
    def convert(data: bytes) -> int | str:
        # A size that does not fit is shown, not guessed at.
        return int.from_bytes(data, signed=True) if len(data) == size else f"0x{data.hex()}"

    return convert


def _json(data: bytes) -> Any:
    """Return what JSON text says, or the text itself if reading and writing it again would change it."""
    try:
        return json.loads(data, object_pairs_hook=_object, parse_constant=_no_json, parse_float=_float)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def _no_json(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


CONVERT: dict[BytesFormat, Convert] = {
    BytesFormat.UTF8: lambda data: data.decode("utf-8", "replace"),
    BytesFormat.HEX: bytes.hex,
    BytesFormat.BASE64: lambda data: base64.b64encode(data).decode(),
    BytesFormat.INT: _integer(INT_SIZE),
    BytesFormat.LONG: _integer(LONG_SIZE),
    BytesFormat.JSON: _json,
}


def text_of(wanted: BytesFormat, redact: Redactor | None = None) -> Callable[[bytes], str]:
    """Return what makes text of bytes; redacted bytes are text already."""
    convert = CONVERT[BytesFormat.UTF8 if redact else wanted]

    def text(data: bytes) -> str:
        shown = convert(redact(data) or b"" if redact else data)
        return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, separators=(",", ":"))

    return text


@dataclass(frozen=True, slots=True)
class Shape:
    """What becomes of the columns of a table on their way out.

    Attributes:
        table: the table, its converted columns with their new type.
        converts: (index of the column, conversion); nulls are not converted.
    """

    table: Table
    converts: tuple[tuple[int, Convert], ...]

    def __call__(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return a row with its columns converted."""
        if not self.converts:
            return row
        out = list(row)
        for index, convert in self.converts:
            if out[index] is not None:
                out[index] = convert(out[index])
        return out


def shape(
    table: Table,
    key_format: BytesFormat | None,
    value_format: BytesFormat | None,
    redact: Redactor | None = None,
) -> Shape:
    """Return how to convert a table's rows.

    Args:
        table: the table.
        key_format: format of keys, None to leave bytes.
        value_format: format of values and header values, None to leave bytes.
        redact: replaces keys, values and header values first.
    """
    formats = {"key": key_format, "value": value_format, "headers": value_format}
    if redact:  # what it makes is text
        formats = {name: wanted and BytesFormat.UTF8 for name, wanted in formats.items()}
    converts: list[tuple[int, Convert]] = []
    columns = list(table.columns)
    for index, column in enumerate(table.columns):
        if column.type not in ("binary", "headers"):
            continue
        wanted = formats.get(column.name)
        if column.type == "headers":
            converts.append((index, _headers(wanted, redact)))
            continue
        if redact:
            converts.append((index, redact))
        if wanted:
            converts.append((index, CONVERT[wanted]))
            columns[index] = Column(column.name, "string", column.doc)
    return Shape(Table(table.name, table.row, tuple(columns)), tuple(converts))


def _headers(wanted: BytesFormat | None, redact: Redactor | None) -> Convert:
    # Numbers and JSON are formats of a topic's values; headers beside them are text.
    written = wanted if wanted in (None, BytesFormat.HEX, BytesFormat.BASE64) else BytesFormat.UTF8

    def convert(headers: Sequence[tuple[bytes, bytes | None]]) -> list[dict[str, Any]]:
        out = []
        for key, value in headers:
            shown: Any = redact(value) if redact else value
            if written and shown is not None:
                shown = CONVERT[written](shown)
            out.append({"key": key.decode("utf-8", "replace"), "value": shown})
        return out

    return convert
