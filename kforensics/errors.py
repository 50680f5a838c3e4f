"""What a caller can do something about; everything else is damage or a finding.

KforensicsError
├── UsageError (ValueError)            the request itself cannot be answered: exit 2
├── MissingExtraError (ImportError)    an optional part is not installed: exit 1
├── EngineError (RuntimeError)         Spark does not start, or breaks off: exit 3
└── InputError (OSError)               an input cannot be read at all: exit 3
    ├── InputMissingError (FileNotFoundError)
    ├── InputForbiddenError (PermissionError)
    └── InputKindError                 a directory, socket or device in place of a file
"""

from __future__ import annotations

__all__ = [
    "EngineError",
    "InputError",
    "InputForbiddenError",
    "InputKindError",
    "InputMissingError",
    "KforensicsError",
    "MissingExtraError",
    "UsageError",
]


class KforensicsError(Exception):
    """Root of every error this package raises on purpose."""


class UsageError(KforensicsError, ValueError):
    """The request cannot be answered as it was put; the message says what to write instead."""


class MissingExtraError(KforensicsError, ImportError):
    """An optional part is not installed.

    Args:
        extra: name of the extra that brings the missing module, as in ``kforensics[spark]``.
        module: the module that could not be imported.
    """

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(extra, module)
        self.extra, self.module = extra, module

    def __str__(self) -> str:
        return f"{self.module} is not installed. Install it with: pip install 'kforensics[{self.extra}]'"


class EngineError(KforensicsError, RuntimeError):
    """The engine that should do the work does not start or breaks off; the message says what can be done about it."""


class InputError(KforensicsError, OSError):
    """An input cannot be read.

    Args:
        path: the input as the caller named it.
        why: half a sentence that completes "cannot read <path>: …".
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why
        # OSError takes the first of two arguments for a number.
        self.errno = None

    def __str__(self) -> str:
        return f"cannot read {self.path}: {self.why}"


class InputMissingError(InputError, FileNotFoundError):
    """There is nothing at the path."""


class InputForbiddenError(InputError, PermissionError):
    """The operating system refuses to open the path for reading."""


class InputKindError(InputError):
    """The path is not a regular file where one is needed."""
