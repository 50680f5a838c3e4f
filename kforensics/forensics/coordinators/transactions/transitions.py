"""Whether a state of a transactional id may follow another one.

Rule: ``TransactionMetadata.prepareTransitionTo`` and ``completeTransitionTo``, with what the releases from 0.11 to 4.4
were seen to write.
"""

from __future__ import annotations

from enum import IntEnum

from kforensics.forensics.coordinators.coordinator_records import NONE, State, StateRecord

__all__ = ["EXHAUSTED", "LAST_EPOCH", "Step", "step_between"]

LAST_EPOCH = 32_767
# TransactionMetadata.isEpochExhausted: from here on an id takes a new producer id before it goes on.
EXHAUSTED = LAST_EPOCH - 1
# What fencing adds to the epoch: 1, or 2 up to 4.0.0 where the client speaks version 2 (KAFKA-19367).
FENCED = 2
TV2 = 2


class Step(IntEnum):
    """How a record of an id goes with the one before."""

    FIRST = 0
    NEXT = 1
    AGAIN = 2
    FLIPPED = 3
    UNAPPLIED = 4
    ILLEGAL = 5
    UNKNOWN = 6

    def __str__(self) -> str:
        return self.name.lower()


def step_between(before: StateRecord | None, after: StateRecord) -> Step:
    """Return how a record follows the one that was written right before it for the same transactional id.

    An append that timed out may be in the log all the same. Its coordinator then writes the state once more, or decides
    anew, so that the same state, or the other decision, may follow.

    Args:
        before: None if there was none, which an id begins with; a tombstone says the same.
        after: the record.
    """
    if before is None or before.is_tombstone:
        return _first(before, after)
    if after.is_tombstone:
        return Step.NEXT if before.state is not None and before.state.is_idle else Step.ILLEGAL
    if before.state is None or after.state is None:
        return Step.UNKNOWN
    if _is_again(before, after):
        return Step.AGAIN
    if before.state.is_prepared and after.state.is_prepared:
        return _decided_anew(before, after)
    return Step.NEXT if _is_next(before, before.state, after, after.state) else Step.ILLEGAL


def _first(before: StateRecord | None, after: StateRecord) -> Step:
    if after.is_tombstone:
        return Step.AGAIN if before is not None else Step.ILLEGAL
    begins = after.state is State.EMPTY and after.producer_epoch == 0 and not after.partitions
    return Step.FIRST if begins else Step.ILLEGAL


def _is_again(before: StateRecord, after: StateRecord) -> bool:
    return (
        before.status == after.status
        and before.producer == after.producer
        and before.partitions == after.partitions
        and before.start_ms == after.start_ms
    )


def _decided_anew(before: StateRecord, after: StateRecord) -> Step:
    """The epoch may rise, for a transaction that times out while its end is being retried is fenced."""
    risen = after.producer_epoch - before.producer_epoch
    if before.producer_id != after.producer_id or before.partitions != after.partitions or not 0 <= risen <= FENCED:
        return Step.ILLEGAL
    return Step.AGAIN if before.status == after.status else Step.FLIPPED


def _is_next(before: StateRecord, now: State, after: StateRecord, then: State) -> bool:
    if then is State.EMPTY:
        return now.is_idle and _is_init(before, after)
    if then is State.ONGOING:
        return _is_ongoing(before, now, after)
    if then.is_prepared:
        return _is_end(before, now, after, then)
    return then.is_complete and _is_completion(before, now, after, then)


def _is_init(before: StateRecord, after: StateRecord) -> bool:
    """InitProducerId: the next epoch, the same for one whose answer was lost, a new producer id where none is left."""
    if after.partitions:
        return False
    if after.producer_id != before.producer_id:
        return before.producer_epoch >= EXHAUSTED and after.producer_epoch == 0
    return after.producer_epoch - before.producer_epoch in (0, 1)


def _is_ongoing(before: StateRecord, now: State, after: StateRecord) -> bool:
    """Partitions were added, by the producer itself or for the offsets of a group."""
    if before.producer != after.producer or not after.partitions:
        return False
    if now is not State.ONGOING:
        return now.is_idle
    return after.start_ms == before.start_ms and set(after.partitions) > set(before.partitions or ())


def _is_end(before: StateRecord, now: State, after: StateRecord, then: State) -> bool:
    risen = after.producer_epoch - before.producer_epoch
    if after.producer_id != before.producer_id:
        return False
    if now.is_idle:
        # An abort of nothing, which version 2 allows (KAFKA-14563).
        return then is State.PREPARE_ABORT and not after.partitions and risen in (0, 1)
    if now is not State.ONGOING or after.partitions != before.partitions or after.start_ms != before.start_ms:
        return False
    if then is State.PREPARE_COMMIT:
        return risen == (1 if after.transaction_version >= TV2 else 0)
    return 0 <= risen <= FENCED


def _is_completion(before: StateRecord, now: State, after: StateRecord, then: State) -> bool:
    kinds = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}
    if kinds.get(now) is not then or after.partitions or after.start_ms != before.start_ms:
        return False
    return before.producer == after.producer or _is_rotation(before, after)


def _is_rotation(before: StateRecord, after: StateRecord) -> bool:
    """With its last epoch used up a transaction of version 2 leaves its id with the next producer id."""
    named = before.next_producer_id in (NONE, after.producer_id)
    return before.producer_epoch == LAST_EPOCH and after.producer_epoch == 0 and named
