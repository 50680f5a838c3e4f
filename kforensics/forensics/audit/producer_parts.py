"""The transactions and markers of a cluster in several parts, by producer id, and what each part needs of every log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.overrides import OVERRIDDEN
from kforensics.forensics.coordinators.partition_markers import NO_MARKERS, PartitionMarkers
from kforensics.forensics.coordinators.remedies import ADDITIONS
from kforensics.forensics.coordinators.transactions.history import COORDINATOR_TRANSACTION, History
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.packed_rows import StructRows, pieces, search_column
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.parsers.format.array_types import IntArray, StructArray

__all__ = ["CHUNK", "Order", "ProducerRows", "ProducersOf", "producer_part", "without_markers", "without_transactions"]

# Sort key of a log: whether it is a neighbor, then topic, partition and folder.
Order: TypeAlias = tuple[bool, str, str, int, str]
# Most rows of a value.
CHUNK = 1 << 15
# Spreads consecutive producer ids evenly.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def producer_part(producer_ids: IntArray, parts: int) -> IntArray:
    """Return the part of each producer id."""
    return ((producer_ids.astype("u8") * GOLDEN >> np.uint64(32)) % np.uint64(parts)).astype("i8")


@dataclass(frozen=True, slots=True)
class ProducersOf:
    """What a part needs to know of a log apart from the transactions or the markers of its producers.

    Attributes:
        order: sort key of the log.
        history: a coordinator's log with the ids of these producers, None for another partition.
        id_numbers: number of each of these ids in the whole history.
        markers: another partition, without its markers.
        epochs: the epochs of coordinators in its markers, or the highest one that a coordinator may have used.
        consulted: the offsets that findings on the partition, or its open transactions, ask for.
    """

    order: Order
    history: History | None
    id_numbers: IntArray
    markers: PartitionMarkers | None
    epochs: IntArray
    consulted: IntArray

    @property
    def log_dir(self) -> str | None:
        """Its log directory."""
        log = self.history or self.markers
        return log.place.log_dir if log else None

    @classmethod
    def of_markers(cls, order: Order, markers: PartitionMarkers, findings: Iterable[Finding]) -> ProducersOf:
        """Return what every part needs to know of a data partition."""
        consulting = OVERRIDDEN | ADDITIONS.keys()
        asking = [one for one in findings if one.code.name in consulting and one.first_offset is not None]
        offsets = [offset for one in asking for offset in (one.first_offset, one.evidence.get("previous_offset", NONE))]
        consulted = np.unique(np.append(np.array(offsets, "i8"), markers.open_transactions["first_offset"]))
        every = [np.unique(part["coordinator_epoch"]).astype("i8") for part in pieces(markers.markers)]
        epochs = np.unique(np.concatenate([np.empty(0, "i8"), *every]))
        slim = replace(markers, paths=(), markers=NO_MARKERS)
        return cls(order, None, np.empty(0, "i8"), slim, epochs, consulted)

    @classmethod
    def of_history(cls, order: Order, history: History, parts: int) -> list[ProducersOf]:
        """Return what each part needs to know of a coordinator's log."""
        uses, part_of_uses = history.producer_ids, producer_part(history.producer_ids["producer_id"], parts)
        numbers = _ids_by_part(history, parts)
        highest = max([NONE, *(int(part["complete_leader_epoch"].max()) for part in pieces(history.transactions))])
        epochs = np.array([highest], "i8")
        slim = replace(without_transactions(history), issues=(), issue_counts={})
        logs: list[ProducersOf] = []
        for part in range(parts):
            own_uses = uses[part_of_uses == part]
            ids = np.unique(np.append(own_uses["id"], numbers[part]))
            own_uses = _with_ids(own_uses, ids)
            names = [history.names[number] for number in ids.tolist()]
            of_part = replace(slim, names=names, ids=take_rows(history.ids, ids), producer_ids=own_uses)
            logs.append(cls(order, of_part, ids, None, epochs, np.empty(0, "i8")))
        return logs


def _ids_by_part(history: History, parts: int) -> list[IntArray]:
    """Return the numbers of the ids that have transactions in each part."""
    pairs = np.empty(0, "i8")
    for piece in pieces(history.transactions):
        part_of = producer_part(piece["producer_id"], parts)
        pairs = np.unique(np.append(pairs, part_of * len(history.names) + piece["id"]))
    ends = np.searchsorted(pairs, np.arange(1, parts) * len(history.names))
    return [part % max(len(history.names), 1) for part in np.split(pairs, ends)]


def _with_ids(rows: StructArray, ids: IntArray) -> StructArray:
    """Return rows with the index of their id among the given ones."""
    renumbered: StructArray = rows.copy()
    renumbered["id"] = np.searchsorted(ids, rows["id"])
    return renumbered


@dataclass(frozen=True, slots=True)
class ProducerRows:
    """Transactions or markers of the producers of a part, in the order of their log.

    Attributes:
        order: sort key of the log.
        rows: COORDINATOR_TRANSACTION or TRANSACTION_MARKER records.
        numbers: index of each transaction in the whole history; empty for markers.
    """

    order: Order
    rows: StructArray
    numbers: IntArray

    @classmethod
    def of(
        cls, order: Order, rows: StructRows, parts: int, *, is_numbered: bool = False
    ) -> Iterator[tuple[int, ProducerRows]]:
        """Yield the rows of a log, each value with the number of its part."""
        for start in range(0, len(rows), CHUNK * parts):
            chunk = rows[start : start + CHUNK * parts]
            part_of = producer_part(chunk["producer_id"], parts)
            for part in np.unique(part_of).tolist():
                of_part = np.flatnonzero(part_of == part)
                # One producer may have all rows of the chunk.
                for first in range(0, len(of_part), CHUNK):
                    indexes = of_part[first : first + CHUNK]
                    yield part, cls(order, take_rows(chunk, indexes), indexes + start if is_numbered else indexes[:0])


def without_transactions(history: History) -> History:
    """Return a history without its transactions."""
    return replace(history, transactions=np.empty(0, COORDINATOR_TRANSACTION))


def without_markers(markers: PartitionMarkers) -> PartitionMarkers:
    """Return the markers of a partition with those only that its open transactions follow."""
    previous = np.unique(markers.open_transactions["previous_marker"])
    starts = search_column(markers.markers, "marker_offset", previous)
    ends = search_column(markers.markers, "marker_offset", previous, "right")
    indexes = np.concatenate([np.empty(0, "i8"), *map(np.arange, starts.tolist(), ends.tolist())])
    return replace(markers, markers=take_rows(markers.markers, indexes))
