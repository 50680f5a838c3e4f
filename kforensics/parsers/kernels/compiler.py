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
    """Return a function that is compiled when a kernel or Python calls it first."""
    return _compile(function, inline=False)


def inlined(function: Function) -> Function:
    """Return a small function that is compiled into each of its callers."""
    return _compile(function, inline=True)


def _compile(function: Function, *, inline: bool) -> Function:
    dispatcher: Any = njit(error_model="numpy", forceinline=inline)(function)
    arguments = [_numba_type(hint) for hint in get_type_hints(function).values()]
    if None not in arguments:
        _compile_once(dispatcher, arguments[-1](*arguments[:-1]))
    kernel_function: Function = dispatcher
    return kernel_function


def _compile_once(dispatcher: Any, signature: Any) -> None:
    """Compile for one signature only, when the function is called first.

    numba would compile it again for every constant argument. If it were given the signature, it would compile at once,
    the functions that are not called too.
    """
    call_template = dispatcher.get_call_template

    def compile_first() -> None:
        if not dispatcher.overloads:
            dispatcher.compile(signature)
            dispatcher.disable_compile()

    def called_by_kernel(arguments: Any, named: Any) -> Any:
        compile_first()
        return call_template(arguments, named)

    def called_by_python(*_arguments: Any) -> Any:
        compile_first()
        (overload,) = dispatcher.overloads.values()
        return overload.entry_point

    dispatcher.get_call_template, dispatcher._compile_for_args = called_by_kernel, called_by_python  # noqa: SLF001


def _numba_type(hint: Any) -> Any:
    """Return numba's type for a type hint, None for arrays."""
    parts = get_args(hint)
    if parts:
        types_of_parts = [_numba_type(part) for part in parts]
        return None if None in types_of_parts else types.Tuple(types_of_parts)
    return NUMBA_TYPES.get(hint)
