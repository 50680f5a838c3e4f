"""Small text files line by line, with the byte range of every line; Java's notions of line, number and white space."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.rows import Damage

__all__ = [
    "LIMIT",
    "TextLine",
    "count_lines",
    "parse_int",
    "parse_long",
    "shrunk",
    "small_file",
    "split_words",
    "text_lines",
]

# An offset checkpoint has some 50 bytes for each partition; all other files of these kinds are a few lines.
LIMIT, SMALL_LIMIT = 64 << 20, 1 << 20
# What java.io.BufferedReader ends a line at, and what \s matches in java.util.regex.
LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
SPACES = re.compile(r"[ \t\n\x0b\f\r]+")
NUMBER = re.compile(r"[+-]?[0-9]+")
INT_LIMIT, LONG_LIMIT = 1 << 31, 1 << 63


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line.

    Attributes:
        start: its first byte.
        end: byte behind its line break.
        text: what it says, None if it is not UTF-8.
    """

    start: int
    end: int
    text: str | None

    def damage(self, reason: str, detail: str) -> Damage:
        """Return the damage row for this line."""
        return Damage(self.start, self.end, reason, detail)


def small_file(source: Source, limit: int = SMALL_LIMIT) -> bytes | Damage:
    """Return the bytes of a file, or why it cannot be a small text file."""
    if source.size > limit:
        return Damage(0, source.size, "too-large", f"{source.size} bytes, more than the {limit} that are looked at")
    data = source.read(0, source.size)
    if data and not data.strip(b"\0"):
        return Damage(0, source.size, "zeros", f"{source.size} zero bytes where text should be")
    return data


def shrunk(source: Source, data: bytes) -> Iterator[Damage]:
    """Yield the range of a file that was gone when it was read, if there is one."""
    if len(data) < source.size:
        yield Damage(len(data), source.size, "shrunk", "the file has become shorter while it was read")


def count_lines(data: bytes) -> int:
    """Return how many lines :func:`text_lines` yields."""
    breaks = data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
    return breaks + int(bool(data) and not data.endswith((b"\n", b"\r")))


def text_lines(data: bytes) -> Iterator[TextLine]:
    """Yield the lines of a file, as Java's reader counts them."""
    start = 0
    while start < len(data):
        match = LINE.match(data, start)
        if match is None:
            return
        yield TextLine(start, match.end(), _decode(match[1]))
        start = match.end()


def _decode(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def split_words(text: str) -> list[str]:
    r"""Split at white space as ``Pattern.compile("\\s+").split`` does: a leading blank makes an empty first word.

    >>> split_words(" a  b ")
    ['', 'a', 'b']
    """
    words = SPACES.split(text)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def parse_int(text: str) -> int | None:
    """Return the number that ``Integer.parseInt`` reads, None where it fails."""
    return _parse(text, INT_LIMIT)


def parse_long(text: str) -> int | None:
    """Return the number that ``Long.parseLong`` reads, None where it fails."""
    return _parse(text, LONG_LIMIT)


def _parse(text: str, limit: int) -> int | None:
    digits = text.lstrip("+-").lstrip("0") or "0"
    # Python refuses to turn thousands of digits into a number; no long has more than 19.
    if not NUMBER.fullmatch(text) or len(digits) > len(str(limit)):
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if -limit <= number < limit else None
