"""What there is to say of single records of a coordinator, noted as they go by."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kforensics.forensics.coordinators.coordinator_records import StateRecord
from kforensics.forensics.coordinators.transactions.transitions import Step
from kforensics.forensics.core.reporting import MOST

__all__ = ["Remark", "Remarks", "Said"]


class Said(IntEnum):
    """What there is to say of a record."""

    ILLEGAL_TRANSITION = 0
    EPOCH_REGRESSED = 1
    PID_REUSED = 2
    TRANSIENT_STATE = 3
    UNPARSABLE = 4
    FENCING_LOOP = 5


class Remark(NamedTuple):
    """Something about a record.

    Attributes:
        said: what.
        record: the record.
        before: the one of the same id before it, None if there is none.
        step: how it follows that one.
    """

    said: Said
    record: StateRecord
    before: StateRecord | None
    step: Step


class Remarks:
    """Takes remarks; keeps the first MOST of a kind.

    Attributes:
        kept: in the order of the log.
        counts: how many there are of each kind.
    """

    def __init__(self) -> None:
        self.kept: list[Remark] = []
        self.counts: dict[Said, int] = {}

    def add(self, said: Said, record: StateRecord, before: StateRecord | None, step: Step) -> None:
        """Take one."""
        if self.count(said):
            self.kept.append(Remark(said, record, before, step))

    def count(self, said: Said) -> bool:
        """Count one; returns whether it is to be kept."""
        self.counts[said] = self.counts.get(said, 0) + 1
        return self.counts[said] <= MOST
