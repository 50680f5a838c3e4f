"""The reference for transitions between states of a transactional id: the rules for a single pair of records.

Rule: ``TransactionMetadata.prepareTransitionTo`` and ``completeTransitionTo``, and what releases 0.11 to 4.4 were
observed to write.
"""

from __future__ import annotations

from kforensics.forensics.coordinators.coordinator_records import NONE, State, StateRecord
from kforensics.forensics.coordinators.transactions.transitions import (
    EXHAUSTED,
    FENCED,
    MAX_PRODUCER_EPOCH,
    TV2,
    StateStep,
)

__all__ = ["step_between"]


def step_between(before: StateRecord | None, after: StateRecord) -> StateStep:
    """Return how a record follows the one written immediately before it for the same transactional id.

    An append that timed out may still be in the log. The coordinator then writes the state again, or decides again, so
    that the same state or the other decision may follow.

    Args:
        before: None if there is none and the id begins; a tombstone means the same.
        after: the record.
    """
    if before is None or before.is_tombstone:
        return _first(before, after)
    if after.is_tombstone:
        return StateStep.NEXT if before.state is not None and before.state.is_idle else StateStep.ILLEGAL
    if before.state is None or after.state is None:
        return StateStep.UNKNOWN
    if _is_again(before, after):
        return StateStep.AGAIN
    if before.state.is_prepared and after.state.is_prepared:
        return _decided_again(before, after)
    return StateStep.NEXT if _is_next(before, before.state, after, after.state) else StateStep.ILLEGAL


def _first(before: StateRecord | None, after: StateRecord) -> StateStep:
    if after.is_tombstone:
        return StateStep.AGAIN if before is not None else StateStep.ILLEGAL
    begins = after.state is State.EMPTY and after.producer_epoch == 0 and not after.partitions
    return StateStep.FIRST if begins else StateStep.ILLEGAL


def _is_again(before: StateRecord, after: StateRecord) -> bool:
    return (
        before.status == after.status
        and before.producer == after.producer
        and before.partitions == after.partitions
        and before.start_ms == after.start_ms
    )


def _decided_again(before: StateRecord, after: StateRecord) -> StateStep:
    """The epoch may be bumped: a transaction that times out while the coordinator retries its end is fenced."""
    bump = after.producer_epoch - before.producer_epoch
    if before.producer_id != after.producer_id or before.partitions != after.partitions or not 0 <= bump <= FENCED:
        return StateStep.ILLEGAL
    return StateStep.AGAIN if before.status == after.status else StateStep.FLIPPED


def _is_next(before: StateRecord, from_state: State, after: StateRecord, to_state: State) -> bool:
    if to_state is State.EMPTY:
        return from_state.is_idle and _is_init(before, after)
    if to_state is State.ONGOING:
        return _is_ongoing(before, from_state, after)
    if to_state.is_prepared:
        return _is_end(before, from_state, after, to_state)
    return to_state.is_complete and _is_completion(before, from_state, after, to_state)


def _is_init(before: StateRecord, after: StateRecord) -> bool:
    """InitProducerId: the next epoch, the same if the response was lost, a new producer id if epochs ran out."""
    if after.partitions:
        return False
    if after.producer_id != before.producer_id:
        return before.producer_epoch >= EXHAUSTED and after.producer_epoch == 0
    return after.producer_epoch - before.producer_epoch in (0, 1)


def _is_ongoing(before: StateRecord, from_state: State, after: StateRecord) -> bool:
    """AddPartitionsToTxn, by the producer itself, or AddOffsetsToTxn for the offsets of a group."""
    if before.producer != after.producer or not after.partitions:
        return False
    if from_state is not State.ONGOING:
        return from_state.is_idle
    return after.start_ms == before.start_ms and set(after.partitions) > set(before.partitions or ())


def _is_end(before: StateRecord, from_state: State, after: StateRecord, to_state: State) -> bool:
    bump = after.producer_epoch - before.producer_epoch
    if after.producer_id != before.producer_id:
        return False
    if from_state.is_idle:
        # An abort of an empty transaction, which version 2 allows (KAFKA-14563).
        return to_state is State.PREPARE_ABORT and not after.partitions and bump in (0, 1)
    if from_state is not State.ONGOING or after.partitions != before.partitions or after.start_ms != before.start_ms:
        return False
    if to_state is State.PREPARE_COMMIT:
        return bump == (1 if after.transaction_version >= TV2 else 0)
    return 0 <= bump <= FENCED


def _is_completion(before: StateRecord, from_state: State, after: StateRecord, to_state: State) -> bool:
    kinds = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}
    if kinds.get(from_state) is not to_state or after.partitions or after.start_ms != before.start_ms:
        return False
    return before.producer == after.producer or _is_rotation(before, after)


def _is_rotation(before: StateRecord, after: StateRecord) -> bool:
    """A transaction of version 2 that used the last epoch leaves its id with the next producer id."""
    named = before.next_producer_id in (NONE, after.producer_id)
    return before.producer_epoch == MAX_PRODUCER_EPOCH and after.producer_epoch == 0 and named
