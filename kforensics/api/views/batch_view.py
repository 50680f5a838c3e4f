"""Shows a batch in a notebook: its bytes in hex, each in the color of its field, and the fields with their values.

The value of a field is described too: attribute bits by name, times in UTC, deltas as the values they lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice
from typing import Any

from kforensics.api.views.table_view import CELL_STYLE, TableSource, TableView, aligned_lines
from kforensics.forensics.core.formatting import format_count, format_time_ms
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import (
    CODEC_MASK,
    CODECS,
    CONTROL_BIT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Batch,
    Record,
)
from kforensics.parsers.log.batch_headers import batch_header, legacy_header
from kforensics.parsers.log.field_bytes import BatchBreakdown, FieldBytes, FieldGroup, batch_breakdown
from kforensics.parsers.log.log_rows import Place, read_records, record_row
from kforensics.parsers.tables.arrow import arrow_batches, arrow_table
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.markup import NULL_TEXT, Markup, bytes_text, cell_text, element, joined
from kforensics.render.payloads import row_converter

# Number of records whose fields are shown, and bytes shown of a batch and of a field.
MAX_RECORDS, MAX_BYTES, MAX_FIELD_BYTES = 10, 1024, 16
HEADINGS = ("", "position", "field", "bytes", "value", "meaning")
HEX_LINE_BYTES = 16
# Pale enough for black text; neighbors differ in more than hue.
FIELD_COLORS = (
    "#ffd6d6",
    "#cfe8ff",
    "#fff3b0",
    "#d8f5d0",
    "#e8d9ff",
    "#ffe0bf",
    "#c9f2ee",
    "#f7cfe6",
    "#e2e2e2",
    "#dfe8b0",
)


class BatchView:
    """A record batch of any format; its bytes are read on first access.

    ``view["base_offset"]`` returns a column of its row in the table ``batches``.

    Attributes:
        row: the row.
        budget: maximum number of bytes to decompress.
    """

    def __init__(self, row: Mapping[str, Any], budget: int = DEFAULT_BUDGET) -> None:
        self.row, self.budget = row, budget

    def __getitem__(self, column: str) -> Any:
        """Return a value of the row.

        Raises:
            KeyError: the table has no such column.
        """
        return self.row[column]

    @cached_property
    def data(self) -> bytes:
        """The bytes of the batch.

        Raises:
            InputError: the file cannot be read.
        """
        with open_source(self.row["path"]) as source:
            return source.read(self.row["position"], self.row["size"])

    @cached_property
    def groups(self) -> tuple[FieldGroup, ...]:
        """The fields of the header and of the first records, with names, positions, bytes and values."""
        return self._breakdown.groups

    @property
    def records(self) -> TableView:
        """The records of this batch."""
        table, row = TABLES["records"], self.row
        convert = row_converter(table, None, None)
        place = Place(*(row[name] for name in Place._fields))

        def rows() -> Iterator[Any]:
            with open_source(row["path"]) as source:
                items = read_records(source, self._batch, self.budget)
                records = (item for item in items if isinstance(item, Record))
                yield from (convert(record_row(place, row["path"], self._batch, record)) for record in records)

        source = TableSource(
            lambda count: arrow_table(table, islice(rows(), count)),
            lambda: arrow_batches(table, rows()),
            row["size"],
        )
        return TableView(table, source)

    @cached_property
    def _batch(self) -> Batch:
        read_header = legacy_header if self.row["magic"] in (0, 1) else batch_header
        return read_header(self.data, self.row["position"])

    @cached_property
    def _breakdown(self) -> BatchBreakdown:
        return batch_breakdown(self._batch, self.data, MAX_RECORDS, self.budget)

    def __repr__(self) -> str:
        lines = [self._title]
        for heading, fields, size in self._byte_ranges:
            lines += [*heading, *hex_text(fields, MAX_BYTES, size)]
        for group in self.groups:
            lines += ["", group.title]
            lines += aligned_lines([list(_cells(self._batch, group, field)) for field in group.fields])
        return "\n".join([*lines, *self._notes])

    def _repr_html_(self) -> Markup:
        parts = [element("p", element("b", self._title))]
        for heading, fields, size in self._byte_ranges:
            parts += [*(element("p", line) for line in heading), hex_table(fields, MAX_BYTES, size)]
        head = element("tr", *(element("th", name, style=CELL_STYLE) for name in HEADINGS))
        table = element("table", element("thead", head), element("tbody", *self._html_rows()))
        return element("div", *parts, table, *(element("p", note) for note in self._notes))

    def _html_rows(self) -> Iterator[Markup]:
        indexes = {
            False: iter(range(len(self._fields(unpacked=False)))),
            True: iter(range(len(self._fields(unpacked=True)))),
        }
        for group in self.groups:
            yield element("tr", element("td"), element("td", element("b", group.title), style=CELL_STYLE))
            for field in group.fields:
                color = element("td", style=f"{field_style(next(indexes[group.unpacked]))}; padding: 0 0.5em")
                texts = _cells(self._batch, group, field)
                cells = (element("td", text, style=CELL_STYLE, title=field.doc or None) for text in texts)
                yield element("tr", color, joined(*cells))

    @property
    def _byte_ranges(self) -> Iterator[tuple[list[str], list[FieldBytes], int]]:
        """Heading, fields and size of the stored bytes and of the decompressed bytes."""
        yield [], self._fields(unpacked=False), len(self.data)
        if self._fields(unpacked=True):
            size = len(self._breakdown.unpacked)
            yield [f"decompressed: {format_count(size, 'byte')}"], self._fields(unpacked=True), size

    def _fields(self, *, unpacked: bool) -> list[FieldBytes]:
        return [field for group in self.groups if group.unpacked is unpacked for field in group.fields]

    @property
    def _title(self) -> str:
        row = self.row
        path, size = cell_text("path", row["path"]), format_count(row["size"], "byte")
        return f"batch at {row['position']:#x} of {path}: {size}, offsets {row['base_offset']} to {row['last_offset']}"

    @property
    def _notes(self) -> Iterator[str]:
        if self._breakdown.left_out:
            yield f"{format_count(self._breakdown.left_out, 'more record')} not shown"
        if self._breakdown.failure:
            yield f"incomplete: {self._breakdown.failure}"


def _cells(batch: Batch, group: FieldGroup, field: FieldBytes) -> Iterator[str]:
    """Yield position, name, bytes, value and meaning of a field."""
    data = field.data[:MAX_FIELD_BYTES].hex(" ")
    yield f"{field.position:#010x}"
    yield field.name
    yield data if len(field.data) <= MAX_FIELD_BYTES else f"{data} … ({len(field.data)} bytes)"
    yield str(field.value) if isinstance(field.value, int) else ""
    yield field_meaning(batch, group, field)


def field_style(index: int) -> str:
    """Return the CSS of the n-th field."""
    return f"background: {FIELD_COLORS[index % len(FIELD_COLORS)]}; color: #111"


def hex_table(fields: Sequence[FieldBytes], limit: int, size: int) -> Markup:
    """Return the bytes of fields in hex and as characters, each with the name of its field.

    Args:
        fields: contiguous fields in byte order.
        limit: number of bytes to show.
        size: number of all bytes, including those after the fields.
    """
    lines = []
    for position, runs in _hex_lines(fields, limit):
        shown = sum(len(data) for _, data in runs)
        hex_spans = (_span(fields, index, data.hex(" ")) for index, data in runs)
        text_spans = (_span(fields, index, _characters(data)) for index, data in runs)
        padding = "   " * (HEX_LINE_BYTES - shown)
        lines.append(
            joined(f"{position:08x}  ", Markup(" ".join(hex_spans)), f"{padding}  ", *text_spans, Markup("\n"))
        )
    return element("pre", *lines, *_more_bytes(fields, limit, size), style="line-height: 1.4")


def hex_text(fields: Sequence[FieldBytes], limit: int, size: int) -> list[str]:
    """Return the same as lines of text; see :func:`hex_table`."""
    lines = []
    for position, runs in _hex_lines(fields, limit):
        data = b"".join(run for _, run in runs)
        lines.append(f"{position:08x}  {data.hex(' '):<{3 * HEX_LINE_BYTES - 1}}  {_characters(data)}")
    return [*lines, *_more_bytes(fields, limit, size)]


def _hex_lines(fields: Sequence[FieldBytes], limit: int) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Yield lines of sixteen bytes: the position of the first byte, and runs of bytes with their field's index."""
    all_bytes = ((index, value) for index, field in enumerate(fields) for value in field.data)
    shown = list(islice(all_bytes, limit))
    begin = fields[0].position if fields else 0
    for start in range(0, len(shown), HEX_LINE_BYTES):
        runs = groupby(shown[start : start + HEX_LINE_BYTES], key=lambda indexed: indexed[0])
        yield begin + start, [(index, bytes(value for _, value in run)) for index, run in runs]


