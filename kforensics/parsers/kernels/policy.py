"""Decides whether kernels pay off for an input.

This module imports nothing heavy, so that reading a small file does not pay for kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kforensics.parsers.kernels.library import Kernels, Notify

__all__ = [
    "MAX_DECOMPRESSED_BYTES",
    "MIN_COMPILE_BYTES",
    "MIN_LOAD_BYTES",
    "MIN_RECORD_BYTES",
    "KernelLoader",
    "KernelPolicy",
    "kernels_for",
    "no_kernels",
]

KernelPolicy = Callable[[int], "KernelLoader | None"]

# Pure Python reads fewer bytes than this in the time it takes to load the kernels, or to compile them.
MIN_LOAD_BYTES, MIN_COMPILE_BYTES = 1 << 20, 1 << 26
# The least that a record takes: from the number of records follows how much there is to read, compressed or not.
MIN_RECORD_BYTES = 7
# Kernels decompress a batch to at most this size. A smaller limit needs pure Python, which can stop at any byte.
MAX_DECOMPRESSED_BYTES = 1 << 23
# Set to ``always`` or ``never`` to override the sizes above.
VARIABLE = "KFORENSICS_KERNELS"


class KernelLoader(Protocol):
    """Kernels that are loaded, or being compiled in the background."""

    def poll(self) -> Kernels | None:
        """Return the kernels, None while they are not available."""


# Bytes this process has read without kernels. A Spark job may read terabytes in files too small to compile for.
_bytes_without_kernels = [0]


def kernels_for(size: int, notify: Notify | None = None) -> KernelLoader | None:
    """Return a loader if kernels pay off for ``size`` bytes and are available, else None.

    If the kernels are not compiled yet, reading starts in pure Python. Compilation starts in the background once this
    process has read enough bytes without kernels.

    Args:
        size: bytes to read.
        notify: called with a sentence when compilation starts, and with the reason when kernels are unavailable.
    """
    choice = os.environ.get(VARIABLE)
    if choice == "never" or (size < MIN_LOAD_BYTES and choice != "always"):
        return None
    from kforensics.parsers.kernels.library import compile_in_background, load_kernels  # see the module docstring

    if choice == "always":
        return load_kernels(notify)
    if kernels := load_kernels(compile_missing=False):
        return kernels
    _bytes_without_kernels[0] += size
    return compile_in_background(notify) if _bytes_without_kernels[0] >= MIN_COMPILE_BYTES else None


def no_kernels(_size: int) -> None:
    """Choose pure Python for every size."""
