"""Whether kernels are worth their loading. This module loads nothing, so that small inputs can ask it for free."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kforensics.parsers.kernels.library import Kernels

__all__ = ["WORTH_COMPILING", "WORTH_LOADING", "Choice", "kernels_for", "no_kernels"]

Say = Callable[[str], object]
Choice = Callable[[int], "Kernels | None"]

# Plain Python has read smaller inputs before the kernels are loaded, or compiled.
WORTH_LOADING, WORTH_COMPILING = 1 << 20, 1 << 26
# ``always`` or ``never`` overrule the sizes.
VARIABLE = "KFORENSICS_KERNELS"


def kernels_for(size: int, say: Say | None = None) -> Kernels | None:
    """Return the kernels if reading ``size`` bytes is worth it and they can be had, else None.

    Args:
        size: bytes to be read.
        say: told when kernels are compiled, and why they cannot be had.
    """
    choice = os.environ.get(VARIABLE)
    if choice == "never" or (size < WORTH_LOADING and choice != "always"):
        return None
    from kforensics.parsers.kernels.library import kernels  # see above

    return kernels(say, compiles=choice == "always" or size >= WORTH_COMPILING)


def no_kernels(_size: int) -> None:
    """Choose plain Python for every size."""
