"""Batches of a log as numpy columns: what the replay and the checks of a partition work on.

One value holds some thousand batches, in the order of the log. There is no object per batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.parsers.format.control import CONTROL_TYPES

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ABORT", "COMMIT", "NO_CONTROL", "SHELL", "UNKNOWN_CONTROL", "BatchColumns", "columns_dtype", "joined"]

Numbers: TypeAlias = "npt.NDArray[Any]"

# What a control batch holds, beside the numbers of CONTROL_TYPES: it is none; nobody can tell; no record at all.
ABORT, COMMIT = CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")
NO_CONTROL, UNKNOWN_CONTROL, SHELL = -1, 100, 101

_DTYPES = {
    "segment": "i4",
    "position": "i8",
    "size": "i8",
    "base_offset": "i8",
    "last_offset": "i8",
    "count": "i4",
    "magic": "i1",
    "leader_epoch": "i4",
    "attributes": "i2",
    "crc_valid": "?",
    "max_timestamp": "i8",
    "producer_id": "i8",
    "producer_epoch": "i2",
    "base_sequence": "i4",
    "last_sequence": "i4",
    "control": "i1",
    "coordinator_epoch": "i4",
    "exact": "?",
}
_ALL = attrgetter(*_DTYPES)
_RECORD = np.dtype([*_DTYPES.items()])


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """Batches of one partition, each field a column with one number per batch.

    Attributes:
        segment: which segment of the partition, counted from 0.
        position: byte position in it.
        size: bytes, the header included.
        base_offset: first offset; the last one too where ``exact`` is False.
        last_offset: last offset, which stays when the cleaner takes records out.
        count: records; 1 where ``exact`` is False.
        magic: message format.
        leader_epoch: partition leader epoch, -1 if there is none.
        attributes: as stored; 0 in formats that have none.
        crc_valid: whether the checksum holds.
        max_timestamp: largest timestamp in ms, -1 if there is none. Of a marker it is that of its one record, for the
            broker that writes a marker sets both.
        producer_id: -1 if there is none.
        producer_epoch: -1 if there is none.
        base_sequence: -1 if there is none.
        last_sequence: -1 if there is none.
        control: ABORT or COMMIT for a marker that can be replayed, another number of ``CONTROL_TYPES``,
            UNKNOWN_CONTROL where the record cannot be read or is of a type nobody has assigned, SHELL for a control
            batch without record, NO_CONTROL for data.
        coordinator_epoch: of a marker, else -1.
        exact: False for compressed entries of formats 0 and 1, which do not tell their first offset and count.
    """

    segment: Numbers
    position: Numbers
    size: Numbers
    base_offset: Numbers
    last_offset: Numbers
    count: Numbers
    magic: Numbers
    leader_epoch: Numbers
    attributes: Numbers
    crc_valid: Numbers
    max_timestamp: Numbers
    producer_id: Numbers
    producer_epoch: Numbers
    base_sequence: Numbers
    last_sequence: Numbers
    control: Numbers
    coordinator_epoch: Numbers
    exact: Numbers

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, which: Any) -> BatchColumns:
        """Return some of the batches: by slice, mask or array of indexes."""
        return BatchColumns(*[column[which] for column in _ALL(self)])

    def __reduce__(self) -> tuple[Any, ...]:
        # As the bytes of records: of the first and the last batch of a split, eighteen arrays take pickle the longest.
        records = np.empty(len(self), _RECORD)
        for name, column in zip(_DTYPES, _ALL(self), strict=True):
            records[name] = column
        return _of_bytes, (records.tobytes(),)

    @classmethod
    def of_rows(cls, rows: Iterable[Sequence[Any]]) -> BatchColumns:
        """Return rows, whose values come in the order of the fields, as columns."""
        table = list(zip(*rows, strict=True)) or [()] * len(_DTYPES)
        return cls(*(np.array(column, kind) for column, kind in zip(table, _DTYPES.values(), strict=True)))


def _of_bytes(data: bytes) -> BatchColumns:
    # Arrays over bytes, and not over a bytearray, could not be written to.
    records = np.frombuffer(bytearray(data), _RECORD) if data else np.empty(0, _RECORD)
    return BatchColumns(*[records[name] for name in _DTYPES])


def columns_dtype(name: str) -> np.dtype[Any]:
    """Return the type of the numbers in a column."""
    return np.dtype(_DTYPES[name])


def joined(parts: Sequence[BatchColumns]) -> BatchColumns:
    """Return the batches of several parts, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    return BatchColumns(
        *(
            np.concatenate([getattr(part, field.name) for part in parts])
            if parts
            else np.empty(0, columns_dtype(field.name))
            for field in fields(BatchColumns)
        )
    )
