"""Finds the files under paths, and reports the paths that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from kforensics.parsers.files.discover import FoundFile, Unreadable, classified_by_suffix, discover
from kforensics.parsers.files.input_paths import is_named

# Takes a sentence for the user.
Notify: TypeAlias = Callable[[str], None]


def find_files(paths: Sequence[str], notify: Notify) -> tuple[list[FoundFile], int]:
    """Return the files under the paths, and how many paths cannot be read.

    Args:
        paths: files, folders, archives, globs or URIs.
        notify: takes a sentence for each path that cannot be read.
    """
    files: list[FoundFile] = []
    unreadable = 0
    for row in discover(paths):
        if isinstance(row, Unreadable):
            notify(f"cannot read {row.path}: {row.why}")
            unreadable += 1
        else:
            files.append(classified_by_suffix(row) if is_named(row.path, paths) else row)
    return files, unreadable
