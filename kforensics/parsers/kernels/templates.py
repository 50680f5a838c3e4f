"""Templates of the lines that kernels write: texts for ``str.format``, translated to operations.

An operation is five int64: kind, field number, address and length of the text before the field, and one more number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from kforensics.parsers.kernels.request import FIELD, SLACK

__all__ = ["If", "Template"]

OPERATION_SIZE = 5 * 8
# After its text an operation writes nothing, a number, the label for a number, bytes as UTF-8, or the keys of the
# headers. SKIP_UNLESS skips the given number of operations if a field is 0.
PUT_TEXT, PUT_NUMBER, PUT_LABEL, PUT_UTF8, PUT_HEADER_KEYS, SKIP_UNLESS = range(6)
# A label in a table: its length and its characters.
LABEL_SIZE = 32
NUMBER_WIDTH = 20
SPECIAL_NAMES = {
    "count": (PUT_NUMBER, "record_count"),
    "key": (PUT_UTF8, "key_address"),
    "value": (PUT_UTF8, "value_address"),
    "header_keys": (PUT_HEADER_KEYS, "headers_address"),
}


@dataclass(frozen=True, slots=True)
class If:
    """Text that is written only if a field is not 0."""

    field: str
    text: str


class Template:
    """A line for kernels to write.

    Args:
        parts: texts with field names in braces. ``{key}``, ``{value}`` and ``{header_keys}`` insert the bytes.
        labels: for each field that is printed as a label, the labels from number 0 on.

    Attributes:
        address: of the operations.
        margin: maximum size of the line in bytes, without keys, values and header keys.
    """

    def __init__(self, parts: Sequence[str | If], labels: Mapping[str, Sequence[str]]) -> None:
        self._labels, self._buffers = labels, list[ctypes.Array[ctypes.c_char]]()
        operations: list[tuple[int, ...]] = []
        for part in parts:
            of_part = self._operations(part if isinstance(part, str) else part.text)
            if isinstance(part, If):
                operations.append((SKIP_UNLESS, _index(part.field), 0, 0, len(of_part)))
            operations += of_part
        numbers = [len(operations), *(number for operation in operations for number in operation)]
        self._block = (ctypes.c_int64 * len(numbers))(*numbers)
        self.address = ctypes.addressof(self._block)
        self.margin = sum(max(NUMBER_WIDTH, LABEL_SIZE) + operation[3] for operation in operations) + SLACK

    def _operations(self, text: str) -> list[tuple[int, ...]]:
        return [self._operation(literal, name) for literal, name, _, _ in Formatter().parse(text)]

    def _operation(self, literal: str, name: str | None) -> tuple[int, ...]:
        text = literal.encode()
        start = (self._address_of(text), len(text))
        if name is None:
            return (PUT_TEXT, 0, *start, 0)
        if name in self._labels:
            labels = (bytes([len(label)]) + label.encode().ljust(LABEL_SIZE - 1) for label in self._labels[name])
            return (PUT_LABEL, _index(name), *start, self._address_of(b"".join(labels)))
        kind, field = SPECIAL_NAMES.get(name, (PUT_NUMBER, name))
        return (kind, _index(field), *start, 0)

    def _address_of(self, data: bytes) -> int:
        buffer = ctypes.create_string_buffer(data, len(data) + SLACK)
        self._buffers.append(buffer)
        return ctypes.addressof(buffer)


def _index(name: str) -> int:
    index: int = getattr(FIELD, name)
    return index
