"""What tasks do that end in an answer for the driver: they list files and judge partitions. Runs on workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Protocol

from kforensics.forensics.asked import Asked, judged_whole
from kforensics.forensics.judgement import Judgement
from kforensics.forensics.spark.dealing import Alone, Listed
from kforensics.forensics.spark.merging import judged
from kforensics.forensics.spark.splitting import Travelling, summary_of
from kforensics.forensics.spark.travel import Address
from kforensics.parsers.discover import FoundFile

__all__ = ["Answer", "Sink", "done", "ended"]

# Stands for a partition where there is none: answers come before all partitions.
NONE = -1


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
            yield _answered(some, asked, sink)
        else:
            for address, value in some:
                yield from summary_of(address, value, asked)


def _answered(arriving: Iterator[Travelling], asked: Asked, sink: Sink) -> Travelling:
    """Return what the sink says of all files, or of all small partitions, of a task."""
    address, first = next(arriving)
    things = chain([first], (value for _, value in arriving))
    slot = -address.split_slot
    if isinstance(first, Listed):
        outcome = sink.found(f"files-{slot:05}", chain.from_iterable(one.files for one in things))
    else:
        outcome = sink.judged(f"small-{slot:05}", (judged_whole(one.partition, asked, workers=0) for one in things))
    return Address(NONE, slot, slot, slot, ordinal=slot, sequence=address.ordinal), Answer(outcome)


def ended(arriving: Iterable[Travelling], asked: Asked, sink: Sink) -> Iterator[Travelling]:
    """Yield one answer for all that comes to a task of the last round.

    Args:
        arriving: answers, and what large partitions need to be judged, as :func:`.merging.judged` has it.
        asked: what to look for.
        sink: takes judgements, and puts answers together.
    """
    outcomes: list[bytes] = []
    for is_answer, some in groupby(arriving, lambda one: isinstance(one[1], Answer)):
        address, first = next(some)
        if is_answer:
            outcomes += [first.outcome, *(answer.outcome for _, answer in some)]
        else:
            numbered = ((one.partition, value) for one, value in chain([(address, first)], some))
            outcomes.append(sink.judged(f"large-{address.final_slot:05}", judged(numbered, asked)))
    if outcomes:
        slot = address.final_slot
        yield Address(NONE, slot, slot, slot, ordinal=slot), Answer(sink.merged(outcomes))
