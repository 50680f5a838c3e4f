"""Values that callers of functions give: whole numbers, flags and paths."""

from __future__ import annotations

import operator
import os
from typing import Any

from kforensics.errors import UsageError


def whole_number(value: Any, name: str, minimum: int | None = None) -> int:
    """Return a whole number that the caller of a function gives, an int or one of numpy's, as an int.

    Args:
        value: the number.
        name: the parameter that it is the value of.
        minimum: the least one, None for any.

    Raises:
        UsageError: it is no whole number, or less than the least one.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number.bit_length() >= 64:  # Kafka has no longer ones
        raise UsageError(
            f"{name}={value!r} is not a whole number{'' if number is None else ' of 64 bits'}; give an int"
        )
    if minimum is not None and number < minimum:
        raise UsageError(f"{name}={number} is less than {minimum}; give another number")
    return number


def flag(value: Any, name: str) -> bool:
    """Return whether the caller of a function wants something: True or False, numpy's too, or 1 or 0.

    Raises:
        UsageError: it is none of them; ``"no"`` would count as true.
    """
    is_flag = type(value).__name__ in ("bool", "bool_") or (type(value) is int and value in (0, 1))
    if not is_flag:
        raise UsageError(f"{name}={value!r} is neither True nor False")
    return bool(value)


def path_name(path: Any, name: str) -> str:
    """Return a path as text.

    Raises:
        UsageError: it is no path.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise UsageError(f"{name}={path!r} is not a path; give text or a pathlib.Path")
    return text
