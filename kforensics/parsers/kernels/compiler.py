"""How the functions of kernels are marked; numba's own decorators would hide their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
from numba import njit, types

__all__ = ["compiled", "inlined", "int64"]

Function = TypeVar("Function", bound=Callable[..., Any])

# In kernels every number is one; what comes out of a table or a division must be made one again.
_INT64: Any = np.int64
int64: Callable[[Any], int] = _INT64
KINDS = {int: types.int64, bool: types.boolean, type(None): types.void}


def compiled(function: Function) -> Function:
    """Compile a function for use in kernels."""
    return _marked(function, inline=False)


def inlined(function: Function) -> Function:
    """Compile a small function into each of its callers."""
    return _marked(function, inline=True)


def _marked(function: Function, *, inline: bool) -> Function:
    hints = list(get_type_hints(function).values())
    kinds = [_kind(hint) for hint in hints]
    # Without a signature numba compiles a function anew for every constant it is called with. With one it does so at
    # once: in a module, functions stand behind those they call.
    signature = () if None in kinds else (kinds[-1](*kinds[:-1]),)
    marked: Function = njit(*signature, error_model="numpy", forceinline=inline)(function)
    return marked


def _kind(hint: Any) -> Any:
    """Return numba's type for a hint, None for tables."""
    parts = get_args(hint)
    if parts:
        kinds = [_kind(part) for part in parts]
        return None if None in kinds else types.Tuple(kinds)
    return KINDS.get(hint)
