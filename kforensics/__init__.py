"""Analyze the log directories of Apache Kafka brokers, without a broker."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kforensics import plots
    from kforensics.api.audits import Audit, audit, report, scan, verify
    from kforensics.api.clusters import cluster, collect, forecast, groups, ids, mirror, settings
    from kforensics.api.drawing import plot
    from kforensics.api.lazy_dump import Dump, dump
    from kforensics.api.opened import Opened, open  # noqa: A004  # it opens, as gzip.open does
    from kforensics.api.partition_questions import duplicates, explain, keys, lso, producers, transactions
    from kforensics.api.querying import query
    from kforensics.api.views.table_view import TableView
    from kforensics.spark import register, views
    from kforensics.version import __version__

__all__ = [
    "Audit",
    "Dump",
    "Opened",
    "TableView",
    "__version__",
    "audit",
    "cluster",
    "collect",
    "dump",
    "duplicates",
    "explain",
    "forecast",
    "groups",
    "ids",
    "keys",
    "lso",
    "mirror",
    "open",
    "plot",
    "plots",
    "producers",
    "query",
    "register",
    "report",
    "scan",
    "settings",
    "transactions",
    "verify",
    "views",
]


# The module of each public name that is not in api.partition_questions. None is imported before its name is used.
_MODULES = {
    "__version__": "version",
    **dict.fromkeys(("Audit", "audit", "report", "scan", "verify"), "api.audits"),
    **dict.fromkeys(("cluster", "collect", "forecast", "groups", "ids", "mirror", "settings"), "api.clusters"),
    "Dump": "api.lazy_dump",
    "dump": "api.lazy_dump",
    "Opened": "api.opened",
    "TableView": "api.views.table_view",
    "open": "api.opened",
    "plot": "api.drawing",
    "plots": "plots",
    "query": "api.querying",
    "register": "spark",
    "views": "spark",
}


def __getattr__(name: str) -> Any:
    """Import the module of a public name when the name is first used: `import kforensics` stays cheap."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'api.partition_questions')}")
    return module if name == "plots" else getattr(module, name)
