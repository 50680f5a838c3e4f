"""Reads what Apache Kafka leaves on disk and says what happened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kforensics.version import __version__

if TYPE_CHECKING:
    from kforensics import plots
    from kforensics.api import Dump, dump
    from kforensics.forensics.spark import register
    from kforensics.opened import Opened, open  # noqa: A004  # it opens, as gzip.open does
    from kforensics.verdicts_api import (
        Audit,
        audit,
        duplicates,
        explain,
        keys,
        lso,
        producers,
        report,
        scan,
        transactions,
        verify,
    )

__all__ = [
    "Audit",
    "Dump",
    "Opened",
    "__version__",
    "audit",
    "dump",
    "duplicates",
    "explain",
    "keys",
    "lso",
    "open",
    "plots",
    "producers",
    "register",
    "report",
    "scan",
    "transactions",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Load the library when it is first used: `import kforensics` stays cheap."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "register":
        from kforensics.forensics.spark import register

        return register
    if name == "plots":
        return import_module("kforensics.plots")
    if name in ("Opened", "open"):
        return getattr(import_module("kforensics.opened"), name)
    from kforensics import api

    if hasattr(api, name):
        return getattr(api, name)
    from kforensics import verdicts_api

    return getattr(verdicts_api, name)
