"""Logs with duplicate records, and a simple definition of their duplicates."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from kforensics.forensics.core.record_types import (
    ANOMALY,
    TRANSACTION,
    AnomalyArray,
    TransactionArray,
    TransactionOutcome,
)
from kforensics.forensics.duplicates.content_duplicates import content_duplicates
from kforensics.forensics.duplicates.duplicate_rows import (
    REASON_NAMES,
    VIEW_NAMES,
    DuplicateArray,
    DuplicateReason,
    DuplicateView,
)
from kforensics.forensics.duplicates.partition_duplicates import sequence_duplicates
from kforensics.forensics.duplicates.record_reader import HiddenTransactionArray, RecordReader, hidden_transactions
from kforensics.forensics.replay.boundary import EMPTY
from kforensics.forensics.replay.finalizing import finalize
from kforensics.forensics.replay.incremental_replay import IncrementalReplay
from kforensics.forensics.replay.replay_rows import joined_rows
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from tests.parsers.builders import NONE, batch, record

LOG_APPEND_TIME, TRANSACTIONAL = 0x08, 0x10
WINDOW_OFFSETS, WINDOW_MS = 100_000, 600_000

# Offsets of the earlier and the later copy, the reason, and the view.
Pair = tuple[int, int, DuplicateReason, DuplicateView]


@dataclass(frozen=True)
class WrittenRecord:
    """A record with the fields of its batch."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    has_create_time: bool
    producer_id: int
    producer_epoch: int
    sequence: int
    batch: int
    index: int
    count: int
    is_hidden: bool

    @property
    def content(self) -> tuple[bytes | None, bytes | None]:
        """The part that is compared."""
        return self.key, self.value


class Log:
    """A log that is written batch by batch.

    Attributes:
        records: its records.
        data: its bytes.
        transactions: hidden transactions as (producer id, first offset, marker offset).
    """

    def __init__(self) -> None:
        self.records: list[WrittenRecord] = []
        self.data = b""
        self.transactions: list[tuple[int, int, int]] = []
        self._offset = self._batches = 0

    def write(
        self,
        contents: Sequence[tuple[bytes | None, bytes | None]],
        *,
        producer: tuple[int, int, int] = (-1, -1, -1),
        timestamp: int = 1000,
        has_create_time: bool = True,
        is_hidden: bool = False,
        codec: int = NONE,
    ) -> None:
        """Append a batch; the producer is given as id, epoch and first sequence."""
        producer_id, epoch, sequence = producer
        built = [record(index, *pair) for index, pair in enumerate(contents)]
        attributes = codec | (0 if has_create_time else LOG_APPEND_TIME) | (TRANSACTIONAL if is_hidden else 0)
        self.data += batch(
            *built,
            base_offset=self._offset,
            attributes=attributes,
            base_timestamp=timestamp,
            max_timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            codec=codec,
        )
        for index, (key, value) in enumerate(contents):
            self.records.append(
                WrittenRecord(
                    offset=self._offset + index,
                    key=key,
                    value=value,
                    timestamp=timestamp,
                    has_create_time=has_create_time,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    sequence=sequence + index if producer_id >= 0 else -1,
                    batch=self._batches,
                    index=index,
                    count=len(contents),
                    is_hidden=is_hidden,
                )
            )
        if is_hidden:
            self.transactions.append((producer_id, self._offset, self._offset + len(contents)))
        self._offset += len(contents)
        self._batches += 1

    def skip(self, offsets: int) -> None:
        """Leave a gap of offsets, as compaction does."""
        self._offset += offsets

    @property
    def hidden(self) -> HiddenTransactionArray:
        """The hidden transactions as a RecordReader takes them."""
        return hidden_rows(self.transactions)

    def save(self, folder: Path, cuts: Sequence[int] = ()) -> list[str]:
        """Write the log as segments, cut at byte positions, and return their paths."""
        ends = [0, *cuts, len(self.data)]
        paths = [folder / f"{number:020}.log" for number in range(len(ends) - 1)]
        for path, start, end in zip(paths, ends, ends[1:], strict=False):
            path.write_bytes(self.data[start:end])
        return [str(path) for path in paths]


