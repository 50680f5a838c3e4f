"""Breakdown of batches: every byte is in one field, and the values are those of the decoders."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import BATCH_HEADER, TIME_INDEX_ENTRY
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batch_headers import batch_header
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.field_bytes import BatchBreakdown, batch_breakdown, layout_fields
from kforensics.parsers.log.log_rows import read_records
from tests.command import SAMPLES
from tests.parsers.builders import batch as batch_of
from tests.parsers.builders import record

ALL = 1 << 20
WHOLE = ["records", "transactions-v2", "legacy-magic-0", "legacy-magic-1", "compaction"]


def _batches(folder: Path) -> Iterator[tuple[Batch, bytes, list[Record]]]:
    for path in sorted(folder.rglob("*.log")):
        with open_source(path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch):
                    records = [record for record in read_records(source, batch) if isinstance(record, Record)]
                    yield batch, batch_bytes(source, batch), records


def _values(breakdown: BatchBreakdown, batch: Batch) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the records."""
    title = "message" if batch.is_legacy and not batch.codec else "inner message" if batch.is_legacy else "record "
    groups = [group for group in breakdown.groups if group.title.startswith(title)]
    fields = [{field.name: field.value for field in group.fields} for group in groups]
    return [(record["key"], record["value"]) for record in fields]


@pytest.mark.parametrize("scenario", WHOLE)
def test_fields_cover_every_byte_and_agree_with_the_decoders(scenario: str) -> None:
    seen = 0
    for batch, data, records in _batches(SAMPLES / scenario):
        breakdown = batch_breakdown(batch, data, ALL)
        assert breakdown.failure is None
        stored = [field for group in breakdown.groups if not group.unpacked for field in group.fields]
        assert b"".join(field.data for field in stored) == data
        assert [field.position for field in stored] == [batch.position, *(field.end for field in stored[:-1])]
        unpacked = [field for group in breakdown.groups if group.unpacked for field in group.fields]
        assert b"".join(field.data for field in unpacked) == breakdown.unpacked
        assert _values(breakdown, batch) == [(record.key, record.value) for record in records]
        seen += bool(records)
    assert seen > 10


def test_fields_are_those_of_the_layout() -> None:
    fields = [*layout_fields(TIME_INDEX_ENTRY, bytes(4) + bytes(7) + b"\x09\0\0\0\x05", 4, 100)]
    assert [(field.name, field.position, field.value) for field in fields] == [
        ("timestamp", 104, 9),
        ("relative_offset", 112, 5),
    ]
    assert fields[0].doc == TIME_INDEX_ENTRY.subcons[0].docs


def test_an_incomplete_field_is_the_last() -> None:
    *_, last = layout_fields(BATCH_HEADER, bytes(20))
    assert (last.name, len(last.data), last.value) == ("crc", 3, None)
    assert last.error == "the bytes do not contain a whole field"


def _batch(data: bytes) -> Batch:
    return batch_header(data, 0)


def test_no_more_records_than_requested() -> None:
    data = batch_of(record(), record(1), record(2))
    breakdown = batch_breakdown(_batch(data), data, 2)
    assert ([group.title for group in breakdown.groups[1:]], breakdown.left_out) == (["record 0", "record 1"], 1)


@pytest.mark.parametrize(
    ("records", "failure"),
    [
        ([record(), b"\x7e"], "record 1, attributes: the bytes do not contain a whole field"),
        ([record(header_count=3)], "record 0, header 0 key: the bytes do not contain a whole field"),
        ([record(), b""], "the header counts 2 records, but there are 1"),
        ([b"\x01"], "record 0, attributes: the bytes do not contain a whole field"),
    ],
)
def test_unreadable_records_are_reported(records: list[bytes], failure: str) -> None:
    data = batch_of(*records)
    assert batch_breakdown(_batch(data), data, ALL).failure == failure


def test_omitted_headers_do_not_hide_the_next_record() -> None:
    data = batch_of(record(headers=[(b"h", b"v")] * 150), record(1, b"next"))
    *_, last = batch_breakdown(_batch(data), data, ALL).groups
    assert last.fields[4].value == b"next"


def test_a_codec_failure_is_reported() -> None:
    data = bytearray(batch_of(record(), codec=1))
    data[-1] ^= 0xFF
    assert "GZIP" in (batch_breakdown(_batch(bytes(data)), bytes(data), ALL).failure or "")
