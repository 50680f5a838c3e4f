"""Bytes in hex, each in the colour of its field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kforensics.parsers.log.field_bytes import FieldBytes
from kforensics.render.markup import Markup, element, joined

__all__ = ["colour", "hex_lines", "hex_table", "hex_text"]

WIDTH = 16
# Pale enough for black signs on them; neighbours differ in more than hue.
COLOURS = (
    "#ffd6d6",
    "#cfe8ff",
    "#fff3b0",
    "#d8f5d0",
    "#e8d9ff",
    "#ffe0bf",
    "#c9f2ee",
    "#f7cfe6",
    "#e2e2e2",
    "#dfe8b0",
)


@dataclass(frozen=True, slots=True)
class _Byte:
    value: int
    field: int


def colour(index: int) -> str:
    """Return the colour of the n-th field, as a declaration."""
    return f"background: {COLOURS[index % len(COLOURS)]}; color: #111"


def hex_lines(fields: Sequence[FieldBytes], most: int) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Yield lines of sixteen bytes: the position of the first, and runs of bytes with the index of their field.

    Args:
        fields: neighbours, in the order of their bytes.
        most: bytes after which to stop.
    """
    flat: list[_Byte] = []
    for index, field in enumerate(fields):
        flat += (_Byte(value, index) for value in field.data[: most - len(flat)])
    start = fields[0].position if fields else 0
    for at in range(0, len(flat), WIDTH):
        runs = groupby(flat[at : at + WIDTH], key=lambda byte: byte.field)
        yield start + at, [(index, bytes(byte.value for byte in run)) for index, run in runs]


def hex_table(fields: Sequence[FieldBytes], most: int, size: int) -> Markup:
    """Return the bytes of fields, sixteen in a line, as hex and as signs, each with the name of its field.

    Args:
        fields: neighbours, in the order of their bytes.
        most: bytes after which to stop.
        size: how many bytes there are, those behind the fields included.
    """
    lines = []
    for position, runs in hex_lines(fields, most):
        used = sum(len(data) for _, data in runs)
        spans = (_span(fields, index, data.hex(" ")) for index, data in runs)
        signs = (_span(fields, index, _signs(data)) for index, data in runs)
        gap = "   " * (WIDTH - used)
        lines.append(joined(f"{position:08x}  ", Markup(" ".join(spans)), f"{gap}  ", *signs, Markup("\n")))
    return element("pre", *lines, *_more(fields, most, size), style="line-height: 1.4")


def hex_text(fields: Sequence[FieldBytes], most: int, size: int) -> list[str]:
    """Return the same as lines of text; see :func:`hex_table`."""
    lines = []
    for position, runs in hex_lines(fields, most):
        data = b"".join(part for _, part in runs)
        lines.append(f"{position:08x}  {data.hex(' '):<{3 * WIDTH - 1}}  {_signs(data)}")
    return [*lines, *_more(fields, most, size)]


def _span(fields: Sequence[FieldBytes], index: int, text: str) -> Markup:
    return element("span", text, style=colour(index), title=fields[index].name)


def _signs(data: bytes) -> str:
    """Return ASCII as it is and a dot for everything else."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def _more(fields: Sequence[FieldBytes], most: int, size: int) -> list[str]:
    left = size - min(sum(len(field.data) for field in fields), most)
    return [f"… and {left} bytes more"] if left > 0 else []
