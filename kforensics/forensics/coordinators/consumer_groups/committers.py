"""Who committed an offset, as far as the files show it.

Records of commits name neither a member nor a transactional id. Of a group with members only these can commit
(``ClassicGroup.validateOffsetCommit``, ``ConsumerGroup.validateOffsetCommit``), and a consumer commits the partitions
that it was assigned, which the records of the group show; brokers do not check that. Of a transaction the records have
the producer id, and the transaction coordinator knows its transactional id; whether a member committed in it is not
known, because a producer may leave out the member (KIP-447).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster, partition_name
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, GroupPartition
from kforensics.forensics.coordinators.consumer_groups.group_states import GroupState
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.parsers.messages.group import CONSUMER_PROTOCOL_ASSIGNMENT
from kforensics.parsers.messages.internal_records import decode_consumer_protocol
from kforensics.parsers.messages.reader import MessageError

__all__ = ["NO_COMMITTER", "Committer", "committer_of", "producer_name"]

# The protocol type of classic groups whose assignments have the format of the consumer, and the group type of KIP-848.
CONSUMER = "consumer"
# Members that a sentence names.
NAMED = 5


class Committer(NamedTuple):
    """Who made a commit; what is not known is None.

    Attributes:
        member: member id.
        client_id: client id of that member.
        client_host: host from which that member joined, as its broker saw it.
        transactional_id: transactional id of its producer.
        why: what shows it, or why it is not known, as a clause.
    """

    member: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    transactional_id: str | None = None
    why: str = ""


NO_COMMITTER = Committer()


def committer_of(cluster: Cluster, key: GroupPartition, commit: Commit, group: GroupState | None) -> Committer:
    """Return who made a commit.

    Args:
        cluster: the cluster, with the partition and the transaction coordinators as far as they are available.
        key: group, topic and partition.
        commit: the commit.
        group: the state of the group when it took effect, None if no record shows it.
    """
    if commit.producer_id != NONE:
        name = _transactional_id(cluster, commit.producer_id)
        unknown = "" if name is not None else f"; its transactional id is unknown, as {_missing(cluster)}"
        why = f"{producer_name(cluster, commit.producer_id)} committed it{unknown}"
        return Committer(transactional_id=name, why=why)
    return NO_COMMITTER if group is None or not group.members else _member(cluster, key, commit, group)


def producer_name(cluster: Cluster, producer_id: int) -> str:
    """Return the name of the producer of a transaction: its transactional id if it is known, and its producer id.

    Args:
        cluster: the cluster, with the transaction coordinators as far as they are available.
        producer_id: the producer id.
    """
    name = _transactional_id(cluster, producer_id)
    return f"producer {producer_id}" if name is None else f"producer {producer_id} of {name!r}"


def _transactional_id(cluster: Cluster, producer_id: int) -> str | None:
    number = int(cluster.coordinators.id_of(np.array([producer_id], "i8"))[0])
    return None if number == NONE else cluster.coordinators.name(number)


def _missing(cluster: Cluster) -> str:
    is_read = bool(cluster.coordinators.histories)
    return "no record that is left names it" if is_read else "no log of a transaction coordinator is among the files"


def _member(cluster: Cluster, key: GroupPartition, commit: Commit, group: GroupState) -> Committer:
    """Return the only member, or the one that had the partition."""
    _, topic, partition = key
    if len(group.members) == 1:
        (member,) = group.members
        return _named(group, member, "its only member", "committed it")
    topic_id = _topic_id(cluster, key, commit)
    if CONSUMER not in (group.kind, group.protocol_type):
        return _unnamed(group, "the records of such a group do not show who has a partition")
    if group.kind == CONSUMER and topic_id is None:
        return _unnamed(group, f"the records of the group name topics by id, and that of {topic} is unknown")
    name = partition_name((topic, partition))
    owners = [member for member in group.members if _has(group, member, topic, topic_id, partition)]
    if len(owners) == 1:
        return _named(group, owners[0], f"the group had members, and {name} was assigned to")
    return _unnamed(group, f"{name} was assigned to {len(owners) or 'none'} of them")


def _named(group: GroupState, member: str, before: str, after: str = "") -> Committer:
    """Return a member as committer, with a clause that names it between two texts."""
    client, host = group.members[member], group.hosts.get(member)
    place = f", host {host.removeprefix('/')}" if host else ""
    generation = f" in generation {group.generation}" if group.generation != NONE else ""
    why = f"{before} {member} (client {client}{place}){generation} {after}".rstrip()
    return Committer(member, client, host, None, why)


def _unnamed(group: GroupState, why: str) -> Committer:
    clients = sorted({client for client in group.members.values() if client})
    more = f" and {len(clients) - NAMED} more" if len(clients) > NAMED else ""
    listed = f": {', '.join(clients[:NAMED])}{more}" if clients else ""
    return Committer(why=f"the group had {len(group.members)} members{listed}; which one is not known, as {why}")


def _topic_id(cluster: Cluster, key: GroupPartition, commit: Commit) -> str | None:
    """Return the topic id that the commit or the log of the partition has."""
    number = cluster.supplied_partitions.get(key[1:])
    of_log = None if number is None else cluster.marker_join.by_partition[number].topic_id
    return commit.topic_id or of_log


def _has(group: GroupState, member: str, topic: str, topic_id: str | None, partition: int) -> bool:
    """Return whether a member had a partition, as far as its assignment can be read."""
    assignment = group.assignments.get(member, ())
    if not isinstance(assignment, bytes):
        return any(name == topic_id and partition in numbers for name, numbers in assignment)
    try:
        _, fields = decode_consumer_protocol(CONSUMER_PROTOCOL_ASSIGNMENT, assignment)
    except MessageError:
        return False
    return any(one["topic"] == topic and partition in one["partitions"] for one in fields["assignedPartitions"])
