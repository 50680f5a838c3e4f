"""The entries of all transaction indexes of a partition, as numpy records."""

from __future__ import annotations

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.partition import Partition
from kforensics.forensics.replay.results import Records
from kforensics.parsers.source import open_source
from kforensics.parsers.transaction_index import ENTRY

__all__ = ["index_records"]

NATIVE = ENTRY.dtype.newbyteorder("=")


def index_records(partition: Partition) -> Records | None:
    """Return the whole entries by last offset; None if an index cannot be read at all.

    A partition without a transaction index has no entry: a broker makes the file with the first one.
    """
    parts = [np.empty(0, NATIVE)]
    for found in partition.transaction_indexes.values():
        try:
            with open_source(found.path) as source:
                data = source.read(0, source.size - source.size % ENTRY.size)
        except InputError:
            return None
        parts.append(np.frombuffer(data, ENTRY.dtype).astype(NATIVE))
    whole = np.concatenate(parts)
    return whole.take(np.argsort(whole["last_offset"], kind="stable"))
