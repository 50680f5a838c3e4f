"""The tables with a row for each transaction, or nearly so: made range by range, for there may be very many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.external_sort import Sorted
from kforensics.forensics.core.record_types import NO_TIME, Ending, Records
from kforensics.forensics.core.result_rows import Rows, RowStream, Words, nullable
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.timeline import expected_index, history
from kforensics.forensics.partition.transaction_store import Ledger
from kforensics.parsers.log.log_rows import Place

__all__ = ["TransactionTables", "durations"]

OUTCOMES = ("aborted", "committed", "open")
NONE = -1
AS_THEY_ARE = (
    *("producer_id", "producer_epoch", "first_offset", "last_offset", "batches", "records", "bytes", "last_timestamp"),
    "first_offset_exact",
)


@dataclass(frozen=True, slots=True, eq=False)
class TransactionTables:
    """What these tables are made of; a small value that may go to another process, for the ledger goes as its file.

    Attributes:
        place: which partition.
        paths: of its segments.
        rules: limits and the time of evaluation.
        ledger: its transactions.
        log_start_offset: first offset that consumers may see.
        log_end_offset: offset behind the last batch.
        known_from: high watermark from which nothing from before the log can hold the last stable offset back; None if
            there is none.
        exact_from: the same, as far as the boundary of the log tells.
    """

    place: Place
    paths: tuple[str, ...]
    rules: Rules
    ledger: Ledger
    log_start_offset: int
    log_end_offset: int
    known_from: int | None
    exact_from: int | None

    @classmethod
    def of(cls, case: Case) -> TransactionTables:
        """Return those of a partition."""
        return cls(
            case.partition.place,
            tuple(segment.path for segment in case.partition.segments),
            case.rules,
            case.ledger,
            case.log_start_offset,
            case.log_end_offset,
            None if case.is_broken else case.exact_from,
            case.exact_from,
        )

    def transactions(self, some: Iterable[Records] | None = None) -> RowStream:
        """Return transactions, all of them unless some are given, as parts that can be gone through again."""
        parts = self.ledger if some is None else some
        return RowStream(RESULTS["transactions"], partial(_each, self._transactions, parts))

    def history(self) -> RowStream:
        """Return the steps of the last stable offset as the high watermark goes from the log start to the log end."""
        return RowStream(RESULTS["lso_history"], self._steps)

    def aborted(self, indexed: Sorted | None) -> RowStream:
        """Return the aborted transactions, and what the transaction indexes hold of them.

        Args:
            indexed: entries of all indexes by last offset, as ``index_records`` gives them; None if one of the indexes
                cannot be read.
        """
        return RowStream(RESULTS["aborted_transactions"], partial(self._aborted, indexed))

    def _rows(self, name: str, length: int, columns: dict[str, Any]) -> Rows:
        return Rows(RESULTS[name], length, {**self.place._asdict(), **columns})

    def _transactions(self, found: Records) -> Rows:
        is_open = found["ending"] == Ending.OPEN
        columns: dict[str, Any] = {name: found[name] for name in AS_THEY_ARE}
        columns |= {
            name: nullable(found[name], is_open) for name in ("marker_offset", "marker_epoch", "coordinator_epoch")
        }
        columns |= {
            "outcome": Words(found["ending"], OUTCOMES),
            "first_timestamp": nullable(found["first_timestamp"], NO_TIME),
            "marker_timestamp": nullable(found["marker_timestamp"], NO_TIME),
            "duration_ms": nullable(durations(self.rules, found), found["first_timestamp"] == NO_TIME),
            "path": Words(found["segment"], self.paths),
            "position": nullable(found["position"], NONE),
        }
        return self._rows("transactions", len(found), columns)

    def _steps(self) -> Iterator[Rows]:
        for steps in history(self.ledger, self.log_start_offset, self.log_end_offset):
            names = ("from_high_watermark", "to_high_watermark", "last_stable_offset")
            columns: dict[str, Any] = {name: steps[name] for name in names}
            columns["producer_id"] = nullable(steps["producer_id"], ~steps["is_held"])
            known = self.known_from is not None
            columns["exact"] = known & (steps["from_high_watermark"] >= (self.known_from or 0))
            yield self._rows("lso_history", len(steps), columns)

    def _aborted(self, indexed: Sorted | None) -> Iterator[Rows]:
        for expected in expected_index(self.ledger, self.exact_from):
            names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
            columns: dict[str, Any] = {name: expected[name] for name in names}
            columns["exact"] = expected["first_offset_exact"]
            columns |= {"indexed": None, "indexed_last_stable_offset": None}
            if indexed is not None:
                near = indexed.at(int(expected["last_offset"][0]), int(expected["last_offset"][-1]))
                has, at = _found(expected, near)
                values = near["last_stable_offset"][at] if len(near) else np.zeros(len(expected), "i8")
                columns |= {"indexed": has, "indexed_last_stable_offset": nullable(values, ~has)}
            yield self._rows("aborted_transactions", len(expected), columns)


def _each(made: Callable[[Records], Rows], parts: Iterable[Records]) -> Iterator[Rows]:
    return map(made, parts)


def _found(expected: Records, indexed: Records) -> tuple[Any, Any]:
    if not len(indexed):
        return np.zeros(len(expected), bool), np.zeros(len(expected), int)
    at = np.minimum(np.searchsorted(indexed["last_offset"], expected["last_offset"]), len(indexed) - 1)
    entry = indexed[at]
    same = (entry["last_offset"] == expected["last_offset"]) & (entry["producer_id"] == expected["producer_id"])
    return same, at


def durations(rules: Rules, transactions: Records) -> Any:
    """Return how long transactions lasted in ms, open ones up to the time of evaluation."""
    is_open = transactions["ending"] == Ending.OPEN
    ends = np.where(is_open, rules.as_of_ms, transactions["marker_timestamp"])
    firsts = np.where(transactions["first_timestamp"] == NO_TIME, ends, transactions["first_timestamp"])
    return ends - firsts
