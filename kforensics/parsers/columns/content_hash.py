"""The hash of what a record says: 128 bits over key, value and headers, not over offset, timestamp or sequence.

A record is taken as words of eight bytes: of the key, the value and then each header's key and value the size (-1 for
null) and the bytes, zeros behind the last ones. Every word is mixed with its place; the hash is the sum of all mixed
words, and the sum of their products with an odd number of their place, both mixed once more. So the words of many
records are hashed at once with numpy, and one by one in a kernel (``kernels.hashes``), with the same result.

It is made against chance, not against an enemy: among ten thousand million records two of unlike contents share a hash
with a probability of 1e-19.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from kforensics.parsers.format.rows import Record
from kforensics.parsers.kernels.hash_buffers import (
    FIRST_MULTIPLIER,
    FIRST_SHIFT,
    LAST_SHIFT,
    SECOND_MULTIPLIER,
    SECOND_SHIFT,
    STEP,
)

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["content_hashes", "mixed"]

Numbers: TypeAlias = "npt.NDArray[Any]"
WORD = 8
ORDER: Final = "little"
WORDS = np.dtype("<u8")
ALL_ONES = (1 << 64) - 1


def _unsigned(number: int) -> np.uint64:
    return np.uint64(number & ALL_ONES)


def mixed(words: Numbers) -> Numbers:
    """Return words whose bits each depend on all bits of the word before."""
    words = (words ^ (words >> np.uint64(FIRST_SHIFT))) * _unsigned(FIRST_MULTIPLIER)
    words = (words ^ (words >> np.uint64(SECOND_SHIFT))) * _unsigned(SECOND_MULTIPLIER)
    found: Numbers = words ^ (words >> np.uint64(LAST_SHIFT))
    return found


def content_hashes(records: Sequence[Record]) -> tuple[Numbers, Numbers]:
    """Return the two halves of the hash of each record.

    Args:
        records: of any batches; all their bytes are copied once.
    """
    parts = [_serialised(record) for record in records]
    words = np.frombuffer(b"".join(parts), WORDS).astype("u8")
    counts = np.array([len(part) // WORD for part in parts], "i8")
    if not len(counts):
        return words, words
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = (np.arange(len(words)) - np.repeat(starts, counts) + 1).astype("u8") * _unsigned(STEP)
    mixed_words = mixed(words ^ places)
    low = np.add.reduceat(mixed_words, starts)
    high = np.add.reduceat(mixed_words * (places | np.uint64(1)), starts)
    low = mixed(low + counts.astype("u8") * _unsigned(STEP))
    return low, mixed(high + low)


def _serialised(record: Record) -> bytes:
    """Return a record as whole words; no two records of unlike contents have the same."""
    return b"".join(_with_size(part) for part in (record.key, record.value, *_flat(record.headers)))


def _flat(headers: Iterable[tuple[bytes, bytes | None]]) -> Iterable[bytes | None]:
    return (part for header in headers for part in header)


def _with_size(part: bytes | None) -> bytes:
    if part is None:
        return (-1).to_bytes(WORD, ORDER, signed=True)
    return len(part).to_bytes(WORD, ORDER) + part + bytes(-len(part) % WORD)
