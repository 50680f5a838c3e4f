"""Says what is wrong with SQL in one sentence, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kforensics.analyses.topics import similar

__all__ = ["sql_sentence"]

UNKNOWN_TABLE = re.compile(r"Table with name (\S+) does not exist")
UNKNOWN_COLUMN = re.compile(r'Referenced column "(.+?)" (?:not found|was not found)')
CANDIDATES = re.compile(r"Candidate bindings: (.+)")
NEAR = re.compile(r'syntax error at or near "(.*?)"|syntax error at end of input', re.DOTALL)
NO_FILES = ("disabled by configuration", "disabled through configuration", "configuration has been locked")
KIND = re.compile(r"^[A-Za-z-]+(?: [A-Za-z-]+)? Error: ")


def sql_sentence(message: str, tables: Mapping[str, Sequence[str]], absent: Mapping[str, str]) -> str:
    """Return one sentence for a message of DuckDB.

    Args:
        message: the message, of several lines.
        tables: the columns of the tables that there are, by their names.
        absent: sentences on tables that are elsewhere, by their names.
    """
    if any(phrase in message for phrase in NO_FILES):
        return "SQL reads the tables here and nothing else, and writes no file; write the result with --output"
    if match := UNKNOWN_TABLE.search(message):
        return _unknown_table(match[1], sorted(tables), absent)
    if match := UNKNOWN_COLUMN.search(message):
        return _unknown_column(match[1], message)
    if match := NEAR.search(message):
        if any(match[1] in columns for columns in tables.values()):
            return f'{match[1]} is a word of SQL; write the column in double quotes: "{match[1]}"'
        where = f"near {match[1]!r}" if match[1] else "at its end"
        return f"the SQL has a syntax error {where}; correct it there"
    first = KIND.sub("", message.strip().partition("\n")[0]).rstrip(".!")
    return f"the SQL cannot be evaluated: {first}; correct it"


def _unknown_table(name: str, tables: list[str], absent: Mapping[str, str]) -> str:
    if name in absent:
        return f"there is no table {name} here; {absent[name]}"
    return f"there is no table {name}; {similar(name, tables) or 'the tables are ' + ', '.join(tables)}"


def _unknown_column(name: str, message: str) -> str:
    candidates = CANDIDATES.search(message)
    known = re.findall(r'"(.+?)"', candidates[1]) if candidates else []
    hint = f"did you mean {' or '.join(known)}?" if known else "DESCRIBE and the name of a table lists its columns"
    return f"there is no column {name}; {hint}"
