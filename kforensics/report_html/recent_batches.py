"""What a store knows of batches, which it does not hold: the last ones of producers, and when offsets were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import arrow_schema

__all__ = ["known_moments", "recent_batches"]

# Sequences go on at 0 behind this many: DefaultRecordBatch.decrementSequence.
SEQUENCES = 1 << 31
MOMENT = (*Place._fields, "last_offset", "max_timestamp")
COLUMNS = (
    *Place._fields,
    *("producer_id", "producer_epoch", "base_offset", "last_offset", "base_sequence", "last_sequence"),
)


def recent_batches(producers: pa.Table) -> pa.Table:
    """Return rows such as the table ``batches`` has, of the columns that tell places, offsets and sequences.

    Args:
        producers: rows of the table ``producers``.
    """
    schema = arrow_schema("batches")
    rows = [batch for row in producers.to_pylist() for batch in _batches(row)]
    return pa.Table.from_pylist(rows, pa.schema([schema.field(name) for name in COLUMNS]))


def known_moments(transactions: pa.Table) -> pa.Table:
    """Return rows such as the table ``batches`` has: an offset, and when it was written.

    These are the last batch of each transaction by its time, and its marker.

    Args:
        transactions: rows of the table ``transactions``.
    """
    place = [transactions[name] for name in Place._fields]
    parts = [
        pa.table([*place, transactions[offset], transactions[timestamp].cast("int64")], names=list(MOMENT))
        for offset, timestamp in (("last_offset", "last_timestamp"), ("marker_offset", "marker_timestamp"))
    ]
    found = pa.concat_tables(parts)
    return found.filter(pc.and_(pc.is_valid(found["last_offset"]), pc.is_valid(found["max_timestamp"])))


def _batches(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kept = {name: row[name] for name in COLUMNS if name in row}
    for batch in row["recent_batches"] or ():
        if batch["last_sequence"] < 0:
            continue
        yield {
            **kept,
            "base_offset": batch["last_offset"] - batch["offset_delta"],
            "last_offset": batch["last_offset"],
            "base_sequence": (batch["last_sequence"] - batch["offset_delta"]) % SEQUENCES,
            "last_sequence": batch["last_sequence"],
        }
