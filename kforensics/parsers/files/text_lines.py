"""Reads small text files line by line with byte ranges, using Java's rules for line ends, numbers and white space."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.rows import Damage

# An offset checkpoint has about 50 bytes per partition; all other text files have a few lines.
LIMIT, SMALL_LIMIT = 64 << 20, 1 << 20
# Line ends of java.io.BufferedReader, and what \s matches in java.util.regex.
LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
SPACES = re.compile(r"[ \t\n\x0b\f\r]+")
NUMBER = re.compile(r"[+-]?[0-9]+")
INT_LIMIT, LONG_LIMIT = 1 << 31, 1 << 63


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line.

    Attributes:
        start: position of its first byte.
        end: position after its line break.
        text: its text, None if it is not UTF-8.
    """

    start: int
    end: int
    text: str | None

    def damage(self, reason: str, detail: str) -> Damage:
        """Return a damage row that covers this line."""
        return Damage(self.start, self.end, reason, detail)


def read_small_file(source: Source, limit: int = SMALL_LIMIT) -> bytes | Damage:
    """Return the bytes of a small text file, or damage if it is too large or contains only zeros."""
    if source.size > limit:
        return Damage(0, source.size, "too-large", f"{source.size} bytes, more than the limit of {limit}")
    data = source.read(0, source.size)
    if data and not data.strip(b"\0"):
        return Damage(0, source.size, "zeros", f"{source.size} zero bytes instead of text")
    return data


def shrunk_damage(source: Source, data: bytes) -> Iterator[Damage]:
    """Yield damage for the end of a file that shrank while it was read, if it did."""
    if len(data) < source.size:
        yield Damage(len(data), source.size, "shrunk", "the file shrank while it was being read")


def count_lines(data: bytes) -> int:
    """Return the number of lines that :func:`text_lines` yields."""
    breaks = data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")
    return breaks + int(bool(data) and not data.endswith((b"\n", b"\r")))


def text_lines(data: bytes) -> Iterator[TextLine]:
    """Yield the lines of a file as Java splits them."""
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


def split_fields(text: str) -> list[str]:
    r"""Split at white space as ``Pattern.compile("\\s+").split`` does: leading white space makes an empty first field.

    >>> split_fields(" a  b ")
    ['', 'a', 'b']
    """
    fields = SPACES.split(text)
    while len(fields) > 1 and not fields[-1]:
        fields.pop()
    return fields


def parse_int(text: str) -> int | None:
    """Return the result of ``Integer.parseInt``, None if it fails."""
    return _parse(text, INT_LIMIT)


def parse_long(text: str) -> int | None:
    """Return the result of ``Long.parseLong``, None if it fails."""
    return _parse(text, LONG_LIMIT)


def _parse(text: str, limit: int) -> int | None:
    digits = text.lstrip("+-").lstrip("0") or "0"
    # Check the length first: Python refuses to convert thousands of digits, and no long has more than 19.
    if not NUMBER.fullmatch(text) or len(digits) > len(str(limit)):
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if -limit <= number < limit else None
