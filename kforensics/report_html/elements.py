"""HTML elements with the attributes of a page; all that is not markup of ours is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from kforensics.render.markup import Markup, joined

__all__ = ["Markup", "items", "joined", "tag"]

VOID = ("link", "meta")


def tag(element: str, *children: str, **attributes: str) -> Markup:
    """Return an element.

    >>> tag("a", "a < b", href="#x", class_="link", aria_label='"')
    '<a href="#x" class="link" aria-label="&quot;">a &lt; b</a>'

    Args:
        element: its name, a literal of ours.
        children: markup as it is, text escaped.
        attributes: by their names, a trailing underscore left out and others being hyphens; values are escaped.
    """
    words = "".join(f' {key.rstrip("_").replace("_", "-")}="{joined(value)}"' for key, value in attributes.items())
    return Markup(f"<{element}{words}>" if element in VOID else f"<{element}{words}>{joined(*children)}</{element}>")


def items(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return a list of terms and what is said of each."""
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", said)) for term, said in pairs))
