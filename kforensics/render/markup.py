"""Builds HTML whose only markup is this package's own: everything else is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

from kforensics.parsers.format.text_encoding import printable

VOID_ELEMENTS = ("link", "meta")


class Markup(str):
    """HTML made by :func:`element`; :func:`joined` escapes all other text."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """Return an HTML element.

    >>> element("a", "a < b", href="#x", class_="link", aria_label='"', title=None)
    '<a href="#x" class="link" aria-label="&quot;">a &lt; b</a>'

    Args:
        name: name of the element, always a literal.
        children: markup is kept, other text is escaped.
        attributes: values by name, escaped; None omits an attribute. A trailing underscore of the name is removed, and
            other underscores become hyphens.
    """
    pairs = [(key, value) for key, value in attributes.items() if value is not None]
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{joined(value)}"' for key, value in pairs)
    return Markup(f"<{name}{written}>" if name in VOID_ELEMENTS else f"<{name}{written}>{joined(*children)}</{name}>")


def description_list(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return an HTML list of terms and their descriptions."""
    return element("dl", *(element("div", element("dt", term), element("dd", text)) for term, text in pairs))


def joined(*children: str) -> Markup:
    """Return children one after the other: markup as it is, other text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _escape(child) for child in children))


def _escape(text: str) -> str:
    """Escape HTML, and characters that change the direction of text or that a terminal acts on."""
    return html.escape(printable(text), quote=True)
