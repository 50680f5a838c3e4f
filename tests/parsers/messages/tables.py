"""What the tests of the messages go over: every table, in every release and version that knew it."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.parsers.messages import (
    control,
    group,
    metadata,
    remote_log,
    share,
    share_group,
    streams_group,
    transaction,
)
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES
from kforensics.parsers.messages.schema import Message, layout

MODULES = (control, group, metadata, remote_log, share, share_group, streams_group, transaction)
MESSAGES = [held for module in MODULES for held in vars(module).values() if isinstance(held, Message)]


def versions(message: Message) -> Iterator[tuple[str, int]]:
    """Every release of the tables that knew a message, with each version it knew."""
    for release in LAYOUT_RELEASES:
        if message.known_to(release):
            for version in range(layout(message, release).highest_version + 1):
                yield release, version
