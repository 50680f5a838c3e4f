"""The arguments of the functions: they are checked by what their annotations say, and errors call them by their names.

Commands and functions have the same rules, whose sentences name options; :func:`with_checked_arguments` is the only
place where they become parameters.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

from kforensics.analyses.settings import Evaluation
from kforensics.analyses.topics import similar
from kforensics.analyses.values import flag, path_name, whole_number
from kforensics.errors import UnknownParameterError, UsageError

__all__ = ["Paths", "path_names", "with_checked_arguments"]

P = ParamSpec("P")
T = TypeVar("T")
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
# Options whose parameters have other names; a hyphen is an underscore in every other one.
PARAMETER_OF = {
    "state": "states",
    "level": "levels",
    "min-duration": "min_duration_ms",
    "list": "listed",
    "set": "settings",
}
# The least values of numbers, as the commands have them.
MINIMUM = {
    **dict.fromkeys(("at", "broker", "min_duration_ms"), 0),
    **dict.fromkeys(("memory", "processes", "split_size", "max_decompressed_bytes", "partition_count"), 1),
}
# An option, and what is not about the function that was called: a quoted name, and another command with its options.
OPTION = re.compile(r"'[^']*'|kforensics [a-z]+(?: --[a-z-]+)*|(?<![\w-])--(?P<option>[a-z][a-z-]*)")


def with_checked_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function of the library that refuses wrong arguments with a sentence, before it reads anything.

    Paths become texts, a number from numpy an int, and a text where several may be given a tuple of one.

    Raises:
        UnknownParameterError: there is no such parameter.
        UsageError: a value is not what the annotation of its parameter says.
    """
    signature = inspect.signature(function)
    taken = dict(signature.parameters)
    names = [name for name, each in taken.items() if each.kind is not each.VAR_KEYWORD]
    names += Evaluation.__annotations__ if len(names) < len(taken) else ()

    @wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        _check_names(function.__name__, given, names)
        try:
            bound = signature.bind(*map(_kept, args), **{name: _kept(value) for name, value in given.items()})
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None  # as Python says it
        for name in [name for name in bound.arguments if name in names]:
            check = _CHECKS.get(str(taken[name].annotation).removesuffix(" | None"))
            if check is not None and not (bound.arguments[name] is None and taken[name].default is None):
                bound.arguments[name] = check(bound.arguments[name], name)
        try:
            return function(*bound.args, **bound.kwargs)
        except UsageError as error:
            error.args = tuple(_with_parameters(str(text), names) for text in error.args)
            raise

    return cast("Callable[P, T]", checked)


def path_names(paths: Any, name: str = "paths") -> tuple[str, ...]:
    """Return one path or several as texts.

    Raises:
        UsageError: there is none, or one of them is no path.
    """
    if isinstance(paths, str | os.PathLike):
        return (path_name(paths, name),)
    if not isinstance(paths, Iterable) or isinstance(paths, bytes | Mapping):
        raise UsageError(f"{name}={paths!r} is not a path; give text or a pathlib.Path, or several in a list")
    names = tuple(path_name(path, name) for path in paths)
    if not names:
        raise UsageError(f"{name} has no path; give log directories, partition folders or files")
    return names


def _kept(value: Any) -> Any:
    """Return what is looked at more than once: a generator would be empty the second time."""
    return tuple(value) if isinstance(value, Iterator) else value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r} is not text; give a str")
    return value


def _texts(values: Any, name: str) -> tuple[str, ...]:
    if not isinstance(values, Iterable) or isinstance(values, bytes):
        raise UsageError(f"{name}={values!r} is not text; give a str, or several in a list")
    return tuple(_text(value, name) for value in ([values] if isinstance(values, str) else values))


def _number(value: Any, name: str) -> int:
    return whole_number(value, name, MINIMUM.get(name))


# Takes a value and the name of its parameter, by the annotation of the parameter, which None completes.
_CHECKS: Mapping[str, Callable[[Any, str], Any]] = {
    "Paths": path_names,
    "str | os.PathLike[str]": path_name,
    "str": _text,
    "str | Iterable[str]": _texts,
    "int": _number,
    "bool": flag,
}


def _check_names(function: str, given: Iterable[str], names: list[str]) -> None:
    for name in given:
        if name not in names:
            hint = similar(name, names) or f"it has {', '.join(names)}"
            raise UnknownParameterError(f"{function} has no parameter {name}; {hint}")


def _with_parameters(text: str, names: list[str]) -> str:
    """Return a sentence with the names of parameters in place of options.

    >>> _with_parameters("--state 'x--state' is not one of open; kforensics audit --states lists all", ["states"])
    "states 'x--state' is not one of open; kforensics audit --states lists all"
    """
    return OPTION.sub(partial(_as_parameter, names=names), text)


def _as_parameter(found: re.Match[str], names: list[str]) -> str:
    option = found["option"]
    parameter = PARAMETER_OF.get(option, option.replace("-", "_")) if option else ""
    return parameter if parameter in names else found[0]
