"""Batches of a log as NumPy columns, the input of the replay and of the checks of a partition.

One object holds some thousand batches in log order. There is no object per batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import numpy as np

from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.control_records import CONTROL_TYPES

__all__ = [
    "ABORT",
    "COMMIT",
    "EMPTY_CONTROL_BATCH",
    "NO_CONTROL",
    "UNKNOWN_CONTROL",
    "BatchColumns",
    "batches_from",
    "column_dtype",
    "concat_batches",
]

# Values of the column ``control``: the numbers of CONTROL_TYPES, a data batch, a control record that cannot be decoded,
# and a control batch without records.
ABORT, COMMIT = CONTROL_TYPES.index("ABORT"), CONTROL_TYPES.index("COMMIT")
NO_CONTROL, UNKNOWN_CONTROL, EMPTY_CONTROL_BATCH = -1, 100, 101

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
_ROW = np.dtype([*_DTYPES.items()])


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """Batches of one partition; each field is a column with one value per batch.

    Attributes:
        segment: index of the segment in the partition.
        position: byte position in the segment.
        size: bytes, including the header.
        base_offset: first offset; the last offset where ``exact`` is False.
        last_offset: last offset, which does not change when the log cleaner removes records.
        count: records; 1 where ``exact`` is False.
        magic: message format.
        leader_epoch: partition leader epoch, -1 for none.
        attributes: as stored; 0 in formats without attributes.
        crc_valid: whether the checksum is valid.
        max_timestamp: largest timestamp in ms, -1 for none. For a marker it equals the timestamp of its one record,
            because the broker that writes a marker sets both.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: -1 for none.
        last_sequence: -1 for none.
        control: ABORT or COMMIT for a marker that can be replayed, another number of ``CONTROL_TYPES``,
            UNKNOWN_CONTROL if the record cannot be read or has an unassigned type, EMPTY_CONTROL_BATCH for a control
            batch without records, NO_CONTROL for data.
        coordinator_epoch: of a marker, else -1.
        exact: False for compressed entries of formats 0 and 1, whose header lacks the first offset and the count.
    """

    segment: IntArray
    position: IntArray
    size: IntArray
    base_offset: IntArray
    last_offset: IntArray
    count: IntArray
    magic: IntArray
    leader_epoch: IntArray
    attributes: IntArray
    crc_valid: BoolArray
    max_timestamp: IntArray
    producer_id: IntArray
    producer_epoch: IntArray
    base_sequence: IntArray
    last_sequence: IntArray
    control: IntArray
    coordinator_epoch: IntArray
    exact: BoolArray

    def __len__(self) -> int:
        return len(self.position)

    def __getitem__(self, rows: Any) -> BatchColumns:
        """Return the batches that a slice, a mask or an array of indexes selects."""
        return BatchColumns(*[column[rows] for column in _ALL(self)])

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as one structured array: eighteen arrays take far longer, even if they hold only two batches.
        return batches_from, (self.tobytes(),)

    def tobytes(self) -> bytes:
        """Return the batches as bytes, for :func:`batches_from`."""
        table = np.empty(len(self), _ROW)
        for name, column in zip(_DTYPES, _ALL(self), strict=True):
            table[name] = column
        return table.tobytes()

    @classmethod
    def of_rows(cls, rows: Iterable[Sequence[Any]]) -> BatchColumns:
        """Return the columns of rows whose values are in the order of the fields."""
        columns = list(zip(*rows, strict=True)) or [()] * len(_DTYPES)
        return cls(*(np.array(column, kind) for column, kind in zip(columns, _DTYPES.values(), strict=True)))


def batches_from(data: bytes | memoryview) -> BatchColumns:
    """Return batches from their bytes.

    Raises:
        ValueError: the bytes are cut off.
    """
    # Arrays over a bytearray can be written to, arrays over bytes cannot.
    table = np.frombuffer(bytearray(data), _ROW) if data else np.empty(0, _ROW)
    return BatchColumns(*[table[name] for name in _DTYPES])


def column_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a column."""
    return np.dtype(_DTYPES[name])


def concat_batches(parts: Sequence[BatchColumns]) -> BatchColumns:
    """Return the batches of several parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    return BatchColumns(
        *(
            np.concatenate([getattr(part, field.name) for part in parts])
            if parts
            else np.empty(0, column_dtype(field.name))
            for field in fields(BatchColumns)
        )
    )
