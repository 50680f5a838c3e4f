"""Tasks whose results go to the driver: they list files and evaluate partitions. Runs on workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Protocol

from kforensics.forensics.audit.audit_scope import AuditScope, evaluate_partition
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.deferred_verdicts import ClusterInput
from kforensics.forensics.audit.joined_parts import JoinedPart
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.producer_parts import ProducerRows, ProducersOf
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES
from kforensics.parsers.files.discover import FoundFile
from kforensics.spark.audit.cross_partition import (
    FIRST_PART,
    Contributed,
    JoinedParts,
    compared,
    keys_of_topics,
    of_clusters,
)
from kforensics.spark.audit.scheduling import WHOLE, FileListing, WholePartition
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.split_merging import large_results
from kforensics.spark.audit.splitting import AddressedValue, summary_of
from kforensics.spark.audit.topic_contents import evaluate_pairs

__all__ = ["Answer", "Sink", "done", "ended", "joined", "met", "resolve_deferred"]

# Partition number of task results, which sort before all partitions.
NONE = -1
# Origins of values: tasks that evaluate large partitions, clusters, and meetings; and bits for numbers within a task.
LARGE, SETTLED, MET = 1, 2, 3
SPLITS = -5
# Sequence of the answers for parts of clusters: after those of all meetings.
IN_PARTS = 1 << 8
IN_SLOT = 32
# How to evaluate what meets in a task.
MEETINGS = {"copies": compared, "keys": keys_of_topics, "duplicates": evaluate_pairs}


class Sink(Protocol):
    """Takes the results of tasks on the workers; it is serialized to them, and its return values are sent back.

    A task that runs again has the same name as before.
    """

    def evaluated(self, task: str, results: Iterable[PartitionResult]) -> bytes:
        """Take the partition results of a task."""

    def listed(self, task: str, files: Iterable[FoundFile]) -> bytes:
        """Take the files that a task has listed."""

    def informed(self, shared: bytes) -> Sink:
        """Return the sink that adds what checks across partitions have found to the verdict of each."""

    def merged(self, outcomes: Iterable[bytes]) -> bytes:
        """Return several outcomes combined."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The return value of the sink for the work of a task.

    Attributes:
        outcome: the value.
    """

    outcome: bytes


def done(arriving: Iterable[AddressedValue], scope: AuditScope, sink: Sink, parts: int = 0) -> Iterator[AddressedValue]:
    """Yield the results of the work assigned to a task: answers, and summaries of splits.

    Args:
        arriving: files to list, partitions to evaluate whole, and splits to read, kind by kind.
        scope: the audit scope.
        sink: takes files and partition results.
        parts: number of parts in which the transactions of each cluster are joined, 0 to join them at once.
    """
    for kind, group in groupby(arriving, lambda pair: type(pair[1])):
        if kind in (FileListing, WholePartition):
            yield from _answered(group, scope, sink, parts)
        else:
            yield from _summarized(group, scope, sink)


def _summarized(arriving: Iterator[AddressedValue], scope: AuditScope, sink: Sink) -> Iterator[AddressedValue]:
    """Yield the summaries of splits, and the answer for what the store keeps of them."""
    kept: list[PartitionResult] = []
    slot = 0
    for address, value in arriving:
        keeper = scope.keeper() if address.ordinal >= 0 else None
        yield from summary_of(address, value, scope, keeper)
        if keeper is not None and keeper.use.keeps:
            slot = slot if kept else address.split_slot
            rows = {CHUNK_SUMMARIES.name: keeper.rows(value.partition)}
            kept.append(PartitionResult(value.partition.place, "", 0, rows, is_counted=False))
    if kept:
        outcome = sink.evaluated(f"splits-{slot:05}", kept)
        yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=SPLITS), Answer(outcome)


def _answered(
    arriving: Iterator[AddressedValue], scope: AuditScope, sink: Sink, parts: int
) -> Iterator[AddressedValue]:
    """Yield the answer for all files, or all small partitions, of a task, and their cluster inputs."""
    address, first = next(arriving)
    values = chain([(address, first)], arriving)
    slot, added = -address.split_slot, Contributed(scope.clusters, WHOLE, parts)
    if isinstance(first, FileListing):
        outcome = sink.listed(f"files-{slot:05}", chain.from_iterable(listing.files for _, listing in values))
    else:
        results = ((place.partition, evaluate_partition(small.partition, scope, workers=0)) for place, small in values)
        outcome = sink.evaluated(f"small-{slot:05}", added.take(results))
    yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=address.ordinal), Answer(outcome)
    yield from chain.from_iterable(added.kept)


def ended(
    arriving: Iterable[AddressedValue], scope: AuditScope, sink: Sink, parts: int = 0
) -> Iterator[AddressedValue]:
    """Yield one answer for everything that arrives at a task of the last but one stage, and its cluster inputs.

    Args:
        arriving: answers, cluster inputs, and the values of large partitions, as for
            :func:`.split_merging.large_results`.
        scope: the audit scope.
        sink: takes partition results and combines answers.
        parts: number of parts in which the transactions of each cluster are joined, 0 to join them at once.
    """
    outcomes: list[bytes] = []
    slot = 0
    for kind, group in groupby(arriving, _kind):
        if kind is Answer:
            for address, answer in group:
                # That of any answer: no other task gets answers of the same slot, so no other has this address.
                slot = address.final_slot
                outcomes.append(answer.outcome)
        elif kind is ClusterInput:
            yield from group
        else:
            address, first = next(group)
            slot, added = address.final_slot, Contributed(scope.clusters, LARGE, parts)
            numbered = ((place.partition, value) for place, value in chain([(address, first)], group))
            results = enumerate(large_results(numbered, scope), slot << IN_SLOT)
            outcomes.append(sink.evaluated(f"large-{slot:05}", added.take(results)))
            yield from chain.from_iterable(added.kept)
    if outcomes:
        yield Address(NONE, slot, slot, slot, ordinal=slot), Answer(sink.merged(outcomes))


def _kind(addressed: AddressedValue) -> type[Answer | ClusterInput] | None:
    kind = type(addressed[1])
    if kind is Answer:
        return Answer
    return ClusterInput if kind in (ClusterInput, ProducersOf, ProducerRows, JoinedPart) else None


def joined(arriving: Iterable[AddressedValue], scope: AuditScope, sink: Sink, parts: int) -> Iterator[AddressedValue]:
    """Yield the answers for parts of the transactions of clusters, and what the evaluation of the clusters needs.

    Args:
        arriving: what each part needs to know of every log, then its transactions and markers, part by part.
        scope: the audit scope.
        sink: takes the rows of transactions.
        parts: number of parts in which the transactions of each cluster are joined.
    """
    for partition, group in groupby(arriving, lambda pair: pair[0].partition):
        slot, join = FIRST_PART - partition, JoinedParts(parts, scope.rules)
        outcome = sink.evaluated(f"joined-{slot:05}", join.results(slot, (value for _, value in group)))
        yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=IN_PARTS), Answer(outcome)
        yield from join.kept


def resolve_deferred(arriving: Iterable[AddressedValue], scope: AuditScope, sink: Sink) -> Iterator[AddressedValue]:
    """Yield one answer for everything that arrives at a task that evaluates clusters.

    Args:
        arriving: cluster inputs, cluster by cluster, and answers.
        scope: the audit scope.
        sink: takes partition results and combines answers.
    """
    outcomes: list[bytes] = []
    slot = 0
    for kind, group in groupby(arriving, _kind):
        if kind is Answer:
            for address, answer in group:
                slot = address.final_slot
                outcomes.append(answer.outcome)
        else:
            for slot, results in of_clusters(group, scope.rules):
                outcomes.append(sink.evaluated(f"cluster-{slot:05}", results))
    if outcomes:
        yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=SETTLED), Answer(sink.merged(outcomes))


def met(
    arriving: Iterable[AddressedValue], meeting: str, clusters: Clusters, rules: Rules, sink: Sink
) -> Iterator[AddressedValue]:
    """Yield the answer for everything that meets in a task.

    Args:
        arriving: what is evaluated together.
        meeting: how to evaluate it, a key of MEETINGS.
        clusters: all clusters.
        rules: limits and the time of evaluation.
        sink: takes partition results.
    """
    arriving, number = iter(arriving), list(MEETINGS).index(meeting)
    for address, first in islice(arriving, 1):
        slot, meeting_values = address.split_slot, chain([(address, first)], arriving)
        outcome = sink.evaluated(f"{meeting}-{slot:05}", MEETINGS[meeting](meeting_values, clusters, rules))
        yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=MET + number), Answer(outcome)
