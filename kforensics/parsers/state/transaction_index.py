"""``.txnindex``: the aborted transactions whose marker is in a segment.

Rule: ``org.apache.kafka.storage.internals.log.TransactionIndex`` and ``AbortedTxn``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import TRANSACTION_INDEX_ENTRY
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.entries import read_entries

__all__ = ["ENTRY", "TransactionIndexEntry", "read_transaction_index"]

ENTRY = fixed(TRANSACTION_INDEX_ENTRY)


@dataclass(frozen=True, slots=True)
class TransactionIndexEntry:
    """An aborted transaction.

    Attributes:
        position: of the entry in the index.
        version: of the entry, 0.
        producer_id: its producer.
        first_offset: its first data offset; may lie in an earlier segment or below the log start.
        last_offset: offset of the ABORT marker.
        last_stable_offset: last stable offset once it had ended; never updated.
    """

    position: int
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def size(self) -> int:
        """Bytes of an entry."""
        return ENTRY.size


def read_transaction_index(source: Source) -> Iterator[TransactionIndexEntry | Damage]:
    """Yield the aborted transactions of an index and the ranges that hold none.

    Entries of a version other than 0 are damage, as for Kafka since 4.4; up to 4.3 it looked at the first byte only.
    Zeros are damage too: they would be an abort at offset 0 that left the last stable offset at 0.
    """
    ragged = f"{source.size % ENTRY.size} bytes are too few for an entry of {ENTRY.size}"
    for row in read_entries(source, ENTRY, ragged):
        if isinstance(row, Damage):
            yield row
            continue
        position, fields = row
        entry = TransactionIndexEntry(position, *fields)
        yield entry if entry.version == 0 else _unknown_version(source, entry)


def _unknown_version(source: Source, entry: TransactionIndexEntry) -> Damage:
    message = (
        f"Unexpected aborted transaction version {entry.version} in transaction index {source.path}, "
        "supported version range is 0 to 0"
    )
    return Damage(entry.position, entry.position + entry.size, "version", message)
