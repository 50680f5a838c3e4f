"""A name that is typed before the paths, as in ``ids payments-1 /var/lib/kafka/data``, instead of in its option."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kforensics.analyses.partitions import Investigation, ignore, investigate
from kforensics.cli.messages import notify_unreadable
from kforensics.errors import UsageError
from kforensics.parsers.files.input_paths import names_no_file

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions


def name_before_paths(
    options: PartitionOptions, why_unknown: Callable[[Investigation, str], str | None]
) -> tuple[str | None, PartitionOptions]:
    """Return the name that is typed before the paths, None if all are paths, and the options without it.

    Only what is no path can be a name, and only if the files under the other paths have it: a folder that is misspelt
    is an error, as everywhere.

    Args:
        options: the options of the command.
        why_unknown: returns the error for a name that the partitions do not have, None if they have it.
    """
    name, *paths = options.paths or ("",)
    if not name or not names_no_file(name):
        return None, options
    error: str | None = None
    if paths:
        try:
            investigation = investigate(paths, options.as_of_ms(), ignore, ignore, alone=options.alone)
        except UsageError:  # the command raises it again
            return None, options
        if not investigation.partitions:  # none can be read: the command says so
            return None, options
        error = why_unknown(investigation, name)
        if error is None:
            return name, replace(options, paths=paths)
    if "/" not in name:
        example = f"kforensics {options.command_name} {shlex.quote(name)} /var/lib/kafka/data"
        notify_unreadable(error or f"a name needs a log directory after it: {example}")
    return None, options
