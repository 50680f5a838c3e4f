"""Logs with records that come again, and what is written twice in them by the plainest way to say it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kforensics.forensics.core.record_types import Ending, Records
from kforensics.forensics.duplicates.batch_duplicates import sequence_duplicates
from kforensics.forensics.duplicates.content import content_duplicates
from kforensics.forensics.duplicates.content_entries import Reading, hidden_intervals
from kforensics.forensics.duplicates.duplicate_rows import REASONS, VIEWS, View, Why
from kforensics.forensics.replay.finalising import finalise
from kforensics.forensics.replay.folding import Folding
from kforensics.forensics.replay.replay_rows import joined_rows
from kforensics.forensics.replay.replay_types import EMPTY
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import Choice, no_kernels
from tests.parsers.builders import NONE, batch, record

LOG_APPEND_TIME, TRANSACTIONAL = 0x08, 0x10
WINDOW_OFFSETS, WINDOW_MS = 100_000, 600_000

# Offsets of the first and the second writing, why, and in which view.
Pair = tuple[int, int, Why, View]


@dataclass(frozen=True)
class Written:
    """A record, and what its batch says."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    is_stamped: bool
    producer_id: int
    producer_epoch: int
    sequence: int
    batch: int
    index: int
    count: int
    is_hidden: bool

    @property
    def content(self) -> tuple[bytes | None, bytes | None]:
        """What is compared."""
        return self.key, self.value


class Log:
    """A log in the making.

    Attributes:
        records: what is in it.
        data: its bytes.
        transactions: hidden ones, as (producer id, first offset, marker offset).
    """

    def __init__(self) -> None:
        self.records: list[Written] = []
        self.data = b""
        self.transactions: list[tuple[int, int, int]] = []
        self._offset = self._batches = 0

    def write(
        self,
        contents: Sequence[tuple[bytes | None, bytes | None]],
        *,
        producer: tuple[int, int, int] = (-1, -1, -1),
        timestamp: int = 1000,
        is_stamped: bool = True,
        is_hidden: bool = False,
        codec: int = NONE,
    ) -> None:
        """Append a batch; the producer is id, epoch and first sequence."""
        producer_id, epoch, sequence = producer
        built = [record(index, *pair) for index, pair in enumerate(contents)]
        attributes = codec | (0 if is_stamped else LOG_APPEND_TIME) | (TRANSACTIONAL if is_hidden else 0)
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
            place = (self._batches, index, len(contents))
            number = sequence + index if producer_id >= 0 else -1
            who = (producer_id, epoch, number)
            written = Written(self._offset + index, key, value, timestamp, is_stamped, *who, *place, is_hidden)
            self.records.append(written)
        if is_hidden:
            self.transactions.append((producer_id, self._offset, self._offset + len(contents)))
        self._offset += len(contents)
        self._batches += 1

    def skip(self, offsets: int) -> None:
        """Leave out offsets, as a cleaned log does."""
        self._offset += offsets

    @property
    def hidden(self) -> Records:
        """The hidden transactions as the search takes them."""
        return intervals(self.transactions)

    def save(self, folder: Path, cuts: Sequence[int] = ()) -> list[str]:
        """Write the log as segments, cut at positions; returns their paths."""
        ends = [0, *cuts, len(self.data)]
        paths = [folder / f"{number:020}.log" for number in range(len(ends) - 1)]
        for path, start, end in zip(paths, ends, ends[1:], strict=False):
            path.write_bytes(self.data[start:end])
        return [str(path) for path in paths]


def intervals(transactions: Sequence[tuple[int, int, int]]) -> Records:
    """Return hidden transactions as the search takes them."""
    rows = hidden_intervals(None)
    rows.resize(len(transactions))
    rows[:] = transactions
    return hidden_intervals(rows)


def random_log(seed: int, batches: int = 60) -> Log:
    """Return a log of few contents from few producers, with retries, restarts and aborted transactions."""
    dice = random.Random(seed)  # noqa: S311  # dice for a test
    log, sequences = Log(), dict.fromkeys([(7, 0), (7, 1), (8, 0)], 0)
    contents: list[tuple[bytes | None, bytes | None]] = [(b"%d" % n, b"%d" % (n % 3)) for n in range(9)]
    contents += [(b"k", None), (b"k", b""), (None, None), (None, b"v")]
    is_stamped = dice.random() < 0.5
    again: list[list[tuple[bytes | None, bytes | None]]] = []
    clock = 1000
    for _ in range(batches):
        clock += dice.choice([0, 1, 100, WINDOW_MS]) if not is_stamped or dice.random() < 0.5 else 0
        chosen = dice.choice(again) if again and dice.random() < 0.4 else dice.choices(contents, k=dice.randint(1, 4))
        again.append(chosen)
        if dice.random() < 0.5:
            log.write(chosen, timestamp=clock, is_stamped=is_stamped)
            continue
        producer = dice.choice(list(sequences))
        sequence = 0 if dice.random() < 0.1 else sequences[producer]
        sequences[producer] = sequence + len(chosen)
        hides = dice.random() < 0.3
        log.write(chosen, producer=(*producer, sequence), timestamp=clock, is_stamped=is_stamped, is_hidden=hides)
    return log


