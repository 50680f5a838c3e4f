"""Text in Kafka's encodings: Java's UTF-8, UUIDs, and escapes that are safe to print on a terminal."""

from __future__ import annotations

import re

ZERO_UUID = "A" * 22
# 22 characters hold 132 bits. Java's decoder ignores the last four bits and also accepts padding.
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
# Java replaces an encoded surrogate with one replacement character, Python with one per byte.
_SURROGATE = rb"\xed[\xa0-\xbf][\x80-\xbf]?"


def java_utf8(data: bytes) -> str:
    """Return UTF-8 decoded as `new String(bytes, UTF_8)` does.

    >>> [hex(ord(char)) for char in java_utf8(bytes.fromhex("61eda080ff62"))]
    ['0x61', '0xfffd', '0xfffd', '0x62']
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        return re.sub(_SURROGATE, b"\xff", data).decode(errors="replace")


def is_uuid_text(text: str) -> bool:
    """Return whether a text is a UUID as Kafka writes it: 16 bytes in URL-safe Base64 without padding.

    Rule: ``org.apache.kafka.common.Uuid``.
    """
    return bool(_UUID.fullmatch(text))


def printable(text: str) -> str:
    """Return the text with every unprintable character escaped, line breaks included.

    Names and payloads come from untrusted input; unescaped, they could send control sequences to a terminal.
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else escaped(char) for char in text)


def escaped(char: str) -> str:
    """Return the escape sequence of a character."""
    return f"\\x{ord(char):02x}"
