"""Templates of the lines that kernels write: texts for ``str.format``, translated to operations.

An operation is five int64: kind, field number, address and length of the text before the field, and one more number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import NamedTuple

from kforensics.parsers.kernels.request import FIELD, FIRST_KERNEL_SLOT, SLACK

__all__ = ["If", "Literal", "Part", "PayloadStyles", "Put", "Template", "payload_style", "redaction_memory"]

OPERATION_SIZE = 5 * 8
# After its text an operation writes nothing, a number, the label for a number, bytes as UTF-8, or the keys of the
# headers. SKIP_UNLESS skips the given number of operations if a field is 0.
PUT_TEXT, PUT_NUMBER, PUT_LABEL, PUT_UTF8, PUT_HEADER_KEYS, SKIP_UNLESS, PUT_PAYLOAD, PUT_HEADERS, PUT_TIME = range(9)
# Formats of keys, values and header values, and how they are quoted: not at all, or as a value of JSON or a CSV field.
AS_UTF8, AS_HEX, AS_BASE64, AS_INT, AS_LONG, AS_REDACTED = range(6)
BARE, IN_JSON, IN_CSV = range(3)
QUOTE_SHIFT = 8
# A label in a table: its length and its characters.
LABEL_SIZE = 32
NUMBER_WIDTH = 20
# The longest quoted time, or redacted payload with quotes, and something to spare.
PUT_WIDTH = 64
SPECIAL_NAMES = {
    "count": (PUT_NUMBER, "record_count"),
    "key": (PUT_UTF8, "key_address"),
    "value": (PUT_UTF8, "value_address"),
    "header_keys": (PUT_HEADER_KEYS, "headers_address"),
}
PUT_KINDS = {
    "key": (PUT_PAYLOAD, "key_address"),
    "value": (PUT_PAYLOAD, "value_address"),
    "headers": (PUT_HEADERS, "headers_address"),
}


@dataclass(frozen=True, slots=True)
class Put:
    """A key, a value, headers or a time, in a style.

    Attributes:
        field: ``key``, ``value`` or ``headers``; or the field with the time in milliseconds, which is quoted text.
        style: see :func:`payload_style`.
    """

    field: str
    style: int = 0


@dataclass(frozen=True, slots=True)
class If:
    """A part that is written only if a field is not 0."""

    field: str
    part: str | Put


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that is written as it is, braces included."""

    text: str


# The memory with which payloads are redacted: the first state of the hash, the block with the key, and the text before
# the hash. Kernels need work memory beside it.
START, KEY_BLOCK, LABEL = 0, 64, 192
BLOCK, DIGEST, WORK_SIZE = 128, 16, 1024
LABEL_LENGTH = 9
# The parameters of BLAKE2b, which change the first word of its initialization vector: the fractional parts of the
# square roots of the first eight primes.
FAN_OUT_AND_DEPTH = 0x01010000
VECTOR = (
    0x6A09E667F3BCC908,
    0xBB67AE8584CAA73B,
    0x3C6EF372FE94F82B,
    0xA54FF53A5F1D36F1,
    0x510E527FADE682D1,
    0x9B05688C2B3E6C1F,
    0x1F83D9ABFB41BD6B,
    0x5BE0CD19137E2179,
)


class PayloadSlots(NamedTuple):
    """Slot numbers of the kernel that writes columns of payloads, as constants that the compiler reads by name."""

    # In: how many payloads; the address of where each begins, int32 relative to ``data``, with the end of the last one;
    # the address of a byte for each, 0 for null, or 0 if none is; and the style, see ``templates.payload_style``.
    payloads: int
    starts: int
    validity: int
    style: int
    # In: the address for where each text begins in the output, int32, with the end of the last one.
    out_starts: int


PAYLOAD_SLOT = PayloadSlots(*range(FIRST_KERNEL_SLOT, FIRST_KERNEL_SLOT + len(PayloadSlots._fields)))


def redaction_memory(key: bytes, label: bytes) -> ctypes.Array[ctypes.c_char]:
    """Return the memory with which kernels redact payloads.

    Args:
        key: the secret, 1 to 64 bytes.
        label: the text before the hash, of ``LABEL_LENGTH`` bytes.
    """
    first = VECTOR[0] ^ FAN_OUT_AND_DEPTH ^ len(key) << 8 ^ DIGEST
    state = b"".join(word.to_bytes(8, "little") for word in (first, *VECTOR[1:]))
    return ctypes.create_string_buffer(state + key.ljust(BLOCK, b"\0") + label, LABEL + LABEL_LENGTH + SLACK)


def payload_style(payload_format: int, quoting: int) -> int:
    """Return the number of a format, such as ``AS_HEX``, and of how it is quoted, such as ``IN_JSON``."""
    return payload_format | quoting << QUOTE_SHIFT


@dataclass(frozen=True, slots=True)
class PayloadStyles:
    """How kernels show keys and values.

    Attributes:
        key: style of keys, see :func:`payload_style`.
        value: style of values.
        redaction: from :func:`redaction_memory`, if payloads are redacted.
    """

    key: int
    value: int
    redaction: ctypes.Array[ctypes.c_char] | None = None


Part = str | If | Put | Literal


class Template:
    """A line for kernels to write.

    Args:
        parts: texts with field names in braces. ``{key}``, ``{value}`` and ``{header_keys}`` insert the bytes.
        labels: for each field that is printed as a label, the labels from number 0 on.

    Attributes:
        address: of the operations.
        margin: maximum size of the line in bytes, without keys, values and header keys.
    """

    def __init__(self, parts: Sequence[Part], labels: Mapping[str, Sequence[str]]) -> None:
        self._labels, self._buffers = labels, list[ctypes.Array[ctypes.c_char]]()
        operations: list[tuple[int, ...]] = []
        for part in parts:
            of_part = self._operations(part)
            if isinstance(part, If):
                operations.append((SKIP_UNLESS, _index(part.field), 0, 0, len(of_part)))
            operations += of_part
        numbers = [len(operations), *(number for operation in operations for number in operation)]
        self._block = (ctypes.c_int64 * len(numbers))(*numbers)
        self.address = ctypes.addressof(self._block)
        self.margin = sum(max(NUMBER_WIDTH, LABEL_SIZE, PUT_WIDTH) + operation[3] for operation in operations) + SLACK

    def _operations(self, part: Part) -> list[tuple[int, ...]]:
        if isinstance(part, Literal):
            return [self._operation(part.text, None)]
        if isinstance(part, Put):
            kind, field = PUT_KINDS.get(part.field, (PUT_TIME, part.field))
            return [(kind, _index(field), self._address_of(b""), 0, part.style)]
        if isinstance(part, If):
            return self._operations(part.part)
        return [self._operation(literal, name) for literal, name, _, _ in Formatter().parse(part)]

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
