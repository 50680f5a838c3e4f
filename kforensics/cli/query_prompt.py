"""The prompt of ``kforensics query``: statements that end with a semicolon, and commands that begin with a dot."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kforensics.analyses.topics import similar
from kforensics.cli.messages import exit_code_of, notify, notify_error
from kforensics.cli.query_results import write_result
from kforensics.errors import KforensicsError, UsageError

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.sql.session import Session

FIRST, MORE = "kforensics> ", "       ...> "
HELP = "SQL ends with a semicolon; .tables, .schema NAME and .quit end with the line"


class Prompt:
    """Asks for SQL until the user ends it.

    Args:
        session: the tables.
        options: format and output.
        limit: how many rows of a result to write at most, None for all.
    """

    def __init__(self, session: Session, options: PartitionOptions, limit: int | None) -> None:
        self._session, self._options, self._limit = session, options, limit

    def run(self) -> None:
        """Answer statements and commands until ``.quit`` or the end of the input. Ctrl-C drops what was begun."""
        _edit_lines()
        if not self._options.quiet:
            notify(f"{len(self._session.tables)} tables; {HELP}")
        while True:
            try:
                statement = self._statement()
                if statement is None or statement in (".quit", ".exit"):
                    return
                self._answer(statement)
            except KeyboardInterrupt:
                sys.stdout.write("\n")
            except KforensicsError as error:
                notify_error(error, exit_code_of(error), "kforensics: ")

    def _statement(self) -> str | None:
        """Return the next statement or command, None at the end of the input."""
        lines: list[str] = []
        while True:
            try:
                line = input(MORE if lines else FIRST).rstrip()
            except EOFError:
                sys.stdout.write("\n")
                return None
            if not lines and (not line or line.startswith(".")):
                return line
            lines.append(line)
            if line.endswith(";"):
                return "\n".join(lines)

    def _answer(self, statement: str) -> None:
        name, _, argument = statement.partition(" ")
        if name == ".tables":
            sys.stdout.write("".join(f"{table}\n" for table in self._session.tables))
        elif name == ".schema":
            self._show_schema(argument.strip())
        elif name.startswith("."):
            raise UsageError(f"there is no command {name}; {HELP}")
        elif statement:
            write_result(self._session, statement, self._options, self._limit)

    def _show_schema(self, name: str) -> None:
        if name not in self._session.tables:
            hint = similar(name, self._session.tables) or ".tables lists them"
            raise UsageError(f"there is no table {name}; {hint}" if name else "name a table, as in .schema batches")
        write_result(self._session, f'DESCRIBE "{name}"', self._options, None)


def _edit_lines() -> None:
    """Make lines of the prompt editable, with a history that ends with the session."""
    try:
        import readline
    except ImportError:  # a Python without it has plain lines
        return
    readline.set_auto_history(True)
