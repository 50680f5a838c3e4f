"""Lines as kernels write them: operations made from a text for ``str.format``.

An operation is five int64: kind, index of a value, address and length of the text in front of it, and one number more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter

from kforensics.parsers.kernels.request import SLACK, VALUE

__all__ = ["HEADER_NAMES", "NUMBER", "OP_SIZE", "SKIP_UNLESS", "TEXT", "UTF8", "WORD", "WORD_SIZE", "If", "Template"]

OP_SIZE = 5 * 8
# Nothing, a number, a word chosen by a number, bytes as UTF-8, the keys of the headers; and: leave out the next so many
# operations if a value is 0.
TEXT, NUMBER, WORD, UTF8, HEADER_NAMES, SKIP_UNLESS = range(6)
# A word in a list: its length and its letters.
WORD_SIZE = 32
NUMBER_WIDTH = 20
PLACES = {
    "count": (NUMBER, "record_count"),
    "key": (UTF8, "key_at"),
    "value": (UTF8, "value_at"),
    "header_keys": (HEADER_NAMES, "headers_at"),
}


@dataclass(frozen=True, slots=True)
class If:
    """Text for a line that is written only where a value is not 0."""

    value: str
    text: str


class Template:
    """A line for kernels.

    Args:
        parts: texts with names of values in braces; ``{key}``, ``{value}`` and ``{header_keys}`` stand for the bytes.
        words: for a value that is shown as a word, the words from 0 on.

    Attributes:
        address: of the operations.
        margin: most bytes of a line, keys, values and header keys not counted.
    """

    def __init__(self, parts: Sequence[str | If], words: Mapping[str, Sequence[str]]) -> None:
        self._words, self._kept = words, list[ctypes.Array[ctypes.c_char]]()
        operations: list[tuple[int, ...]] = []
        for part in parts:
            inner = self._operations(part if isinstance(part, str) else part.text)
            if isinstance(part, If):
                operations.append((SKIP_UNLESS, _index(part.value), 0, 0, len(inner)))
            operations += inner
        numbers = [len(operations), *(number for operation in operations for number in operation)]
        self._block = (ctypes.c_int64 * len(numbers))(*numbers)
        self.address = ctypes.addressof(self._block)
        self.margin = sum(max(NUMBER_WIDTH, WORD_SIZE) + operation[3] for operation in operations) + SLACK

    def _operations(self, text: str) -> list[tuple[int, ...]]:
        return [self._operation(literal, name) for literal, name, _, _ in Formatter().parse(text)]

    def _operation(self, literal: str, name: str | None) -> tuple[int, ...]:
        text = literal.encode()
        front = (self._keep(text), len(text))
        if name is None:
            return (TEXT, 0, *front, 0)
        if name in self._words:
            table = b"".join(bytes([len(word)]) + word.encode().ljust(WORD_SIZE - 1) for word in self._words[name])
            return (WORD, _index(name), *front, self._keep(table))
        kind, place = PLACES.get(name, (NUMBER, name))
        return (kind, _index(place), *front, 0)

    def _keep(self, data: bytes) -> int:
        buffer = ctypes.create_string_buffer(data, len(data) + SLACK)
        self._kept.append(buffer)
        return ctypes.addressof(buffer)


def _index(name: str) -> int:
    index: int = getattr(VALUE, name)
    return index
