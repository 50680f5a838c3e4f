"""The transactions and markers that arrive at a part of a cluster's join, packed: one producer may have millions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.audit.producer_parts import Order, ProducerRows, ProducersOf
from kforensics.forensics.coordinators.partition_markers import TRANSACTION_MARKER
from kforensics.forensics.coordinators.transactions.history import COORDINATOR_TRANSACTION
from kforensics.forensics.core.packed_rows import PackedRows, RowPacker, StructRows
from kforensics.parsers.format.array_types import IntArray

__all__ = ["PartRows"]

# The index of a transaction in its history.
NUMBER = np.dtype([("number", "i8")])


@dataclass(frozen=True, slots=True)
class PartRows:
    """The transactions and markers of a part.

    Attributes:
        transactions: COORDINATOR_TRANSACTION records of all coordinators, with ids, sets and coordinators numbered
            across them.
        numbers: NUMBER records, the index of each transaction in its history.
        id_numbers: number of each id in its history.
        markers: TRANSACTION_MARKER records of each log.
    """

    transactions: PackedRows
    numbers: PackedRows
    id_numbers: IntArray
    markers: dict[Order, RowPacker]

    @classmethod
    def of(
        cls, histories: Sequence[ProducersOf], orders: Collection[Order], arriving: Iterable[ProducerRows]
    ) -> PartRows:
        """Return what arrives; it is packed at once.

        Args:
            histories: the coordinators' logs whose transactions count, by number.
            orders: sort keys of these and of the logs whose markers count.
            arriving: transactions and markers, those of each log in its order; they are changed.
        """
        sets = [len(log.history.partition_sets) if log.history else 0 for log in histories]
        first_ids = np.cumsum([0, *(len(log.id_numbers) for log in histories)])
        first_sets, coordinators = np.cumsum([0, *sets]), {log.order: number for number, log in enumerate(histories)}
        transactions, numbers = ([RowPacker(dtype) for _ in histories] for dtype in (COORDINATOR_TRANSACTION, NUMBER))
        markers: dict[Order, RowPacker] = {}
        for value in arriving:
            number, rows = coordinators.get(value.order), value.rows
            if number is not None:
                rows["id"] = np.searchsorted(histories[number].id_numbers, rows["id"]) + first_ids[number]
                rows["partitions"] += np.where(rows["partitions"] >= 0, first_sets[number], 0).astype("i4")
                rows["coordinator"] = number
                transactions[number].add(rows)
                numbers[number].add(value.numbers.astype("i8").view(NUMBER))
            elif value.order in orders:
                markers.setdefault(value.order, RowPacker(TRANSACTION_MARKER)).add(rows)
        ids = np.concatenate([np.empty(0, "i8"), *(log.id_numbers for log in histories)])
        return cls(_all_of(COORDINATOR_TRANSACTION, transactions), _all_of(NUMBER, numbers), ids, markers)

    def take_markers(self, order: Order) -> StructRows:
        """Return the markers of a log, which are not kept any longer."""
        return self.markers.pop(order, RowPacker(TRANSACTION_MARKER)).rows()


def _all_of(dtype: np.dtype[np.void], packers: Iterable[RowPacker]) -> PackedRows:
    every = RowPacker(dtype)
    for packer in packers:
        every.add(packer.rows())
    return every.packed()
