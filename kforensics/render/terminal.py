"""Escapes characters in payloads and file names that a terminal would act on."""

from __future__ import annotations

import re
from typing import IO

from kforensics.parsers.format.text_encoding import escaped

# As UTF-8: control characters except newline, tab and CRLF, C1 controls, and bidirectional formatting characters.
ACTIVE_BYTES = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
# The same characters, as far as json.dumps leaves them unescaped, and lone surrogates, which UTF-8 cannot encode.
ACTIVE_JSON_CHARACTERS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def json_printable(text: str) -> str:
    """Return JSON with escapes for characters that a terminal may act on or that UTF-8 cannot encode."""
    return ACTIVE_JSON_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class TerminalGuard:
    """A binary text stream to a terminal that escapes control characters.

    Each write must contain whole characters.

    Args:
        out: stream of the terminal.

    Attributes:
        terminal: the same.
    """

    def __init__(self, out: IO[bytes]) -> None:
        self.terminal = out

    def write(self, data: bytes) -> int:
        """Write text with control characters escaped."""
        return self.terminal.write(ACTIVE_BYTES.sub(lambda match: escaped(match[0].decode()).encode(), data))

    def flush(self) -> None:
        """Flush the terminal."""
        self.terminal.flush()
