"""Hashes many keys at once with murmur2, the hash of Kafka's default partitioner.

Rule: ``Utils.murmur2`` and ``BuiltInPartitioner.partitionForKey``: ``toPositive(murmur2(key)) % partitions``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.parsers.columns.content_hash import mix_bits
from kforensics.parsers.format.array_types import BoolArray, IntArray

SEED, MULTIPLIER = 0x9747B28C, 0x5BD1E995
POSITIVE, ALL_32, ALL_64 = 0x7FFFFFFF, (1 << 32) - 1, (1 << 64) - 1
# Of the second hash, which only identifies keys: an odd number without a pattern, from the golden ratio.
IDENTITY_MULTIPLIER, IDENTITY_SHIFT = 0x9E3779B97F4A7C15, 29
WORD = 4
# Fewer keys than this are hashed one by one: for the rest of a few long keys numpy costs more than it saves.
FEW = 8
# Words of one key that are Python integers at a time.
BLOCK = 1 << 12
MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], "u4")


@dataclass(frozen=True, slots=True)
class KeyBytes:
    """Keys as slices of one buffer.

    Attributes:
        data: the bytes of all keys, and eight more after the last one.
        starts: start of each key.
        sizes: size of each key in bytes.
    """

    data: IntArray
    starts: IntArray
    sizes: IntArray

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, selected: IntArray | BoolArray) -> KeyBytes:
        """Return some of the keys, by indexes or by a mask."""
        return KeyBytes(self.data, self.starts[selected], self.sizes[selected])


def pack_keys(keys: list[bytes]) -> KeyBytes:
    """Return keys packed into one buffer."""
    sizes = np.array([len(key) for key in keys], "i8")
    data = np.frombuffer(b"".join(keys) + bytes(2 * WORD), "u1")
    return KeyBytes(data, np.cumsum(sizes) - sizes, sizes)


def murmur2(keys: KeyBytes) -> tuple[IntArray, IntArray]:
    """Return Kafka's hash of each key, made positive as in the partitioner, and an independent 64-bit hash.

    >>> hashes, _ = murmur2(pack_keys([b"21", b"foobar"]))
    >>> (hashes - (1 << 31)).tolist()  # Kafka's own test expects -973932308 and -790332482
    [-973932308, -790332482]
    """
    order = np.argsort(-(keys.sizes // WORD), kind="stable")
    state = _HashState(keys, order)
    state.add_words()
    first, second = state.finish()
    hashes, identities = np.empty(len(keys), "i8"), np.empty(len(keys), "i8")
    hashes[order], identities[order] = first & np.uint32(POSITIVE), second.view("i8")
    return hashes, identities


class _HashState:
    """Both hashes of all keys, the longest key first, while their words are added."""

    def __init__(self, keys: KeyBytes, order: IntArray) -> None:
        # A word may begin at any byte.
        self._words = np.ndarray(len(keys.data) - WORD + 1, "<u4", keys.data, 0, (1,))
        self._starts, self._sizes = keys.starts[order], keys.sizes[order]
        self._counts = self._sizes // WORD
        self._first = np.uint32(SEED) ^ self._sizes.astype("u4")
        self._second = self._sizes.astype("u8")

    def add_words(self) -> None:
        """Add all complete words."""
        longest = int(self._counts[0]) if len(self._counts) else 0
        ends = np.searchsorted(-self._counts, -np.arange(longest), "left").tolist()
        for word, active in enumerate(ends):
            if active < FEW:
                for row in range(active):
                    self._add_rest(row, word)
                return
            self._add(self._words[self._starts[:active] + WORD * word], active)

    def _add(self, words: IntArray, active: int) -> None:
        first, second = self._first[:active], self._second[:active]
        first *= np.uint32(MULTIPLIER)
        first ^= _scrambled(words)
        second ^= words
        second *= np.uint64(IDENTITY_MULTIPLIER)
        second ^= second >> np.uint64(IDENTITY_SHIFT)

    def _add_rest(self, row: int, begin: int) -> None:
        """Add the words of one key from number ``begin`` on, in pure Python: each step needs the previous one."""
        start = int(self._starts[row])
        words = self._words[start + WORD * begin : start + WORD * int(self._counts[row]) : WORD]
        first, second = int(self._first[row]), int(self._second[row])
        for block in np.split(words, range(BLOCK, len(words), BLOCK)):
            for word, scrambled in zip(block.tolist(), _scrambled(block).tolist(), strict=True):
                first = (first * MULTIPLIER & ALL_32) ^ scrambled
                second = (second ^ word) * IDENTITY_MULTIPLIER & ALL_64
                second ^= second >> IDENTITY_SHIFT
        self._first[row], self._second[row] = first, second

    def finish(self) -> tuple[IntArray, IntArray]:
        """Add the bytes after the last complete words, and return both hashes."""
        left = self._sizes % WORD
        tails = self._words[self._starts + WORD * self._counts] & MASKS[left]
        first = np.where(left > 0, (self._first ^ tails) * np.uint32(MULTIPLIER), self._first)
        first ^= first >> np.uint32(13)
        first *= np.uint32(MULTIPLIER)
        first ^= first >> np.uint32(15)
        return first, mix_bits((self._second ^ tails) * np.uint64(IDENTITY_MULTIPLIER))


def _scrambled(words: IntArray) -> IntArray:
    scrambled = words * np.uint32(MULTIPLIER)
    scrambled ^= scrambled >> np.uint32(24)
    scrambled *= np.uint32(MULTIPLIER)
    return scrambled
