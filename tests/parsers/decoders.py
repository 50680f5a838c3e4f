"""The optimized and the reference decoder of format 2 with one interface, and a check which of them ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kforensics.parsers.format.rows import Batch, Failure, Record
from kforensics.parsers.log.batch_headers import batch_header
from kforensics.parsers.log.records import Payload, decode_records, open_payload
from tests.reference.construct_decoder import reference_header, reference_records

Rows = list[Record | Failure]


@dataclass(frozen=True)
class Decoder:
    """A decoder of format 2.

    Attributes:
        name: ``optimized`` or ``reference``.
        header: decodes the header from the bytes of a batch and its position.
        records: decodes the records from header and payload; a failure comes last.
    """

    name: str
    header: Callable[[bytes, int], Batch]
    records: Callable[[Batch, Payload], Iterator[Record | Failure]]

    def rows(self, data: bytes) -> Rows:
        """Return the records of a batch given as bytes."""
        head = self.header(data, 0)
        return self.payload_rows(head, open_payload(head, data))

    def payload_rows(self, head: Batch, payload: Payload) -> Rows:
        """Return the records of a payload; fail if the other decoder reads them."""
        rows = self.records(head, payload)
        check_ran(self.name, rows)
        return list(rows)


def check_ran(name: str, rows: Iterator[Record | Failure]) -> None:
    """Fail unless the rows come from the code of the decoder with this name."""
    code = rows.gi_code  # type: ignore[attr-defined]  # both decoders are generators
    assert Path(code.co_filename).stem == {"optimized": "records", "reference": "construct_decoder"}[name]


OPTIMIZED = Decoder("optimized", batch_header, decode_records)
REFERENCE = Decoder("reference", reference_header, reference_records)


def split(rows: Rows) -> tuple[list[Record], str | None]:
    """Return the records, and the reason of the failure after them, None if there is none."""
    failures = [row for row in rows if isinstance(row, Failure)]
    assert failures in ([], rows[-1:]), "a failure ends a batch"
    return [row for row in rows if isinstance(row, Record)], failures[0].reason if failures else None


def same(head: Batch, payload: Payload) -> tuple[list[Record], str | None]:
    """Return the records of a payload, after checking that both decoders agree."""
    records = split(OPTIMIZED.payload_rows(head, payload))
    assert records == split(REFERENCE.payload_rows(head, payload))
    return records
