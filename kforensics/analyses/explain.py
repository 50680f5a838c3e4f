"""Explains one offset, one producer or one transactional id, with the evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

from kforensics.analyses.context import Context
from kforensics.analyses.partitions import Investigation, OnUnreadable, ignore
from kforensics.analyses.topics import is_numbered, is_selected, similar
from kforensics.analyses.values import whole_number
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.cluster_result import best_histories, coordinator_history, evaluate_cluster
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.checks.partition import structure
from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.core.broker_settings import STATE_PARTITIONS
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import OffsetRun, OffsetStory
from kforensics.forensics.explain.producer_story import ProducerStory, producer_story
from kforensics.forensics.explain.story_tables import (
    EXPLAINED_OFFSETS,
    EXPLAINED_PRODUCERS,
    EXPLAINED_RUNS,
    EXPLAINED_TRANSACTIONS,
    StoryRow,
    offset_row,
    producer_row,
    run_row,
    transaction_rows,
)
from kforensics.forensics.explain.transactional_id_story import (
    TransactionalIdStory,
    coordinator_partition,
    partitions_of_id,
    transactional_id_story,
)
from kforensics.forensics.partition.epoch_starts import unclean_start
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import finding_rows
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.log.selection import HalfOpenRange
from kforensics.parsers.tables.schemas import Table

Story: TypeAlias = OffsetStory | OffsetRun | ProducerStory | TransactionalIdStory | MissingLog
# How many partitions an error names.
NAMED = 5


@dataclass(frozen=True, slots=True)
class Subject:
    """What to explain: an offset, a producer or a transactional id.

    Attributes:
        offset: an offset of one partition.
        offsets: a range of offsets of one partition, instead of one.
        producer_id: a producer, in all partitions.
        transactional_id: a transactional id.
        at: the high watermark at which to evaluate an offset; None for the log end offset.
        topics: only partitions of these topics; all if it is empty.
        numbers: only partitions with these numbers; all if it is empty.

    Raises:
        UsageError: it is not exactly one of the three, or another value does not go with it.
    """

    offset: int | None = None
    producer_id: int | None = None
    transactional_id: str | None = None
    at: int | None = None
    topics: tuple[str, ...] = ()
    numbers: tuple[range, ...] = ()
    offsets: HalfOpenRange | None = None

    def __post_init__(self) -> None:
        subjects = (self.offset, self.offsets, self.producer_id, self.transactional_id)
        if sum(subject is not None for subject in subjects) != 1:
            raise UsageError(
                "say what to explain: one of --offset N, --producer-id N, --transactional-id ID and --group NAME"
            )
        if self.offsets is not None and self.offsets.first is not None and self.offsets.first == self.offsets.end:
            raise UsageError(f"the range {self.offsets.first}:{self.offsets.end} has no offset; B is not part of A:B")
        if self.at is not None and self.offset is None and self.offsets is None:
            raise UsageError("--at is for --offset; leave it out")
        if self.producer_id is not None:
            whole_number(self.producer_id, "--producer-id")  # one of more than 64 bits fits no table
        if self.transactional_id is not None and (self.topics or self.numbers):
            raise UsageError(
                "--transactional-id covers all partitions of the transactions; leave out --topic and --partition"
            )

    def has(self, finding: Finding) -> bool:
        """Return whether a finding in one of the partitions is on this subject."""
        if self.producer_id is not None:
            return finding.producer_id == self.producer_id
        if self.transactional_id is not None:
            return finding.evidence.get("transactional_id") == self.transactional_id
        if finding.first_offset is None or finding.last_offset is None:
            return False
        offsets = self.offsets or HalfOpenRange(self.offset, None if self.offset is None else self.offset + 1)
        return offsets.overlaps(finding.first_offset, finding.last_offset)

    @property
    def table(self) -> Table:
        """The table that the rows belong to."""
        if self.offset is not None:
            return EXPLAINED_OFFSETS
        if self.offsets is not None:
            return EXPLAINED_RUNS
        return EXPLAINED_TRANSACTIONS if self.producer_id is None else EXPLAINED_PRODUCERS


def story_rows(story: Story) -> Iterator[StoryRow]:
    """Yield the rows of a story in the table of its subject."""
    if isinstance(story, OffsetStory):
        yield offset_row(story)
    elif isinstance(story, OffsetRun):
        yield run_row(story)
    elif isinstance(story, ProducerStory):
        yield producer_row(story)
    elif isinstance(story, TransactionalIdStory):
        yield from transaction_rows(story)


def story_severities(story: Story) -> Iterator[Severity]:
    """Yield how bad a story is, or nothing if nothing is wrong.

    A lost record is an error. An index that hides a committed record, or shows an aborted one, is critical, and so is a
    missing log.
    """
    story = story.story if isinstance(story, OffsetRun) else story
    missing = story.missing if isinstance(story, OffsetStory) else story
    if isinstance(missing, MissingLog):
        yield from (finding.severity for finding in missing.findings)
    if not isinstance(story, OffsetStory):
        return
    if story.is_shown_by_index or story.is_hidden_by_index:
        yield Severity.CRITICAL
    elif story.status.is_loss:
        yield Severity.ERROR


def explain_subject(investigation: Investigation, subject: Subject, on_unreadable: OnUnreadable) -> Iterator[Story]:
    """Yield the stories of a subject.

    An offset has one story for each replica, a range of offsets one for each run with the same story, a producer one
    for each partition, and a transactional id one for each cluster. A partition whose log is missing has one that says
    so.

    Args:
        investigation: all partitions under the paths.
        subject: what to explain.
        on_unreadable: takes the error of a partition that cannot be read; the next partition follows.

    Raises:
        UsageError: no partition has anything on the subject, or the subject is in several partitions.
    """
    selected = _selected(investigation.partitions, subject)
    reader = PartitionReader(investigation, on_unreadable)
    if subject.offset is not None or subject.offsets is not None:
        return _explain_offsets(reader, selected, subject)
    if subject.producer_id is not None:
        return _explain_producer(reader, selected, subject.producer_id)
    return _explain_id(reader, subject.transactional_id or "")


def findings_on(investigation: Investigation, subject: Subject) -> Iterator[PartitionResult]:
    """Yield what an audit finds on a subject, each result with the findings on the subject alone.

    Args:
        investigation: all partitions under the paths.
        subject: what to explain.
    """
    from kforensics.analyses.audit import AuditRequest, audit_results  # only a document has findings

    audited = investigation
    if subject.transactional_id is None:
        audited = investigation.beside_context(_selected(investigation.partitions, subject))
    results = [one for one in audit_results(audited, AuditRequest(copies=True), ignore) if one.findings]
    producers: set[int | None] = set()  # of the transactional id: not every finding on them names it
    if subject.transactional_id is not None:
        producers = {one.producer_id for result in results for one in filter(subject.has, result.findings)} - {None}
    for result in results:
        findings = tuple(one for one in result.findings if subject.has(one) or one.producer_id in producers)
        if findings:
            yield PartitionResult(
                result.place, "", 0, {"findings": finding_rows(result.place, findings)}, findings, stable=result.stable
            )


class PartitionReader:
    """Reads partitions, and continues after one that cannot be read.

    Args:
        investigation: all partitions under the paths.
        on_unreadable: takes the error of a partition that cannot be read.
        needs_settings: whether states need the limits that follow from the files.

    Attributes:
        investigation: all partitions under the paths.
        is_complete: whether every partition could be read so far.
    """

    def __init__(
        self, investigation: Investigation, on_unreadable: OnUnreadable, *, needs_settings: bool = True
    ) -> None:
        self.investigation, self._on_unreadable, self._needs_settings = investigation, on_unreadable, needs_settings
        self.is_complete = not investigation.unreadable

    def states(self, partitions: Sequence[Partition]) -> Iterator[PartitionState]:
        """Yield the states of partitions."""
        # An audit decides by the same observations whether a log was compacted before it was fetched.
        of_these, collectors = self.investigation.of(partitions), (structure.COLLECTOR,)
        yield from of_these.states(self.skip, collectors, needs_settings=self._needs_settings)

    def histories(self) -> dict[str, list[History]]:
        """Return the histories of the transaction coordinators whose logs are available, by cluster."""
        by_cluster = defaultdict[str, list[History]](list)
        for state in self.states(coordinators_among(self.investigation)):
            try:
                history = coordinator_history(state)
            except InputError as error:
                self.skip(error)
            else:
                by_cluster[self.investigation.clusters.name_of(state.partition)].append(history)
        return by_cluster

    def skip(self, error: InputError) -> None:
        """Report that a partition cannot be read."""
        self.is_complete = False
        self._on_unreadable(error)


def _selected(partitions: Sequence[Partition], subject: Subject) -> tuple[Partition, ...]:
    selected = tuple(
        partition
        for partition in partitions
        if is_selected(partition.place.topic, subject.topics)
        and is_numbered(partition.place.partition, subject.numbers)
    )
    if partitions and not selected:
        raise UsageError(f"no such partition is under the paths; name one of {_names(partitions)}")
    return selected


def coordinators_among(investigation: Investigation) -> tuple[Partition, ...]:
    """Return the available partitions of ``__transaction_state``, neighbors included."""
    everything = (*investigation.partitions, *investigation.neighbors)
    return tuple(
        partition for partition in everything if partition.place.topic == TRANSACTION_STATE and partition.has_log
    )


def _names(partitions: Sequence[Partition]) -> str:
    names = sorted({_name(partition) for partition in partitions})
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _name(partition: Partition) -> str:
    place = partition.place
    return partition.folder if place.topic is None else f"{place.topic}-{place.partition}"


def _explain_offsets(
    reader: PartitionReader, partitions: Sequence[Partition], subject: Subject
) -> Iterator[OffsetStory | OffsetRun]:
    if len({(partition.place.topic, partition.place.partition) for partition in partitions}) > 1:
        raise UsageError(
            f"an offset belongs to one partition; choose one with --topic and --partition: {_names(partitions)}"
        )
    context = Context(reader.investigation, reader.skip)
    for state in reader.states(partitions):
        try:
            explainer = OffsetExplainer(state, subject.at)
            if subject.offset is not None:
                story = explainer.story(subject.offset)
                names = context.transactional_ids(state, story.producer_ids)
                begins = context.later_begins(state) if names else {}
                two_phase = context.two_phase_producers(state, names)
                unclean = unclean_start(state, subject.offset)
                yield replace(story, names=names, begins=begins, two_phase_producers=two_phase, unclean=unclean)
            elif subject.offsets is not None:
                yield from _runs(reader, state, explainer, subject.offsets)
        except InputError as error:
            reader.skip(error)


def _runs(
    reader: PartitionReader, state: PartitionState, explainer: OffsetExplainer, offsets: HalfOpenRange
) -> Iterator[OffsetRun]:
    """Yield the runs of offsets of a range; one without an end goes to the end of the log."""
    first = state.log_start_offset if offsets.first is None else offsets.first
    end = max(state.log_end_offset, first + 1) if offsets.end is None else offsets.end
    context, names = Context(reader.investigation, reader.skip), dict[int, str | None]()
    is_first = True
    for run in explainer.runs(min(first, end - 1), end):
        producer_id = -1 if run.story.transaction is None else int(run.story.transaction["producer_id"])
        if producer_id >= 0 and producer_id not in names:
            names[producer_id] = context.transactional_id(state, producer_id)
        yield replace(run, transactional_id=names.get(producer_id), is_first=is_first)
        is_first = False


def _explain_producer(
    reader: PartitionReader, partitions: Sequence[Partition], producer_id: int
) -> Iterator[ProducerStory | MissingLog]:
    is_known, context = False, Context(reader.investigation, reader.skip)
    for state in reader.states(partitions):
        story: ProducerStory | MissingLog | None
        if state.partition.has_log:
            story = producer_story(state, producer_id, context.transactional_id(state, producer_id))
        else:
            story = MissingLog.of(state, f"producer {producer_id}")
        if story is not None:
            is_known = True
            yield story
    if not is_known and reader.is_complete:
        raise UsageError(f"producer {producer_id} does not appear in {_names(partitions)}; name other partitions")


def _explain_id(reader: PartitionReader, transactional_id: str) -> Iterator[TransactionalIdStory | MissingLog]:
    known_histories = reader.histories()
    by_cluster = {
        cluster: [history for history in best_histories(histories) if transactional_id in history.names]
        for cluster, histories in known_histories.items()
    }
    if not any(by_cluster.values()) and reader.is_complete:
        known = [name for histories in known_histories.values() for history in histories for name in history.names]
        raise UsageError(unknown_id(reader.investigation, transactional_id, known))
    for cluster, histories in by_cluster.items():
        if histories:
            yield from _explain_id_in(reader, transactional_id, cluster, histories)


def _explain_id_in(
    reader: PartitionReader, transactional_id: str, cluster: str, histories: Sequence[History]
) -> Iterator[TransactionalIdStory | MissingLog]:
    """Yield the story of a transactional id in a cluster, and which partitions of its transactions have no log."""
    investigation = reader.investigation
    of_cluster = [one for one in investigation.partitions if investigation.clusters.name_of(one) == cluster]
    places = set(chain.from_iterable(partitions_of_id(history, transactional_id) for history in histories))
    listed = [one for one in of_cluster if (one.place.topic, one.place.partition) in places]
    markers = map(PartitionMarkers.of, reader.states([one for one in listed if one.has_log]))
    rules = investigation.known_rules.across({one.place.log_dir for one in of_cluster})
    story = transactional_id_story(evaluate_cluster(histories, markers, rules, checks=()).cluster, transactional_id)
    if story is not None:
        yield story
    for state in reader.states([one for one in listed if not one.has_log]):
        yield MissingLog.of(state, f"transactions of {transactional_id!r}")


def unknown_id(investigation: Investigation, transactional_id: str, known: Sequence[str]) -> str:
    """Return the error for a transactional id that no coordinator's log has; it suggests one of the known ids."""
    coordinators = coordinators_among(investigation)
    rules = investigation.known_rules
    number = int(str(rules.evidence(STATE_PARTITIONS)["setting_value"]))
    expected = f"{TRANSACTION_STATE}-{coordinator_partition(transactional_id, number)}"
    count = format_count(number, "partition")
    count = f"the default of {count}" if rules.is_default(STATE_PARTITIONS) else count
    where = f"with {count} its coordinator's log is {expected}"
    if not coordinators:
        return f"no partition of {TRANSACTION_STATE} is under the paths; add its log directory: {where}"
    hint = similar(transactional_id, known) or where
    return f"there is no record of the id {transactional_id!r} in {_names(coordinators)}; {hint}"
