"""Formats what is known about a connector as lines of text, for transactional ids and groups."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.coordinators.connectors import Connector
from kforensics.forensics.core.formatting import format_count, format_time_ms
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.screen import Line, Screen

__all__ = ["connector_lines"]

# Parts of a source that are listed.
LISTED = 5


def connector_lines(connector: Connector | None, screen: Screen) -> Iterator[str]:
    """Yield what is known about a connector.

    Args:
        connector: the connector; None if nothing is known.
        screen: where it is shown.
    """
    if connector is None:
        return
    parts = [] if connector.tasks is None else [format_count(connector.tasks, "task")]
    parts += [] if connector.state is None else [f"last status {printable(connector.state)}"]
    if parts:
        yield Line(f"  connector {printable(connector.name)}: {', '.join(parts)}", hang=4)
    yield from _fencing(connector)
    offsets = list(connector.offsets.values())
    limit = screen.shown(LISTED)
    for one in offsets[:limit]:
        time = "" if one.time == NO_TIME else f", committed {format_time_ms(one.time)}"
        text = f"source offset of {one.partition} in {one.topic}: {one.offset}{time}"
        yield Line(f"  {printable(text)}", hang=4)
    if limit is not None and len(offsets) > limit:
        yield f"  … and {format_count(len(offsets) - limit, 'more source offset')}"
        yield from screen.rest("--all")


def _fencing(connector: Connector) -> Iterator[str]:
    if connector.task_count is None:
        return
    count = format_count(connector.task_count, "task")
    if connector.is_fenced:
        yield Line(f"  fencing: the newest task count record, of {count}, follows the configurations of tasks", hang=4)
    else:
        yield Line(
            f"  fencing: due, before tasks of the newest configurations start the leader fences those of the newest "
            f"task count record, {count}",
            hang=4,
        )
