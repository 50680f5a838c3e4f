"""The content hash of a record: 128 bits over key, value and headers, but not offset, timestamp or sequence.

A record is hashed as words of eight bytes. The key, the value and each header's key and value contribute their size
(-1 for null) and their bytes, zero-padded to whole words. Each word is mixed with its place. The low half is the sum of
the mixed words. The high half is the sum of their products with an odd number made from their place. Both halves are
mixed once more. So NumPy can hash the words of many records at once, and the kernel in ``kernels.hash_kernel`` word by
word, with the same result.

The hash protects against chance, not against an attacker: among ten billion records, two with different contents share
a hash with a probability of 1e-19.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.rows import Record
from kforensics.parsers.kernels.hash_buffers import (
    FIRST_MULTIPLIER,
    FIRST_SHIFT,
    LAST_SHIFT,
    SECOND_MULTIPLIER,
    SECOND_SHIFT,
    STEP,
)

__all__ = ["content_hashes", "mix_bits"]

WORD_SIZE: Final = 8
BYTE_ORDER: Final = "little"
WORD_DTYPE = np.dtype("<u8")
ALL_ONES = (1 << 64) - 1


def _unsigned(number: int) -> np.uint64:
    return np.uint64(number & ALL_ONES)


def mix_bits(words: IntArray) -> IntArray:
    """Return words in which each bit depends on all bits of the original word."""
    words = (words ^ (words >> np.uint64(FIRST_SHIFT))) * _unsigned(FIRST_MULTIPLIER)
    words = (words ^ (words >> np.uint64(SECOND_SHIFT))) * _unsigned(SECOND_MULTIPLIER)
    mixed: IntArray = words ^ (words >> np.uint64(LAST_SHIFT))
    return mixed


def content_hashes(records: Sequence[Record]) -> tuple[IntArray, IntArray]:
    """Return the low and high halves of the hash of each record.

    Args:
        records: of any batches; all their bytes are copied once.
    """
    serialized = [_serialized(record) for record in records]
    words = np.frombuffer(b"".join(serialized), WORD_DTYPE).astype("u8")
    counts = np.array([len(data) // WORD_SIZE for data in serialized], "i8")
    if not len(counts):
        return words, words
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = (np.arange(len(words)) - np.repeat(starts, counts) + 1).astype("u8") * _unsigned(STEP)
    mixed = mix_bits(words ^ places)
    low = np.add.reduceat(mixed, starts)
    high = np.add.reduceat(mixed * (places | np.uint64(1)), starts)
    low = mix_bits(low + counts.astype("u8") * _unsigned(STEP))
    return low, mix_bits(high + low)


def _serialized(record: Record) -> bytes:
    """Return a record's contents as whole words, which differ for any two different contents."""
    return b"".join(_with_size(part) for part in (record.key, record.value, *_flat(record.headers)))


def _flat(headers: Iterable[tuple[bytes, bytes | None]]) -> Iterable[bytes | None]:
    return (part for header in headers for part in header)


def _with_size(part: bytes | None) -> bytes:
    if part is None:
        return (-1).to_bytes(WORD_SIZE, BYTE_ORDER, signed=True)
    return len(part).to_bytes(WORD_SIZE, BYTE_ORDER) + part + bytes(-len(part) % WORD_SIZE)
