"""Reads HTML back as a browser would, and what strangers may write to harm who looks at it."""

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
    """What a browser makes of HTML.

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
        """Note an element and its attributes."""
        self.elements.append(tag)
        if tag not in VOID:
            self.unclosed.append(tag)
        self.attributes += ((tag, name, value or "") for name, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        """Note its end; elements that overlap fail."""
        assert self.unclosed.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        """Note a comment."""
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        """Note a declaration."""
        self.other.append(decl)

    def handle_pi(self, data: str) -> None:
        """Note an instruction."""
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        """Note what begins like a declaration."""
        self.other.append(data)

    @property
    def text(self) -> str:
        """All text."""
        return " ".join(self.texts)


def seen(html: str) -> Seen:
    """Return what a browser makes of HTML."""
    parser = Seen()
    parser.feed(html)
    parser.close()
    return parser


def assert_harmless(html: str) -> Seen:
    """Fail if HTML has an element or attribute that is not ours, or a sign that turns text around; else return it."""
    found = seen(html)
    assert set(found.elements) <= OURS
    assert {name for _, name, _ in found.attributes} <= {"style", "title"}
    assert not found.other
    assert not found.unclosed
    styles = [value for _, name, value in found.attributes if name == "style"]
    assert not [style for style in styles if "url" in style or "expression" in style or "import" in style]
    visible = [*found.texts, *(value for _, _, value in found.attributes)]
    assert not [text for text in visible if not text.replace("\n", "").isprintable()]
    return found
