"""The splits of a large partition put together: runs that follow each other first, then the runs. Runs on workers.

What comes is sorted by partition and by where in it something stands, so that everything is taken as it comes by, and
no more is held than what has been merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import Any

from kforensics.forensics.audit.audit_scope import Asked, arrived, departing, finished, task_of
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.partition.examine import Examination
from kforensics.forensics.partition.log_chunk import Joining, Stretch
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replay.replay_rows import Rows
from kforensics.forensics.replay.summary import Summary
from kforensics.spark.audit.segment_contents import Recorded, into_records
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import Reading, Travelling, apart

__all__ = ["judged", "run_of"]

# Sequence of what only passes through a run: behind all that the run itself says.
PASSING = 1 << 20


def run_of(arriving: Iterable[Travelling], asked: Asked) -> Iterator[Travelling]:
    """Yield for each run what all its splits say together; what is not to be joined goes on as it comes.

    Args:
        arriving: of each run what joining it needs, then what its splits say, in the order of the log.
        asked: what to look for.
    """
    for _, some in groupby(arriving, lambda one: (one[0].partition, one[0].run_slot)):
        yield from _joined(some, asked)


def _joined(arriving: Iterator[Travelling], asked: Asked) -> Iterator[Travelling]:
    run: _Run | None = None
    for address, value in arriving:
        if isinstance(value, Reading):
            run = _Run(address, value, asked)
        elif run is None:
            yield address, value
        else:
            yield from run.take(value)
    if run:
        yield from run.end()


class _Run:
    """Joins splits as they come.

    Args:
        address: where what joining needs was sent.
        reading: that.
        asked: what to look for.
    """

    def __init__(self, address: Address, reading: Reading, asked: Asked) -> None:
        self._address = replace(address, ordinal=address.run_slot)
        self._partition = reading.partition
        self._joining = Joining(replace(task_of(reading.partition, asked, workers=0), cuts=reading.cuts))
        self._sequence = PASSING
        self._failed: str | None = None

    def take(self, value: Any) -> Iterator[Travelling]:
        """Take what a split says, or yield what only passes."""
        if isinstance(value, Rows):
            self._sequence += 1
            yield replace(self._address, sequence=self._sequence), value
            return
        found, failed = value
        self._failed = self._failed or failed
        if not self._failed:
            for stretch in found:
                self._joining.add(arrived(self._partition, stretch))

    def end(self) -> Iterator[Travelling]:
        """Yield what was joined."""
        found = [] if self._failed else [departing(stretch) for stretch in self._joining.found()]
        yield from apart(self._address, found, self._failed)


def judged(arriving: Iterable[tuple[int, Any]], asked: Asked) -> Iterator[Judgement]:
    """Yield what is to be said of large partitions.

    Args:
        arriving: with the number of each partition its files, then what its runs or splits say, in the order of the
            log, and what its records say.
        asked: what to look for.
    """
    for _, some in groupby(arriving, lambda one: one[0]):
        values = (value for _, value in some)
        yield _judged(next(values), values, asked)


def _judged(partition: Partition, arriving: Iterator[Any], asked: Asked) -> Judgement:
    examination = Examination(task_of(partition, asked, workers=0))
    failed: str | None = None
    of_records: Iterator[Any] = iter(())
    for value in arriving:
        if isinstance(value, Recorded):
            of_records = chain([value], arriving)
            break
        found, why = ([_rows_alone(value)], None) if isinstance(value, Rows) else value
        failed = failed or why
        if not failed:
            examination.add(arrived(partition, stretch) for stretch in found)
    return finished(partition, asked, examination, failed, partial(into_records, arriving=of_records))


def _rows_alone(rows: Rows) -> Stretch:
    return Stretch((), LogSummary.empty(), Summary.empty(), rows)
