"""Decompression for kernels by Python's libraries, where kernels have none of their own."""

from __future__ import annotations

import zlib

from kforensics.parsers.format.codecs import GZIP, decompress

__all__ = ["REFUSED", "decompressed_outside"]

# In place of a size: too much, or broken, which the readers in plain Python have the words for.
REFUSED = -1
# zlib's number for one gzip member with the largest window.
GZIP_MEMBER = 31


def decompressed_outside(codec: int, data: memoryview, target: memoryview, magic: int = 2) -> int:
    """Decompress the records of a batch, or the messages of a wrapper, into memory.

    Returns:
        how many bytes they have, or ``REFUSED``.
    """
    found = _gzip(data, len(target)) if codec == GZIP else _other(codec, data, len(target), magic)
    # zlib takes a room of 0 for no limit.
    if found is None or len(found) > len(target):
        return REFUSED
    target[: len(found)] = found
    return len(found)


def _gzip(data: memoryview, room: int) -> bytes | None:
    """Take the common case in one call; everything else goes through :mod:`kforensics.parsers.format.codecs`."""
    member = zlib.decompressobj(GZIP_MEMBER)
    try:
        found = member.decompress(data, room)
    except zlib.error:
        return None
    whole = member.eof and not member.unused_data
    return found if whole else _other(GZIP, data, room)


def _other(codec: int, data: memoryview, room: int, magic: int = 2) -> bytes | None:
    found = decompress(codec, bytes(data), magic=magic, budget=room)
    return found.data if found.failure is None else None
