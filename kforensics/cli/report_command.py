"""The command ``report``, from words to an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kforensics.cli.question_command import Tally, say, severity_of
from kforensics.errors import UsageError
from kforensics.report_html.report import write_report

__all__ = ["run_report"]


def run_report(words: Mapping[str, Any]) -> int:
    """Write the report of an evidence store, and return the exit code that its audit had.

    Args:
        words: the command's options and arguments by name.

    Raises:
        InputError: the store cannot be read.
        UsageError: the words do not go together, or the folder is no store.
    """
    store, output = words["store"], words["output"]
    if store is None:
        raise UsageError("there is no store to report on; name the folder that kforensics audit --output has written")
    if output is None:
        raise UsageError("the report needs a file; name one with --output, such as report.html")
    fail_on = severity_of(words["fail_on"])
    verdict = write_report(store, output)
    if not words["quiet"]:
        say(f"{verdict.sentence}; the report is in {output}")
    return Tally(unreadable=0 if verdict.is_whole else 1, worst=verdict.worst).code(fail_on)
