"""Templates: lines that kernels write, compared with ``str.format`` of the same text."""

from __future__ import annotations

import ctypes

import pytest

from kforensics.parsers.kernels.library import Kernels, Request, load_kernels
from kforensics.parsers.kernels.request import DONE, SLACK, SLOT
from kforensics.parsers.kernels.templates import If, Template
from tests.parsers.builders import batch, record

BATCH = batch(
    record(2, b"key", b"value", [(b"a", None), (b"", b"x"), (b"c", b"")]),
    base_offset=7,
    producer_id=-(2**63),
    max_timestamp=2**63 - 1,
    attributes=0x08,
)
ROOM = 5000


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    """Return the kernels."""
    kernels = load_kernels()
    assert kernels, "the kernels cannot be compiled here"
    return kernels


def written(compiled: Kernels, template: Template, data: bytes, *, of_records: bool, room: int = ROOM) -> bytes | None:
    """Return the text of a batch, or of its records alone; None if it does not fit."""
    empty, request = Template([""], {}), Request()
    source = ctypes.create_string_buffer(data, len(data) + SLACK)
    out = ctypes.create_string_buffer(b"\xee" * (room + SLACK), room + SLACK)
    request[SLOT.data], request[SLOT.end] = ctypes.addressof(source), len(data)
    request[SLOT.out], request[SLOT.out_size] = ctypes.addressof(out), room
    request[SLOT.first_offset] = request[SLOT.last_offset] = -1
    lines = empty if of_records else template
    request[SLOT.batch_ops], request[SLOT.batch_margin] = lines.address, lines.margin
    if of_records:
        request[SLOT.record_ops] = request[SLOT.control_ops] = template.address
        request[SLOT.record_margin] = template.margin
    compiled.lines(request.address)
    return out.raw[: request[SLOT.written]] if request[SLOT.status] == DONE and request[SLOT.batches] else None


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["plain"], "plain"),
        (["{base_offset}"], "7"),
        (["<{base_offset}{producer_id}>{max_timestamp}|"], "<7-9223372036854775808>9223372036854775807|"),
        (["é {timestamp_type} {timestamp_type}!"], "é LogAppendTime LogAppendTime!"),
        (["a", If("timestamp_type", "yes {count}"), If("is_control", "no {count}"), "b"], "ayes 1b"),
        ([If("is_control", "no"), If("is_control", "{count}"), "end"], "end"),
        (["x" * 300, "{position}"], "x" * 300 + "0"),
    ],
)
def test_batch_lines(compiled: Kernels, parts: list[str | If], text: str) -> None:
    template = Template(parts, {"timestamp_type": ("CreateTime", "LogAppendTime")})
    assert written(compiled, template, BATCH, of_records=False) == text.encode()


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (["{offset}: {key}={value}[{header_keys}]"], "9: key=value[a,,c]"),
        ([If("has_both", "{key}"), If("has_lone_value", "no"), " {key_size} {value_size}"], "key 3 5"),
    ],
)
def test_record_lines(compiled: Kernels, parts: list[str | If], text: str) -> None:
    assert written(compiled, Template(parts, {}), BATCH, of_records=True) == text.encode()


def test_null_is_left_out(compiled: Kernels) -> None:
    data = batch(record(0, None, b"v"), record(1, b"k", None), record(2, None, None), record(3, b"", b""))
    parts: list[str | If] = [
        "{key}/{value}/{key_size}/{value_size}/{header_keys}",
        If("has_lone_value", "!"),
        If("has_key", "k"),
        ";",
    ]
    text = written(compiled, Template(parts, {}), data, of_records=True)
    assert text == b"/v/-1/1/!;k//1/-1/k;//-1/-1/;//0/0/k;"


def test_the_margin_is_enough_for_the_longest_line(compiled: Kernels) -> None:
    """A line with the longest numbers fits into it; with less room nothing is written."""
    template = Template(["{producer_id} {max_timestamp} {base_offset}\n"], {})
    text = b"-9223372036854775808 9223372036854775807 7\n"
    assert len(text) <= template.margin
    assert written(compiled, template, BATCH, of_records=False, room=template.margin) == text
    assert written(compiled, template, BATCH, of_records=False, room=template.margin - 1) is None


def test_an_unknown_field_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no_such_field"):
        Template(["{no_such_field}"], {})