def hidden_rows(transactions: Sequence[tuple[int, int, int]]) -> HiddenTransactionArray:
    """Return hidden transactions as a RecordReader takes them."""
    rows = hidden_transactions(None)
    rows.resize(len(transactions))
    rows[:] = transactions
    return hidden_transactions(rows)


def random_log(seed: int, batches: int = 60) -> Log:
    """Return a log of few distinct contents from few producers, with retries, restarts and aborted transactions."""
    dice, more = random.Random(seed), random.Random(seed)  # noqa: S311  # not for cryptography
    log, sequences = Log(), dict.fromkeys([(7, 0), (7, 1), (8, 0)], 0)
    contents: list[tuple[bytes | None, bytes | None]] = [(b"%d" % n, b"%d" % (n % 3)) for n in range(9)]
    contents += [(b"k", None), (b"k", b""), (None, None), (None, b"v")]
    has_create_time = dice.random() < 0.5
    earlier: list[list[tuple[bytes | None, bytes | None]]] = []
    clock = 1000
    for _ in range(batches):
        clock += dice.choice([0, 1, 100, WINDOW_MS]) if not has_create_time or dice.random() < 0.5 else 0
        repeats = earlier and dice.random() < 0.4
        chosen = dice.choice(earlier) if repeats else dice.choices(contents, k=dice.randint(1, 4))
        if repeats and more.random() < 0.2:  # in front of others, as librdkafka sends records again
            chosen = [*chosen, *more.choices(contents, k=more.randint(1, 2))]
        earlier.append(chosen)
        if dice.random() < 0.5:
            log.write(chosen, timestamp=clock, has_create_time=has_create_time)
            continue
        producer = dice.choice(list(sequences))
        sequence = 0 if dice.random() < 0.1 else sequences[producer]
        sequences[producer] = sequence + len(chosen)
        hides = dice.random() < 0.3
        log.write(
            chosen, producer=(*producer, sequence), timestamp=clock, has_create_time=has_create_time, is_hidden=hides
        )
    return log


_RecordPair: TypeAlias = tuple[WrittenRecord, WrittenRecord, DuplicateReason, DuplicateView]


def expected_pairs(records: Sequence[WrittenRecord]) -> Iterator[tuple[Pair, bool]]:
    """Yield each pair, and whether it is conclusive on its own."""
    plain = list(_plain_pairs(records))
    resent = {pair for view in DuplicateView for pair in _begin_batches([each for each in plain if each[3] == view])}
    for first, second, reason, view in plain:
        is_retry = (first.offset, second.offset, view) in resent and reason is DuplicateReason.NO_PRODUCER
        found = DuplicateReason.RETRY_SAME_TIME if is_retry else reason
        yield (first.offset, second.offset, found, view), is_conclusive(first, second)


def _plain_pairs(records: Sequence[WrittenRecord]) -> Iterator[_RecordPair]:
    for index, second in enumerate(records):
        candidates = [record for record in records[:index] if record.content == second.content]
        visible = [] if second.is_hidden else [record for record in candidates if not record.is_hidden]
        nearest = [_nearest(pool, second) for pool in (candidates, visible) if pool]
        for first in dict.fromkeys(nearest):
            if not _is_sequence_duplicate(first, second):
                view = DuplicateView.RAW if first.is_hidden or second.is_hidden else DuplicateView.COMMITTED
                yield first, second, _reason(first, second, records), view


