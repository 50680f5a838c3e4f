"""Batches taken apart: every byte is in one field, and the values are those that the decoders read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import BATCH_HEADER, TIME_INDEX_ENTRY
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.field_bytes import TakenApart, fields_of, taken_apart
from kforensics.parsers.log.headers import batch_header
from kforensics.parsers.log.log_rows import records_of
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
                    found = [one for one in records_of(source, batch) if isinstance(one, Record)]
                    yield batch, batch_bytes(source, batch), found


def _values(apart: TakenApart, batch: Batch) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the records."""
    title = "message" if batch.is_legacy and not batch.codec else "inner message" if batch.is_legacy else "record "
    groups = [group for group in apart.groups if group.title.startswith(title)]
    fields = [{field.name: field.value for field in group.fields} for group in groups]
    return [(found["key"], found["value"]) for found in fields]


@pytest.mark.parametrize("scenario", WHOLE)
def test_fields_cover_every_byte_and_hold_what_decoders_read(scenario: str) -> None:
    seen = 0
    for batch, data, records in _batches(SAMPLES / scenario):
        apart = taken_apart(batch, data, ALL)
        assert apart.failure is None
        stored = [field for group in apart.groups if not group.unpacked for field in group.fields]
        assert b"".join(field.data for field in stored) == data
        assert [field.position for field in stored] == [batch.position, *(field.end for field in stored[:-1])]
        unpacked = [field for group in apart.groups if group.unpacked for field in group.fields]
        assert b"".join(field.data for field in unpacked) == apart.unpacked
        assert _values(apart, batch) == [(one.key, one.value) for one in records]
        seen += bool(records)
    assert seen > 10


def test_fields_are_those_of_the_layout() -> None:
    found = [*fields_of(TIME_INDEX_ENTRY, bytes(4) + bytes(7) + b"\x09\0\0\0\x05", 4, 100)]
    assert [(one.name, one.position, one.value) for one in found] == [
        ("timestamp", 104, 9),
        ("relative_offset", 112, 5),
    ]
    assert found[0].doc == TIME_INDEX_ENTRY.subcons[0].docs


def test_bytes_that_do_not_hold_a_field_end_it() -> None:
    *_, last = fields_of(BATCH_HEADER, bytes(20))
    assert (last.name, len(last.data), last.value) == ("crc", 3, None)
    assert last.error == "these bytes do not hold the field"


def _batch(data: bytes) -> Batch:
    return batch_header(data, 0)


def test_no_more_records_than_asked_for() -> None:
    data = batch_of(record(), record(1), record(2))
    apart = taken_apart(_batch(data), data, 2)
    assert ([group.title for group in apart.groups[1:]], apart.left_out) == (["record 0", "record 1"], 1)


@pytest.mark.parametrize(
    ("records", "failure"),
    [
        ([record(), b"\x7e"], "record 1, attributes: these bytes do not hold the field"),
        ([record(header_count=3)], "record 0, header 0 key: these bytes do not hold the field"),
        ([record(), b""], "the header counts 2 records, and 1 are there"),
        ([b"\x01"], "record 0, attributes: these bytes do not hold the field"),
    ],
)
def test_what_cannot_be_taken_apart_is_said(records: list[bytes], failure: str) -> None:
    data = batch_of(*records)
    assert taken_apart(_batch(data), data, ALL).failure == failure


def test_headers_beyond_what_is_shown_do_not_hide_the_next_record() -> None:
    data = batch_of(record(headers=[(b"h", b"v")] * 150), record(1, b"next"))
    *_, last = taken_apart(_batch(data), data, ALL).groups
    assert last.fields[4].value == b"next"


def test_a_codec_that_breaks_off_is_named() -> None:
    data = bytearray(batch_of(record(), codec=1))
    data[-1] ^= 0xFF
    assert "GZIP" in (taken_apart(_batch(bytes(data)), bytes(data), ALL).failure or "")
