"""The components whose naming transactional ids and groups follow, and what these do next with an open transaction.

A name is no proof: whoever may write to a cluster may take any name. Rules, by component:

- Kafka Streams, ``StreamsProducer``: ``<application.id>-<process uuid>-<thread>`` with exactly_once_v2, before that
  ``<application.id>-<subtopology>_<partition>``; the group is the application. Its assignor is ``stream``. The uuid is
  kept in the state directory if a store is on disk, and otherwise new at each start (``StateDirectory``).
- Kafka Connect, ``DistributedConfig``, ``Worker`` and ``SinkUtils``: ``connect-cluster-<group.id>`` for the leader of
  the workers, ``<group.id>-<connector>-<task>`` for a task of an exactly-once source connector, the group
  ``connect-<connector>`` for a sink connector, whose clients are ``connector-consumer-<connector>-<task>``.
- MirrorMaker 2, ``MirrorMakerConfig``: the same with the group.id ``<source>-mm2`` and connectors named by their class.
- Flink, ``TransactionalIdFactory``: ``<prefix>-<subtask>-<number>``, where the number counts checkpoints, or the
  transactions that are in use at once if the naming strategy is pooling. ``KafkaCommitter`` commits what a checkpoint
  contains, with the producer id and epoch from there, ``TransactionAborter`` initializes the other ids.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import NamedTuple

from kforensics.forensics.coordinators.consumer_groups.group_states import GroupState

__all__ = [
    "COMPONENTS",
    "NEXT_STEPS",
    "GroupNaming",
    "IdName",
    "IdNaming",
    "group_naming",
    "id_naming",
    "workers_among",
]

UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
NUMBER = r"(?:0|[1-9][0-9]{0,18})"
WORKER = "connect-cluster-"
SINK, SINK_CLIENT = "connect-", "connector-consumer-"
# The group.id of the workers in Kafka's configuration file, and the assignor and protocol type of groups.
DEFAULT_WORKERS = "connect-cluster"
STREAMS_ASSIGNOR, CONNECT_TYPE, REPARTITION = "stream", "connect", "-repartition"
OF_MIRROR = "-mm2"
# The number of a subtask is below the largest maximum parallelism.
MAX_PARALLELISM = 1 << 15
COMPONENTS = ("Kafka Streams", "Kafka Connect", "MirrorMaker 2", "Flink")
STREAMS, CONNECT, MIRROR, FLINK = range(len(COMPONENTS))


class IdNaming(IntEnum):
    """What a transactional id names."""

    THREAD = 0
    TASK = 1
    WORKERS = 2
    SOURCE_TASK = 3
    MIRROR_WORKERS = 4
    MIRROR_TASK = 5
    SUBTASK = 6

    @property
    def component(self) -> int:
        """The index of its component."""
        return (STREAMS, STREAMS, CONNECT, CONNECT, MIRROR, MIRROR, FLINK)[self]


OF_THREAD = (
    "if the application has a store on disk, the thread initializes the id when it starts with the same state "
    "directory, which aborts it; otherwise each start takes a new id, and only the timeout of this one ends it; "
    "its input is read again from the committed offsets of the group of the application"
)
OF_TASK = (
    "the next owner of the task initializes the id, which aborts it; "
    "its input is read again from the committed offsets of the group of the application"
)
OF_WORKERS = "the next leader of the workers initializes the id, which aborts it"
OF_SOURCE = (
    "the task, or the leader before it starts the tasks again, initializes the id, which aborts it; "
    "the task goes on after the source offsets of its last committed transaction"
)
OF_SUBTASK = (
    "a restored job commits it with this producer id and epoch if the checkpoint contains them, "
    "and otherwise aborts it by initializing the id"
)
# What happens to an open transaction next, by naming.
NEXT_STEPS = (OF_THREAD, OF_TASK, OF_WORKERS, OF_SOURCE, OF_WORKERS, OF_SOURCE, OF_SUBTASK)
# The most specific comes first.
PATTERNS = (
    (IdNaming.THREAD, re.compile(rf"(.+)-({UUID})-({NUMBER})"), "thread {2} of application {0}, process {1}"),
    (IdNaming.TASK, re.compile(rf"(.+)-({NUMBER}_{NUMBER})"), "task {1} of application {0}"),
    (
        IdNaming.MIRROR_TASK,
        re.compile(rf"(.+)-(Mirror(?:Source|Checkpoint|Heartbeat)Connector)-({NUMBER})"),
        "task {2} of {1}, worker group {0}",
    ),
    (
        IdNaming.SUBTASK,
        re.compile(rf"(.+)-({NUMBER})-({NUMBER})"),
        "subtask {1} of the sink with the prefix {0}, number {2}",
    ),
)


class IdName(NamedTuple):
    """What a transactional id looks like.

    Attributes:
        naming: what it names.
        part: that part of the component, as a clause.
        connector: the connector whose task it names, None for anything else.
    """

    naming: IdNaming
    part: str
    connector: str | None = None


def workers_among(names: Iterable[str]) -> frozenset[str]:
    """Return the group.id of each Connect cluster whose workers' transactional id is among some."""
    return frozenset(name[len(WORKER) :] for name in names if name.startswith(WORKER)) - {""}


