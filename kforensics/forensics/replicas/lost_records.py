"""What an election lost: the records that one replica has and that a later leader did not have, or wrote over.

They are gone as soon as the replica that has them follows again. A producer may have sent some of them once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from kforensics.forensics.core.record_types import Ending, Records
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.replicas.differences import Difference, Kind
from kforensics.forensics.replicas.lineage import loser_of
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.columns.hash_columns import hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.kernels.policy import Choice
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of

__all__ = ["Branch", "LostRecord", "branches", "lost_records"]

PLAIN = "plain"
OUTCOMES = {Ending.ABORTED: "aborted", Ending.COMMITTED: "committed", Ending.OPEN: "open"}
KINDS = (Kind.DIVERGED, Kind.BEHIND)
# Two replicas do not have the same where one of these lies between them.
APART = (Kind.DIVERGED, Kind.MISSING, Kind.BEHIND)


@dataclass(frozen=True, slots=True)
class Branch:
    """A range of offsets in which a replica was overruled.

    Attributes:
        loser: the replica.
        winner: the one of the latest leader, which it would follow.
        first_offset: first offset that only losers have so.
        last_offset: last one.
        at: segment and position of its first batch there, or of one before.
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
        branch: where it stands.
        path: its segment.
        position: byte position of its batch.
        offset: its offset.
        timestamp: in ms, -1 if it has none.
        producer_id: -1 if there is none, as are the next two.
        producer_epoch: of its batch.
        sequence: its sequence.
        outcome: ``plain``, or how its transaction stands at the loser.
        key: its key.
        key_size: bytes of it, -1 for null.
        value_size: bytes of the value, -1 for null.
        again_at: offset of a record at the winner that says the same, None if there is none.
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


def branches(replicas: Sequence[Replica], differences: Sequence[Difference]) -> list[Branch]:
    """Return where replicas were overruled by the live one of the latest leader; what several lost alike comes once.

    Args:
        replicas: all of them, by number.
        differences: between them.
    """
    latest = max(replicas, key=lambda one: (one.is_live, _newest_epoch(one), one.end))
    against = [branch for branch in _all_branches(replicas, differences) if branch.winner is latest]
    found: list[Branch] = []
    for branch in sorted(against, key=lambda one: (-one.loser.end, one.loser.number, one.first_offset)):
        told = (_shared_to(branch, one, differences) for one in found if one.loser is not branch.loser)
        first = max([branch.first_offset, *told])
        if first <= branch.last_offset:
            found.append(replace(branch, first_offset=first))
    return found


def _newest_epoch(replica: Replica) -> int:
    return max((epoch for epoch, _ in replica.epoch_starts), default=-1)


def _all_branches(replicas: Sequence[Replica], differences: Sequence[Difference]) -> Iterator[Branch]:
    for one in differences:
        loser = loser_of(one, replicas) if one.kind in KINDS else None
        mine = 0 if loser == one.first else 1
        at = one.sides[mine].at
        if loser is not None and at is not None:
            winner = one.second if mine == 0 else one.first
            against = one.sides[1 - mine].at
            yield Branch(replicas[loser], replicas[winner], one.first_offset, one.last_offset, at, against)


def _shared_to(branch: Branch, other: Branch, differences: Sequence[Difference]) -> int:
    """Return the offset up to which the loser of another branch has what this one begins with."""
    pair = tuple(sorted((branch.loser.number, other.loser.number)))
    apart = [one.first_offset for one in differences if (one.first, one.second) == pair and one.kind in APART]
    return min([end for end in apart if end >= branch.first_offset] or [branch.last_offset + 1])


def lost_records(
    found: Sequence[Branch], kernels: Choice, workers: int | None = None, most: int = MOST
) -> tuple[LostRecord, ...]:
    """Return the first records of some branches, in the order of the log.

    Args:
        found: the branches.
        kernels: gives the compiled kernels.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
        most: records of a branch.

    Raises:
        InputError: a segment cannot be read.
    """
    return tuple(row for branch in found for row in _of_branch(branch, kernels, workers, most))


def _of_branch(branch: Branch, kernels: Choice, workers: int | None, most: int) -> list[LostRecord]:
    read = list(islice(_records(branch), most))
    if not read:
        return []
    again = _again(branch, [record for _, _, record in read], kernels, workers)
    outcomes = _Outcomes(branch, read[-1][2].offset)
    rows = (_row(branch, path, batch, record, outcomes) for path, batch, record in read)
    return [replace(row, again_at=again.get(number)) for number, row in enumerate(rows)]


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
                    for record in records_of(source, batch):
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
    """How the transactions of a branch stand at the loser.

    Args:
        branch: the branch.
        last_offset: of the last record that is asked for.
    """

    def __init__(self, branch: Branch, last_offset: int) -> None:
        parts = []
        for rows in branch.loser.transactions():
            ends = np.where(rows["marker_offset"] < 0, last_offset + 1, rows["marker_offset"])
            parts.append(rows[(rows["first_offset"] <= last_offset) & (ends >= branch.first_offset)])
        self._found = np.concatenate(parts) if parts else None

    def of(self, producer_id: int, offset: int) -> str:
        """Return how the transaction stands that a record belongs to."""
        found = self._found
        if found is not None:
            ends = found["marker_offset"]
            inside = (found["producer_id"] == producer_id) & (found["first_offset"] <= offset)
            inside &= (ends < 0) | (ends > offset)
            for ending in found["ending"][inside].tolist():
                return OUTCOMES[Ending(ending)]
        return OUTCOMES[Ending.OPEN]


def _again(branch: Branch, read: Sequence[Record], kernels: Choice, workers: int | None) -> dict[int, int]:
    """Return by the number of a record the offset at which the winner has one that says the same, in its own branch."""
    if branch.against is None:
        return {}
    low, high = content_hashes(read)
    offsets: dict[tuple[int, int], int] = {}
    for lows, highs, places in _hashes(branch, kernels, workers):
        near = np.isin(lows, low)
        for one, other, offset in zip(lows[near].tolist(), highs[near].tolist(), places[near].tolist(), strict=True):
            offsets.setdefault((one, other), offset)
    pairs = zip(low.tolist(), high.tolist(), strict=True)
    return {number: offsets[pair] for number, pair in enumerate(pairs) if pair in offsets}


def _hashes(branch: Branch, kernels: Choice, workers: int | None) -> Iterator[tuple[Records, Records, Records]]:
    """Yield both halves of the hashes, and the offsets, of the winner's records from the beginning of the branch on."""
    number, position = branch.against or (0, 0)
    for segment in branch.winner.partition.segments[number:]:
        with open_source(segment.path) as source:
            for columns in hash_chunks(source, _say_nothing, kernels, start=position, workers=workers):
                yield columns.low, columns.high, columns.offset
        position = 0


def _say_nothing(_damage: object) -> None:
    """Damage was told of when the case was made."""
