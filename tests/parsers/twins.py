"""The two readers of format 2 under one name each, and the proof which of them ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kforensics.parsers.format.rows import Batch, Failure, Record
from kforensics.parsers.log.headers import batch_header
from kforensics.parsers.log.records import Payload, decode_records, open_payload
from kforensics.parsers.log.reference import reference_header, reference_records

Rows = list[Record | Failure]


@dataclass(frozen=True)
class Decoder:
    """One of the twins.

    Attributes:
        name: ``plain`` or ``reference``.
        header: bytes of a batch and its position to its row.
        records: header and payload to records, a failure last.
    """

    name: str
    header: Callable[[bytes, int], Batch]
    records: Callable[[Batch, Payload], Iterator[Record | Failure]]

    def rows(self, data: bytes) -> Rows:
        """Return the records of a batch given as bytes, read by this twin from header to end."""
        head = self.header(data, 0)
        return self.payload_rows(head, open_payload(head, data))

    def payload_rows(self, head: Batch, payload: Payload) -> Rows:
        """Return the records of a payload; fails where the other twin would have read them."""
        rows = self.records(head, payload)
        check_ran(self.name, rows)
        return list(rows)


def check_ran(name: str, rows: Iterator[Record | Failure]) -> None:
    """Fail unless these rows come from the code of the twin of this name."""
    code = rows.gi_code  # type: ignore[attr-defined]  # both twins are generators
    assert Path(code.co_filename).stem == {"plain": "records", "reference": "reference"}[name]


PLAIN = Decoder("plain", batch_header, decode_records)
REFERENCE = Decoder("reference", reference_header, reference_records)


def split(rows: Rows) -> tuple[list[Record], str | None]:
    """Return the records, and the reason of the failure behind them, if there is one."""
    failures = [row for row in rows if isinstance(row, Failure)]
    assert failures in ([], rows[-1:]), "a failure ends a batch"
    return [row for row in rows if isinstance(row, Record)], failures[0].reason if failures else None


def same(head: Batch, payload: Payload) -> tuple[list[Record], str | None]:
    """Return what both twins say of a payload, having checked that they say the same."""
    plain = split(PLAIN.payload_rows(head, payload))
    assert plain == split(REFERENCE.payload_rows(head, payload))
    return plain
