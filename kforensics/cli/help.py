"""Prints the help of commands, with the options in panels and without the names of Python types."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent
from typing import Any, TypeAlias

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

# What the user types, and what it means.
HelpRow: TypeAlias = tuple[Text, Text]


def print_help(command: Any, context: Any) -> None:
    """Print the help of a command or a group of commands.

    Args:
        command: the typer command.
        context: its context.
    """
    console = Console(highlight=False)
    paragraphs = [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]
    console.print(Padding(Text(command.get_usage(context), "bold"), (1, 1, 0, 1)))
    console.print(Padding(Text("\n\n".join(paragraphs)), 1))
    for title, rows in help_panels(command, context).items():
        console.print(_panel(title, rows))
    if command.epilog:
        console.print(Text(f"\n{indent(command.epilog, ' ')}\n"), soft_wrap=True)  # examples stay whole, to be copied


def help_panels(command: Any, context: Any) -> dict[str, list[HelpRow]]:
    """Return what a user may type after the name of a command, and what it means, by title.

    Args:
        command: the typer command.
        context: its context.
    """
    panels: dict[str, list[HelpRow]] = {}
    shown = (parameter for parameter in command.get_params(context) if not getattr(parameter, "hidden", False))
    for parameter in shown:
        default = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panel = getattr(parameter, "rich_help_panel", None) or default
        panels.setdefault(panel, []).append((_syntax(parameter), _meaning(parameter)))
    if "Options" in panels and len(panels) > 1:
        panels["Options"] = panels.pop("Options")  # --help comes last
    if commands := getattr(command, "commands", None):
        panels["Commands"] = [(Text(name, "bold cyan"), _summary(each)) for name, each in commands.items()]
    return panels


def _panel(title: str, rows: Iterable[HelpRow]) -> Panel:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(overflow="fold")
    table.add_column(ratio=1)
    for row in rows:
        table.add_row(*row)
    return Panel(table, title=title, title_align="left", border_style="dim")


def _syntax(parameter: Any) -> Text:
    metavar = parameter.metavar or ""
    if parameter.param_type_name == "argument":
        return Text(f"{metavar}…" if parameter.nargs == -1 else metavar, "bold yellow")
    names = ", ".join(sorted(parameter.opts, key=len))
    off = f" / {', '.join(parameter.secondary_opts)}" if parameter.secondary_opts else ""
    return Text.assemble((f"{names}{off}", "bold cyan"), (f" {metavar}".rstrip(), "bold yellow"))


def _meaning(parameter: Any) -> Text:
    default = parameter.default
    shown = "" if default is None or default is False or default == "" else f" [default: {default}]"
    return Text.assemble(parameter.help or "", (shown, "dim"))


def _summary(command: Any) -> Text:
    return Text(" ".join((command.help or "").partition("\n\n")[0].split()))
