"""Where the keys of topics are: one result for each topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kforensics.analyses.partitions import Investigation, OnUnreadable
from kforensics.analyses.topics import is_selected
from kforensics.analyses.without_records import refuse_without_records
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.topic_result import TopicKeyResult, evaluate_keys, has_keys
from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.keys.key_summary import KeySummary, key_summary
from kforensics.forensics.metadata.topic_metadata import topics_in
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.tables.schemas import Table

# Name and id of a topic.
Topic: TypeAlias = tuple[str, str | None]
TopicResult: TypeAlias = TopicKeyResult | MissingLog
LISTS = {"partitions": "key_partitions", "keys": "keys_apart", "producers": "producer_batches"}


@dataclass(frozen=True, slots=True)
class KeysRequest:
    """Where are the keys of topics?

    Attributes:
        topics: only these topics; all if it is empty.
        partition_count: how many partitions the topic has today; None if the user does not know.
        listed: which rows to list, a key of LISTS.

    Raises:
        UsageError: there is no such list.
    """

    topics: tuple[str, ...] = ()
    partition_count: int | None = None
    listed: str = "partitions"

    def __post_init__(self) -> None:
        if self.listed not in LISTS:
            raise UsageError(f"--list {self.listed!r} is not one of {', '.join(LISTS)}")

    @property
    def table(self) -> Table:
        """The table of the rows."""
        return KEY_RESULTS[LISTS[self.listed]]


def evaluate_topic_keys(
    investigation: Investigation, request: KeysRequest, on_unreadable: OnUnreadable
) -> Iterator[TopicResult]:
    """Yield the result of each topic, by name, after its partitions whose log is missing.

    Args:
        investigation: all partitions under the paths; the cluster's metadata log has the partition counts.
        request: which topics and rows.
        on_unreadable: takes the error of a partition that cannot be read; the next partition follows.

    Raises:
        UsageError: there is no such topic, or it cannot have as few partitions as the user says, or records were
            left out of the copy.
    """
    groups = _by_topic(investigation.partitions, request.topics)
    if not groups and not investigation.unreadable:
        where = f"of {' or '.join(request.topics)}" if request.topics else "except of Kafka's internal topics"
        raise UsageError(f"there is no partition {where}; name log directories or partition folders such as orders-0")
    _check_count(groups, request)
    refuse_without_records((one for partitions in groups.values() for one in partitions), "keys")
    metadata = topics_in((*investigation.partitions, *investigation.neighbors)) if groups else {}
    if investigation.progress is not None:
        investigation.progress.expect({one.folder: one.size for partitions in groups.values() for one in partitions})
    for (_, topic_id), partitions in groups.items():
        for state in investigation.of([one for one in partitions if not one.has_log]).states(on_unreadable):
            yield MissingLog.of(state, "keys")
        with_log = [one for one in partitions if one.has_log]
        summaries = list(_summaries(investigation.of(with_log), on_unreadable))
        if summaries:
            rules, count = investigation.rules, request.partition_count
            yield evaluate_keys(summaries, rules, count, metadata.get(topic_id or ""))


def _by_topic(partitions: Sequence[Partition], topics: Sequence[str]) -> dict[Topic, list[Partition]]:
    """Return the partitions by topic.

    A partition without a topic id belongs to the only topic of its name. If there are several, it gets a group of its
    own.
    """
    selected = [
        partition
        for partition in partitions
        if has_keys(partition.place) and is_selected(partition.place.topic, topics)
    ]
    ids: dict[str, set[str]] = {}
    for partition in selected:
        ids.setdefault(partition.place.topic or "", set()).update([partition.topic_id] if partition.topic_id else [])
    groups: dict[Topic, list[Partition]] = {}
    for partition in selected:
        name = partition.place.topic or ""
        only_id = next(iter(ids[name])) if len(ids[name]) == 1 else None
        groups.setdefault((name, partition.topic_id or only_id), []).append(partition)
    return dict(sorted(groups.items(), key=lambda group: (group[0][0], group[0][1] or "")))


def _check_count(groups: dict[Topic, list[Partition]], request: KeysRequest) -> None:
    count = request.partition_count
    if count is None or not groups:
        return
    if len(groups) > 1:
        names = ", ".join(sorted({name for name, _ in groups}))
        raise UsageError(f"--partition-count is for one topic, and there are {names}; name one with --topic")
    highest = max(partition.place.partition or 0 for partitions in groups.values() for partition in partitions)
    if count <= highest:
        ((name, _),) = groups
        raise UsageError(f"--partition-count {count} is too low: {name}-{highest} is here; give at least {highest + 1}")


def _summaries(investigation: Investigation, on_unreadable: OnUnreadable) -> Iterator[KeySummary]:
    for state in investigation.states(on_unreadable, needs_settings=False):
        try:
            yield key_summary(state)
        except InputError as error:
            on_unreadable(error)
