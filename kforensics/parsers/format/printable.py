"""Text as one line that a terminal cannot act on: names and payloads come from strangers."""

from __future__ import annotations

__all__ = ["escaped", "printable"]


def printable(text: str) -> str:
    """Return text with everything escaped that is no visible sign, line ends included."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else escaped(sign) for sign in text)


def escaped(sign: str) -> str:
    """Return the escape of a character."""
    return f"\\x{ord(sign):02x}"
