"""Lists transactional ids, the history of one id, and the internal-topic partitions that ids and groups hash to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from kforensics.analyses.connect import connector_in
from kforensics.analyses.explain import PartitionReader, coordinators_among, unknown_id
from kforensics.analyses.partitions import Investigation, OnUnreadable, ignore
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.cluster_result import best_histories, group_commits
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.cluster_rows import IdList, id_rows
from kforensics.forensics.coordinators.component_names import id_naming, workers_among
from kforensics.forensics.coordinators.coordinator_records import NONE, TRANSACTION_STATE, State
from kforensics.forensics.coordinators.partition_of import NamePartition, hashes_of, java_hashes, likely_count
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.transactions.history_replay import history_of
from kforensics.forensics.coordinators.transactions.id_events import IdEvents, TransactionalIdHistory
from kforensics.forensics.core.broker_settings import OFFSETS_PARTITIONS, STATE_PARTITIONS
from kforensics.forensics.core.cluster_tables import ID_EVENTS, NAME_PARTITIONS, TRANSACTIONAL_IDS
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.tables.schemas import Table

__all__ = ["IdsRequest", "answer_ids", "why_unknown_id"]


@dataclass(frozen=True, slots=True)
class IdsRequest:
    """Which transactional ids are there, what happened to one of them, or where does a name belong?

    Attributes:
        transactional_id: the id whose history to show.
        where: the name whose partitions to show.

    Raises:
        UsageError: both are given.
    """

    transactional_id: str | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if self.transactional_id is not None and self.where is not None:
            raise UsageError("--transactional-id shows the life of an id, --where the partitions of a name; give one")

    @property
    def table(self) -> Table:
        """The table of the rows."""
        if self.where is not None:
            return NAME_PARTITIONS
        return TRANSACTIONAL_IDS if self.transactional_id is None else ID_EVENTS


def answer_ids(
    investigation: Investigation, request: IdsRequest, on_unreadable: OnUnreadable
) -> Iterator[IdList | TransactionalIdHistory | NamePartition]:
    """Yield the ids of each cluster, the history of one in each cluster that has it, or the partitions of a name.

    Args:
        investigation: all partitions under the paths.
        request: what to show.
        on_unreadable: takes the error of a partition that cannot be read; the next partition follows.

    Raises:
        UsageError: no coordinator's log is under the paths, or none has the id.
    """
    reader = PartitionReader(investigation, on_unreadable, needs_settings=request.transactional_id is not None)
    if request.where is not None:
        yield from _partitions_of(reader, request.where)
        return
    if not coordinators_among(investigation) and reader.is_complete:
        raise UsageError(f"no partition of {TRANSACTION_STATE} is under the paths; add its log directory")
    if request.transactional_id is not None:
        yield from _id_histories(reader, request.transactional_id)
        return
    for name, histories in reader.histories().items():
        best = best_histories(histories)
        yield IdList(name, len(best), tuple(id_rows(Cluster.of(best, (), investigation.rules))))


def why_unknown_id(investigation: Investigation, transactional_id: str) -> str | None:
    """Return the error for a transactional id without a record in the coordinators' logs; None if it has one."""
    reader = PartitionReader(investigation, ignore, needs_settings=False)
    known = {name for histories in reader.histories().values() for history in histories for name in history.names}
    return None if transactional_id in known else unknown_id(investigation, transactional_id, sorted(known))


def _id_histories(reader: PartitionReader, transactional_id: str) -> Iterator[TransactionalIdHistory]:
    investigation = reader.investigation
    by_cluster = defaultdict[str, list[tuple[History, IdEvents]]](list)
    for state in reader.states(coordinators_among(investigation)):
        events = IdEvents(transactional_id)
        try:
            history = history_of(state, events.take)
        except InputError as error:
            reader.skip(error)
        else:
            by_cluster[investigation.clusters.name_of(state.partition)].append((history, events))
    is_known = False
    for name, replicas in by_cluster.items():
        workers = workers_among(name for history, _ in replicas for name in history.names)
        best = {id(history) for history in best_histories(history for history, _ in replicas)}
        for history, events in replicas:
            if id(history) in best and transactional_id in history.names:
                is_known = True
                naming = id_naming(transactional_id, workers)
                connector = None
                if naming is not None and naming.connector is not None:
                    connector = connector_in(reader, name, naming.connector)
                life = _id_history(transactional_id, history, events)
                yield replace(life, naming=naming, connector=connector)
    if not is_known and reader.is_complete:
        known = [name for replicas in by_cluster.values() for history, _ in replicas for name in history.names]
        raise UsageError(unknown_id(investigation, transactional_id, known))


