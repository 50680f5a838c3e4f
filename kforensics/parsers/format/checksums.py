"""Kafka's two checksums: CRC-32C for producer snapshots and batches of format 2, CRC-32 for message formats 0 and 1.

google-crc32c and zlib compute them. The crcmod functions define them and serve as the reference in tests.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import TYPE_CHECKING

import google_crc32c

if TYPE_CHECKING:
    from collections.abc import Callable


def crc32c(data: bytes, start: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of ``data``, continuing from the checksum ``start``."""
    return int(google_crc32c.extend(start, data))


def crc32(data: bytes | memoryview, start: int = 0) -> int:
    """Return the CRC-32 (IEEE) of ``data``, continuing from the checksum ``start``."""
    return zlib.crc32(data, start)


@cache
def reference_crc32c() -> Callable[[bytes], int]:
    """Return crcmod's CRC-32C: polynomial 0x1EDC6F41, reflected, all ones in and out."""
    import crcmod.predefined  # slow: it builds its tables; only tests need it

    return crcmod.predefined.mkPredefinedCrcFun("crc-32c")  # type: ignore[no-any-return]  # untyped


@cache
def reference_crc32() -> Callable[[bytes], int]:
    """Return crcmod's CRC-32: polynomial 0x04C11DB7, reflected, all ones in and out."""
    import crcmod.predefined  # only tests need it

    return crcmod.predefined.mkPredefinedCrcFun("crc-32")  # type: ignore[no-any-return]  # untyped
