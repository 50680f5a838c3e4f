"""Decorators for kernel functions. They keep the type hints, which numba's own decorators hide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
from numba import njit, types

Function = TypeVar("Function", bound=Callable[..., Any])

# Kernels compute in int64 throughout. Values read from a table and quotients must be converted back.
_INT64: Any = np.int64
int64: Callable[[Any], int] = _INT64
NUMBA_TYPES = {int: types.int64, bool: types.boolean, type(None): types.void}


def compiled(function: Function) -> Function:
    """Return a function compiled for use in kernels."""
    return _compile(function, inline=False)


def inlined(function: Function) -> Function:
    """Return a small function that is compiled into each of its callers."""
    return _compile(function, inline=True)


def _compile(function: Function, *, inline: bool) -> Function:
    arguments = [_numba_type(hint) for hint in get_type_hints(function).values()]
    # Without a signature numba compiles a function again for every constant argument. With a signature it compiles at
    # once, so a module defines each function after those it calls.
    signature = () if None in arguments else (arguments[-1](*arguments[:-1]),)
    dispatcher: Function = njit(*signature, error_model="numpy", forceinline=inline)(function)
    return dispatcher


def _numba_type(hint: Any) -> Any:
    """Return numba's type for a type hint, None for arrays."""
    parts = get_args(hint)
    if parts:
        types_of_parts = [_numba_type(part) for part in parts]
        return None if None in types_of_parts else types.Tuple(types_of_parts)
    return NUMBA_TYPES.get(hint)
