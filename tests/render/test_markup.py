"""Markup has only the elements of this package, whatever the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.render.markup import Markup, element, joined
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
