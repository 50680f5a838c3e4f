"""Reads ``kforensics.toml``: the defaults of options, and settings of the cluster.

Most machines have no such file, so this module is imported when there is one.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from kforensics.analyses.settings import given_settings
from kforensics.analyses.topics import similar
from kforensics.cli.command import CONFIG_IN_FOLDER, EXECUTION, OUTPUT
from kforensics.cli.messages import notify
from kforensics.errors import UsageError
from kforensics.forensics.core.broker_settings import GIVEN_BY_FILE, Setting, validated

SETTINGS, OPTIONS = "settings", "options"
LARGEST = 1 << 20
# Variables of the environment that count before the file, by parameter.
FROM_ENVIRONMENT = {"bootstrap_server": "KFORENSICS_BOOTSTRAP", "color": "NO_COLOR", "engine": "PYSPARK_GATEWAY_PORT"}
# Options that no file has defaults for, and those that a file has only if the user names it: they run code or write.
NOT_IN_FILES, NOT_IN_FOLDER = ("config", "no-config", "help"), ("conf", "master", "output")
KINDS = {str: "a string", bool: "a boolean", int: "an integer", float: "a decimal", list: "an array", dict: "a table"}
IGNORE = "correct it, or ignore the file with --no-config"


class ConfigFile(str):
    """The path of a configuration file, with what it has for a command.

    Attributes:
        values: the values that it gives parameters of the command, by their names.
        settings: the settings of the cluster, those that count first.
    """

    __slots__ = ("settings", "values")
    values: Mapping[str, Any]
    settings: tuple[Setting, ...]


@contextmanager
def with_defaults(ctx: Any, path: str, given: set[str]) -> Iterator[None]:
    """Give the parameters of a command the defaults of a configuration file for a block.

    Args:
        ctx: the context of the command.
        path: the file.
        given: the parameters that the command line gives.

    Raises:
        UsageError: the file cannot be read or has an error, or the block refuses an option.
    """
    is_named = not given.isdisjoint(("config", "_config")) or bool(os.environ.get("KFORENSICS_CONFIG"))
    if not is_named and path == CONFIG_IN_FOLDER and _is_evidence(ctx.params):
        notify(f"{path} is among the input files and is ignored; name it with --config to use it")
        yield
        return
    config = _read(ctx, path, may_write=is_named or path != CONFIG_IN_FOLDER)
    defaults = {name: value for name, value in config.values.items() if name not in given}
    ctx.params.update(defaults)
    if "config" in (each.name for each in ctx.command.params):
        ctx.params["config"] = config
    keys = {option: name for option, name in _options_of(ctx.command).items() if name in defaults}
    try:
        yield
    except UsageError as error:
        if named := [option for option in keys if f"--{option}" in str(error)]:
            where = f"{path} has a default for {', '.join(named)}"
            raise UsageError(f"{error}; {where}, and --no-config ignores it") from error
        raise


def settings_of(config: str, assignments: tuple[str, ...], server_properties: str | None) -> tuple[Setting, ...]:
    """Return the settings that a command line and a configuration file give, those that count first.

    Args:
        config: the configuration file.
        assignments: as ``NAME=VALUE``.
        server_properties: path of a broker's ``server.properties``, None for none.

    Raises:
        UsageError: there is no such setting, Kafka would not accept a value, or the file cannot be read.
    """
    if not isinstance(config, ConfigFile):
        return given_settings(assignments, server_properties)
    if server_properties == config.values.get("server_properties"):  # the default
        return (*given_settings(assignments, None), *config.settings, *given_settings((), server_properties))
    given = given_settings(assignments, server_properties)
    named = {one.name for one in given}  # on the command line, which counts first, although a broker's file is static
    return (*given, *(one for one in config.settings if one.name not in named))


def _is_evidence(params: Mapping[str, Any]) -> bool:
    """Return whether the working directory is in a folder among the inputs, whose files must not change a verdict."""
    here = Path.cwd().resolve()
    paths = [*(params.get("paths") or ()), *str(params.get("files") or "").split(",")]
    return any(path and here.is_relative_to(Path(path).resolve()) for path in paths)


def _read(ctx: Any, path: str, *, may_write: bool) -> ConfigFile:
    document = _document(path)
    every = dict(ctx.find_root().command.commands)
    commands = {name: command for name, command in every.items() if name != SETTINGS}  # a table of another kind
    config, values = ConfigFile(path), dict[str, Any]()
    for name in (OPTIONS, *commands):  # the table of the command counts before that of all commands
        for key, value in _table(path, name, document.pop(name, {})).items():
            command = _command_with(key, [ctx.command, *commands.values()] if name == OPTIONS else [commands[name]])
            if command is None:
                raise UsageError(f"{path}: [{name}] {key} is no option{_hint(key, name, commands)}; {IGNORE}")
            parameter, converted = _converted(f"{path}: [{name}] {key}", command, key, value, is_shared=name == OPTIONS)
            if key in NOT_IN_FOLDER and not may_write:
                reason = "is not taken from a file that is only found in the working directory"
                raise UsageError(f"{path}: [{name}] {key} {reason}; name the file with --config")
            own = _options_of(ctx.command).get(key) == parameter
            is_for_all = name == OPTIONS or commands[name].name == ctx.command.name
            if own and is_for_all and not os.environ.get(FROM_ENVIRONMENT.get(parameter, "")):
                values[parameter] = converted
    settings = _flat(_table(path, SETTINGS, document.pop(SETTINGS, {})))
    for name in document:
        near = similar(name, {SETTINGS, OPTIONS, *commands})
        raise UsageError(f"{path}: [{name}] is no table of this file; {near or 'see --help for the commands'}")
    config.values = values
    config.settings = tuple(_setting(path, name, value) for name, value in settings)
    return config


def _document(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UsageError(f"{path} is too large for a configuration file; ignore it with --no-config")
        return tomllib.loads(content.decode())
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot read the configuration file {path}: {why}; name another with --config") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}; {IGNORE}") from None


def _table(path: str, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {name} is {_kind(value)}, not a table; write [{name}] on a line of its own")
    return value


def _options_of(command: Any) -> dict[str, str]:
    """Return the parameters of a command by their options, without ``--``."""
    every = ((word, parameter.name) for parameter in command.params for word in parameter.opts)
    named = ((word.removeprefix("--"), name) for word, name in every if word.startswith("--"))
    return {option: name for option, name in named if option not in NOT_IN_FILES}


def _command_with(key: str, commands: list[Any]) -> Any:
    return next((command for command in commands if key in _options_of(command)), None)


def _hint(key: str, table: str, commands: Mapping[str, Any]) -> str:
    having = list(commands.values()) if table == OPTIONS else [commands[table]]
    near = similar(key, {option for command in having for option in _options_of(command)})
    whose = "any command" if table == OPTIONS else f"kforensics {table}"
    return f" of {whose}" + (f"; {near.rstrip('?')}?" if near else "")


def _converted(where: str, command: Any, key: str, value: Any, *, is_shared: bool) -> tuple[str, Any]:
    """Return the parameter of an option, and its value as the command takes it.

    Args:
        where: the file and the key, to begin the message of an error.
        command: a command with the option.
        key: the option without ``--``.
        value: the value in the file.
        is_shared: whether the value is for all commands.

    Raises:
        UsageError: the value has the wrong type, or the option is not for all commands.
    """
    parameter = _options_of(command)[key]
    kind, declared = get_args(command.callback.__annotations__[parameter])
    if is_shared and (declared.rich_help_panel not in (OUTPUT, EXECUTION) or key == "output"):
        raise UsageError(f"{where} is not for all commands; give it in the table of one, such as [{command.name}]")
    kinds, is_whole = get_args(kind) or (kind,), isinstance(value, int) and not isinstance(value, bool)
    if list[str] in kinds:
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list) and all(isinstance(each, str) for each in values):
            return parameter, values
        raise _wrong(where, value, "an array of strings")
    if bool in kinds and isinstance(value, bool):
        return parameter, value
    if bool not in kinds and int in kinds:
        least = declared.min or 0
        if is_whole and least <= value and (declared.max is None or value <= declared.max):
            return parameter, value
        raise _wrong(where, value, f"an integer of at least {least}")
    if bool not in kinds and isinstance(value, str):
        return parameter, Path(value) if Path in kinds else value
    raise _wrong(where, value, "true or false" if bool in kinds else "a string")


def _wrong(where: str, value: Any, expected: str) -> UsageError:
    shown = str(value) if isinstance(value, int) and not isinstance(value, bool) else _kind(value)
    return UsageError(f"{where} is {shown}, not {expected}; {IGNORE}")


def _kind(value: Any) -> str:
    return KINDS.get(type(value), "a time")


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings of a table: in TOML a name with dots that is not in quotes is a table in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _setting(path: str, name: str, value: Any) -> Setting:
    where = f"{path}: [{SETTINGS}] {name}"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(where, value, "a string or an integer")
    return validated(name, str(value), f"{GIVEN_BY_FILE}{path}", where)
