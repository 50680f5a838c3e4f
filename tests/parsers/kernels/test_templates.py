"""Templates: lines for kernels, compared with what ``str.format`` makes of the same text."""

from __future__ import annotations

import ctypes

import pytest

from kforensics.parsers.kernels.library import Kernels, Request, kernels
from kforensics.parsers.kernels.request import (
    BATCH_MARGIN,
    BATCH_OPS,
    BATCHES,
    CONTROL_OPS,
    DATA,
    DONE,
    END,
    FIRST_OFFSET,
    LAST_OFFSET,
    OUT,
    OUT_SIZE,
    RECORD_MARGIN,
    RECORD_OPS,
    SLACK,
    STATUS,
    WRITTEN,
)
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
    found = kernels()
    assert found, "the kernels cannot be compiled here"
    return found


def written(compiled: Kernels, template: Template, data: bytes, *, of_records: bool, room: int = ROOM) -> bytes | None:
    """Return the text of a batch, or of its records alone; None if it does not fit."""
    silent, request = Template([""], {}), Request()
    source = ctypes.create_string_buffer(data, len(data) + SLACK)
    out = ctypes.create_string_buffer(b"\xee" * (room + SLACK), room + SLACK)
    request[DATA], request[END] = ctypes.addressof(source), len(data)
    request[OUT], request[OUT_SIZE] = ctypes.addressof(out), room
    request[FIRST_OFFSET] = request[LAST_OFFSET] = -1
    lines = silent if of_records else template
    request[BATCH_OPS], request[BATCH_MARGIN] = lines.address, lines.margin
    if of_records:
        request[RECORD_OPS] = request[CONTROL_OPS] = template.address
        request[RECORD_MARGIN] = template.margin
    compiled.lines(request.address)
    return out.raw[: request[WRITTEN]] if request[STATUS] == DONE and request[BATCHES] else None


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


def test_what_is_null_is_left_out(compiled: Kernels) -> None:
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
    """A line of the largest numbers fits into it; with less room nothing is written."""
    template = Template(["{producer_id} {max_timestamp} {base_offset}\n"], {})
    text = b"-9223372036854775808 9223372036854775807 7\n"
    assert len(text) <= template.margin
    assert written(compiled, template, BATCH, of_records=False, room=template.margin) == text
    assert written(compiled, template, BATCH, of_records=False, room=template.margin - 1) is None


def test_a_name_that_is_no_value_is_refused() -> None:
    with pytest.raises(AttributeError, match="no_such_value"):
        Template(["{no_such_value}"], {})
