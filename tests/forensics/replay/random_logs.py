"""Random logs that no broker would write, in which every combination of adjacent producer events occurs eventually."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.replay.boundary import EMPTY, UNKNOWN, Boundary, BoundaryKind
from tests.forensics.batch_notation import NOW
from tests.reference.fold import fold
from tests.reference.replay_values import BatchSummary, Marker, producer_records

SEQUENCE_COUNT = 2**31
FIRST_SEQUENCES = (0, 0, 0, 1, SEQUENCE_COUNT - 3, SEQUENCE_COUNT // 2, SEQUENCE_COUNT // 2 + 2)
STEPS = (0, 0, 0, 0, 0, 0, 1, 1, 2, -1)
MOVES = ("next", "next", "next", "next", "again", "again", "zero", "gap", "back", "far", "none")


@dataclass
class _Writer:
    """A producer that does everything it should not do."""

    producer_id: int
    epoch: int
    sequence: int
    is_transactional: bool
    written: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class RandomLog:
    """A log that grows by random batches.

    Attributes:
        dice: source of randomness.
        batches: the batches written so far.
    """

    dice: Random
    batches: list[BatchSummary] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = self.dice.choice((1, 1, 2, 3))
        self._end = self.dice.choice((0, 0, 100))
        self._writers = [self._writer(number) for number in self.dice.sample(range(1, 9), count)]

    def write(self, count: int) -> None:
        """Write some more batches."""
        for _ in range(count):
            batch = self._batch()
            self._end = batch.last_offset + 1
            self.batches.append(batch)

    def boundary(self) -> Boundary:
        """Return a snapshot of the log so far, in which some producers and recent batches may be missing."""
        known = fold(self.batches).producers.values()
        kept = [producer for producer in known if self.dice.random() < 0.8]
        newest = [replace(producer, recent=producer.recent[-1:]) for producer in kept]
        states = ProducerStates(producer_records(self.dice.choice((kept, newest))))
        return Boundary(BoundaryKind.SNAPSHOT, self._end, states)

    def _writer(self, producer_id: int) -> _Writer:
        dice = self.dice
        return _Writer(producer_id, dice.choice((0, 0, 5)), dice.choice(FIRST_SEQUENCES), dice.random() < 0.75)

    def _batch(self) -> BatchSummary:
        dice = self.dice
        base = self._end + (dice.choice((1, 4)) if dice.random() < 0.12 else 0)
        batch = BatchSummary(
            base_offset=base,
            last_offset=base,
            count=dice.choice((1, 1, 1, 0)),
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            last_sequence=-1,
            is_transactional=False,
            is_control=False,
            max_timestamp=NOW + dice.randrange(1000),
            size=dice.randrange(70, 200),
            exact=True,
            segment=len(self.batches) // 4,
            position=len(self.batches) % 4 * 200,
        )
        choice = dice.random()
        if choice < 0.07:
            return replace(batch, exact=dice.random() < 0.5)
        writer = dice.choice(self._writers)
        if choice < 0.10:
            return replace(batch, producer_id=writer.producer_id, is_control=True, is_transactional=True, count=0)
        return self._marker(batch, writer) if choice < 0.33 else self._data(batch, writer)

    def _marker(self, batch: BatchSummary, writer: _Writer) -> BatchSummary:
        dice = self.dice
        writer.epoch = max(0, writer.epoch + dice.choice(STEPS))
        if dice.random() < 0.3:
            writer.sequence = 0
        outcome = dice.choice((TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED))
        return replace(
            batch,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            is_transactional=True,
            is_control=True,
            marker=Marker(outcome, dice.choice((3, 3, 3, 4, 2))),
        )

    def _data(self, batch: BatchSummary, writer: _Writer) -> BatchSummary:
        dice = self.dice
        first, delta = self._sequence(writer)
        epoch = writer.epoch + (dice.choice(STEPS) if dice.random() < 0.4 else 0)
        writer.epoch = max(0, epoch)
        last = -1 if first < 0 else (first + delta) % SEQUENCE_COUNT
        writer.sequence = (last + 1) % SEQUENCE_COUNT
        writer.written.append((first, delta))
        return replace(
            batch,
            last_offset=batch.base_offset + delta,
            count=dice.choice((delta + 1, delta + 1, 0)),
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            base_sequence=first,
            last_sequence=last,
            is_transactional=writer.is_transactional != (dice.random() < 0.12),
        )

    def _sequence(self, writer: _Writer) -> tuple[int, int]:
        """Return the first sequence of a batch, and how much larger the last one is."""
        dice = self.dice
        delta = dice.choice((0, 0, 0, 1, 4))
        move = dice.choice(MOVES) if dice.random() < 0.5 else "next"
        if move == "again" and writer.written:
            return dice.choice(writer.written[-7:])
        distances = {"gap": 3, "back": -2, "far": SEQUENCE_COUNT // 2 + dice.choice((-1, 0, 1))}
        if move in ("zero", "none"):
            return (0 if move == "zero" else -1), delta
        return (writer.sequence + distances.get(move, 0)) % SEQUENCE_COUNT, delta


def random_log(dice: Random) -> tuple[list[BatchSummary], Boundary]:
    """Return some batches, and what is known about the log before them."""
    log = RandomLog(dice)
    kind = dice.choice(list(BoundaryKind))
    boundary = EMPTY if kind is BoundaryKind.EMPTY else UNKNOWN
    if kind is BoundaryKind.SNAPSHOT:
        log.write(dice.randrange(8))
        boundary = log.boundary()
    before = len(log.batches)
    log.write(dice.choice((0, 1, 2, 4, 6, 8, 10, 14)))
    return log.batches[before:], boundary
