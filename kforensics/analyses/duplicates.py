"""Which records were written twice, in one partition or in several of a topic: the answer of ``duplicates``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np

from kforensics.analyses.context import Context
from kforensics.analyses.partitions import Investigation, OnUnreadable
from kforensics.analyses.questions import Answer, PartitionAnswer, Question
from kforensics.analyses.without_records import refuse_without_records
from kforensics.errors import UsageError
from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.cross_partition_duplicates import (
    SearchedReplicas,
    cross_partition_states,
    evaluate_cross_partition,
    topics_to_search,
)
from kforensics.forensics.checks.check import findings_of
from kforensics.forensics.checks.duplicate_checks import DUPLICATE_CHECKS
from kforensics.forensics.checks.partition import missing_logs
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.duplicates.partition_duplicates import (
    DEFAULT_MEMORY,
    find_duplicates,
    partition_duplicate_rows,
)
from kforensics.forensics.duplicates.topic_search import CrossPartitionState, SearchedPartition
from kforensics.forensics.partition.log_summary import DAMAGE, Collector
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.log.log_rows import Place

LEVELS = ("sequence", "content-retry", "content")
VIEWS = ("raw", "committed")
# A partition that is asked about by itself is searched, also if it is internal.
ASKED = SearchedReplicas(internal=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDuplicates(PartitionAnswer):
    """The duplicates inside a partition.

    Attributes:
        rows: rows of the table.
        duplicates: what they are made of.
    """

    rows: RowStream
    duplicates: SpilledRows


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDuplicates(Answer):
    """The records of a partition that an earlier write put into another partition of the topic.

    Attributes:
        rows: rows of the table.
        copies: the later copies, and where they are.
    """

    rows: Rows
    copies: CrossPartitionState

    @property
    def place(self) -> Place:
        """Where the findings are."""
        return self.copies.place


DuplicatesAnswer: TypeAlias = PartitionDuplicates | TopicDuplicates


@dataclass(frozen=True, slots=True)
class DuplicatesQuestion(Question[DuplicatesAnswer]):
    """Which records were written twice?

    Attributes:
        levels: only pairs at these levels; all if it is empty.
        committed: only what a read_committed consumer receives twice.
        memory: bytes of memory before the search uses temporary files.
        internal: search internal topics, too; brokers repeat what they write there.
        replicas: which partitions are searched; by default those that are asked about.

    Raises:
        UsageError: there is no such level.
    """

    levels: tuple[str, ...] = ()
    committed: bool = False
    memory: int = DEFAULT_MEMORY
    internal: bool = False
    has_findings: ClassVar[bool] = True
    collectors: ClassVar[tuple[Collector, ...]] = (DAMAGE,)
    table: str = field(default="duplicates", init=False)
    replicas: SearchedReplicas = ASKED

    def __post_init__(self) -> None:
        for level in self.levels:
            if level not in LEVELS:
                raise UsageError(f"--level {level!r} is not one of {', '.join(LEVELS)}")

    def answer(self, state: PartitionState, context: Context) -> PartitionDuplicates:  # noqa: ARG002  # needs none
        """Return the duplicates inside a partition."""
        found = find_duplicates(state, memory=self.memory) if self.replicas.searches(state) else ()
        reported = self.replicas.reported(state.partition, found)
        duplicates = SpilledRows.of(DUPLICATE, map(self._selected, reported))
        findings = findings_of(replace(state, duplicates=duplicates), (missing_logs.CHECK, *DUPLICATE_CHECKS))
        rows = partition_duplicate_rows(state, duplicates)
        return PartitionDuplicates(rows=rows, findings=findings, state=state, duplicates=duplicates)

    def answers(self, investigation: Investigation, on_unreadable: OnUnreadable) -> Iterator[DuplicatesAnswer]:
        """Yield the duplicates inside each partition, then those across the partitions of each topic.

        Of several replicas of a partition, the longest one is searched, and the others where they differ from it.

        Args:
            investigation: the partitions.
            on_unreadable: takes the error of a partition that cannot be read; the next partition follows.

        Raises:
            UsageError: records were left out of the copy.
        """
        searched: list[tuple[Partition, SearchedPartition]] = []
        members = map(PartitionMembership.of, investigation.partitions)
        replicas = SearchedReplicas.of(members, investigation.clusters, internal=self.internal)
        partitions = [partition for partition in investigation.partitions if replicas.may_report(partition)]
        refuse_without_records(partitions, "duplicates")
        for answer in Question.answers(replace(self, replicas=replicas), investigation.of(partitions), on_unreadable):
            if not isinstance(answer, PartitionDuplicates):
                continue
            if replicas.is_longest(answer.state.partition):
                searched.append((answer.state.partition, SearchedPartition.of(answer.state)))
            elif not (len(answer.duplicates) or answer.findings):
                continue
            yield answer
        if self.levels != ("sequence",):  # producers number their batches per partition
            yield from self._across_partitions(searched, investigation.clusters)

    def _across_partitions(
        self, searched: Sequence[tuple[Partition, SearchedPartition]], clusters: Clusters
    ) -> Iterator[TopicDuplicates]:
        by_folder = {partition.folder: search for partition, search in searched}

        def search_of(partition: Partition) -> SearchedPartition:
            return by_folder[partition.folder]

        for partitions in topics_to_search([partition for partition, _ in searched], clusters):
            for copies in cross_partition_states(partitions, search_of, memory=self.memory):
                selected = replace(copies, runs=self._selected(copies.runs))
                if len(selected.runs):
                    findings = evaluate_cross_partition(selected).findings
                    yield TopicDuplicates(rows=selected.rows(), findings=findings, copies=selected)

    def _selected(self, duplicates: StructArray) -> StructArray:
        if self.levels:
            levels = [LEVELS.index(level) for level in self.levels]
            duplicates = duplicates[np.isin(duplicates["level"], levels)]
        return duplicates[duplicates["view"] == VIEWS.index("committed")] if self.committed else duplicates
