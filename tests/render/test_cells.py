"""Values as text that fits a cell."""

import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.render import cells
from kforensics.render.cells import LONGEST, bytes_text, cell, detail
from tests.api.views.page import HOSTILE


@pytest.mark.parametrize(
    ("name", "value", "text", "more"),
    [
        ("key", None, "null", ""),
        ("key", b"", "", "0 bytes"),
        ("key", b"paid \xc3\xa9", "paid é", "7 bytes"),
        ("value", b"\xff\x00", "\\xff\\x00", "2 bytes"),
        ("value", b"a" * 61, "a" * 60 + "… (61 bytes)", "61 bytes"),
        ("timestamp", 1_700_000_000_123, "2023-11-14 22:13:20.123", "1700000000123 ms"),
        ("timestamp", -1, "-1", ""),
        ("mtime_ms", 0, "1970-01-01 00:00:00.000", "0 ms"),
        ("duration_ms", 1_500, "1500", ""),
        ("max_timestamp", 1 << 62, str(1 << 62), f"{1 << 62} ms"),
        ("crc_valid", False, "false", ""),
        ("aborted_share", 1 / 3, "0.333333", ""),
        ("topic", "x" * 61, "x" * 60 + "…", ""),
        ("path", "/data/" + "x" * 60 + ".log", "…" + "x" * 56 + ".log", "/data/" + "x" * 60 + ".log"),
        ("headers", [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], "a=1, b=null", ""),
        ("recent_batches", [{"last_offset": 3, "offset_delta": 1}], "last_offset=3 offset_delta=1", ""),
    ],
)
def test_values_are_shown(name: str, value: Any, text: str, more: str) -> None:
    assert (cell(name, value), detail(name, value)) == (text, more)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_that_a_terminal_acts_on_is_left(text: str) -> None:
    for value in (text, text.encode(), text.encode("utf-16"), [{"key": text, "value": text.encode()}]):
        assert cell("value", value).isprintable()


@given(st.binary(max_size=400))
def test_any_bytes_are_one_short_line(data: bytes) -> None:
    text = bytes_text(data)
    assert text.isprintable()
    assert len(text) <= LONGEST + len("… (400 bytes)")


def test_examples() -> None:
    assert doctest.testmod(cells).failed == 0
