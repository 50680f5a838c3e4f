"""The entries of all transaction indexes of a partition, as numpy records."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.external_sort import RANGE, Sorted, Sorting
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import open_source
from kforensics.parsers.state.transaction_index import ENTRY

__all__ = ["index_records"]

NATIVE = ENTRY.dtype.newbyteorder("=")
PIECE = RANGE * ENTRY.size


def index_records(partition: Partition) -> Sorted | None:
    """Return the whole entries by last offset; None if an index cannot be read at all.

    A partition without a transaction index has no entry: a broker makes the file with the first one.
    """
    found = Sorting(NATIVE, itemgetter("last_offset"))
    for file in partition.transaction_indexes.values():
        try:
            with open_source(file.path) as source:
                whole = source.size - source.size % ENTRY.size
                for position in range(0, whole, PIECE):
                    data = source.read(position, min(PIECE, whole - position))
                    data = data[: len(data) - len(data) % ENTRY.size]
                    found.add(np.frombuffer(data, ENTRY.dtype).astype(NATIVE))
        except InputError:
            return None
    return found.finish()
