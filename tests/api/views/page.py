"""Parses HTML as a browser does, and hostile texts to put into it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ["HOSTILE", "OURS", "Seen", "assert_harmless", "seen"]

OURS = {"div", "p", "b", "pre", "span", "table", "thead", "tbody", "tr", "th", "td"}
VOID = {"img", "link", "meta"}
HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "single-quote": "' onmouseover='alert(1)",
    "close": "</td></table></pre></span><iframe src='//evil'>",
    "comment": "<!--",
    "cdata": "<![CDATA[ <svg/onload=alert(1)> ]]>",
    "entity": "&lt;script&gt;&#x3c;img onerror=alert(1)&#x3e;",
    "link": "javascript:alert(1)",
    "markdown": "[pay](javascript:alert(1)) ![x](http://evil/x.png) `<b>`",
    "ansi": "\x1b[2J\x1b[31mred",
    "osc": "\x1b]0;title\x07\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\",
    "c1": "\x9b2J\x90",
    "bidi": "\u202egnp.exe\u2066x\u2069\u200f",
    "line-end": "one\r\ntwo\u2028three\x85four\x00",
    "template": "{{constructor.constructor('alert(1)')()}}${alert(1)}",
    "latex": "$\\href{javascript:alert(1)}{x}$",
}


@dataclass
class Seen(HTMLParser):
    """The elements, attributes and texts of HTML.

    Attributes:
        elements: names of the elements, in order.
        attributes: (element, attribute, value).
        texts: text between elements.
        other: comments, declarations and the like.
        unclosed: elements that are open at the end.
    """

    elements: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add an element and its attributes."""
        self.elements.append(tag)
        if tag not in VOID:
            self.unclosed.append(tag)
        self.attributes += ((tag, name, value or "") for name, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        """Close an element; overlapping elements fail."""
        assert self.unclosed.pop() == tag

    def handle_data(self, data: str) -> None:
        """Add text."""
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        """Add a comment."""
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        """Add a declaration."""
        self.other.append(decl)

    def handle_pi(self, data: str) -> None:
        """Add a processing instruction."""
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        """Add an unknown declaration."""
        self.other.append(data)

    @property
    def text(self) -> str:
        """All text."""
        return " ".join(self.texts)


def seen(html: str) -> Seen:
    """Return parsed HTML."""
    parser = Seen()
    parser.feed(html)
    parser.close()
    return parser


def assert_harmless(html: str) -> Seen:
    """Return parsed HTML; fail if it has a foreign element or attribute, or a character that is not printable."""
    parsed = seen(html)
    assert set(parsed.elements) <= OURS
    assert {name for _, name, _ in parsed.attributes} <= {"style", "title"}
    assert not parsed.other
    assert not parsed.unclosed
    styles = [value for _, name, value in parsed.attributes if name == "style"]
    assert not [style for style in styles if "url" in style or "expression" in style or "import" in style]
    visible = [*parsed.texts, *(value for _, _, value in parsed.attributes)]
    assert not [text for text in visible if not text.replace("\n", "").isprintable()]
    return parsed
