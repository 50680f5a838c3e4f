"""The comparison of a partition with its mirror: its verdict, and its rows in the table ``mirror``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.mirrors.group_offsets import GroupOffset, group_ranges
from kforensics.forensics.mirrors.mirror_names import MirroredTopic
from kforensics.forensics.mirrors.mirror_ranges import SEVERITIES, CopiedLog, MirrorRange, RangeKind
from kforensics.forensics.mirrors.offset_syncs import OffsetSync
from kforensics.forensics.mirrors.record_matching import MatchedLogs
from kforensics.forensics.mirrors.sync_contradictions import sync_contradictions
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import Table, parse_columns, placed_table

__all__ = ["MIRROR", "MirrorComparison", "comparison_of", "mirror_rows", "severities_of_mirror"]

COLUMNS = parse_columns("""
mirror_topic string name of the mirror in the target cluster
kind string what became of the records; copied for a range of offsets with the same difference
severity string severity of that
first_offset int64 first offset in the source, or the committed one of a group; null if it is not there, like the next
last_offset int64 last offset in the source
records int64 how many records; of a group those that it receives again in the mirror
mirror_first_offset int64 first offset in the mirror, or where a group goes on; null if there is none, like the next two
mirror_last_offset int64 last offset in the mirror
difference int64 offset in the mirror minus offset in the source of the first record; null if one does not have them
producer_id int64 producer of the transaction; null for other kinds, like the next column
producer_epoch int16 its epoch
detail string what the numbers do not show; null for nothing
""")
MIRROR: Table = placed_table("mirror", "range of records and what became of it in the mirror", COLUMNS)
# Of these kinds there is a range for each transaction.
TRANSACTIONS = {
    RangeKind.ABORTED_COPIED: ("aborted transaction", "aborted transactions"),
    RangeKind.PARTIAL_TRANSACTION: ("committed transaction", "committed transactions"),
    RangeKind.OPEN_COPIED: ("open transaction", "open transactions"),
}


@dataclass(frozen=True)  # no slots: cached properties
class MirrorComparison:
    """A partition and its mirror.

    Attributes:
        place: the partition of the source.
        names: its topic and the mirror.
        logs: the records of both; None if the mirror's log is not available.
        syncs: what MirrorMaker recorded about offsets.
        groups: the offsets of groups in both.
    """

    place: Place
    names: MirroredTopic
    logs: MatchedLogs | None
    syncs: tuple[OffsetSync, ...] = ()
    groups: tuple[GroupOffset, ...] = ()

    @cached_property
    def _copied(self) -> CopiedLog | None:
        return None if self.logs is None else CopiedLog(self.logs)

    def ranges(self) -> Iterator[MirrorRange]:
        """Yield what became of the records; the logs are not read again."""
        if self.logs is None or self._copied is None:
            detail = "the log of this partition of the mirror is not under the paths"
            yield MirrorRange(RangeKind.NO_MIRROR, None, None, 0, detail=detail)
            return
        yield from self._copied.ranges()
        yield from sync_contradictions(self.logs, self.syncs)
        yield from group_ranges(self.logs, self.groups)

    @cached_property
    def counts(self) -> Mapping[RangeKind, tuple[int, int]]:
        """Number of ranges and of records of each kind that occurs."""
        counts: dict[RangeKind, tuple[int, int]] = {}
        for each in self.ranges():
            ranges, records = counts.get(each.kind, (0, 0))
            counts[each.kind] = ranges + 1, records + each.records
        return counts

    def records(self, kind: RangeKind) -> int:
        """Return the number of records of a kind."""
        return self.counts.get(kind, (0, 0))[1]

    @property
    def source_records(self) -> int:
        """Data records in the source that consumers can see."""
        return 0 if self.logs is None else len(self.logs.sources)

    @property
    def severity(self) -> Severity:
        """The worst severity of all ranges."""
        return max((SEVERITIES.get(kind, Severity.INFO) for kind in self.counts), default=Severity.INFO)

    @property
    def verdict(self) -> str:
        """What the comparison shows, in a sentence, the worst first."""
        if self.logs is None:
            return "not compared: the log of this partition of the mirror is not under the paths"
        if RangeKind.NOTHING_IN_COMMON in self.counts:
            return "no record of the mirror equals one of the source"
        copied = f"{self.records(RangeKind.COPIED):,} of {format_count(self.source_records, 'record')} copied"
        return "; ".join([*_sentences(self), copied])


def _sentences(comparison: MirrorComparison) -> Iterator[str]:
    for kind, text in (
        (RangeKind.MISSING, "{records} missing between copied ones"),
        (RangeKind.SYNC_CONTRADICTION, "{ranges} of MirrorMaker wrong"),
        (RangeKind.ABORTED_COPIED, "{ranges} visible to read_committed readers of the mirror ({records})"),
        (RangeKind.PARTIAL_TRANSACTION, "{ranges} in the mirror only in part"),
        (RangeKind.COPIED_TWICE, "{records} copied twice"),
        (RangeKind.ONLY_IN_MIRROR, "{records} only in the mirror"),
        (RangeKind.OPEN_COPIED, "{ranges} visible to read_committed readers of the mirror ({records})"),
        (RangeKind.LAG, "{records} not copied yet"),
        (RangeKind.BEFORE_MIRROR, "{records} from before the start of the mirror"),
        (RangeKind.COMPACTED_IN_MIRROR, "{records} compacted in the mirror"),
        (RangeKind.UNREADABLE_IN_MIRROR, "{records} perhaps in damaged batches of the mirror"),
        (RangeKind.GONE_IN_SOURCE, "{records} no longer in the source"),
    ):
        if kind in comparison.counts:
            ranges, records = comparison.counts[kind]
            names = TRANSACTIONS.get(kind, ("offset sync", "offset syncs"))
            yield text.format(ranges=format_count(ranges, *names), records=format_count(records, "record"))


def comparison_of(
    place: Place,
    names: MirroredTopic,
    logs: MatchedLogs | None,
    syncs: tuple[OffsetSync, ...],
    groups: tuple[GroupOffset, ...] = (),
) -> MirrorComparison:
    """Return a comparison whose counts are known."""
    comparison = MirrorComparison(place, names, logs, syncs, groups)
    comparison.counts  # noqa: B018  # what cannot be read is reported now, not while results are written
    return comparison


def severities_of_mirror(comparison: MirrorComparison) -> tuple[Severity, ...]:
    """Return the severities that decide the exit code."""
    return (comparison.severity,)


def mirror_rows(comparison: MirrorComparison) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a comparison, in the column order of the table: its verdict, then the ranges."""
    place, mirror = comparison.place, comparison.names.mirror
    verdict = (str(comparison.severity), None, None, comparison.source_records, None, None, None, None, None)
    yield (*place, mirror, "partition", *verdict, comparison.verdict)
    for each in comparison.ranges():
        yield _row(place, mirror, each)


def _row(place: Place, mirror: str, one: MirrorRange) -> tuple[Any, ...]:
    known = one.first_offset is not None and one.mirror_first_offset is not None
    difference = (one.mirror_first_offset or 0) - (one.first_offset or 0) if known else None
    severity = str(SEVERITIES.get(one.kind, Severity.INFO))
    offsets = (one.first_offset, one.last_offset, one.records, one.mirror_first_offset, one.mirror_last_offset)
    return (*place, mirror, str(one.kind), severity, *offsets, difference, *one[6:8], one.detail or None)
