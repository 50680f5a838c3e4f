"""Counts the partitions and bytes that tasks have read, for the manifest and for the progress that the driver shows.

A task that Spark runs again, or twice at once, counts each time that its stage has no result yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.stored_chunks import SummaryUse
from kforensics.render.streams import ProgressMeter
from kforensics.spark.audit.scheduling import WholePartition
from kforensics.spark.audit.splitting import AddressedValue, Reading
from kforensics.spark.session import context_of

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

__all__ = ["ReadCounter"]

# Seconds between two looks at the accumulators.
REFRESH = 0.5


@dataclass(frozen=True, slots=True)
class ReadCounter:
    """Counts on the workers; the driver reads the sums. It is serialized to the workers.

    Attributes:
        read_bytes: bytes of segments that were read for the verdicts; those that comparisons read again do not count.
        partitions: partitions with a verdict.
    """

    read_bytes: Accumulator[int]
    partitions: Accumulator[int]

    @classmethod
    def of(cls, spark: SparkSession) -> ReadCounter | None:
        """Return a new counter; None for a client of Spark Connect, which has no accumulators."""
        context = context_of(spark)
        return None if context is None else cls(context.accumulator(0), context.accumulator(0))

    def counted(
        self, values: Iterable[AddressedValue], summaries: SummaryUse | None = None, *, partitions: bool = False
    ) -> Iterator[AddressedValue]:
        """Yield values, and count each when the next one is wanted.

        Args:
            values: what arrives at a task.
            summaries: counts the bytes that are not read, because an earlier audit had kept summaries of them.
            partitions: whether the task gives verdicts on the large partitions that arrive.
        """
        for address, value in values:
            saved = summaries.saved if summaries else 0
            yield address, value
            if summaries and summaries.saved != saved:
                self.read_bytes.add(saved - summaries.saved)
            if isinstance(value, WholePartition):
                self.read_bytes.add(value.partition.size)
                self.partitions.add(1)
            elif isinstance(value, Reading) and address.ordinal >= 0:
                split = value.split
                stop = value.partition.segments[split.segment].size if split.stop is None else split.stop
                self.read_bytes.add(stop - split.start)
            elif partitions and isinstance(value, Partition):
                self.partitions.add(1)

    @contextmanager
    def shown(self, meter: ProgressMeter | None) -> Iterator[None]:
        """Show the sums while jobs run.

        Args:
            meter: what shows them; None for nothing.
        """
        if meter is None:
            yield
            return
        ended = threading.Event()
        showing = threading.Thread(target=self._show, args=(meter, ended), daemon=True)
        showing.start()
        try:
            yield
        finally:
            ended.set()
            showing.join()

    def _show(self, meter: ProgressMeter, ended: threading.Event) -> None:
        while not ended.wait(REFRESH):
            meter.reach(self.read_bytes.value, self.partitions.value)
