"""The event log of a Spark application: what its UI and history server show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["EVENT_LOG", "events", "events_in"]

# For a driver, with the folder that is to be named as ``spark.eventLog.dir``.
EVENT_LOG = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}


def events_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of all applications that logged into a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name.startswith(("events_", "app-", "local-")):
            yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of one kind, such as ``TaskStart``."""
    return [event for event in events_in(folder) if event["Event"] == f"SparkListener{kind}"]
