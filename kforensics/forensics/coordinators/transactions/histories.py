"""Histories of several coordinator partitions, put side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition
from kforensics.forensics.coordinators.transactions.history import USE, History
from kforensics.forensics.coordinators.transactions.tracks import TRANSACTIONAL_ID
from kforensics.forensics.coordinators.transactions.transaction import INSTANCE, UNKNOWN_SET
from kforensics.forensics.core.record_arrays import joined_records
from kforensics.forensics.core.record_types import Records

__all__ = ["Coordinators"]


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Coordinators:
    """What the coordinators on hand know.

    Ids and sets of partitions are numbered anew, through all of them.

    Attributes:
        histories: by coordinator partition.
        names: transactional ids.
        ids: TRANSACTIONAL_ID records, one for each.
        instances: INSTANCE records; those of an id follow one another in the order in which they were ended or left.
        sets: sets of partitions.
        uses: USE records, by producer id.
    """

    histories: tuple[History, ...]
    names: Sequence[str]
    ids: Records
    instances: Records
    sets: tuple[tuple[TopicPartition, ...], ...]
    uses: Records

    @classmethod
    def of(cls, histories: Iterable[History]) -> Coordinators:
        """Return some histories together."""
        found = tuple(histories)
        names: list[str] = []
        sets: list[tuple[TopicPartition, ...]] = []
        parts: dict[str, list[Records]] = {name: [] for name in ("ids", "instances", "uses")}
        for number, history in enumerate(found):
            shifts = {"id": len(names), "partitions": len(sets)}
            for name, some in parts.items():
                some.append(_renumbered(getattr(history, name), number, shifts))
            names += history.names
            sets += history.sets
        uses = joined_records([np.empty(0, USE), *parts["uses"]])
        return cls(
            histories=found,
            names=names,
            ids=joined_records([np.empty(0, TRANSACTIONAL_ID), *parts["ids"]]),
            instances=joined_records([np.empty(0, INSTANCE), *parts["instances"]]),
            sets=tuple(sets),
            uses=uses[np.lexsort((uses["id"], uses["producer_id"]))],
        )

    @cached_property
    def known_from(self) -> Records:
        """For each coordinator partition the time from which every record is on hand."""
        return np.array([history.known_from for history in self.histories], "i8")

    @cached_property
    def known_to(self) -> Records:
        """For each coordinator partition the time of its last record."""
        return np.array([history.known_to for history in self.histories], "i8")

    def id_of(self, producer_ids: Records) -> Records:
        """Return for each producer id the number of the transactional id that has it, -1 where none on hand does.

        Where two have it, which must not be, the first one.
        """
        known = self.uses["producer_id"]
        if not len(known):
            return np.full(len(producer_ids), NONE, "i8")
        at = np.minimum(np.searchsorted(known, producer_ids), len(known) - 1)
        return np.where(known[at] == producer_ids, self.uses["id"][at], NONE).astype("i8")

    def name(self, number: int) -> str:
        """Return a transactional id by its number."""
        return self.names[number]

    def listed(self, number: int) -> tuple[TopicPartition, ...]:
        """Return a set of partitions by its number; empty for UNKNOWN_SET."""
        return () if number == UNKNOWN_SET else self.sets[number]


def _renumbered(records: Records, coordinator: int, shifts: dict[str, int]) -> Records:
    found: Records = records.copy()
    for name, shift in shifts.items():
        if name in (found.dtype.names or ()):
            found[name] += np.where(found[name] >= 0, shift, 0).astype(found[name].dtype)
    if "coordinator" in (found.dtype.names or ()):
        found["coordinator"] = coordinator
    return found
