"""From partitions to the story of one offset, one producer or one transactional id."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from kforensics.analyses.partitions import Investigation
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.cluster_result import coordinator_history, judge_cluster
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import OffsetStory
from kforensics.forensics.explain.producer_story import ProducerStory, producer_story
from kforensics.forensics.explain.story_tables import (
    EXPLAINED_OFFSETS,
    EXPLAINED_PRODUCERS,
    EXPLAINED_TRANSACTIONS,
    Row,
    offset_row,
    producer_row,
    transaction_rows,
)
from kforensics.forensics.explain.transactional_id_story import (
    TransactionalIdStory,
    coordinator_partition,
    partitions_of_id,
    transactional_id_story,
)
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.tables.schemas import Table
from kforensics.render.explanations import offset_lines, producer_story_lines, transactional_id_lines
from kforensics.render.stories import partition_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Explained", "Explanation", "Subject", "explained"]

Story: TypeAlias = OffsetStory | ProducerStory | TransactionalIdStory
Unread = Callable[[str], None]
# Partitions that are named where one has to be chosen.
NAMED = 5


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about: exactly one of an offset, a producer and a transactional id.

    Attributes:
        offset: an offset of one partition.
        producer_id: a producer, in all partitions.
        transactional_id: a transactional id.
        at: for which high watermark an offset is judged; None for the log end.
        topics: only in partitions of these; all if none is named.
        partition: only in partitions of this number; None for all.
    """

    offset: int | None = None
    producer_id: int | None = None
    transactional_id: str | None = None
    at: int | None = None
    topics: tuple[str, ...] = ()
    partition: int | None = None

    def __post_init__(self) -> None:
        asked = (self.offset, self.producer_id, self.transactional_id)
        if sum(one is not None for one in asked) != 1:
            raise UsageError("say what to explain: one of --offset N, --producer-id N and --transactional-id ID")
        if self.at is not None and self.offset is None:
            raise UsageError("--at is for --offset; leave it out")
        if self.transactional_id is not None and (self.topics or self.partition is not None):
            raise UsageError("a transactional id is told of in all its partitions; leave out --topic and --partition")

    @property
    def table(self) -> Table:
        """The table that the answer is a part of."""
        if self.offset is not None:
            return EXPLAINED_OFFSETS
        return EXPLAINED_TRANSACTIONS if self.producer_id is None else EXPLAINED_PRODUCERS


