"""The state of a partition after its whole log has been read: everything that checks may evaluate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_types import AnomalyArray, EmptyMarkerArray, TransactionArray
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.partition.cleaner_signs import has_gaps_of_a_cleaner, has_replaced_segment, logs_in
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs
from kforensics.forensics.partition.index_evidence import IndexFaults
from kforensics.forensics.partition.kept_times import precede_data
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import (
    CLEANER,
    CONSUMER_OFFSETS,
    DELETED,
    HIGH_WATERMARK,
    LOG_START,
    Partition,
)
from kforensics.forensics.partition.topic_deletion import Deletion, deletion_during_copy, was_recreated
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, TransactionStore
from kforensics.forensics.replay.boundary import Boundary, BoundaryKind
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.rows import Damage

if TYPE_CHECKING:
    from kforensics.forensics.metadata.remote_log import RemoteLog
    from kforensics.forensics.partition.log_gaps import LogGaps, SegmentBounds
    from kforensics.forensics.partition.log_starts import EarlierStart
    from kforensics.forensics.partition.record_evidence import RecordEvidence

__all__ = ["CONSUMER_OFFSETS", "PartitionState"]


@dataclass(frozen=True)  # no slots: cached properties
class PartitionState:
    """A partition, the results of reading its log, and what else is known about it.

    Attributes:
        partition: its files.
        rules: limits and the time of evaluation.
        log: summary of all its batches.
        boundary: what is known of the log before them.
        transaction_store: its transactions; the closed ones need not fit into memory.
        empty_markers: EMPTY_MARKER records of markers that ended no transaction.
        producers: PRODUCER records at the end of the log, sorted by producer id.
        anomalies: ANOMALY records of the replay, in log order.
        exact_from: high watermark from which the last stable offset is exact; None if it never is.
        producers_at: by the offset of a snapshot, the producers after all batches below that offset.
        index_faults: faults of offset and time indexes, None if they were not checked.
        records: evidence from decoded records, None if records were not decoded.
        duplicates: DUPLICATE records, which need not fit into memory; None if duplicates were not searched for.
    """

    partition: Partition
    rules: Rules
    log: LogSummary
    boundary: Boundary
    transaction_store: TransactionStore
    empty_markers: EmptyMarkerArray
    producers: ProducerStates
    anomalies: AnomalyArray
    exact_from: int | None = 0
    producers_at: Mapping[int, ProducerStates] = field(default_factory=dict)
    index_faults: IndexFaults | None = None
    records: RecordEvidence | None = None
    duplicates: SpilledRows | None = None

    @cached_property
    def log_start_offset(self) -> int:
        """First offset visible to consumers; with remote storage it may be before the first segment on disk."""
        remote = self.remote_log_start_offset
        return self.local_log_start_offset if remote is None else remote

    @cached_property
    def remote_log(self) -> RemoteLog | None:
        """What the metadata of remote storage shows of the partition, None if nothing is known."""
        place = self.partition.place
        return self.rules.remote_log(self.partition.topic_id, place.partition, place.log_dir)

    @cached_property
    def remote_log_start_offset(self) -> int | None:
        """First offset in remote storage, None if all that consumers can read is on disk.

        Leader epochs that start before the first segment show remote storage: without it, they are truncated at the log
        start offset, which is never before that. A broker checkpoints the log start offset every minute, so the first
        epoch may be all there is. Rule: ``UnifiedLog.updateLogStartOffset``, ``LogManager.checkpointLogStartOffsets``.
        Without leader epochs, the metadata of remote storage shows it. A broker moves the log start offset before it
        deletes segments there (``RemoteLogManager.cleanupExpiredRemoteLogSegments``), so what is deleted is before it.
        A start that a broker has forgotten is before the leader epochs.
        """
        first, checkpoint, remote = self.partition.first_offset, self.partition.checkpoint(LOG_START), self.remote_log
        if not first or (checkpoint is not None and checkpoint >= first):
            return None
        if self.earlier_start is not None and self.earlier_start.is_forgotten:
            return self.earlier_start.offset
        epochs = checkpointed_epochs(self.partition)
        stored = remote.start_offset if remote is not None else None
        known = min(epochs.values(), default=first if stored is None else stored)
        start = max(known, checkpoint or 0, remote.deleted_to if remote is not None else 0)
        return start if known < first and start < first else None

    @cached_property
    def earlier_start(self) -> EarlierStart | None:
        """The log start offset of the checkpoint, if it is before the first leader epoch."""
        if min(checkpointed_epochs(self.partition).values(), default=0) <= (self.partition.checkpoint(LOG_START) or 0):
            return None
        from kforensics.forensics.partition.log_starts import earlier_start  # few logs have one

        return earlier_start(self)

    @cached_property
    def local_log_start_offset(self) -> int:
        """First visible offset on disk: the checkpointed start, moved into the range of the log if it is outside."""
        start = max(self.partition.checkpoint(LOG_START) or 0, self.partition.first_offset)
        return min(start, self.log_end_offset) if self.log.batches else start

    @cached_property
    def log_end_offset(self) -> int:
        """Offset after the last batch, or the log start offset if there is none."""
        if not self.log.batches:
            last = self.partition.segments[-1].base_offset if self.partition.segments else None
            return max(self.local_log_start_offset, last or 0)
        return int(self.log.last.last_offset[0]) + 1

    @cached_property
    def high_watermark(self) -> int | None:
        """High watermark from the checkpoint, which may be some seconds old.

        After a topic has been deleted and created again, the checkpoint has that of the deleted log for some seconds:
        only the other checkpoints are written at once. Rule: ``LogManager.asyncDelete``.
        """
        return self.checkpointed(HIGH_WATERMARK)

    def checkpointed(self, name: str) -> int | None:
        """Return the offset of the partition in a checkpoint file, None if it is that of a log which was deleted."""
        offset = self.partition.checkpoint(name)
        is_beyond = offset is not None and offset > self.log_end_offset
        return None if is_beyond and was_recreated(self.partition, self.log, name) else offset

    @property
    def knows_cleaner(self) -> bool:
        """Whether there is a checkpoint of the cleaner in the log directory."""
        return CLEANER in self.partition.log_dir.checkpoints

    @cached_property
    def first_dirty_offset(self) -> int | None:
        """First dirty offset from the cleaner's checkpoint, None if the checkpoint does not list this partition.

        The checkpoint may be a copy from before the topic was deleted and created again.
        """
        return self.checkpointed(CLEANER)

    @cached_property
    def first_uncompacted_offset(self) -> int:
        """Offset from which batches are as the leader wrote them.

        In a log directory whose cleaner checkpoint does not list the partition, that is the whole log, or, if it was
        fetched from a leader that had compacted it, the part after the last batch that shows it. Otherwise it is the
        part after the cleaner's first dirty segment and after the last batch that shows compaction. If the broker
        was running, it is the active segment only: the cleaner may have continued after its checkpoint was copied.
        """
        if self.is_known_uncleaned:
            cleaned_to = self.log.cleaned_to
            if cleaned_to < 0:
                return 0
            from kforensics.forensics.partition.compaction_evidence import compacted_elsewhere  # few logs need it

            # A past policy explains the start of the log, though it does not explain all that follows.
            began = int(self.log.first.max_timestamp[0]) if self.log.batches else None
            return cleaned_to + 1 if compacted_elsewhere(self, cleaned_to, began) is not None else 0
        # A partition that was cleaned but is not listed was cleaned after the checkpoint was copied.
        dirty = 0 if self._is_unlisted else self.first_dirty_offset
        bases = [segment.base_offset or 0 for segment in self.partition.segments]
        shows_cleaning = dirty is not None or self.log.cleaned_to >= 0
        if shows_cleaning and (dirty is None or not self.partition.log_dir.clean_shutdown):
            dirty = max([dirty or 0, *bases[-1:]])
        clean = 0 if dirty is None else min((base for base in bases if base >= dirty), default=self.log_end_offset)
        return max(clean, self.log.cleaned_to + 1)

    @cached_property
    def first_complete_offset(self) -> int:
        """Offset from which no record is missing: nothing was compacted or lost, or no offset is missing."""
        last_base = self.partition.segments[-1].base_offset if self.partition.segments else None
        contiguous_from = self.log.contiguous_from(self.partition.first_offset, last_base or 0)
        if not self.knows_cleaner:
            return contiguous_from
        after_lost = int(self.log_gaps.lost.after.max(initial=0))
        return max(min(self.first_uncompacted_offset, contiguous_from), after_lost)

    @property
    def first_uncleaned_offset(self) -> int:
        """Offset from which the cleaner of this broker has replaced nothing; what it fetched may be compacted."""
        return 0 if self.is_known_uncleaned else self.first_uncompacted_offset

    @cached_property
    def is_known_uncleaned(self) -> bool:
        """Whether the cleaner's checkpoint exists and does not list the partition, and the log does not show otherwise.

        In a copy of a running broker, or after a kill, the checkpoint may be older than the first cleaning of the log,
        which may leave no trace but the policy of the topic.
        """
        if self._is_unlisted and not self.partition.log_dir.clean_shutdown:
            shows_cleaning = has_replaced_segment(self.partition) or has_gaps_of_a_cleaner(self.partition, self.log)
            if shows_cleaning or self.rules.compaction is not None:
                return False
            from kforensics.forensics.partition.compaction_evidence import partly_compacted  # few logs need it

            return partly_compacted(self) is None
        return self._is_unlisted

    @property
    def may_be_cleaned_in_copy(self) -> bool:
        """Whether its cleaner may have replaced segments while they were copied: it has cleaned before, and ran."""
        shows_cleaning = self.first_dirty_offset is not None or self.log.cleaned_to >= 0
        return shows_cleaning and not self.partition.log_dir.clean_shutdown

    @property
    def was_deleting_files(self) -> bool:
        """Whether a broker was deleting segments, or replacing them by cleaned ones, when copied or killed."""
        partition = self.partition
        return not partition.log_dir.clean_shutdown and any(file.state == DELETED for file in partition.others)

    def other_logs(self, *states: str) -> Iterator[FoundFile]:
        """Yield the ``.log`` files in some of the states that files may have beside LIVE."""
        return logs_in(self.partition, *states)

    @cached_property
    def segment_bounds(self) -> SegmentBounds:
        """The offsets of the segments, at least one."""
        from kforensics.forensics.partition.log_gaps import SegmentBounds  # not every question asks for them

        return SegmentBounds.of(self)

    @cached_property
    def log_gaps(self) -> LogGaps:
        """The places where the log may lack batches."""
        from kforensics.forensics.partition.log_gaps import log_gaps  # few logs have something that they explain

        return log_gaps(self)

    @cached_property
    def has_predated_files(self) -> bool:
        """Whether its files have times from before what its broker wrote, so that they are no bounds on anything."""
        return precede_data(self)

    @property
    def _is_unlisted(self) -> bool:
        return self.knows_cleaner and self.first_dirty_offset is None

    @cached_property
    def is_broken(self) -> bool:
        """Whether batches of the log were lost; their content could have changed any result."""
        return any(damage.inside_batch is None for _, damage in self.damage_before_end)

    @cached_property
    def torn_end(self) -> Damage | None:
        """The bytes after the last batch of the last segment, if there are any; zeros, too.

        What a crash or a live copy leaves there had not become a batch yet. A damaged last batch is no torn end.
        """
        return next((damage for segment, damage in self.log.damage if self._is_torn_end(segment, damage)), None)

    @cached_property
    def damage_before_end(self) -> tuple[tuple[int, Damage], ...]:
        """All damage but a torn end, each with the number of its segment."""
        return tuple((segment, damage) for segment, damage in self.log.damage if not self._is_torn_end(segment, damage))

    def _is_torn_end(self, segment: int, damage: Damage) -> bool:
        is_at_end = segment == len(self.partition.segments) - 1 and damage.next_good_position is None
        return is_at_end and damage.inside_batch is None

    @property
    def is_complete(self) -> bool:
        """Whether no batch is missing before the first available one."""
        return self.boundary.kind is BoundaryKind.EMPTY

    @property
    def open_transactions(self) -> TransactionArray:
        """Transactions without a marker that its broker has not forgotten, sorted by first offset."""
        return self.transaction_store.opened

    @property
    def transactions(self) -> TransactionArray:
        """All transactions in one array: closed ones in the order of their markers, then open ones by first offset.

        Only for logs that are known to be small; otherwise use ``transaction_store``.
        """
        return np.concatenate([NO_TRANSACTIONS, *self.transaction_store])

    @cached_property
    def deletion(self) -> Deletion | None:
        """How the deletion of its topic explains what is missing in its copy; None if it does not."""
        return deletion_during_copy(self.partition, self.rules)

    @property
    def checks_sequences(self) -> bool:
        """Whether sequence numbers are meaningful: the group coordinator starts each of its batches at 0."""
        return self.partition.place.topic != CONSUMER_OFFSETS

    def path(self, segment: int) -> str | None:
        """Return the path of a segment by its number; None for -1, the part before the available log."""
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
            code: its code.
            message: a sentence with the relevant values.
            severity: None for the severity of the code.
            at: number of the segment and position of the evidence.
            offsets: first and last offset concerned.
            producer: producer id and epoch concerned.
            evidence: values as JSON represents them.
            exactness: how reliable the finding is.
            benign: benign causes that were tested.
            cause: code of the finding that explains this one.
        """
        first, last = offsets or (None, None)
        producer_id, producer_epoch = producer or (None, None)
        severity = code.severity if severity is None else severity
        return Finding(
            code=code,
            message=message,
            severity=severity if self.deletion is None else self.deletion.limit(severity, code.name),
            first_offset=first,
            last_offset=last,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            path=self.path(at[0]) if at else None,
            position=at[1] if at and at[0] >= 0 else None,
            evidence=evidence or {},
            exactness=exactness,
            benign=benign if self.deletion is None else (*benign, self.deletion.phrase),
            cause=cause,
        )

    def forbidden(self, code: Code, path: str, why: str) -> Finding:
        """Return the finding for a file that this user may not read, which shows nothing about the broker.

        Args:
            code: the code for what is wrong with such a file.
            path: path of the file.
            why: the reason.
        """
        return Finding(
            code=code,
            message=f"{file_name(path)} was not checked: {why}.",
            severity=Severity.INFO,
            path=path,
            exactness=Exactness.UNVERIFIABLE,
            remedy="Audit again as a user with read access.",
        )
