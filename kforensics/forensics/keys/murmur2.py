"""The hash by which Kafka's default partitioner places a key, of many keys at once.

Rule: ``Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``: ``toPositive(murmur2(key)) % partitions``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.parsers.columns.content_hash import mixed

__all__ = ["KeyBytes", "keys_of", "murmur2"]

SEED, MULTIPLIER = 0x9747B28C, 0x5BD1E995
POSITIVE, ALL_32, ALL_64 = 0x7FFFFFFF, (1 << 32) - 1, (1 << 64) - 1
# Of the second hash, which only tells keys apart: an odd number without a pattern, the golden ratio's.
OTHER, OTHER_SHIFT = 0x9E3779B97F4A7C15, 29
WORD = 4
# Fewer keys than this are gone through one by one: numpy would cost more than it saves on the rest of long keys.
FEW = 8
MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], "u4")


@dataclass(frozen=True, slots=True)
class KeyBytes:
    """Keys, one for each row.

    Attributes:
        data: bytes with all keys in them, and eight more behind the last one.
        starts: where each key begins.
        sizes: bytes of each.
    """

    data: Records
    starts: Records
    sizes: Records

    def __len__(self) -> int:
        return len(self.starts)

    def taken(self, which: Records) -> KeyBytes:
        """Return some of the keys, by their indexes or by a mask."""
        return KeyBytes(self.data, self.starts[which], self.sizes[which])


def keys_of(keys: list[bytes]) -> KeyBytes:
    """Return keys in the form in which they are hashed."""
    sizes = np.array([len(key) for key in keys], "i8")
    data = np.frombuffer(b"".join(keys) + bytes(2 * WORD), "u1")
    return KeyBytes(data, np.cumsum(sizes) - sizes, sizes)


def murmur2(keys: KeyBytes) -> tuple[Records, Records]:
    """Return Kafka's hash of each key, made positive as the partitioner does, and another one of 64 bits.

    >>> hashes, _ = murmur2(keys_of([b"21", b"foobar"]))
    >>> (hashes - (1 << 31)).tolist()  # Kafka's own test has -973932308 and -790332482
    [-973932308, -790332482]
    """
    order = np.argsort(-(keys.sizes // WORD), kind="stable")
    state = _State(keys, order)
    state.run()
    first, second = state.finished()
    hashes, others = np.empty(len(keys), "i8"), np.empty(len(keys), "i8")
    hashes[order], others[order] = first & np.uint32(POSITIVE), second.view("i8")
    return hashes, others


class _State:
    """Both hashes of keys, the longest key first, as word after word goes in."""

    def __init__(self, keys: KeyBytes, order: Records) -> None:
        # A word may begin at any byte.
        self._words = np.ndarray(len(keys.data) - WORD + 1, "<u4", keys.data, 0, (1,))
        self._starts, self._sizes = keys.starts[order], keys.sizes[order]
        self._counts = self._sizes // WORD
        self._first = np.uint32(SEED) ^ self._sizes.astype("u4")
        self._second = self._sizes.astype("u8")

    def run(self) -> None:
        """Take all whole words."""
        longest = int(self._counts[0]) if len(self._counts) else 0
        ends = np.searchsorted(-self._counts, -np.arange(longest), "left").tolist()
        for word, active in enumerate(ends):
            if active < FEW:
                for row in range(active):
                    self._rest(row, word)
                return
            self._take(self._words[self._starts[:active] + WORD * word], active)

    def _take(self, words: Records, active: int) -> None:
        first, second = self._first[:active], self._second[:active]
        first *= np.uint32(MULTIPLIER)
        first ^= _scrambled(words)
        second ^= words
        second *= np.uint64(OTHER)
        second ^= second >> np.uint64(OTHER_SHIFT)

    def _rest(self, row: int, begin: int) -> None:
        """Take the words of one key from one on, in plain Python: each step needs the one before it."""
        start = int(self._starts[row])
        words = self._words[start + WORD * begin : start + WORD * int(self._counts[row]) : WORD]
        first, second = int(self._first[row]), int(self._second[row])
        for word, scrambled in zip(words.tolist(), _scrambled(words).tolist(), strict=True):
            first = (first * MULTIPLIER & ALL_32) ^ scrambled
            second = (second ^ word) * OTHER & ALL_64
            second ^= second >> OTHER_SHIFT
        self._first[row], self._second[row] = first, second

    def finished(self) -> tuple[Records, Records]:
        """Return both, once the bytes behind the last whole words are in too."""
        left = self._sizes % WORD
        tails = self._words[self._starts + WORD * self._counts] & MASKS[left]
        first = np.where(left > 0, (self._first ^ tails) * np.uint32(MULTIPLIER), self._first)
        first ^= first >> np.uint32(13)
        first *= np.uint32(MULTIPLIER)
        first ^= first >> np.uint32(15)
        return first, mixed((self._second ^ tails) * np.uint64(OTHER))


def _scrambled(words: Records) -> Records:
    scrambled = words * np.uint32(MULTIPLIER)
    scrambled ^= scrambled >> np.uint32(24)
    scrambled *= np.uint32(MULTIPLIER)
    return scrambled
