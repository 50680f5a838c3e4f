"""Bounded varints in kernels, by the rules of :mod:`.format.varint`; what does not fit is ``UNREADABLE``."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.machine import load8, shift_right

__all__ = ["UNREADABLE", "varint", "varlong"]

# In place of the position behind a varint that ends too late or not at all.
UNREADABLE = 0


# How far the bits of the last byte that may come are shifted.
INT_SHIFT, LONG_SHIFT = 28, 63


@inlined
def _raw(at: int, end: int, last_shift: int) -> tuple[int, int]:
    """Return the bits of a varint and the address behind it; what falls off the top is lost."""
    raw = shift = 0
    while at < end and shift <= last_shift:
        byte = load8(at)
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, at
        shift += 7
    return 0, UNREADABLE


@compiled
def _long_varint(at: int, end: int) -> tuple[int, int]:
    raw, at = _raw(at, end, INT_SHIFT)
    raw &= 0xFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), at


@inlined
def varint(at: int, end: int) -> tuple[int, int]:
    """Return the zigzag int at an address and the address behind it."""
    if at >= end:
        return 0, UNREADABLE
    byte = load8(at)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _long_varint(at, end)


@compiled
def _long_varlong(at: int, end: int) -> tuple[int, int]:
    raw, at = _raw(at, end, LONG_SHIFT)
    return shift_right(raw, 1) ^ -(raw & 1), at


@inlined
def varlong(at: int, end: int) -> tuple[int, int]:
    """Return the zigzag long at an address and the address behind it."""
    if at < end and load8(at) < 0x80:
        byte = load8(at)
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _long_varlong(at, end)
