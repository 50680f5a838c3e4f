"""HTML in which nothing but our own elements can be: whatever is put into one is text unless it came from here."""

from __future__ import annotations

import html

from kforensics.parsers.format.printable import printable

__all__ = ["Markup", "element", "joined"]


class Markup(str):
    """HTML that :func:`element` has made; any other text is escaped where it goes into an element."""

    __slots__ = ()


def element(tag: str, *children: str, style: str = "", title: str = "") -> Markup:
    """Return an element.

    Args:
        tag: its name, a literal of ours.
        children: markup as it is, text escaped.
        style: a declaration of ours.
        title: what to show when the pointer rests on it; escaped.
    """
    attributes = "".join(f' {name}="{_text(value)}"' for name, value in (("style", style), ("title", title)) if value)
    return Markup(f"<{tag}{attributes}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Return children one after the other: markup as it is, text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children))


def _text(text: str) -> str:
    """Return text without signs that a browser may act on: tags, and changes of direction too."""
    return html.escape(printable(text), quote=True)
