"""All message schemas, and the releases and versions of each."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.parsers.messages import (
    control_messages,
    group,
    metadata,
    remote_log,
    share,
    share_and_streams_groups,
    transaction_log,
)
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES
from kforensics.parsers.messages.schema import MessageSchema, layout

MODULES = (control_messages, group, metadata, remote_log, share, share_and_streams_groups, transaction_log)
MESSAGES = [value for module in MODULES for value in vars(module).values() if isinstance(value, MessageSchema)]


def versions(message: MessageSchema) -> Iterator[tuple[str, int]]:
    """Yield every release that knew a message, with each version that it knew."""
    for release in LAYOUT_RELEASES:
        if message.known_to(release):
            for version in range(layout(message, release).highest_version + 1):
                yield release, version
