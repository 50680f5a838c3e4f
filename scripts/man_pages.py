"""Writes the help of kforensics and of its commands as man pages. `make man` calls it with a folder.

The pages are made from the texts of ``--help``, so they say the same.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from kforensics.cli import app
from kforensics.cli.help import help_panels
from kforensics.version import __version__

NAME = "kforensics"
# Characters that roff would take for its own, or show as others.
ESCAPES = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "~": r"\(ti", "^": r"\(ha"}
EPILOG = re.compile(r"Examples:\n(?P<examples>.*?)\n\nExit code: (?P<codes>.*)", re.DOTALL)


def main(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in man_pages().items():
        (folder / f"{name}.1").write_text(page, encoding="ascii")
    print(f"The man pages are in {folder}; read one with: man -l {folder}/{NAME}.1")


def man_pages() -> dict[str, str]:
    """Return the pages by their names."""
    root: Any = get_command(app)
    context = typer.Context(root, info_name=NAME)
    commands = {f"{NAME}-{name}": (name, command) for name, command in root.commands.items()}
    pages = {NAME: _page(NAME, root, context, [*commands])}
    for name, (word, command) in commands.items():
        pages[name] = _page(name, command, typer.Context(command, info_name=word, parent=context), [NAME])
    return pages


def _page(name: str, command: Any, context: Any, others: list[str]) -> str:
    return "\n".join([*_lines(name, command, context, others), ""])


def _lines(name: str, command: Any, context: Any, others: list[str]) -> Iterator[str]:
    summary, *rest = [" ".join(paragraph.split()) for paragraph in command.help.split("\n\n")]
    usage = command.get_usage(context).removeprefix("Usage: ")
    yield f'.TH {_roff(name.upper())} 1 "" "{NAME} {_roff(__version__)}" "User Commands"'
    yield from (".SH NAME", rf"{_roff(name)} \- {_roff(summary)}")
    yield from (".SH SYNOPSIS", rf"\fB{_line(' '.join(usage.split()))}\fR")
    yield from (".SH DESCRIPTION", _line(summary))
    for paragraph in rest:
        yield from (".PP", _line(paragraph))
    for title, rows in help_panels(command, context).items():
        yield f'.SH "{_roff(title).upper()}"'
        for typed, meaning in rows:
            yield from (".TP", rf"\fB{_roff(typed.plain)}\fR", _line(meaning.plain) or r"\&")
    if found := EPILOG.fullmatch(command.epilog or ""):
        yield from (".SH EXAMPLES", ".nf", *(_line(line.strip()) for line in found["examples"].splitlines()), ".fi")
        yield from (".SH EXIT STATUS", _line(found["codes"]))
    yield ".SH SEE ALSO"
    yield ", ".join(rf"\fB{_roff(other)}\fR(1)" for other in others)


def _line(text: str) -> str:
    """Return a line of text, which is no request of roff."""
    escaped = _roff(text)
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def _roff(text: str) -> str:
    characters = (ESCAPES.get(character, character) for character in text)
    return "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in characters)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
