"""The keyed hash that replaces a redacted payload, in kernels: BLAKE2b with a digest of 16 bytes (RFC 7693)."""

from __future__ import annotations

import numpy as np

from kforensics.parsers.kernels.compiler import compiled, inlined, int64
from kforensics.parsers.kernels.intrinsics import (
    copy,
    get_slot,
    load64,
    shift_right,
    store8,
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
# In the work memory of a block: the words of a round, the state, the state after the key, and the last block of bytes.
STATE, KEYED, LAST = 128, 192, 256
HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8).copy()


@inlined
def _rotated(word: int, bits: int) -> int:
    return shift_right(word, bits) | (word << (64 - bits))


@inlined
def _mix(work: int, a: int, b: int, c: int, d: int, first: int, second: int) -> None:  # noqa: PLR0913, PLR0917  # RFC 7693
    left, right = load64(work + 8 * a), load64(work + 8 * b)
    third, fourth = load64(work + 8 * c), load64(work + 8 * d)
    left = wrapping_add(wrapping_add(left, right), first)
    fourth = _rotated(fourth ^ left, 32)
    third = wrapping_add(third, fourth)
    right = _rotated(right ^ third, 24)
    left = wrapping_add(wrapping_add(left, right), second)
    fourth = _rotated(fourth ^ left, 16)
    third = wrapping_add(third, fourth)
    right = _rotated(right ^ third, 63)
    store64(work + 8 * a, left)
    store64(work + 8 * b, right)
    store64(work + 8 * c, third)
    store64(work + 8 * d, fourth)


@inlined
def _word(block: int, order: int, index: int) -> int:
    return load64(block + 8 * int64(SIGMA[order + index]))


@compiled
def _compress(work: int, block: int, count: int, is_last: int) -> None:
    """Add a block of 128 bytes to the state; the count is of all bytes so far."""
    for index in range(8):
        store64(work + 8 * index, load64(work + STATE + 8 * index))
        store64(work + 64 + 8 * index, int64(INITIAL[index]))
    store64(work + 8 * 12, load64(work + 8 * 12) ^ count)
    if is_last:
        store64(work + 8 * 14, ~load64(work + 8 * 14))
    for number in range(ROUNDS):
        order = 16 * (number % PERMUTATIONS)
        _mix(work, 0, 4, 8, 12, _word(block, order, 0), _word(block, order, 1))
        _mix(work, 1, 5, 9, 13, _word(block, order, 2), _word(block, order, 3))
        _mix(work, 2, 6, 10, 14, _word(block, order, 4), _word(block, order, 5))
        _mix(work, 3, 7, 11, 15, _word(block, order, 6), _word(block, order, 7))
        _mix(work, 0, 5, 10, 15, _word(block, order, 8), _word(block, order, 9))
        _mix(work, 1, 6, 11, 12, _word(block, order, 10), _word(block, order, 11))
        _mix(work, 2, 7, 8, 13, _word(block, order, 12), _word(block, order, 13))
        _mix(work, 3, 4, 9, 14, _word(block, order, 14), _word(block, order, 15))
    for index in range(8):
        mixed = load64(work + 8 * index) ^ load64(work + 64 + 8 * index)
        store64(work + STATE + 8 * index, load64(work + STATE + 8 * index) ^ mixed)


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
    for index in range(DIGEST):
        byte = shift_right(load64(work + STATE + index // 8 * 8), 8 * (index % 8)) & 0xFF
        store8(out + 2 * index, int64(HEX_DIGITS[byte >> 4]))
        store8(out + 2 * index + 1, int64(HEX_DIGITS[byte & 15]))
    return out + 2 * DIGEST
