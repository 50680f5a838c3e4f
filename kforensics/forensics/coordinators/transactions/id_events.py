"""The history of a transactional id, event by event: initializations, transactions, fencings, timeouts, expiry.

The records of the coordinator do not name their cause. Rules: ``TransactionCoordinator``, ``TransactionMetadata``:

- An Empty record answers InitProducerId. A tombstone is written by the removal of expired ids alone.
- A client of versions 0 and 1 aborts with the epoch of its transaction. A PrepareAbort record with a higher one was
  decided by the coordinator: because of another InitProducerId, or after the timeout. Version 2 raises the epoch at
  every end, by one, so that it does not show this; up to 4.0.0 the coordinator raised it twice (KAFKA-19367).
- The coordinator ends a transaction when more than its timeout has passed, at its next look. Until then another
  InitProducerId may still end it, so a timeout is never certain. Before the timeout, it must have been the latter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.component_names import IdName
from kforensics.forensics.coordinators.connectors import Connector
from kforensics.forensics.coordinators.coordinator_records import NO_TIMEOUT, NONE, State
from kforensics.forensics.coordinators.transactions.history_replay import StateTransitions
from kforensics.forensics.coordinators.transactions.transitions import EXHAUSTED, FENCED, TV2, StateStep
from kforensics.forensics.core.cluster_tables import ID_EVENTS
from kforensics.forensics.core.formatting import format_duration
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.result_rows import Rows, nullable
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.messages.message_columns import texts_of

__all__ = ["IdEvent", "IdEventKind", "IdEvents", "TransactionalIdHistory"]

LEFT = "first record that is left"
NOT_SHOWN = (
    "the log does not show who aborted (transaction.version 2): its own client, or another instance that initialized "
    "the id"
)
NO_FIRST = "no coordinator writes this as the first record of an id"
ODD_STEPS = {
    StateStep.FLIPPED: "the outcome was decided again",
    StateStep.UNAPPLIED: "the record before was never applied",
    StateStep.ILLEGAL: "no coordinator goes from the state before to this one",
}


class IdEventKind(StrEnum):
    """What happened to a transactional id."""

    INITIALIZED = "initialized"
    TRANSACTIONS = "transactions"
    FENCED = "fenced"
    TIMED_OUT = "timed-out"
    ROTATED = "rotated"
    EXPIRED = "expired"
    OPEN = "open"
    DECIDING = "deciding"
    UNREADABLE = "unreadable"


class _Record(NamedTuple):
    """The fields of a STATE_ROW record that count here."""

    segment: int
    position: int
    offset: int
    time: int
    is_tombstone: bool
    is_wrong: bool
    status: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    transaction_version: int
    last_update_ms: int
    start_ms: int


@dataclass(slots=True)
class IdEvent:
    """An event in the history of a transactional id, or several equal ones in a row.

    Attributes:
        kind: what happened.
        record: its last record.
        first_time: when it began, NO_TIME if unknown.
        last_time: when it ended, NO_TIME if unknown.
        producer_id: producer id, NONE if unknown.
        first_epoch: producer epoch at its first record, NONE if unknown.
        last_epoch: producer epoch at its last record, NONE if unknown.
        is_exact: whether no record before or within it can be missing; False for a timeout, which is never certain.
        why: the reason, as a clause; None if there is nothing to add.
        previous_producer_id: producer id before, NONE unless it was another.
        times: how often it happened in a row.
        committed: transactions that were committed.
        aborted: transactions that were aborted.
        fenced: how often the id was initialized again, which fenced the producer before.
    """

    kind: IdEventKind
    record: _Record
    first_time: int
    last_time: int
    producer_id: int
    first_epoch: int
    last_epoch: int
    is_exact: bool
    why: str | None = None
    previous_producer_id: int = NONE
    times: int = 1
    committed: int = 0
    aborted: int = 0
    fenced: int = 0


@dataclass(frozen=True, slots=True)
class TransactionalIdHistory:
    """The history of a transactional id in a cluster.

    Attributes:
        transactional_id: the transactional id.
        place: its coordinator's partition.
        paths: paths of the segments of that partition.
        state: its last state by Kafka's name, None if it was removed or cannot be read.
        is_removed: whether its last record is a tombstone.
        events: what happened to it, in the order of the log.
        naming: the component that its name looks like, None if it is like none.
        connector: what is known about the connector whose task it names; None if nothing is.
        lagging_since: since when the leader of that partition may have later records, in ms, NO_TIME if it may always
            have; None if this replica was in sync at last, or nothing is known.
    """

    transactional_id: str
    place: Place
    paths: tuple[str, ...]
    state: str | None
    is_removed: bool
    events: tuple[IdEvent, ...]
    naming: IdName | None = None
    connector: Connector | None = None
    lagging_since: int | None = None

    @property
    def rows(self) -> Iterator[Rows]:
        """The rows of the table ``id_events``."""
        yield _event_rows(self)


class IdEvents:
    """Collects the events of one transactional id from the records of its coordinator's partition.

    Args:
        transactional_id: the transactional id.

    Attributes:
        events: the events so far, in the order of the log.
    """

    def __init__(self, transactional_id: str) -> None:
        self._name, self._number, self._checked = transactional_id, NONE, 0
        self._before: _Record | None = None
        self._cause: tuple[IdEventKind, bool, str | None] = (IdEventKind.TRANSACTIONS, True, None)
        self._first_epoch = NONE
        self.events: list[IdEvent] = []

    def take(self, transitions: StateTransitions) -> None:
        """Take the records of the next chunk of the partition."""
        states = transitions.states
        if self._number == NONE:
            names = texts_of(states.names.take(np.arange(self._checked, len(states.names))))
            self._number = self._checked + names.index(self._name) if self._name in names else NONE
            self._checked = len(states.names)
        if self._number == NONE:
            return
        of_id = np.flatnonzero(states.rows["id"] == self._number)
        steps = transitions.steps[of_id].tolist()
        for record, step in zip(_records(states.rows[of_id]), steps, strict=True):
            self._add(record, StateStep(step))

    def finish(self) -> list[IdEvent]:
        """Return all events; the last one is open if the id has a transaction at the end of the log."""
        before = self._before
        if before is not None and before.status in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT):
            is_open = before.status == State.ONGOING
            why = (
                "neither committed nor aborted" if is_open else f"{State(before.status)}, not all markers acknowledged"
            )
            kind = IdEventKind.OPEN if is_open else IdEventKind.DECIDING
            is_exact = self._cause[1] or self._cause[0] is IdEventKind.TIMED_OUT
            self._append(self._event(kind, before, is_exact=is_exact, why=why, first_time=_start(before)))
            self._before = None
        return self.events

    def _add(self, record: _Record, step: StateStep) -> None:
        before = self._before
        if record.is_wrong or (not record.is_tombstone and record.status not in tuple(State)):
            self._append(self._event(IdEventKind.UNREADABLE, record, is_exact=False, why="the record cannot be read"))
            return
        if step == StateStep.AGAIN and before is not None and record.status != State.ONGOING:
            return  # the same state, written again after an append that timed out
        is_exact = step in (StateStep.FIRST, StateStep.NEXT, StateStep.AGAIN)
        odd = NO_FIRST if before is None and step == StateStep.ILLEGAL else ODD_STEPS.get(step)
        if record.is_tombstone:
            self._append(self._expired(record, is_exact=is_exact))
        elif record.status == State.EMPTY:
            why = odd or _why_initialized(before, record, is_exact=is_exact)
            self._append(self._event(IdEventKind.INITIALIZED, record, is_exact=is_exact, why=why))
        elif record.status in (State.PREPARE_COMMIT, State.PREPARE_ABORT, State.ONGOING):
            self._begin(record, step)
        elif record.status in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
            self._complete(record, is_exact=is_exact, odd=odd)
        self._before = record

    def _begin(self, record: _Record, step: StateStep) -> None:
        """Take a record of a transaction before its end."""
        before = self._before
        is_same = before is not None and before.start_ms == record.start_ms and before.status == State.ONGOING
        if not is_same:
            self._first_epoch, self._cause = record.producer_epoch, (IdEventKind.TRANSACTIONS, True, None)
        if record.status == State.PREPARE_ABORT and is_same and before is not None and step == StateStep.NEXT:
            self._cause = _cause_of_abort(before, record)
        elif not is_same and step == StateStep.UNKNOWN:
            self._cause = IdEventKind.TRANSACTIONS, False, None

    def _complete(self, record: _Record, *, is_exact: bool, odd: str | None) -> None:
        """Take the end of a transaction; the next one may have another producer id."""
        before, (kind, is_certain, why) = self._before, self._cause
        is_commit = record.status == State.COMPLETE_COMMIT
        follows = before is not None and before.status in (State.PREPARE_COMMIT, State.PREPARE_ABORT)
        decided = before if follows and before is not None else record
        if not follows:
            self._first_epoch, kind, is_certain, why = record.producer_epoch, IdEventKind.TRANSACTIONS, is_exact, None
        event = self._event(kind, record, is_exact=is_exact and is_certain, why=odd or why, first_time=_start(record))
        event.producer_id, event.last_epoch = decided.producer_id, decided.producer_epoch
        event.first_epoch = event.last_epoch if self._first_epoch == NONE else self._first_epoch
        event.committed, event.aborted = int(is_commit), int(not is_commit)
        self._append(event)
        if decided.producer_id != record.producer_id:
            rotated = self._event(IdEventKind.ROTATED, record, is_exact=is_exact, why=_why_rotated(decided))
            rotated.previous_producer_id = decided.producer_id
            self._append(rotated)
        self._first_epoch, self._cause = NONE, (IdEventKind.TRANSACTIONS, True, None)

    def _expired(self, record: _Record, *, is_exact: bool) -> IdEvent:
        """Return the event of a tombstone, which has the producer of the record before it."""
        event = self._event(IdEventKind.EXPIRED, record, is_exact=is_exact)
        before = self._before
        event.producer_id = event.first_epoch = event.last_epoch = NONE
        if before is not None and not before.is_tombstone:
            event.producer_id, event.first_epoch = before.producer_id, before.producer_epoch
            event.last_epoch = before.producer_epoch
            if NO_TIME not in (before.time, record.time):
                event.why = f"no record for {format_duration(record.time - before.time)}"
        return event

    def _event(
        self, kind: IdEventKind, record: _Record, *, is_exact: bool, why: str | None = None, first_time: int = NO_TIME
    ) -> IdEvent:
        """Return an event of one record."""
        before, first = self._before, record.time if first_time == NO_TIME else first_time
        producer_id, epoch = record.producer_id, record.producer_epoch
        event = IdEvent(kind, record, first, record.time, producer_id, epoch, epoch, is_exact, why)
        if kind == IdEventKind.INITIALIZED and before is not None and not before.is_tombstone:
            if before.producer_id == producer_id:
                event.fenced = 1
            else:
                event.previous_producer_id = before.producer_id
        return event

    def _append(self, event: IdEvent) -> None:
        """Add an event, or add it to the last one if that is equal."""
        last = self.events[-1] if self.events else None
        is_equal = last is not None and (last.kind, last.producer_id) == (event.kind, event.producer_id)
        if last is None or not is_equal or not event.is_exact:
            self.events.append(event)
            return
        last.record, last.last_time, last.last_epoch = event.record, event.last_time, event.last_epoch
        last.why = event.why or (last.why if event.kind is IdEventKind.TRANSACTIONS else None)
        last.times += 1
        last.committed += event.committed
        last.aborted += event.aborted
        last.fenced += event.fenced


def _event_rows(history: TransactionalIdHistory) -> Rows:
    events = history.events

    def numbers(name: str, null: int) -> object:
        return nullable(np.array([getattr(event, name) for event in events], "i8"), null)

    columns = {
        **history.place._asdict(),
        "transactional_id": history.transactional_id,
        "event": [str(event.kind) for event in events],
        "times": [event.times for event in events],
        "first_timestamp": numbers("first_time", NO_TIME),
        "last_timestamp": numbers("last_time", NO_TIME),
        **{name: numbers(name, NONE) for name in ("producer_id", "first_epoch", "last_epoch", "previous_producer_id")},
        "transaction_timeout_ms": nullable(np.array([event.record.timeout_ms for event in events], "i8"), NONE),
        **{name: [getattr(event, name) for event in events] for name in ("committed", "aborted", "why")},
        "exact": [event.is_exact for event in events],
        "path": [history.paths[event.record.segment] for event in events],
        **{name: [getattr(event.record, name) for event in events] for name in ("position", "offset")},
    }
    return Rows(ID_EVENTS, len(events), columns)


def _records(rows: StructArray) -> Iterator[_Record]:
    return map(_Record, *(rows[name].tolist() for name in _Record._fields))


def _start(record: _Record) -> int:
    return record.start_ms if record.start_ms >= 0 else NO_TIME


def _why_initialized(before: _Record | None, record: _Record, *, is_exact: bool) -> str:
    """Return what an Empty record shows."""
    if before is None:
        return "first record of the id" if is_exact else LEFT
    if before.is_tombstone:
        return "new again after it had expired"
    if before.producer_id != record.producer_id:
        return _why_rotated(before)
    return f"epochs up to {before.producer_epoch} are fenced"


def _why_rotated(before: _Record) -> str:
    if before.producer_epoch >= EXHAUSTED:
        return f"the epochs of producer {before.producer_id} are used up"
    return f"instead of producer {before.producer_id}, epoch {before.producer_epoch}"


def _cause_of_abort(before: _Record, record: _Record) -> tuple[IdEventKind, bool, str | None]:
    """Return why a transaction was aborted, whether that is certain, and the reason.

    Args:
        before: the last record while the transaction was ongoing.
        record: the decision to abort it.
    """
    is_new = record.transaction_version >= TV2
    bump = record.producer_epoch - before.producer_epoch
    of_coordinator = record.producer_id != before.producer_id or bump >= (FENCED if is_new else 1)
    elapsed = record.last_update_ms - record.start_ms
    if record.start_ms < 0 or record.last_update_ms < 0 or not (is_new or of_coordinator):
        return IdEventKind.TRANSACTIONS, True, None
    lasted = f"aborted {format_duration(elapsed)} after its start"
    if before.timeout_ms != NO_TIMEOUT and elapsed > before.timeout_ms:
        other = "" if of_coordinator else "its client aborted it or "
        timeout = format_duration(before.timeout_ms)
        by = f"by the coordinator, unless {other}another producer initialized the id after the timeout"
        why = f"{lasted}, its timeout is {timeout}: {by}"
        return IdEventKind.TIMED_OUT, False, why
    if of_coordinator:
        not_timed_out = "without a timeout" if before.timeout_ms == NO_TIMEOUT else "before its timeout"
        why = f"{lasted}, {not_timed_out}: the id was initialized again, by a new producer or fenceProducers"
        return IdEventKind.FENCED, True, why
    return IdEventKind.TRANSACTIONS, True, NOT_SHOWN if is_new else None
