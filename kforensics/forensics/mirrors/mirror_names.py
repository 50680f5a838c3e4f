"""Finds the mirrors of topics by the names that MirrorMaker 2 gives them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

__all__ = ["MirroredTopic", "mirrored_topics", "sync_alias"]

# DefaultReplicationPolicy.SEPARATOR_DEFAULT
SEPARATOR = "."
# ReplicationPolicy.isInternalTopic, MirrorClientConfig.HEARTBEATS_TOPIC, TopicConfig of the brokers.
INTERNAL = re.compile(r"__.*|.*[.-]internal|heartbeats|(.+\.)?heartbeats")
SYNCS = re.compile(r"mm2-offset-syncs[.](.+)[.]internal")


class MirroredTopic(NamedTuple):
    """A topic and its mirror.

    Attributes:
        topic: its name in the source cluster.
        mirror: its name in the target cluster.
        alias: alias of the source cluster, None with IdentityReplicationPolicy or a name that the user gives.
    """

    topic: str
    mirror: str
    alias: str | None


def mirrored_topics(topics: Collection[str], targets: Collection[str]) -> Iterator[MirroredTopic]:
    """Yield the topics that have a mirror, in order.

    A name with an alias in front counts before an equal one: with replication in both directions, the equal name is the
    topic that the applications of the target cluster write themselves. Of several topics that a name may be the mirror
    of, the one with the longest name is taken: ``a.b.orders`` is ``b.orders`` of the cluster ``a`` if there is such a
    topic, and ``orders`` of the cluster ``a.b`` otherwise.

    >>> list(mirrored_topics(["orders", "paid"], ["eu.orders", "orders", "paid"]))  # doctest: +NORMALIZE_WHITESPACE
    [MirroredTopic(topic='orders', mirror='eu.orders', alias='eu'),
     MirroredTopic(topic='paid', mirror='paid', alias=None)]

    Args:
        topics: the topics of the source cluster.
        targets: the topics of the target cluster.
    """
    plain = sorted(topic for topic in topics if not INTERNAL.fullmatch(topic))
    with_alias: dict[str, list[MirroredTopic]] = {}
    for target in sorted(targets):
        suffixes = (target[at + 1 :] for at, sign in enumerate(target) if sign == SEPARATOR and at)
        topic = next((suffix for suffix in suffixes if suffix in plain), None)
        if topic is not None and not INTERNAL.fullmatch(target):
            alias = target.removesuffix(f"{SEPARATOR}{topic}")
            with_alias.setdefault(topic, []).append(MirroredTopic(topic, target, alias))
    for topic in plain:
        if topic in with_alias:
            yield from with_alias[topic]
        elif topic in targets:
            yield MirroredTopic(topic, topic, None)


def sync_alias(topic: str) -> str | None:
    """Return the alias in the name of a topic of offset syncs, None for any other topic.

    On the source cluster, where it is by default, it has the alias of the target cluster, and vice versa.

    >>> sync_alias("mm2-offset-syncs.eu.internal"), sync_alias("orders")
    ('eu', None)
    """
    name = SYNCS.fullmatch(topic)
    return name[1] if name else None