def _id_history(transactional_id: str, history: History, events: IdEvents) -> TransactionalIdHistory:
    (facts,) = history.ids[[list(history.names).index(transactional_id)]]
    state = None if facts["status"] == NONE else str(State(facts["status"]))
    complete = tuple(events.finish())
    return TransactionalIdHistory(
        transactional_id,
        history.place,
        history.paths,
        state,
        bool(facts["is_removed"]),
        complete,
        lagging_since=history.lagging_since,
    )


def _partitions_of(reader: PartitionReader, name: str) -> Iterator[NamePartition]:
    """Yield the partition of a name as transactional id and as group, in each cluster."""
    investigation = reader.investigation
    members = defaultdict[str, list[Partition]](list)
    for partition in (*investigation.partitions, *investigation.neighbors):
        members[investigation.clusters.name_of(partition)].append(partition)
    kinds = (
        ("transactional id", TRANSACTION_STATE, STATE_PARTITIONS),
        ("group", CONSUMER_OFFSETS, OFFSETS_PARTITIONS),
    )
    (hashed,) = java_hashes([name]).tolist()
    for partitions in members.values():
        rules = investigation.known_rules.across({one.place.log_dir for one in partitions})
        for kind, topic, setting in kinds:
            logs = [one for one in partitions if one.place.topic == topic and one.has_log]
            count, source = _partition_count(reader, logs, rules, setting)
            is_available = hashed % count in {one.place.partition for one in logs}
            yield NamePartition(name, kind, topic, hashed, count, source, is_available)


def _partition_count(reader: PartitionReader, logs: Sequence[Partition], rules: Rules, setting: str) -> tuple[int, str]:
    """Return the number of partitions of an internal topic, and where it comes from.

    Without the metadata log, the names in the files show it if most of them fit.
    """
    evidence = rules.evidence(setting)
    default = int(str(evidence["setting_value"])), str(evidence["setting_source"])
    if not rules.is_default(setting) or not logs:
        return default
    of_topic = _hashes_of_ids if setting == STATE_PARTITIONS else _hashes_of_groups
    hashed = [(number, hashes) for number, hashes in of_topic(reader, logs) if len(hashes)]
    hashes = np.concatenate([np.empty(0, "i8"), *(hashes for _, hashes in hashed)])
    actual = np.concatenate([np.empty(0, "i8"), *(np.full(len(hashes), number) for number, hashes in hashed)])
    count = likely_count([one.place.partition or 0 for one in logs], hashes, actual) if len(hashes) else None
    if count is None:
        return default
    fits, by_default = (int((hashes % number == actual).sum()) for number in (count, default[0]))
    if fits <= by_default:  # one partition alone is no evidence: every name fits a single one
        return default
    return count, (
        f"estimated: {fits} of {len(hashes)} names in the logs are where it puts them, "
        f"{by_default} where the default of {default[0]} does"
    )


def _hashes_of_ids(reader: PartitionReader, logs: Sequence[Partition]) -> Iterator[tuple[int, IntArray]]:
    histories = chain.from_iterable(reader.histories().values())
    folders = {(one.place.log_dir, one.place.partition) for one in logs}
    for history in histories:
        if (history.place.log_dir, history.place.partition) in folders:
            yield history.place.partition or 0, java_hashes(history.names)


def _hashes_of_groups(reader: PartitionReader, logs: Sequence[Partition]) -> Iterator[tuple[int, IntArray]]:
    for state in reader.states(logs):
        try:
            yield state.partition.place.partition or 0, hashes_of(group_commits(state).groups.names)
        except InputError as error:
            reader.skip(error)
