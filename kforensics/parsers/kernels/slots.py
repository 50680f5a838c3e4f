"""The slots of a request, for kernels."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import inlined
from kforensics.parsers.kernels.machine import load64, store64

__all__ = ["answer", "slot"]


@inlined
def slot(request: int, index: int) -> int:
    """Return what stands in a slot of the request at an address."""
    return load64(request + 8 * index)


@inlined
def answer(request: int, index: int, number: int) -> None:
    """Put a number into a slot of the request at an address."""
    store64(request + 8 * index, number)
