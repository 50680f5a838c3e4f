"""Paths of inputs: URIs, archives and paths that lead into them; and local files that are opened without a trace."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Collection

# Suffixes of archives and compressed files, the long ones first; what follows a path that leads into one; and the path
# of standard input.
ARCHIVES = (".tar.gz", ".tgz", ".gz", ".tar.zst", ".tzst", ".zst", ".tar", ".zip")
INSIDE, STDIN = "!", "-"
# The environment variable in which processes that this one starts find what it has unpacked.
UNPACKED = "KFORENSICS_UNPACKED"


def is_archive_name(path: str) -> bool:
    """Return whether a path has the suffix of an archive, or is that of standard input."""
    return path == STDIN or path.endswith(ARCHIVES)


def stream_name(path: str) -> str:
    """Return the name of an archive without the suffixes that say how it is packed."""
    name = path.rpartition("/")[2]
    if path == STDIN:
        return "stdin"
    return name.removesuffix(next((suffix for suffix in ARCHIVES if name.endswith(suffix)), ""))


def is_named(path: str, paths: Collection[str]) -> bool:
    """Return whether a user named a file: its path, or the compressed file that contains nothing else."""
    packed, _, name = path.rpartition(f"{INSIDE}/")
    return path in paths or (packed in paths and name == stream_name(packed))


def is_uri(path: str) -> bool:
    """Return whether a path is a URI such as ``s3://bucket/key``."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isalnum()


def names_no_file(path: str) -> bool:
    """Return whether an argument cannot be a path: no file has the name, and it is no URI, glob or archive's entry."""
    may_be_path = path == STDIN or is_uri(path) or f"{INSIDE}/" in path or glob.has_magic(path)
    return not may_be_path and not os.path.lexists(path)


def open_read_only(path: str) -> int:
    """Return a descriptor of a file, whose access time does not change where the system allows that.

    It allows it to the owner of the file and to root; others get EPERM. Only Linux has the flag.
    """
    # O_NONBLOCK: opening a named pipe without a writer must not hang.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    keeps_access_time = getattr(os, "O_NOATIME", 0)
    try:
        return os.open(path, flags | keeps_access_time)
    except PermissionError as error:
        if not keeps_access_time or error.errno != errno.EPERM:
            raise
    return os.open(path, flags)
