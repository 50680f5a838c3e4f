"""UTF-8 as Java reads it."""

from __future__ import annotations

import re

__all__ = ["java_utf8"]

# Java answers an encoded surrogate with one replacement character, Python with one for each byte.
SURROGATE = rb"\xed[\xa0-\xbf][\x80-\xbf]?"


def java_utf8(data: bytes) -> str:
    """Decode UTF-8 as `new String(bytes, UTF_8)` does.

    >>> [hex(ord(char)) for char in java_utf8(bytes.fromhex("61eda080ff62"))]
    ['0x61', '0xfffd', '0xfffd', '0x62']
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return re.sub(SURROGATE, b"\xff", data).decode(errors="replace")
