"""Sums and products of 64 bits in kernels, what does not fit falling off the top.

numba tells LLVM that its own ``+`` and ``*`` never overflow, and LLVM builds on that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["plus", "times"]

Operation = Callable[[int, int], int]


def _operation(name: str) -> Operation:
    """Return an intrinsic around an instruction of LLVM, without the flags that numba sets."""

    def operate(_typing: Any, _left: Any, _right: Any) -> Any:
        def code(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(*arguments)

        return types.int64(types.int64, types.int64), code

    made: Operation = intrinsic(operate)
    return made


plus = _operation("add")
times = _operation("mul")
