"""Reads what Apache Kafka leaves on disk and says what happened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kforensics.version import __version__

if TYPE_CHECKING:
    from kforensics import plots
    from kforensics.api.dump import Dump, dump
    from kforensics.api.opened import Opened, open  # noqa: A004  # it opens, as gzip.open does
    from kforensics.api.verdicts import (
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
    from kforensics.spark import register

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


# Where each public name is; none of these modules is loaded before its name is used.
_MODULES = {
    "Dump": "api.dump",
    "dump": "api.dump",
    "Opened": "api.opened",
    "open": "api.opened",
    "plots": "plots",
    "register": "spark",
}


def __getattr__(name: str) -> Any:
    """Load the library when it is first used: `import kforensics` stays cheap."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'api.verdicts')}")
    return module if name == "plots" else getattr(module, name)
