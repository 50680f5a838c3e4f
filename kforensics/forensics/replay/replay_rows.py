"""The rows that a replay writes out as soon as they are certain: transactions, empty markers and anomalies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from kforensics.forensics.core.portable import Portable
from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import ANOMALY, EMPTY_MARKER, TRANSACTION, Records

__all__ = ["Rows", "joined_rows"]

NO_TRANSACTIONS, NO_EMPTY_MARKERS, NO_ANOMALIES = (np.zeros(0, each) for each in (TRANSACTION, EMPTY_MARKER, ANOMALY))


@dataclass(frozen=True, slots=True)
class Rows(Portable):
    """What is certain and will not be looked at again; the order means nothing until ``in_order``.

    Attributes:
        transactions: TRANSACTION records of closed transactions.
        empty_markers: EMPTY_MARKER records.
        anomalies: ANOMALY records.
    """

    transactions: Records
    empty_markers: Records
    anomalies: Records

    @classmethod
    def of(
        cls,
        transactions: Records | None = None,
        empty_markers: Records | None = None,
        anomalies: Records | None = None,
    ) -> Rows:
        """Return rows of which some kinds may be missing."""
        return cls(
            NO_TRANSACTIONS if transactions is None else transactions,
            NO_EMPTY_MARKERS if empty_markers is None else empty_markers,
            NO_ANOMALIES if anomalies is None else anomalies,
        )

    def __len__(self) -> int:
        return len(self.transactions) + len(self.empty_markers) + len(self.anomalies)

    def in_order(self) -> Rows:
        """Return them as they are shown: by the offsets of the markers, or where an anomaly begins."""
        anomalies = self.anomalies
        by_offset = np.lexsort((anomalies["producer_id"], anomalies["kind"], anomalies["first_offset"]))
        return Rows(
            picked(self.transactions, np.argsort(self.transactions["marker_offset"], kind="stable")),
            picked(self.empty_markers, np.argsort(self.empty_markers["marker_offset"], kind="stable")),
            picked(anomalies, by_offset),
        )


def joined_rows(parts: Iterable[Rows]) -> Rows:
    """Return the rows of all parts."""
    found = [part for part in parts if len(part)]
    if len(found) == 1:
        return found[0]
    if not found:
        return Rows.of()
    return Rows(*(joined_records([getattr(part, field.name) for part in found]) for field in fields(Rows)))