@dataclass(frozen=True, slots=True)
class Explained:
    """A story.

    Attributes:
        story: what is told.
    """

    story: Story

    @property
    def rows(self) -> Iterator[Row]:
        """Its rows in the table of its subject."""
        if isinstance(self.story, OffsetStory):
            return iter([offset_row(self.story)])
        if isinstance(self.story, ProducerStory):
            return iter([producer_row(self.story)])
        return transaction_rows(self.story)

    @property
    def lines(self) -> Iterator[str]:
        """The same for people."""
        if isinstance(self.story, OffsetStory):
            return offset_lines(self.story)
        if isinstance(self.story, ProducerStory):
            return producer_story_lines(self.story)
        return transactional_id_lines(self.story)

    @property
    def severity(self) -> Severity | None:
        """How bad it is: an error where a record is lost, critical where an index misleads; None where all is well."""
        if not isinstance(self.story, OffsetStory):
            return None
        if self.story.is_shown_by_index or self.story.is_hidden_by_index:
            return Severity.CRITICAL
        return Severity.ERROR if self.story.fate.is_loss else None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is told of a subject.

    Attributes:
        subject: what was asked about.
        told: its stories: one for each replica on hand, for each partition, or one.
    """

    subject: Subject
    told: tuple[Explained, ...]

    @property
    def stories(self) -> tuple[Story, ...]:
        """The stories as values."""
        return tuple(one.story for one in self.told)

    @property
    def text(self) -> str:
        """The lines that the command prints."""
        return "".join(f"{line}\n" for one in self.told for line in one.lines)

    @property
    def table(self) -> pa.Table:
        """The rows that the command writes."""
        from kforensics.parsers.tables.arrow import table_of_parts  # who reads the text does without Arrow

        return table_of_parts(self.subject.table, [[row for one in self.told for row in one.rows]])


def explained(found: Investigation, subject: Subject, unread: Unread) -> Iterator[Explained]:
    """Yield the stories: one for each replica on hand, or for each partition, or one.

    Args:
        found: all partitions under the paths.
        subject: what is asked about.
        unread: told, as a sentence, what could not be read.

    Raises:
        UsageError: nothing on hand can tell, or the partition has to be named.
    """
    chosen, reader = _chosen(found.partitions, subject), _Reader(found, unread)
    if subject.offset is not None:
        stories: Iterator[Story] = _of_offset(reader, chosen, subject, subject.offset)
    elif subject.producer_id is not None:
        stories = _of_producer(reader, chosen, subject.producer_id)
    else:
        stories = _of_id(reader, subject.transactional_id or "")
    return map(Explained, stories)


class _Reader:
    """Reads partitions, and goes on where one cannot be read.

    Args:
        found: all partitions under the paths.
        unread: told, as a sentence, what could not be read.

    Attributes:
        found: as above.
        is_whole: whether nothing was left out so far.
    """

    def __init__(self, found: Investigation, unread: Unread) -> None:
        self.found, self._unread = found, unread
        self.is_whole = not found.unreadable

    def cases(self, partitions: Sequence[Partition]) -> Iterator[Case]:
        """Yield partitions as they have been read."""
        for one in replace(self.found, partitions=tuple(partitions)).examined():
            if one.case is None:
                self.leave_out(one.why or f"cannot read {one.partition.folder}")
            else:
                yield one.case

    def histories(self) -> Iterator[History]:
        """Yield what coordinators wrote, as far as their logs are under the paths."""
        for case in self.cases(_coordinators(self.found)):
            try:
                yield coordinator_history(case)
            except InputError as error:
                self.leave_out(str(error))

    def leave_out(self, why: str) -> None:
        """Tell what could not be read."""
        self.is_whole = False
        self._unread(why)


def _chosen(partitions: Sequence[Partition], subject: Subject) -> tuple[Partition, ...]:
    chosen = tuple(
        one
        for one in partitions
        if (not subject.topics or one.place.topic in subject.topics)
        and subject.partition in (None, one.place.partition)
    )
    if partitions and not chosen:
        raise UsageError(f"no such partition is under the paths, where there are {_named(partitions)}")
    return chosen


def _coordinators(found: Investigation) -> tuple[Partition, ...]:
    return tuple(one for one in found.partitions if one.place.topic == TRANSACTION_STATE)


def _named(partitions: Sequence[Partition]) -> str:
    names = sorted({partition_name(one.place._replace(broker_id=None), one.folder) for one in partitions})
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _of_offset(reader: _Reader, chosen: Sequence[Partition], subject: Subject, offset: int) -> Iterator[Story]:
    if len({(one.place.topic, one.place.partition) for one in chosen}) > 1:
        raise UsageError(f"an offset is one of a partition; choose one with --topic and --partition: {_named(chosen)}")
    for case in reader.cases(chosen):
        try:
            yield OffsetExplainer(case, subject.at).story(offset)
        except InputError as error:
            reader.leave_out(str(error))


def _of_producer(reader: _Reader, chosen: Sequence[Partition], producer_id: int) -> Iterator[Story]:
    told, whose = 0, _id_of(reader, producer_id)
    for case in reader.cases(chosen):
        story = producer_story(case, producer_id, whose)
        if story is not None:
            told += 1
            yield story
    if not told and reader.is_whole:
        raise UsageError(f"nothing of producer {producer_id} is in {_named(chosen)}; name other partitions")


def _id_of(reader: _Reader, producer_id: int) -> str | None:
    for history in reader.histories():
        numbers = history.uses["id"][history.uses["producer_id"] == producer_id].tolist()
        if numbers:
            return str(history.names[numbers[0]])
    return None


def _of_id(reader: _Reader, transactional_id: str) -> Iterator[Story]:
    histories = [one for one in reader.histories() if transactional_id in one.names]
    if not histories and reader.is_whole:
        raise UsageError(_unknown(reader.found, transactional_id))
    listed = set(chain.from_iterable(partitions_of_id(one, transactional_id) for one in histories))
    data = [one for one in reader.found.partitions if (one.place.topic, one.place.partition) in listed]
    cluster = judge_cluster(histories, map(Markers.of, reader.cases(data)), reader.found.rules, families=()).cluster
    story = transactional_id_story(cluster, transactional_id)
    if story is not None:
        yield story


def _unknown(found: Investigation, transactional_id: str) -> str:
    on_hand = _coordinators(found)
    likely = f"{TRANSACTION_STATE}-{coordinator_partition(transactional_id)}"
    where = f"with the default of 50 partitions its coordinator's log is {likely}"
    if not on_hand:
        return f"no partition of {TRANSACTION_STATE} is under the paths; add its log directory: {where}"
    return f"no record of the id {transactional_id!r} is in {_named(on_hand)}; {where}"
