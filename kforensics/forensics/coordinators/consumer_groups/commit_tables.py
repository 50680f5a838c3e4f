"""Committed offsets as numpy records, with the metadata beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns, Texts
from kforensics.forensics.coordinators.consumer_groups.commit_types import Commit
from kforensics.forensics.core.record_arrays import joined_records, picked, placed
from kforensics.forensics.core.record_types import NO_TIME, Records

__all__ = ["COMMITTED", "CommitTable"]

COMMITTED = np.dtype(
    [
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("time", "i8"),
        ("committed", "i8"),
        ("leader_epoch", "i4"),
        ("topic_id", "S22"),  # as Kafka writes it, empty if there is none
    ]
)


@dataclass(frozen=True, slots=True)
class CommitTable:
    """Committed offsets, one for each row.

    Attributes:
        rows: COMMITTED records.
        metadata: the text beside each, which is an object, for it may be another one each time.
    """

    rows: Records
    metadata: Records

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def empty(cls, count: int = 0) -> CommitTable:
        """Return a table of as many rows, which hold nothing yet."""
        return cls(np.zeros(count, COMMITTED), np.full(count, None, "O"))

    @classmethod
    def joined(cls, tables: Sequence[CommitTable]) -> CommitTable:
        """Return the rows of some tables, one behind the other."""
        rows = joined_records([cls.empty().rows, *(table.rows for table in tables)])
        return cls(rows, np.concatenate([table.metadata for table in tables]))

    @classmethod
    def of(cls, commits: CommitColumns, which: Records) -> CommitTable:
        """Return some commits, by their indexes; of those that could not be read only the place means something."""
        rows, stored = np.zeros(len(which), COMMITTED), picked(commits.rows, which)
        rows["segment"] = commits.segment
        for name in ("position", "offset", "producer_id", "producer_epoch"):
            rows[name] = stored[name]
        rows["time"] = np.where(stored["timestamp"] < 0, NO_TIME, stored["timestamp"])
        rows["committed"], rows["leader_epoch"] = commits.committed[which], commits.leader_epoch[which]
        topic_ids = np.array([text or "" for text in _with_none(commits.topic_id)], COMMITTED["topic_id"])
        rows["topic_id"] = topic_ids[commits.topic_id.codes[which]]
        metadata = np.fromiter(_with_none(commits.metadata), "O")
        return cls(rows, metadata[commits.metadata.codes[which]])

    def taken(self, which: Records) -> CommitTable:
        """Return some of the rows, by their indexes."""
        return CommitTable(picked(self.rows, which), self.metadata[which])

    def put(self, which: Records, other: CommitTable) -> None:
        """Put the rows of another table in the place of some."""
        placed(self.rows, which, other.rows)
        self.metadata[which] = other.metadata

    def commit(self, row: int) -> Commit:
        """Return a row as a value."""
        *numbers, topic_id = self.rows[row].item()
        return Commit._make((*numbers, self.metadata[row], topic_id.decode("ascii") or None))


def _with_none(texts: Texts) -> list[str | None]:
    """Return the words, and behind the last one, where -1 finds it, that there is none."""
    return [*texts.words, None]
