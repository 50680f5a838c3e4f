import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format.text_encoding import printable
from kforensics.render.terminal import TerminalGuard, json_printable

characters = st.characters(codec=None, exclude_categories=())


@given(st.text(characters))
def test_escaped_json_is_equal(text: str) -> None:
    escaped = json_printable(json.dumps(text, ensure_ascii=False))
    assert json.loads(escaped) == text
    assert escaped.encode()
    assert not any("\x7f" <= character <= "\x9f" for character in escaped)


@given(st.text(characters))
def test_printable_text_is_one_line(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"a\tb\n", b"a\tb\n"),
        (b"1,2\r\n", b"1,2\r\n"),
        (b"over\rwritten", b"over\\x0dwritten"),
        (b"\x1b[2J\x07\x00\x7f", b"\\x1b[2J\\x07\\x00\\x7f"),
        ("\x9b31m\x85".encode(), b"\\x9b31m\\x85"),
        ("\u202edrow\u2066".encode(), b"\\x202edrow\\x2066"),
        ("\u061c1".encode(), b"\\x61c1"),
        ("größe 値 😀 \u00a0".encode(), "größe 値 😀 \u00a0".encode()),
    ],
    ids=["tab", "csv", "overwrite", "escape", "c1", "direction", "Arabic letter mark", "letters"],
)
def test_control_characters_are_escaped(data: bytes, shown: bytes) -> None:
    out = io.BytesIO()
    guard = TerminalGuard(out)
    guard.write(data)
    guard.flush()
    assert out.getvalue() == shown
