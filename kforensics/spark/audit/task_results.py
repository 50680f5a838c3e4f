"""What tasks do that end in an answer for the driver: they list files and judge partitions. Runs on workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Protocol

from kforensics.forensics.audit.audit_scope import Asked, judged_whole
from kforensics.forensics.audit.cluster_input import Contribution
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.files.discover import FoundFile
from kforensics.spark.audit.cross_partition import Contributed, compared, keys_of_topics, of_clusters
from kforensics.spark.audit.scheduling import ALONE, Alone, Listed
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.split_merging import judged
from kforensics.spark.audit.splitting import Travelling, summary_of
from kforensics.spark.audit.topic_contents import judged_pairs

__all__ = ["Answer", "Sink", "done", "ended", "met", "settled"]

# Stands for a partition where there is none: answers come before all partitions.
NONE = -1
# Tells what comes from tasks that judge large partitions from what comes from others, and the numbers of those of a
# task from those of another one.
LARGE, SETTLED, MET = 1, 2, 3
IN_SLOT = 32
# What is judged of all that meets in a task.
MEETINGS = {"copies": compared, "keys": keys_of_topics, "duplicates": judged_pairs}


class Sink(Protocol):
    """Takes what tasks find, where they run; it travels there, and what it returns travels back.

    Tasks have names: one that is run again has the same name as before.
    """

    def judged(self, task: str, judgements: Iterable[Judgement]) -> bytes:
        """Take the judgements of a task."""

    def found(self, task: str, files: Iterable[FoundFile]) -> bytes:
        """Take the files that a task has found."""

    def merged(self, outcomes: Iterable[bytes]) -> bytes:
        """Return what several outcomes say together."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sink says of something that a task has done.

    Attributes:
        outcome: that.
    """

    outcome: bytes


def done(arriving: Iterable[Travelling], asked: Asked, sink: Sink) -> Iterator[Travelling]:
    """Yield what comes of all that a task was dealt: answers, and what splits say.

    Args:
        arriving: files to be listed, partitions to be judged whole, and splits to be read, kind by kind.
        asked: what to look for.
        sink: takes files and judgements.
    """
    for kind, some in groupby(arriving, lambda one: type(one[1])):
        if kind in (Listed, Alone):
            yield from _answered(some, asked, sink)
        else:
            for address, value in some:
                yield from summary_of(address, value, asked)


def _answered(arriving: Iterator[Travelling], asked: Asked, sink: Sink) -> Iterator[Travelling]:
    """Yield what the sink says of all files, or of all small partitions, of a task, and what these add to clusters."""
    address, first = next(arriving)
    things = chain([(address, first)], arriving)
    slot, added = -address.split_slot, Contributed(asked.clusters, ALONE)
    if isinstance(first, Listed):
        outcome = sink.found(f"files-{slot:05}", chain.from_iterable(one.files for _, one in things))
    else:
        judgements = ((where.partition, judged_whole(one.partition, asked, workers=0)) for where, one in things)
        outcome = sink.judged(f"small-{slot:05}", added.take(judgements))
    yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=address.ordinal), Answer(outcome)
    yield from added.kept


def ended(arriving: Iterable[Travelling], asked: Asked, sink: Sink) -> Iterator[Travelling]:
    """Yield one answer for all that comes to a task of the last but one round, and what it adds to clusters.

    Args:
        arriving: answers, contributions, and what large partitions need to be judged, as :func:`.merging.judged` has
            it.
        asked: what to look for.
        sink: takes judgements, and puts answers together.
    """
    outcomes: list[bytes] = []
    slot = 0
    for kind, some in groupby(arriving, _kind):
        if kind is Answer:
            outcomes += (answer.outcome for _, answer in some)
        elif kind is Contribution:
            yield from some
        else:
            address, first = next(some)
            slot, added = address.final_slot, Contributed(asked.clusters, LARGE)
            numbered = ((one.partition, value) for one, value in chain([(address, first)], some))
            judgements = enumerate(judged(numbered, asked), slot << IN_SLOT)
            outcomes.append(sink.judged(f"large-{slot:05}", added.take(judgements)))
            yield from added.kept
    if outcomes:
        yield Address(NONE, slot, slot, slot, ordinal=slot), Answer(sink.merged(outcomes))


def _kind(one: Travelling) -> type[Answer | Contribution] | None:
    kind = type(one[1])
    return kind if kind in (Answer, Contribution) else None


def settled(arriving: Iterable[Travelling], asked: Asked, sink: Sink) -> Iterator[Travelling]:
    """Yield one answer for all that comes to a task that judges clusters.

    Args:
        arriving: contributions, cluster by cluster, and answers.
        asked: what to look for.
        sink: takes judgements, and puts answers together.
    """
    outcomes: list[bytes] = []
    slot = 0
    for kind, some in groupby(arriving, _kind):
        if kind is Answer:
            outcomes += (answer.outcome for _, answer in some)
        else:
            for slot, judgements in of_clusters(some, asked.rules):
                outcomes.append(sink.judged(f"cluster-{slot:05}", judgements))
    if outcomes:
        yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=SETTLED), Answer(sink.merged(outcomes))


def met(
    arriving: Iterable[Travelling], what: str, clusters: Clusters, rules: Rules, sink: Sink
) -> Iterator[Travelling]:
    """Yield what the sink says of all that meets in a task.

    Args:
        arriving: what is to be judged together.
        what: how to judge it, one of MEETINGS.
        clusters: all clusters.
        rules: limits and the time of evaluation.
        sink: takes judgements.
    """
    arriving, number = iter(arriving), list(MEETINGS).index(what)
    for address, first in islice(arriving, 1):
        slot, meeting = address.split_slot, chain([(address, first)], arriving)
        outcome = sink.judged(f"{what}-{slot:05}", MEETINGS[what](meeting, clusters, rules))
        yield Address(NONE, slot, slot, slot, ordinal=slot, sequence=MET + number), Answer(outcome)
