"""The keyed hash that replaces a redacted payload, in kernels: BLAKE2b with a digest of 16 bytes (RFC 7693)."""

from __future__ import annotations

import numpy as np

from kforensics.parsers.kernels.compiler import compiled, inlined, int64
from kforensics.parsers.kernels.intrinsics import (
    copy,
    get_slot,
    load64,
    shift_right,
    store64,
    wrapping_add,
)
from kforensics.parsers.kernels.put_text import put_literal
from kforensics.parsers.kernels.request import SLOT
from kforensics.parsers.kernels.templates import BLOCK, DIGEST, KEY_BLOCK, LABEL, LABEL_LENGTH, START, VECTOR

ROUNDS, PERMUTATIONS = 12, 10
INITIAL = np.array(VECTOR, np.uint64).view(np.int64)
SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
).reshape(-1)
# In the work memory of a block: the state, the state after the key, and the last block of bytes.
STATE, KEYED, LAST = 0, 64, 128


@inlined
def _rotated(word: int, bits: int) -> int:
    return shift_right(word, bits) | (word << (64 - bits))


@inlined
def _mix(left: int, right: int, third: int, fourth: int, words: tuple[int, int]) -> tuple[int, int, int, int]:
    left = wrapping_add(wrapping_add(left, right), words[0])
    fourth = _rotated(fourth ^ left, 32)
    third = wrapping_add(third, fourth)
    right = _rotated(right ^ third, 24)
    left = wrapping_add(wrapping_add(left, right), words[1])
    fourth = _rotated(fourth ^ left, 16)
    third = wrapping_add(third, fourth)
    return left, _rotated(right ^ third, 63), third, fourth


@inlined
def _words(block: int, order: int) -> tuple[int, int]:
    return load64(block + 8 * int64(SIGMA[order])), load64(block + 8 * int64(SIGMA[order + 1]))


@compiled
def _compress(work: int, block: int, count: int, is_last: int) -> None:
    """Add a block of 128 bytes to the state; the count is of all bytes so far.

    The sixteen words of a round are local variables, so that they stay in registers.
    """
    state = work + STATE
    a0, a1, a2, a3 = load64(state), load64(state + 8), load64(state + 16), load64(state + 24)
    b0, b1, b2, b3 = load64(state + 32), load64(state + 40), load64(state + 48), load64(state + 56)
    c0, c1, c2, c3 = int64(INITIAL[0]), int64(INITIAL[1]), int64(INITIAL[2]), int64(INITIAL[3])
    d0, d1, d2, d3 = int64(INITIAL[4]) ^ count, int64(INITIAL[5]), int64(INITIAL[6]), int64(INITIAL[7])
    if is_last:
        d2 = ~d2
    for number in range(ROUNDS):
        order = 16 * (number % PERMUTATIONS)
        a0, b0, c0, d0 = _mix(a0, b0, c0, d0, _words(block, order))
        a1, b1, c1, d1 = _mix(a1, b1, c1, d1, _words(block, order + 2))
        a2, b2, c2, d2 = _mix(a2, b2, c2, d2, _words(block, order + 4))
        a3, b3, c3, d3 = _mix(a3, b3, c3, d3, _words(block, order + 6))
        a0, b1, c2, d3 = _mix(a0, b1, c2, d3, _words(block, order + 8))
        a1, b2, c3, d0 = _mix(a1, b2, c3, d0, _words(block, order + 10))
        a2, b3, c0, d1 = _mix(a2, b3, c0, d1, _words(block, order + 12))
        a3, b0, c1, d2 = _mix(a3, b0, c1, d2, _words(block, order + 14))
    _xor(state, a0 ^ c0)
    _xor(state + 8, a1 ^ c1)
    _xor(state + 16, a2 ^ c2)
    _xor(state + 24, a3 ^ c3)
    _xor(state + 32, b0 ^ d0)
    _xor(state + 40, b1 ^ d1)
    _xor(state + 48, b2 ^ d2)
    _xor(state + 56, b3 ^ d3)


@inlined
def _xor(address: int, word: int) -> None:
    store64(address, load64(address) ^ word)


@compiled
def begin_redaction(request: int) -> None:
    """Prepare the work memory of a block, if payloads are redacted: add the key to the state."""
    state, work = get_slot(request, SLOT.redaction), get_slot(request, SLOT.redaction_work)
    if state == 0:
        return
    copy(work + STATE, state + START, 64)
    _compress(work, state + KEY_BLOCK, BLOCK, 0)
    copy(work + KEYED, work + STATE, 64)


@compiled
def put_redacted(request: int, out: int, address: int, size: int) -> int:
    """Write the hash of a payload as text; return the address after it."""
    state, work = get_slot(request, SLOT.redaction), get_slot(request, SLOT.redaction_work)
    if size == 0:  # the key is the last block
        copy(work + STATE, state + START, 64)
        _compress(work, state + KEY_BLOCK, BLOCK, 1)
    else:
        copy(work + STATE, work + KEYED, 64)
        done = 0
        while size - done > BLOCK:
            done += BLOCK
            _compress(work, address + done - BLOCK, BLOCK + done, 0)
        for index in range(16):
            store64(work + LAST + 8 * index, 0)
        copy(work + LAST, address + done, size - done)
        _compress(work, work + LAST, BLOCK + size, 1)
    out = put_literal(out, state + LABEL, LABEL_LENGTH)
    for part in range(0, DIGEST, 4):
        store64(out + 2 * part, _hex_digits(load64(work + STATE + part) & 0xFFFF_FFFF))
    return out + 2 * DIGEST


@inlined
def _hex_digits(word: int) -> int:
    """Return the eight hexadecimal digits of four bytes, each digit in a byte of the result."""
    word = (word | (word << 16)) & 0x0000_FFFF_0000_FFFF
    word = (word | (word << 8)) & 0x00FF_00FF_00FF_00FF
    nibbles = (shift_right(word, 4) & 0x000F_000F_000F_000F) | ((word & 0x000F_000F_000F_000F) << 8)
    letters = shift_right(nibbles + 0x0606_0606_0606_0606, 4) & 0x0101_0101_0101_0101
    return nibbles + 0x3030_3030_3030_3030 + letters * (ord("a") - ord("9") - 1)
