"""Markup has only the elements of this package, whatever the text."""

import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.render import markup
from kforensics.render.markup import MAX_CELL_CHARACTERS, Markup, bytes_text, cell_text, cell_tooltip, element, joined
from tests.api.views.page import HOSTILE, assert_harmless


def test_markup_is_kept_and_text_is_escaped() -> None:
    made = element("p", element("b", "1 < 2"), " & <i>", style="color: red", title='"')
    assert made == '<p style="color: red" title="&quot;"><b>1 &lt; 2</b> &amp; &lt;i&gt;</p>'
    assert joined(made, "<") == made + "&lt;"
    assert isinstance(joined("a"), Markup)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_text(text: str) -> None:
    seen = assert_harmless(element("p", text, title=text))
    assert seen.elements == ["p"]


@given(st.text(), st.text())
def test_any_text_stays_text(text: str, title: str) -> None:
    seen = assert_harmless(element("p", text, title=title))
    assert seen.elements == ["p"]
    if text.isprintable():
        assert "".join(seen.texts) == text


@pytest.mark.parametrize(
    ("name", "value", "text", "tooltip"),
    [
        ("key", None, "null", ""),
        ("key", b"", "", "0 bytes"),
        ("key", b"paid \xc3\xa9", "paid é", "7 bytes"),
        ("value", b"\xff\x00", "\\xff\\x00", "2 bytes"),
        ("value", b"a" * 61, "a" * 60 + "… (61 bytes)", "61 bytes"),
        ("timestamp", 1_700_000_000_123, "2023-11-14 22:13:20.123 UTC", "1700000000123 ms"),
        ("timestamp", -1, "-1", ""),
        ("mtime_ms", 0, "1970-01-01 00:00:00.000 UTC", "0 ms"),
        ("duration_ms", 1_500, "1500", ""),
        ("max_timestamp", 1 << 62, f"{1 << 62} ms", f"{1 << 62} ms"),
        ("crc_valid", False, "false", ""),
        ("aborted_share", 1 / 3, "0.333333", ""),
        ("topic", "x" * 61, "x" * 60 + "…", ""),
        ("path", "/data/" + "x" * 60 + ".log", "…" + "x" * 56 + ".log", "/data/" + "x" * 60 + ".log"),
        ("headers", [{"key": "a", "value": b"1"}, {"key": "b", "value": None}], "a=1, b=null", ""),
        ("recent_batches", [{"last_offset": 3, "offset_delta": 1}], "last_offset=3 offset_delta=1", ""),
        ("x", [1, None, True, 1 / 3, "a", b"b"], "1, null, true, 0.333333, a, b", ""),
        ("x", [[1], [2]], "[1], [2]", ""),
        ("x", [(1, "a"), ("k", None)], "(1, 'a'), ('k', None)", ""),
        ("x", [{"key": 1, "value": 2}], "key=1 value=2", ""),
    ],
)
def test_cells_and_tooltips(name: str, value: Any, text: str, tooltip: str) -> None:
    assert (cell_text(name, value), cell_tooltip(name, value)) == (text, tooltip)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_cells_are_printable(text: str) -> None:
    for value in (text, text.encode(), text.encode("utf-16"), [{"key": text, "value": text.encode()}]):
        assert cell_text("value", value).isprintable()
    for other in ([text], [[text]], [(text, text)], [{"name": text}], [{text: text}], {text: text}):
        assert cell_text("value", other).isprintable()


@given(st.binary(max_size=400))
def test_any_bytes_become_one_short_line(data: bytes) -> None:
    text = bytes_text(data)
    assert text.isprintable()
    assert len(text) <= MAX_CELL_CHARACTERS + len("… (400 bytes)")


def test_doctests() -> None:
    assert doctest.testmod(markup).failed == 0