def id_naming(name: str, workers: Collection[str]) -> IdName | None:
    """Return what a transactional id looks like, None if its name fits no component.

    Args:
        name: the transactional id.
        workers: the group.id of each Connect cluster that is known by the transactional id of its workers; a task of
            any other has a name like every producer that is numbered.

    >>> id_naming("clicks-3-17", ()).part
    'subtask 3 of the sink with the prefix clicks, number 17'
    """
    if name.startswith(WORKER) and len(name) > len(WORKER):
        group = name[len(WORKER) :]
        is_mirror = group.endswith(OF_MIRROR)
        return IdName(IdNaming.MIRROR_WORKERS if is_mirror else IdNaming.WORKERS, f"workers of group {group}")
    if not name[-1:].isdigit():
        return None
    for group in sorted(workers, key=len, reverse=True):
        if name.startswith(f"{group}-") and (task := re.fullmatch(rf"(.+)-({NUMBER})", name[len(group) + 1 :])):
            is_mirror = group.endswith(OF_MIRROR)
            naming = IdNaming.MIRROR_TASK if is_mirror else IdNaming.SOURCE_TASK
            return IdName(naming, f"task {task[2]} of connector {task[1]}, worker group {group}", task[1])
    for naming, pattern, clause in PATTERNS:
        if fits := pattern.fullmatch(name):
            is_possible = naming is not IdNaming.SUBTASK or int(fits[2]) < MAX_PARALLELISM
            connector = fits[2] if naming is IdNaming.MIRROR_TASK else None
            return IdName(naming, clause.format(*fits.groups()), connector) if is_possible else None
    return None


class GroupNaming(NamedTuple):
    """What a group looks like, or is by its records.

    Attributes:
        component: the index of the component.
        part: that part of the component, as a clause.
        next_step: what it does when it starts again.
        is_recorded: whether records of the group show it, such as its type or its clients, and not only its name.
        connector: the sink connector whose group it is, None for anything else.
    """

    component: int
    part: str
    next_step: str
    is_recorded: bool
    connector: str | None = None

    @property
    def source(self) -> str:
        """What shows it: records, or only the name."""
        return "records" if self.is_recorded else "name"


STREAMS_START = (
    "its tasks read on at the committed offsets and restore what their stores lack from the changelog topics"
)
SINK_START = "its tasks read on at the committed offsets, unless the connector keeps offsets in the system it writes to"
WORKERS_START = "workers join it and are assigned connectors and tasks; it commits no offsets"
AFTER_REMOVAL = "it starts without committed offsets, since the group was removed"


def group_naming(group: str, state: GroupState | None, topics: Iterable[str]) -> GroupNaming | None:
    """Return what a group looks like or is, None if neither its records nor its name fit a component.

    Args:
        group: its name.
        state: its last state, None if it has no records of its own.
        topics: the topics whose offsets it has committed.
    """
    kind, protocol = (None, None) if state is None else (state.kind, state.protocol)
    is_removed = state is not None and state.removed_in is not None
    of_streams = AFTER_REMOVAL if is_removed else STREAMS_START
    if kind == "streams" or protocol == STREAMS_ASSIGNOR:
        return GroupNaming(STREAMS, f"application {group}", of_streams, is_recorded=True)
    is_mirror = group.endswith(OF_MIRROR) and group != OF_MIRROR
    if state is not None and state.protocol_type == CONNECT_TYPE:
        return GroupNaming(MIRROR if is_mirror else CONNECT, f"workers of group {group}", WORKERS_START, not is_mirror)
    if any(topic.startswith(f"{group}-") and topic.endswith(REPARTITION) for topic in topics):
        return GroupNaming(STREAMS, f"application {group}", of_streams, is_recorded=False)
    if group.startswith(SINK) and group not in (SINK, DEFAULT_WORKERS):
        connector = group[len(SINK) :]
        clients = () if state is None else state.members.values()
        is_recorded = bool(clients) and all(name.startswith(f"{SINK_CLIENT}{connector}-") for name in clients)
        step = AFTER_REMOVAL if is_removed else SINK_START
        return GroupNaming(CONNECT, f"sink connector {connector}", step, is_recorded, connector)
    return None