def _begin_batches(pairs: Sequence[_RecordPair]) -> Iterator[tuple[int, int, DuplicateView]]:
    """Yield the pairs of records that repeat whole batches at the beginning of a batch, without a producer id."""
    alike = [(first, second) for first, second, _, _ in pairs if _keeps_time(first, second)]
    view = pairs[0][3] if pairs else DuplicateView.RAW
    for begin_first, begin in alike:
        distance, block = begin.offset - begin_first.offset, [(begin_first, begin)]
        for first, second in sorted(alike, key=lambda pair: pair[1].offset):
            is_next = second.batch == begin.batch and second.offset == block[-1][1].offset + 1
            if is_next and second.offset - first.offset == distance:
                block.append((first, second))
        last = block[-1][0]
        is_whole = (begin.index, begin_first.index, last.index) == (0, 0, last.count - 1)
        if is_whole and begin.timestamp % 1000 and (len(block) > 1 or distance == len(block)):
            yield from ((first.offset, second.offset, view) for first, second in block)


def _keeps_time(first: WrittenRecord, second: WrittenRecord) -> bool:
    """Return whether a record may be another one that a client sent again, with the timestamp of its producer."""
    has_producer = first.producer_id >= 0 or second.producer_id >= 0
    same_time = first.has_create_time and second.has_create_time and first.timestamp == second.timestamp
    return not has_producer and same_time and first.batch != second.batch and _is_near(first, second)


def _nearest(pool: Sequence[WrittenRecord], second: WrittenRecord) -> WrittenRecord:
    retried = [record for record in pool if second.producer_id < 0 and _may_be_retried(record, second)]
    return max(retried or pool, key=lambda record: record.offset)


def _may_be_retried(first: WrittenRecord, second: WrittenRecord) -> bool:
    same_time = first.has_create_time == second.has_create_time and (
        not first.has_create_time or first.timestamp == second.timestamp
    )
    return first.producer_id < 0 and first.index == second.index and same_time and _is_near(first, second)


def _is_near(first: WrittenRecord, second: WrittenRecord) -> bool:
    return second.offset - first.offset < WINDOW_OFFSETS and abs(second.timestamp - first.timestamp) < WINDOW_MS


def _is_sequence_duplicate(first: WrittenRecord, second: WrittenRecord) -> bool:
    def identity(record: WrittenRecord) -> tuple[int, ...]:
        return record.producer_id, record.producer_epoch, record.sequence, record.index, record.count

    return first.producer_id >= 0 and identity(first) == identity(second)


def is_conclusive(first: WrittenRecord, second: WrittenRecord) -> bool:
    """Return whether a pair is worth reporting on its own."""
    same_time = first.has_create_time and second.has_create_time and first.timestamp == second.timestamp
    return bool(second.value) or (bool(second.key) and same_time)


def _reason(first: WrittenRecord, second: WrittenRecord, records: Sequence[WrittenRecord]) -> DuplicateReason:
    if first.producer_id < 0 and second.producer_id < 0:
        return _reason_without_producer(first, second, records)
    if first.producer_id != second.producer_id:
        return DuplicateReason.OTHER_PRODUCER
    if first.producer_epoch != second.producer_epoch:
        return DuplicateReason.OTHER_EPOCH
    return DuplicateReason.OTHER_BATCH if first.sequence == second.sequence else DuplicateReason.OTHER_SEQUENCE


def _reason_without_producer(
    first: WrittenRecord, second: WrittenRecord, records: Sequence[WrittenRecord]
) -> DuplicateReason:
    if first.batch == second.batch or not _is_near(first, second):
        return DuplicateReason.NO_PRODUCER
    if first.has_create_time and first.timestamp != second.timestamp:
        return DuplicateReason.NO_PRODUCER
    batches = [[record for record in records if record.batch == number] for number in (first.batch, second.batch)]
    first_contents, second_contents = ([record.content for record in batch_records] for batch_records in batches)
    if first_contents == second_contents and _all_nearest(batches, records):
        return DuplicateReason.RETRY_SAME_TIME if first.has_create_time else DuplicateReason.RETRY_WHOLE_BATCH
    return DuplicateReason.NO_PRODUCER


