"""All that checks may look at of one partition, once its whole log has been read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from kforensics.forensics.core.aggregation import sum_of
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.observations import Noticed
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.index_evidence import IndexFaults
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import CLEANER, HIGH_WATERMARK, LOG_START, Partition
from kforensics.forensics.partition.record_evidence import RecordEvidence
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, Ledger
from kforensics.forensics.replay.replay_types import Boundary, BoundaryKind

__all__ = ["COMPACTED", "CONSUMER_OFFSETS", "Case", "who_else_cleaned"]

CONSUMER_OFFSETS = "__consumer_offsets"
# Internal topics that the broker always compacts.
COMPACTED = (CONSUMER_OFFSETS, "__transaction_state")


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Case:
    """A partition, what its batches amount to, and what else is known of it.

    Attributes:
        partition: its files.
        rules: limits and the time of evaluation.
        log: all its batches together.
        boundary: what is known of the log before them.
        ledger: transactions, of which the closed ones need not fit into memory.
        empty_markers: markers that closed nothing.
        producers: at the end of the log, by producer id.
        anomalies: what the replay met, in the order of the log.
        exact_from: high watermark from which the last stable offset is exact; None if it never is.
        producers_at: by the offset of a snapshot, the producers after all batches below that offset.
        index_faults: what is wrong with offset and time indexes, None if they were not looked at.
        records: what its records say, None if they were not decoded.
        duplicates: DUPLICATE records of what is there twice, None if nobody looked for it.
    """

    partition: Partition
    rules: Rules
    log: LogSummary
    boundary: Boundary
    ledger: Ledger
    empty_markers: Records
    producers: Records
    anomalies: Records
    exact_from: int | None = 0
    producers_at: Mapping[int, Records] = field(default_factory=dict)
    index_faults: IndexFaults | None = None
    records: RecordEvidence | None = None
    duplicates: Records | None = None

    @cached_property
    def log_start_offset(self) -> int:
        """First offset that consumers may see: the checkpoint's, but not below the first segment nor behind the end."""
        start = max(self.partition.checkpoint(LOG_START) or 0, self.partition.first_offset)
        return min(start, self.log_end_offset) if self.log.batches else start

    @cached_property
    def log_end_offset(self) -> int:
        """Offset behind the last batch; where there is none, the log start offset."""
        if not self.log.batches:
            last = self.partition.segments[-1].base_offset if self.partition.segments else None
            return max(self.log_start_offset, last or 0)
        return int(self.log.last.last_offset[0]) + 1

    @property
    def high_watermark(self) -> int | None:
        """The checkpoint's, which may be some seconds old."""
        return self.partition.checkpoint(HIGH_WATERMARK)

    @property
    def first_dirty_offset(self) -> int | None:
        """How far the cleaner came, None if it never cleaned this partition as far as its checkpoint tells."""
        return self.partition.checkpoint(CLEANER)

    @cached_property
    def strict_from(self) -> int:
        """Offset from which batches stand as the leader wrote them.

        In a log directory whose cleaner checkpoint does not name the partition that is all of it. Else it is what
        lies behind the cleaner's first dirty segment, and behind the last batch that shows cleaning. Where the broker
        was running it is the active segment alone: the cleaner may have gone on after its checkpoint was copied.
        """
        if self.is_known_uncleaned:
            return 0
        dirty = self.first_dirty_offset
        bases = [segment.base_offset or 0 for segment in self.partition.segments]
        if dirty is not None and not self.partition.log_dir.clean_shutdown:
            dirty = max([dirty, *bases[-1:]])
        clean = 0 if dirty is None else min((base for base in bases if base >= dirty), default=self.log_end_offset)
        return max(clean, self.log.cleaned_to + 1)

    @property
    def is_known_uncleaned(self) -> bool:
        """Whether the cleaner's checkpoint is there and does not name the partition."""
        return CLEANER in self.partition.log_dir.checkpoints and self.first_dirty_offset is None

    @cached_property
    def is_broken(self) -> bool:
        """Whether batches are missing that stood in the log: what was in them could have changed everything.

        What a crash or a live copy leaves at the end of the last segment was no batch yet.
        """
        last = len(self.partition.segments) - 1
        return any(
            found.inside_batch is None and not (segment == last and found.next_good_position is None)
            for segment, found in self.log.damage
        )

    @property
    def is_complete(self) -> bool:
        """Whether nothing stood before the first batch on hand."""
        return self.boundary.kind is BoundaryKind.EMPTY

    @property
    def open_transactions(self) -> Records:
        """Transactions without a marker, by first offset."""
        return self.ledger.opened

    @property
    def transactions(self) -> Records:
        """All transactions in one array: closed ones in the order of their markers, then open ones by first offset.

        For logs that are known to be small; of others see ``ledger``.
        """
        return np.concatenate([NO_TRANSACTIONS, *self.ledger])

    @property
    def judges_sequences(self) -> bool:
        """Whether sequences mean anything: the group coordinator begins each of its batches at 0."""
        return self.partition.place.topic != CONSUMER_OFFSETS

    def path(self, segment: int) -> str | None:
        """Return the path of a segment by its number; None for -1, what precedes the log on hand."""
        return self.partition.segments[segment].path if segment >= 0 else None

    def finding(  # noqa: PLR0913  # what a finding has
        self,
        code: Code,
        message: str,
        *,
        severity: Severity | None = None,
        at: tuple[int, int] | None = None,
        offsets: tuple[int, int] | None = None,
        producer: tuple[int, int] | None = None,
        evidence: dict[str, object] | None = None,
        exactness: Exactness = Exactness.EXACT,
        benign: tuple[str, ...] = (),
        cause: str | None = None,
    ) -> Finding:
        """Return a finding in this partition.

        Args:
            code: its kind.
            message: a sentence with the figures in it.
            severity: None for that of the code.
            at: number of the segment and position of the evidence.
            offsets: first and last offset it is about.
            producer: producer id and epoch it is about.
            evidence: figures, as JSON has them.
            exactness: how far it can be trusted.
            benign: innocent explanations that were tested.
            cause: code of the finding it follows from.
        """
        first, last = offsets or (None, None)
        producer_id, producer_epoch = producer or (None, None)
        return Finding(
            code=code,
            message=message,
            severity=code.severity if severity is None else severity,
            first_offset=first,
            last_offset=last,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            path=self.path(at[0]) if at else None,
            position=at[1] if at and at[0] >= 0 else None,
            evidence=evidence or {},
            exactness=exactness,
            benign=benign,
            cause=cause,
        )


def who_else_cleaned(case: Case) -> str | None:
    """Return what speaks for a log that was cleaned elsewhere, as half a sentence; None if nothing does.

    A replica fetches what its leader has, cleaned or not, and its own checkpoint does not know.
    """
    thinned = sum_of(case.log.notes, Noticed.SEQ_COUNT_MISMATCH)
    if case.partition.place.topic in COMPACTED:
        return "the topic is compacted"
    if case.log.holes and thinned and thinned.amount < 0:
        return f"{case.log.holes} offsets are missing, and {thinned.that('holds', 'hold')} fewer records than offsets"
    return None
