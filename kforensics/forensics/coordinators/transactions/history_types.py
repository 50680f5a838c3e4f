"""The history of a coordinator's partition as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import StateRecord, TopicPartition
from kforensics.forensics.coordinators.transactions.record_issues import Remark, Said
from kforensics.forensics.coordinators.transactions.transitions import Step
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.log.log_rows import Place

__all__ = ["ALWAYS", "NEVER", "USE", "History", "Seen", "strict_from"]

# Times before and behind all others.
ALWAYS, NEVER = NO_TIME, int(np.iinfo("i8").max)
# A producer id that a record of an id names, in whatever field, and the first record that does.
USE = np.dtype(
    [
        ("producer_id", "i8"),
        ("coordinator", "i4"),
        ("id", "i4"),
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
    ]
)


class Seen(NamedTuple):
    """A record as a row of a history.

    Attributes:
        record: the record.
        step: how it follows the one of the same id before it.
        last_producer_epoch: producer epoch of that one, -1 if there is none or its producer id was another.
    """

    record: StateRecord
    step: Step
    last_producer_epoch: int


@dataclass(frozen=True, slots=True)
class History:
    """The history of a coordinator's partition.

    Attributes:
        place: which partition.
        paths: of its segments.
        names: transactional ids, by their numbers.
        ids: TRANSACTIONAL_ID records, by their numbers.
        instances: INSTANCE records, in the order in which they were ended or left.
        sets: sets of partitions, by their numbers.
        uses: USE records.
        remarks: what is to be said of records, no more than MOST of a kind.
        counts: how many there are of each kind.
        known_from: time from which every record is on hand, ALWAYS if none is missing at all, NEVER if some always may.
        known_to: time of the last record, NO_TIME if there is none.
        records: how many records.
    """

    place: Place
    paths: tuple[str, ...]
    names: Sequence[str]
    ids: Records
    instances: Records
    sets: tuple[tuple[TopicPartition, ...], ...]
    uses: Records
    remarks: tuple[Remark, ...] = ()
    counts: Mapping[Said, int] = field(default_factory=dict)
    known_from: int = ALWAYS
    known_to: int = NO_TIME
    records: int = 0


def strict_from(case: Case) -> int:
    """Return the offset from which no record can be missing, NEVER if any may be, or cannot be read."""
    gaps = case.is_broken or bool(case.log.damage) or (case.is_known_uncleaned and case.log.holes > 0)
    return NEVER if gaps else case.strict_from
