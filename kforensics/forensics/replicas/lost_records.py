"""Finds what an election lost: records of one replica that a later leader did not have, or has overwritten.

They disappear as soon as that replica follows again. A producer may have sent some of them a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.replicas.differences import Difference, DifferenceKind
from kforensics.forensics.replicas.lineage import overruled_replica
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.columns.hash_columns import hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.rows import Batch, Record, ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records

__all__ = ["Branch", "LostRecord", "lost_records", "overruled_branches"]

PLAIN = "plain"
LOST_RECORD_OUTCOMES = {
    TransactionOutcome.ABORTED: "aborted",
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.OPEN: "open",
}
LOSING_KINDS = (DifferenceKind.DIVERGED, DifferenceKind.BEHIND)
# With one of these between them, two replicas do not have the same records.
SEPARATING_KINDS = (DifferenceKind.DIVERGED, DifferenceKind.MISSING, DifferenceKind.BEHIND)


@dataclass(frozen=True, slots=True)
class Branch:
    """A range of offsets in which a replica was overruled.

    Attributes:
        loser: the overruled replica.
        winner: the replica of the latest leader, which the loser would follow.
        first_offset: first offset that only losers have in this form.
        last_offset: last such offset.
        at: segment and position of the loser's first batch there, or of an earlier one.
        against: segment and position of the winner's first batch there, None if it has none.
    """

    loser: Replica
    winner: Replica
    first_offset: int
    last_offset: int
    at: tuple[int, int]
    against: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class LostRecord:
    """A record that only the loser of an election has.

    Attributes:
        branch: the branch it is in.
        path: path of its segment.
        position: byte position of its batch.
        offset: its offset.
        timestamp: its timestamp in ms, -1 without one.
        producer_id: producer id of its batch, -1 without one.
        producer_epoch: producer epoch of its batch, -1 without one.
        sequence: its sequence, -1 without one.
        outcome: ``plain``, or the outcome of its transaction on the loser.
        key: its key.
        key_size: size of the key in bytes, -1 for null.
        value_size: size of the value in bytes, -1 for null.
        again_at: offset of a record with the same content on the winner, None without one.
    """

    branch: Branch
    path: str
    position: int
    offset: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    outcome: str
    key: bytes | None
    key_size: int
    value_size: int
    again_at: int | None = None


def overruled_branches(replicas: Sequence[Replica], differences: Sequence[Difference]) -> list[Branch]:
    """Return where the live replica of the latest leader overruled others; a range that several lost is listed once.

    Args:
        replicas: all replicas by number.
        differences: the differences between them.
    """
    latest = max(replicas, key=_precedence)
    candidates = [branch for branch in _all_branches(replicas, differences) if branch.winner is latest]
    branches: list[Branch] = []
    for branch in sorted(candidates, key=lambda item: (-item.loser.end, item.loser.number, item.first_offset)):
        others = (other for other in branches if other.loser is not branch.loser)
        first = max([branch.first_offset, *(_shared_end(branch, other, differences) for other in others)])
        if first <= branch.last_offset:
            branches.append(replace(branch, first_offset=first))
    return branches


def _precedence(replica: Replica) -> tuple[bool, int, int, int]:
    """Return the order in which the replica of the latest leader comes last, without leader epochs by what it knows."""
    newest = max((epoch for epoch, _ in replica.epoch_starts), default=-1)
    return replica.is_live, newest, (replica.high_watermark or 0) if newest < 0 else 0, replica.end


def _all_branches(replicas: Sequence[Replica], differences: Sequence[Difference]) -> Iterator[Branch]:
    for difference in differences:
        loser = overruled_replica(difference, replicas) if difference.kind in LOSING_KINDS else None
        side = 0 if loser == difference.first else 1
        at = difference.sides[side].at
        if loser is not None and at is not None:
            winner = difference.second if side == 0 else difference.first
            against = difference.sides[1 - side].at
            offsets = difference.first_offset, difference.last_offset
            yield Branch(replicas[loser], replicas[winner], *offsets, at, against)


def _shared_end(branch: Branch, other: Branch, differences: Sequence[Difference]) -> int:
    """Return the offset up to which the loser of another branch has the records of this one."""
    pair = tuple(sorted((branch.loser.number, other.loser.number)))
    ends = [
        difference.first_offset
        for difference in differences
        if (difference.first, difference.second) == pair and difference.kind in SEPARATING_KINDS
    ]
    return min([end for end in ends if end >= branch.first_offset] or [branch.last_offset + 1])


def lost_records(
    branches: Sequence[Branch], kernels: KernelPolicy, workers: int | None = None, most: int = MOST
) -> tuple[LostRecord, ...]:
    """Return the first records of some branches in log order.

    Args:
        branches: the branches.
        kernels: returns the compiled kernels if they pay off.
        workers: number of reading threads, 0 to read in the calling thread, None for one per processor.
        most: maximum number of records per branch.

    Raises:
        InputError: a segment cannot be read.
    """
    return tuple(row for branch in branches for row in _of_branch(branch, kernels, workers, most))


def _of_branch(branch: Branch, kernels: KernelPolicy, workers: int | None, most: int) -> list[LostRecord]:
    records = list(islice(_records(branch), most))
    if not records:
        return []
    resent = _resent_offsets(branch, [record for _, _, record in records], kernels, workers)
    outcomes = _Outcomes(branch, records[-1][2].offset)
    rows = (_row(branch, path, batch, record, outcomes) for path, batch, record in records)
    return [replace(row, again_at=resent.get(number)) for number, row in enumerate(rows)]


def _records(branch: Branch) -> Iterator[tuple[str, Batch, Record]]:
    """Yield the data records of the loser with the path of their segment and their batch."""
    number, position = branch.at
    for segment in branch.loser.partition.segments[number:]:
        with open_source(segment.path) as source:
            for batch in walk(source, position):
                if not isinstance(batch, Batch):
                    continue
                if (batch.last_offset if batch.base_offset is None else batch.base_offset) > branch.last_offset:
                    return
                if batch.crc_valid and not batch.is_control:
                    for record in read_records(source, batch):
                        if isinstance(record, Record) and record.offset >= branch.first_offset:
                            yield segment.path, batch, record
        position = 0


def _row(branch: Branch, path: str, batch: Batch, record: Record, outcomes: _Outcomes) -> LostRecord:
    producer_id = -1 if batch.producer_id is None else batch.producer_id
    return LostRecord(
        branch=branch,
        path=path,
        position=batch.position,
        offset=record.offset,
        timestamp=record.timestamp,
        producer_id=producer_id,
        producer_epoch=-1 if batch.producer_epoch is None else batch.producer_epoch,
        sequence=record.sequence,
        outcome=outcomes.of(producer_id, record.offset) if batch.is_transactional else PLAIN,
        key=record.key,
        key_size=record.key_size,
        value_size=record.value_size,
    )


class _Outcomes:
    """The outcomes of the transactions of a branch on the loser.

    Args:
        branch: the branch.
        last_offset: offset of the last record whose outcome is needed.
    """

    def __init__(self, branch: Branch, last_offset: int) -> None:
        parts = []
        for rows in branch.loser.transactions():
            ends = np.where(rows["marker_offset"] < 0, last_offset + 1, rows["marker_offset"])
            parts.append(rows[(rows["first_offset"] <= last_offset) & (ends >= branch.first_offset)])
        self._transactions = np.concatenate(parts) if parts else None

    def of(self, producer_id: int, offset: int) -> str:
        """Return the outcome of the transaction that a record belongs to."""
        transactions = self._transactions
        if transactions is not None:
            ends = transactions["marker_offset"]
            contains = (transactions["producer_id"] == producer_id) & (transactions["first_offset"] <= offset)
            contains &= (ends < 0) | (ends > offset)
            for outcome in transactions["outcome"][contains].tolist():
                return LOST_RECORD_OUTCOMES[TransactionOutcome(outcome)]
        return LOST_RECORD_OUTCOMES[TransactionOutcome.OPEN]


def _resent_offsets(
    branch: Branch, records: Sequence[Record], kernels: KernelPolicy, workers: int | None
) -> dict[int, int]:
    """Return by record number the offset of a record with the same content in the winner's branch."""
    if branch.against is None:
        return {}
    low, high = content_hashes(records)
    first_offsets: dict[tuple[int, int], int] = {}
    for lows, highs, offsets in _hashes(branch, kernels, workers):
        may_match = np.isin(lows, low)
        candidates = (column[may_match].tolist() for column in (lows, highs, offsets))
        for candidate_low, candidate_high, offset in zip(*candidates, strict=True):
            first_offsets.setdefault((candidate_low, candidate_high), offset)
    hashes = zip(low.tolist(), high.tolist(), strict=True)
    return {number: first_offsets[pair] for number, pair in enumerate(hashes) if pair in first_offsets}


def _hashes(
    branch: Branch, kernels: KernelPolicy, workers: int | None
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield both halves of the hashes, and the offsets, of the winner's records from the start of the branch on."""
    number, position = branch.against or (0, 0)
    for segment in branch.winner.partition.segments[number:]:
        with open_source(segment.path) as source:
            for columns in hash_chunks(source, ignore_damage, kernels, start=position, workers=workers):
                yield columns.low, columns.high, columns.offset
        position = 0
