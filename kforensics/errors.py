"""Errors that a caller can act on. Everything else is reported as damage or as a finding.

KforensicsError
├── UsageError (ValueError)            the request is invalid: exit 2
│   ├── UnknownParameterError (TypeError)  a function has no such parameter
│   └── UnknownNameError (KeyError)        there is no such table or column
├── MissingExtraError (ImportError)    an optional dependency is not installed: exit 1
├── EngineError (RuntimeError)         Spark or a process does not start or fails: exit 3
├── OutputClosedError (BrokenPipeError)  the reader of the output has closed it, as head does: exit 0
└── InputError (OSError)               an input cannot be read at all: exit 3
    ├── InputMissingError (FileNotFoundError)
    ├── InputForbiddenError (PermissionError)
    └── InputKindError                 a directory, socket or device instead of a file
"""

from __future__ import annotations

import sys

__all__ = [
    "EngineError",
    "InputError",
    "InputForbiddenError",
    "InputKindError",
    "InputMissingError",
    "KforensicsError",
    "MissingExtraError",
    "OutputClosedError",
    "UnknownNameError",
    "UnknownParameterError",
    "UsageError",
]


NO_FILE = "there is no such file"
# The name under which an index has this package; None while none has it, and anyone could take the name.
PUBLISHED: str | None = None


def install_line(extra: str) -> str:
    """Return the shell command that installs what an extra needs into the environment of this Python.

    Until the package is published it names what the extra needs, so it works for a checkout and for a wheel.

    Args:
        extra: name of the extra.
    """
    import shlex  # only an error needs it, and metadata
    from importlib import metadata

    try:
        required = metadata.requires("kforensics") or []
    except metadata.PackageNotFoundError:  # the folder or archive of the package is on the path
        required = []
    needed = [line.partition(";")[0].strip() for line in required if line.endswith(f"extra == '{extra}'")]
    if PUBLISHED is not None or not needed:
        needed = [f"{PUBLISHED or '.'}[{extra}]"]
    return shlex.join([sys.executable, "-m", "pip", "install", *needed])


class KforensicsError(Exception):
    """Base class of all errors that this package raises deliberately."""


class UsageError(KforensicsError, ValueError):
    """The request is invalid; the message says how to correct it."""


class UnknownParameterError(UsageError, TypeError):
    """A function has no parameter of this name."""


class UnknownNameError(UsageError, KeyError):
    """There is no table or column of this name."""

    __str__ = Exception.__str__  # a KeyError would quote the sentence


class MissingExtraError(KforensicsError, ImportError):
    """An optional dependency is not installed.

    Args:
        extra: name of the extra that installs the missing module, as in ``kforensics[spark]``.
        module: the module that could not be imported.
    """

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(extra, module)
        self.extra, self.module = extra, module

    def __str__(self) -> str:
        return f"{self.module} is not installed. Install it with: {install_line(self.extra)}"


class EngineError(KforensicsError, RuntimeError):
    """The execution engine does not start or fails; the message says what to do about it."""


class OutputClosedError(KforensicsError, BrokenPipeError):
    """The reader of the output has closed it; nothing is wrong."""


class InputError(KforensicsError, OSError):
    """An input cannot be read.

    Args:
        path: the input as the caller named it.
        why: the reason, to complete "cannot read <path>: …", or such sentences.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why
        # OSError interprets the first of two arguments as an error number.
        self.errno = None

    def __str__(self) -> str:
        return self.why if self.why.startswith("cannot read ") else f"cannot read {self.path}: {self.why}"


class InputMissingError(InputError, FileNotFoundError):
    """The path does not exist."""

    def __init__(self, path: str, why: str = NO_FILE) -> None:
        super().__init__(path, why)


class InputForbiddenError(InputError, PermissionError):
    """The operating system denies read access."""


class InputKindError(InputError):
    """The path is not a regular file."""