def expected_pairs(records: Sequence[Written]) -> Iterator[tuple[Pair, bool]]:
    """Yield each pair, and whether it says something by itself."""
    for at, second in enumerate(records):
        firsts = [one for one in records[:at] if one.content == second.content]
        seen = [] if second.is_hidden else [one for one in firsts if not one.is_hidden]
        chosen = [_nearest(pool, second) for pool in (firsts, seen) if pool]
        for first in dict.fromkeys(chosen):
            if not _is_of_sequence(first, second):
                view = View.RAW if first.is_hidden or second.is_hidden else View.COMMITTED
                yield (first.offset, second.offset, _why(first, second, records), view), _tells(first, second)


def _nearest(pool: Sequence[Written], second: Written) -> Written:
    retried = [one for one in pool if second.producer_id < 0 and _may_be_retried(one, second)]
    return max(retried or pool, key=lambda one: one.offset)


def _may_be_retried(first: Written, second: Written) -> bool:
    same_time = first.is_stamped == second.is_stamped and (not first.is_stamped or first.timestamp == second.timestamp)
    return first.producer_id < 0 and first.index == second.index and same_time and _is_near(first, second)


def _is_near(first: Written, second: Written) -> bool:
    return second.offset - first.offset < WINDOW_OFFSETS and abs(second.timestamp - first.timestamp) < WINDOW_MS


def _is_of_sequence(first: Written, second: Written) -> bool:
    def batch_of(one: Written) -> tuple[int, ...]:
        return one.producer_id, one.producer_epoch, one.sequence, one.index, one.count

    return first.producer_id >= 0 and batch_of(first) == batch_of(second)


def _tells(first: Written, second: Written) -> bool:
    same_time = first.is_stamped and second.is_stamped and first.timestamp == second.timestamp
    return bool(second.value) or (bool(second.key) and same_time)


def _why(first: Written, second: Written, records: Sequence[Written]) -> Why:
    if first.producer_id < 0 and second.producer_id < 0:
        return _why_without_producer(first, second, records)
    if first.producer_id != second.producer_id:
        return Why.OTHER_PRODUCER
    if first.producer_epoch != second.producer_epoch:
        return Why.OTHER_EPOCH
    return Why.OTHER_BATCH if first.sequence == second.sequence else Why.OTHER_SEQUENCE


def _why_without_producer(first: Written, second: Written, records: Sequence[Written]) -> Why:
    if first.batch == second.batch or not _is_near(first, second):
        return Why.NO_PRODUCER
    if first.is_stamped:
        return Why.RETRY_SAME_TIME if first.timestamp == second.timestamp else Why.NO_PRODUCER
    batches = [[one for one in records if one.batch == number] for number in (first.batch, second.batch)]
    if [one.content for one in batches[0]] == [one.content for one in batches[1]] and _all_nearest(batches, records):
        return Why.RETRY_WHOLE_BATCH
    return Why.RETRY_NEXT_BATCH if second.batch == first.batch + 1 else Why.NO_PRODUCER


def _all_nearest(batches: Sequence[Sequence[Written]], records: Sequence[Written]) -> bool:
    """Whether each record of the second batch is paired with one of the first, not with a later one."""
    pairs = zip(*batches, strict=True)
    return all(
        _nearest([one for one in records if _is_before(one, second)], second) == first for first, second in pairs
    )


def _is_before(one: Written, second: Written) -> bool:
    return one.content == second.content and one.offset < second.offset


def found_pairs(rows: Records, offsets: Sequence[int]) -> list[Pair]:
    """Return the pairs that rows stand for, having checked that both sides are as long as they say.

    Args:
        rows: what was found.
        offsets: those of all data records.
    """
    pairs: list[Pair] = []
    places = {offset: place for place, offset in enumerate(offsets)}
    for row in rows:
        first, second = places[row["first_offset"]], places[row["second_offset"]]
        last = int(row["records"]) - 1
        assert offsets[first + last] == row["first_last_offset"]
        assert offsets[second + last] == row["second_last_offset"]
        assert row["why"] in REASONS
        assert row["view"] in VIEWS
        pairs += [
            (offsets[first + step], offsets[second + step], Why(row["why"]), View(row["view"]))
            for step in range(last + 1)
        ]
    return pairs


@dataclass(frozen=True)
class Partition:
    """Segments, and what the replay of their batches says.

    Attributes:
        paths: the segments.
        anomalies: ANOMALY rows.
        uncommitted: aborted and open transactions.
    """

    paths: Sequence[str]
    anomalies: Records
    uncommitted: Records

    def batches(self) -> Iterator[BatchColumns]:
        """Yield its batches."""
        for number, path in enumerate(self.paths):
            with open_source(path) as source:
                yield from batch_chunks(source, number, _say_nothing, no_kernels)

    def duplicates(self, choice: Choice = no_kernels) -> Records:
        """Return all rows, of sequences and of contents."""
        reading = Reading(self.paths, hidden_intervals(self.uncommitted), kernels=choice, workers=0)
        contents = content_duplicates(reading, lambda _segment, _damage: None)
        return np.concatenate([sequence_duplicates(self.anomalies, self.batches, reading), *contents])


def _say_nothing(_damage: Damage) -> None:
    pass


def partition_of(paths: Sequence[str]) -> Partition:
    """Return segments that begin with a log's first batch, or behind one that no producer's state depends on."""
    folding = Folding()
    empty = Partition(paths, np.empty(0), np.empty(0))
    for chunk in empty.batches():
        folding.add(chunk)
    final = finalise(folding.summary(), EMPTY)
    rows = joined_rows([folding.rows(), final.rows]).in_order()
    aborted = rows.transactions[rows.transactions["ending"] != Ending.COMMITTED]
    return Partition(paths, rows.anomalies, np.concatenate([aborted, final.open_transactions]))
