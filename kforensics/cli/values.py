"""The values of options without pydantic, which a small command would wait for longer than for all its own work."""

# No postponed annotations, see ``cli``.

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

__all__ = ["PlainCommand", "PlainGroup"]

MOST_DIGITS = 18

# typer has pydantic convert every value, absent ones and text included: its import and a validator for each option take
# longer than all the rest of a small dump. So values that need no conversion, or an obvious one, do not get that far;
# what is unusual or wrong still does, and typer says what it always said.


class _Option(TyperOption):
    def process_value(self, ctx: Any, value: Any) -> Any:
        return _processed(self, ctx, value, super().process_value)


class _Argument(TyperArgument):
    def process_value(self, ctx: Any, value: Any) -> Any:
        return _processed(self, ctx, value, super().process_value)


def _processed(parameter: _Option | _Argument, ctx: Any, value: Any, process: Callable[[Any, Any], Any]) -> Any:
    meant = _plain(parameter, value)
    if meant is None:
        return process(ctx, value)
    return parameter.callback(ctx, parameter, meant[0]) if parameter.callback else meant[0]


def _plain(parameter: _Option | _Argument, value: Any) -> tuple[Any] | None:
    """Return what a value means, where that is plain to see."""
    described = getattr(parameter, "type_descriptor", None)  # releases of typer without it do without pydantic too
    if described is None or parameter.required:
        return None
    wanted, least = described.annotation, parameter.min
    if value is None or value is parameter.default or wanted in (str, list[str]):
        return (() if value is None and parameter.nargs < 0 else value,)
    if wanted is int and value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS and parameter.max is None:
        return (int(value),) if least is None or int(value) >= least else None
    if wanted is Path and (os.access(value, os.R_OK) or not os.path.lexists(value)):
        return (Path(value),)
    return None


def _own(parameters: list[Any]) -> list[Any]:
    """Make parameters those of this module; typer asks nobody of which class to make them."""
    for parameter in parameters:
        parameter.__class__ = _Option if isinstance(parameter, TyperOption) else _Argument
    return parameters


class PlainGroup(TyperGroup):
    """The commands, with options whose plain values need no conversion."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        return _own(super().get_params(ctx))


class PlainCommand(TyperCommand):
    """A command with such options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments."""
        return _own(super().get_params(ctx))
