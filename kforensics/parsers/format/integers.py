"""Sums that overflow as Java's do, so that hostile values give the numbers Kafka would see."""

from __future__ import annotations

__all__ = ["int32", "int64"]


def int32(value: int) -> int:
    """Return the low 32 bits as a signed integer."""
    return (value + (1 << 31) & 0xFFFFFFFF) - (1 << 31)


def int64(value: int) -> int:
    """Return the low 64 bits as a signed integer."""
    return (value + (1 << 63) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)
