"""The keys of topics: from the partitions under some paths to one judgement for each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kforensics.analyses.partitions import Investigation
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.topic_result import KeyJudgement, has_keys, judge_keys
from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.keys.key_summary import KeySummary, key_summary
from kforensics.forensics.metadata.topic_metadata import topics_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.tables.schemas import Table

__all__ = ["KeysQuestion", "judged_topics"]

Unread = Callable[[str], None]
Topic = tuple[str, str | None]
LISTS = {"partitions": "key_partitions", "keys": "keys_apart", "producers": "producer_batches"}


@dataclass(frozen=True, slots=True)
class KeysQuestion:
    """Where do keys lie?

    Attributes:
        topics: only these, all if none is named.
        partition_count: how many partitions the topic has today, None if nobody says.
        listed: which rows are wanted: a key of LISTS.

    Raises:
        UsageError: there are no such rows.
    """

    topics: tuple[str, ...] = ()
    partition_count: int | None = None
    listed: str = "partitions"

    def __post_init__(self) -> None:
        if self.listed not in LISTS:
            raise UsageError(f"--list {self.listed!r} is none of {', '.join(LISTS)}")

    @property
    def table(self) -> Table:
        """The table whose rows are wanted."""
        return KEY_RESULTS[LISTS[self.listed]]


def judged_topics(found: Investigation, question: KeysQuestion, unread: Unread) -> Iterator[KeyJudgement]:
    """Yield what is to be said of the keys of each topic, by name.

    Args:
        found: all partitions under the paths: those of the cluster's metadata tell how many a topic has.
        question: what is asked.
        unread: told of each partition that cannot be read, in a sentence; the others are looked at all the same.

    Raises:
        UsageError: none of the topics is there, or they cannot have so many partitions as the user says.
    """
    groups = _by_topic(found.partitions, question.topics)
    _check_count(groups, question)
    told = topics_in(found.partitions) if groups else {}
    for (_, topic_id), partitions in groups.items():
        summaries = list(_summaries(found, partitions, unread))
        if summaries:
            yield judge_keys(summaries, found.rules, question.partition_count, told.get(topic_id or ""))


def _by_topic(partitions: Sequence[Partition], wanted: Sequence[str]) -> dict[Topic, list[Partition]]:
    """Return partitions by topic; a copy without id belongs to the only topic of its name, or to one of its own."""
    some = [one for one in partitions if has_keys(one.place) and (not wanted or one.place.topic in wanted)]
    if not some:
        which = f"of {' or '.join(wanted)}" if wanted else "but for the topics of brokers themselves"
        raise UsageError(f"there is no partition {which}; name log directories or partition folders such as orders-0")
    ids: dict[str, set[str]] = {}
    for one in some:
        ids.setdefault(one.place.topic or "", set()).update([one.topic_id] if one.topic_id else [])
    groups: dict[Topic, list[Partition]] = {}
    for one in some:
        name = one.place.topic or ""
        only = next(iter(ids[name])) if len(ids[name]) == 1 else None
        groups.setdefault((name, one.topic_id or only), []).append(one)
    return dict(sorted(groups.items(), key=lambda group: (group[0][0], group[0][1] or "")))


def _check_count(groups: dict[Topic, list[Partition]], question: KeysQuestion) -> None:
    count = question.partition_count
    if count is None:
        return
    if len(groups) > 1:
        names = ", ".join(sorted({name for name, _ in groups}))
        raise UsageError(f"--partition-count is that of one topic, and there are {names}; name one with --topic")
    highest = max(one.place.partition or 0 for partitions in groups.values() for one in partitions)
    if count <= highest:
        ((name, _),) = groups
        raise UsageError(f"--partition-count {count} is too low: {name}-{highest} is here; give at least {highest + 1}")


def _summaries(found: Investigation, partitions: Sequence[Partition], unread: Unread) -> Iterator[KeySummary]:
    for partition in partitions:
        try:
            yield key_summary(examine(partition, found.rules))
        except InputError as error:
            unread(f"{error}; the other partitions are looked at all the same")