def _all_nearest(batches: Sequence[Sequence[WrittenRecord]], records: Sequence[WrittenRecord]) -> bool:
    """Return whether each record of the second batch is paired with one of the first batch, not with a later one."""
    pairs = zip(*batches, strict=True)
    return all(
        _nearest([record for record in records if _is_before(record, second)], second) == first
        for first, second in pairs
    )


def _is_before(record: WrittenRecord, second: WrittenRecord) -> bool:
    return record.content == second.content and record.offset < second.offset


def as_if_it_did_not_recur(pair: Pair, records: Sequence[WrittenRecord]) -> Pair:
    """Return a pair of content that recurs as the retry that it would be if nothing else were repeated."""
    first, second, reason, view = pair
    if reason not in {DuplicateReason.PERIODIC, DuplicateReason.USUAL, DuplicateReason.SINGLE}:
        return pair
    has_create_time = next(record.has_create_time for record in records if record.offset == first)
    retry = DuplicateReason.RETRY_SAME_TIME if has_create_time else DuplicateReason.RETRY_WHOLE_BATCH
    return first, second, retry, view


def pairs_of_rows(rows: DuplicateArray, offsets: Sequence[int]) -> list[Pair]:
    """Return the pairs in the runs of rows, after checking the last offsets of both sides.

    Args:
        rows: the duplicates.
        offsets: offsets of all data records.
    """
    pairs: list[Pair] = []
    indexes = {offset: index for index, offset in enumerate(offsets)}
    for row in rows:
        first, second = indexes[row["first_offset"]], indexes[row["second_offset"]]
        last = int(row["records"]) - 1
        assert offsets[first + last] == row["first_last_offset"]
        assert offsets[second + last] == row["second_last_offset"]
        assert row["first_last_offset"] < row["second_offset"], "no range overlaps itself"
        assert row["why"] in REASON_NAMES
        assert row["view"] in VIEW_NAMES
        pairs += [
            (offsets[first + step], offsets[second + step], DuplicateReason(row["why"]), DuplicateView(row["view"]))
            for step in range(last + 1)
        ]
    return pairs


@dataclass(frozen=True)
class Partition:
    """Segments, and the result of their replay.

    Attributes:
        paths: the segments.
        anomalies: the anomalies.
        uncommitted: aborted and open transactions.
    """

    paths: Sequence[str]
    anomalies: AnomalyArray
    uncommitted: TransactionArray

    def batches(self) -> Iterator[BatchColumns]:
        """Yield its batches."""
        for number, path in enumerate(self.paths):
            with open_source(path) as source:
                yield from batch_chunks(source, number, _ignore_damage, no_kernels)

    def duplicates(self, kernels: KernelPolicy = no_kernels) -> DuplicateArray:
        """Return all duplicates, of sequences and of contents."""
        reader = RecordReader(self.paths, hidden_transactions(self.uncommitted), kernels=kernels, workers=0)
        contents = content_duplicates(reader, lambda _segment, _damage: None)
        return np.concatenate([sequence_duplicates(self.anomalies, self.batches, reader), *contents])


def _ignore_damage(_damage: Damage) -> None:
    pass


def partition_of(paths: Sequence[str]) -> Partition:
    """Return the partition of segments that start a log, or are preceded only by batches without producers."""
    replay = IncrementalReplay()
    empty = Partition(paths, np.empty(0, ANOMALY), np.empty(0, TRANSACTION))
    for chunk in empty.batches():
        replay.add(chunk)
    final = finalize(replay.summary(), EMPTY)
    rows = joined_rows([replay.rows(), final.rows]).in_order()
    aborted = rows.transactions[rows.transactions["outcome"] != TransactionOutcome.COMMITTED]
    return Partition(paths, rows.anomalies, np.concatenate([aborted, final.open_transactions]))
