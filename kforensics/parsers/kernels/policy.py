"""Whether kernels are worth their loading. This module loads nothing, so that small inputs can ask it for free."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kforensics.parsers.kernels.library import Kernels

__all__ = ["DECOMPRESSED", "WORTH_COMPILING", "WORTH_LOADING", "Choice", "Supply", "kernels_for", "no_kernels"]

Say = Callable[[str], object]
Choice = Callable[[int], "Supply | None"]

# Plain Python has read smaller inputs before the kernels are loaded, or as much as that before they are compiled.
WORTH_LOADING, WORTH_COMPILING = 1 << 20, 1 << 26
# The most bytes that kernels decompress a batch to; who allows less wants plain Python, which can stop anywhere.
DECOMPRESSED = 1 << 23
# ``always`` or ``never`` overrule the sizes.
VARIABLE = "KFORENSICS_KERNELS"


class Supply(Protocol):
    """Kernels that are there, or will be."""

    def ready(self) -> Kernels | None:
        """Return the kernels, None if they are not there yet."""


# Bytes for which this process had no kernels: a job may read terabytes, no input of which is worth compiling for.
_missed = [0]


def kernels_for(size: int, say: Say | None = None) -> Supply | None:
    """Return the kernels if reading ``size`` bytes is worth it and they can be had, else None.

    Where they must be compiled first, that is begun once enough has been read without, and reading begins in plain
    Python.

    Args:
        size: bytes to be read.
        say: told when kernels are compiled, and why they cannot be had.
    """
    choice = os.environ.get(VARIABLE)
    if choice == "never" or (size < WORTH_LOADING and choice != "always"):
        return None
    from kforensics.parsers.kernels.library import compiled_beside, kernels  # see above

    if choice == "always":
        return kernels(say)
    if found := kernels(compiles=False):
        return found
    _missed[0] += size
    return compiled_beside(say) if _missed[0] >= WORTH_COMPILING else None


def no_kernels(_size: int) -> None:
    """Choose plain Python for every size."""
