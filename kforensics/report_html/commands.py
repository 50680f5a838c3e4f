"""Finds the commands in what is to be done about a finding, so that a person can copy them."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["pieces"]

# A word of a value ends in no full stop, which would be that of the sentence; <…> is for the reader to fill in. In
# single quotes a shell acts on nothing; what else than printable ASCII stands there is not offered all the same.
VALUE = r"""(?:<[^<>]*>|'[ -&(-~]*'(?!["'])|[A-Za-z0-9._-]*[A-Za-z0-9_-])"""
COMMAND = re.compile(rf"kafka-[a-z-]+\.sh(?: --[A-Za-z-]+ {VALUE}| [A-Za-z]+(?:-[a-z]+)*(?= --))+")
# What Kafka lets a topic be named (Topic.LEGAL_CHARS); a folder may have any name, and a shell would act on it.
LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def pieces(remedy: str, topic: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a remedy in order, each with whether it is a command.

    >>> list(pieces("Ask with kafka-topics.sh --list --topic a.b; then wait.", "a.b"))
    [('Ask with ', False), ('kafka-topics.sh --list --topic a.b', True), ('; then wait.', False)]

    Args:
        remedy: what is to be done, in words.
        topic: the topic whose name is in it; where no broker allows such a name, nothing is offered as a command.
    """
    if topic is not None and not LEGAL_TOPIC.fullmatch(topic):
        yield remedy, False
        return
    at = 0
    for found in COMMAND.finditer(remedy):
        yield remedy[at : found.start()], False
        yield found[0], True
        at = found.end()
    yield remedy[at:], False
