"""Keeps what payloads and file names hold from acting on the terminal they are shown on."""

from __future__ import annotations

import re
from typing import IO

from kforensics.parsers.format.printable import escaped

__all__ = ["TerminalGuard", "json_printable"]

# Control characters but newline, tab and the end of a CSV line; C1 controls and changes of direction, in UTF-8.
ACTS = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
# What json.dumps leaves as it is: the same, and lone surrogates, which no UTF-8 can hold.
JSON_ACTS = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def json_printable(text: str) -> str:
    """Return the same JSON with escapes for characters that a terminal may act on or that UTF-8 cannot hold."""
    return JSON_ACTS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class TerminalGuard:
    """A binary stream of text in front of a terminal; what is written must not end inside a character."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        """Write text with its control characters escaped."""
        return self._out.write(ACTS.sub(lambda found: escaped(found[0].decode()).encode(), data))

    def flush(self) -> None:
        """Flush the terminal."""
        self._out.flush()
