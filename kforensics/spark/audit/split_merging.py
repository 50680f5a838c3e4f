"""Merges the splits of a large partition: consecutive ones into runs first, then the runs. Runs on workers.

Values arrive sorted by partition and position, so they are processed as a stream, and only what has been merged is held
in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, groupby
from typing import Any

from kforensics.forensics.audit.audit_scope import (
    AuditScope,
    chunk_from_wire,
    chunk_to_wire,
    finish_evaluation,
    read_task,
)
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.partition.examine import PartitionStateBuilder
from kforensics.forensics.partition.log_chunk import ChunkJoiner, LogChunk
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replay.replay_rows import ReplayRows
from kforensics.forensics.replay.summary import ReplaySummary
from kforensics.spark.audit.segment_contents import Recorded, into_records
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import AddressedValue, Reading, apart

__all__ = ["large_results", "run_of"]

# Sequence of values that only pass through a run: after everything the run itself yields.
PASSING = 1 << 20


def run_of(arriving: Iterable[AddressedValue], scope: AuditScope) -> Iterator[AddressedValue]:
    """Yield the merged splits of each run; values that are not merged are passed through.

    Args:
        arriving: for each run what merging needs, then the summaries of its splits, in log order.
        scope: the audit scope.
    """
    for _, run in groupby(arriving, lambda value: (value[0].partition, value[0].run_slot)):
        yield from _joined(run, scope)


def _joined(arriving: Iterator[AddressedValue], scope: AuditScope) -> Iterator[AddressedValue]:
    run: _Run | None = None
    for address, value in arriving:
        if isinstance(value, Reading):
            run = _Run(address, value, scope)
        elif run is None:
            yield address, value
        else:
            yield from run.take(value)
    if run:
        yield from run.end()


class _Run:
    """Merges splits as they arrive.

    Args:
        address: address of the run.
        reading: what merging needs.
        scope: the audit scope.
    """

    def __init__(self, address: Address, reading: Reading, scope: AuditScope) -> None:
        self._address = replace(address, ordinal=address.run_slot)
        self._partition = reading.partition
        self._joining = ChunkJoiner(replace(read_task(reading.partition, scope, workers=0), cuts=reading.cuts))
        self._sequence = PASSING
        self._failed: str | None = None

    def take(self, value: Any) -> Iterator[AddressedValue]:
        """Add the summary of a split, or yield a value that only passes through."""
        if isinstance(value, ReplayRows):
            self._sequence += 1
            yield replace(self._address, sequence=self._sequence), value
            return
        chunks, failed = value
        self._failed = self._failed or failed
        if not self._failed:
            for log_chunk in chunks:
                self._joining.add(chunk_from_wire(self._partition, log_chunk))

    def end(self) -> Iterator[AddressedValue]:
        """Yield the merged run."""
        chunks = [] if self._failed else [chunk_to_wire(log_chunk) for log_chunk in self._joining.joined()]
        yield from apart(self._address, chunks, self._failed)


def large_results(arriving: Iterable[tuple[int, Any]], scope: AuditScope) -> Iterator[PartitionResult]:
    """Yield the results of large partitions.

    Args:
        arriving: with the number of each partition its files, then the summaries of its runs or splits in log order,
            and the evidence of its records.
        scope: the audit scope.
    """
    for _, numbered in groupby(arriving, lambda pair: pair[0]):
        values = (value for _, value in numbered)
        yield _evaluated(next(values), values, scope)


def _evaluated(partition: Partition, arriving: Iterator[Any], scope: AuditScope) -> PartitionResult:
    examination = PartitionStateBuilder(read_task(partition, scope, workers=0))
    failed: str | None = None
    of_records: Iterator[Any] = iter(())
    for value in arriving:
        if isinstance(value, Recorded):
            of_records = chain([value], arriving)
            break
        chunks, error = ([_rows_alone(value)], None) if isinstance(value, ReplayRows) else value
        failed = failed or error
        if not failed:
            examination.add(chunk_from_wire(partition, log_chunk) for log_chunk in chunks)
    return finish_evaluation(partition, scope, examination, failed, partial(into_records, arriving=of_records))


def _rows_alone(rows: ReplayRows) -> LogChunk:
    return LogChunk((), LogSummary.empty(), ReplaySummary.empty(), rows)
