"""The bytes of keys of which only hashes were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kforensics.forensics.keys.key_rows import IN_FILE
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import Walk
from kforensics.parsers.log.log_rows import records_of

__all__ = ["Where", "key_at"]


@dataclass(frozen=True, slots=True)
class Where:
    """Where a record stands.

    Attributes:
        path: its segment.
        position: of its batch.
        offset: its offset.
    """

    path: str
    position: int
    offset: int

    @classmethod
    def of(cls, paths: Sequence[str], place: int, offset: int) -> Where:
        """Return where a record stands.

        Args:
            paths: segments of its partition.
            place: as a row of KEY has it.
            offset: its offset.
        """
        segment, position = divmod(place, IN_FILE)
        return cls(paths[segment], position, offset)


def key_at(where: Where) -> bytes | None:
    """Return the key of a record, None if it has none or is not there any more.

    Raises:
        InputError: the segment cannot be read.
    """
    with open_source(where.path) as source:
        batch = next(iter(Walk(source, where.position).step()), None)
        if not isinstance(batch, Batch):
            return None
        found = (row for row in records_of(source, batch) if isinstance(row, Record) and row.offset == where.offset)
        record = next(found, None)
        return None if record is None else record.key