def _span(fields: Sequence[FieldBytes], index: int, text: str) -> Markup:
    return element("span", text, style=field_style(index), title=fields[index].name)


def _characters(data: bytes) -> str:
    """Return printable ASCII unchanged, and a dot for every other byte."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def _more_bytes(fields: Sequence[FieldBytes], limit: int, size: int) -> list[str]:
    left = size - min(sum(len(field.data) for field in fields), limit)
    return [f"… and {format_count(left, 'more byte')}"] if left > 0 else []


def field_meaning(batch: Batch, group: FieldGroup, field: FieldBytes) -> str:
    """Return a description of a field's value as printable text; ``""`` if the value needs none.

    Args:
        batch: header of the batch.
        group: the group of the field.
        field: the field.
    """
    if field.error:
        return field.error
    meanings = HEADER_MEANINGS if group.title in ("batch header", "message") else RECORD_MEANINGS
    if describe := meanings.get(field.name):
        return describe(batch, field)
    return _payload(batch, group, field) if field.value is None or isinstance(field.value, bytes) else ""


def _attributes(batch: Batch, field: FieldBytes) -> str:
    codec = field.value & CODEC_MASK
    parts = [CODECS[codec] if codec < len(CODECS) else f"codec {codec}, which does not exist"]
    if batch.magic > 0:
        parts.append(LOG_APPEND_TIME if field.value & LOG_APPEND_TIME_BIT else CREATE_TIME)
    if not batch.is_legacy:
        flags = ((TRANSACTIONAL_BIT, "transactional"), (CONTROL_BIT, "control"), (DELETE_HORIZON_BIT, "delete horizon"))
        parts += [name for bit, name in flags if field.value & bit]
    return ", ".join(parts)


def _crc(batch: Batch, field: FieldBytes) -> str:
    return f"{field.value:#010x}, {'valid' if batch.crc_valid else 'does NOT match the bytes'}"


def _time(_batch: Batch, field: FieldBytes) -> str:
    return "no timestamp" if field.value < 0 else format_time_ms(field.value)


def _base_timestamp(batch: Batch, field: FieldBytes) -> str:
    return f"{_time(batch, field)}{'' if batch.delete_horizon_ms is None else ', the delete horizon'}"


def _none_if_negative(_batch: Batch, field: FieldBytes) -> str:
    return "none" if field.value < 0 else ""


def _last_offset(batch: Batch, _field: FieldBytes) -> str:
    return f"last offset {batch.last_offset}"


def _last_sequence(batch: Batch, field: FieldBytes) -> str:
    return "none" if field.value < 0 else f"last sequence {batch.last_sequence}"


def _record_time(batch: Batch, field: FieldBytes) -> str:
    if batch.timestamp_type == LOG_APPEND_TIME:
        return "not used: the batch has LogAppendTime"
    return format_time_ms((batch.base_timestamp or 0) + field.value)


def _record_offset(batch: Batch, field: FieldBytes) -> str:
    return f"offset {(batch.base_offset or 0) + field.value}"


def _size(batch: Batch, _field: FieldBytes) -> str:
    return f"{format_count(batch.size, 'byte')} including the fields up to this one"


Meaning = Callable[[Batch, FieldBytes], str]
HEADER_MEANINGS: dict[str, Meaning] = {
    "length": _size,
    "size": _size,
    "crc": _crc,
    "attributes": _attributes,
    "last_offset_delta": _last_offset,
    "base_timestamp": _base_timestamp,
    "max_timestamp": _time,
    "timestamp": _time,
    "partition_leader_epoch": _none_if_negative,
    "producer_id": _none_if_negative,
    "producer_epoch": _none_if_negative,
    "base_sequence": _last_sequence,
}
RECORD_MEANINGS: dict[str, Meaning] = {
    "timestamp_delta": _record_time,
    "offset_delta": _record_offset,
    "timestamp": _time,
}


def _payload(batch: Batch, group: FieldGroup, field: FieldBytes) -> str:
    """Return a key or value as text, the type of a control record, or the size of compressed data."""
    if group.title == "compressed records" or (group.title == "message" and batch.codec and field.name == "value"):
        return f"{format_count(len(field.data), 'byte')}, {batch.compression_type or 'unknown codec'}"
    if batch.is_control and (control := _control(group, field.name)):
        return control
    return NULL_TEXT if field.value is None else bytes_text(field.value)


def _control(group: FieldGroup, name: str) -> str | None:
    """Return the type of a control record for its key, and the coordinator epoch for its value."""
    values: dict[str, Any] = {field.name: field.value for field in group.fields}
    control_type, epoch = control_fields(Record(0, 0, 0, values.get("key"), values.get("value")))
    if name == "key":
        return control_type
    return f"coordinator epoch {epoch}" if name == "value" and epoch is not None else None
