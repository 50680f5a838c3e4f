"""A batch that shows its bytes field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any

from kforensics.api.views.hex_view import colour, hex_table, hex_text
from kforensics.api.views.meanings import meaning
from kforensics.api.views.table_view import CELL, TableSource, TableView
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.field_bytes import FieldBytes, FieldGroup, TakenApart, taken_apart
from kforensics.parsers.log.headers import batch_header, legacy_header
from kforensics.parsers.log.log_rows import Place, record_row, records_of
from kforensics.parsers.tables.arrow import arrow_batches, arrow_table
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.cells import cell, widths
from kforensics.render.formatting import amount
from kforensics.render.markup import Markup, element, joined
from kforensics.render.values import shape

__all__ = ["BatchView"]

# Records that are taken apart, bytes shown of a batch, and of a field.
RECORDS, BYTES, FIELD_BYTES = 10, 1024, 16
HEADINGS = ("", "position", "field", "bytes", "value", "meaning")
SWATCH = "padding: 0 0.5em"
PLACE = ("broker_id", "log_dir", "topic", "partition")


class BatchView:
    """A record batch of any format; its bytes are read when they are first asked for.

    ``view["base_offset"]`` gives a column of its row in the table ``batches``.

    Attributes:
        row: that row.
        budget: most bytes to decompress.
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
        return self._apart.groups

    @property
    def records(self) -> TableView:
        """The records of this batch alone."""
        statement, row = TABLES["records"], self.row
        shaped = shape(statement, None, None)
        place = Place(*(row[name] for name in PLACE))

        def rows() -> Iterator[Any]:
            with open_source(row["path"]) as source:
                found = records_of(source, self._batch, self.budget)
                kept = (one for one in found if isinstance(one, Record))
                yield from (shaped(record_row(place, row["path"], self._batch, one)) for one in kept)

        source = TableSource(
            lambda count: arrow_table(statement, islice(rows(), count)),
            lambda: arrow_batches(statement, rows()),
            row["size"],
        )
        return TableView(statement, source)

    @cached_property
    def _batch(self) -> Batch:
        read = legacy_header if self.row["magic"] in (0, 1) else batch_header
        return read(self.data, self.row["position"])

    @cached_property
    def _apart(self) -> TakenApart:
        return taken_apart(self._batch, self.data, RECORDS, self.budget)

    def __repr__(self) -> str:
        lines = [self._title, *hex_text(self._stored, BYTES, len(self.data))]
        if self._unpacked:
            size = len(self._apart.unpacked)
            lines += [f"decompressed: {amount(size, 'byte')}", *hex_text(self._unpacked, BYTES, size)]
        for group in self.groups:
            lines += ["", group.title, *_aligned([list(_cells(self._batch, group, field)) for field in group.fields])]
        return "\n".join([*lines, *self._notes])

    def _repr_html_(self) -> Markup:
        parts = [element("p", element("b", self._title)), hex_table(self._stored, BYTES, len(self.data))]
        if self._unpacked:
            size = len(self._apart.unpacked)
            parts += [element("p", f"decompressed: {amount(size, 'byte')}"), hex_table(self._unpacked, BYTES, size)]
        head = element("tr", *(element("th", name, style=CELL) for name in HEADINGS))
        table = element("table", element("thead", head), element("tbody", *self._html_rows()))
        return element("div", *parts, table, *(element("p", note) for note in self._notes))

    def _html_rows(self) -> Iterator[Markup]:
        coloured = {False: iter(range(len(self._stored))), True: iter(range(len(self._unpacked)))}
        for group in self.groups:
            yield element("tr", element("td"), element("td", element("b", group.title), style=CELL))
            for field in group.fields:
                swatch = element("td", style=f"{colour(next(coloured[group.unpacked]))}; {SWATCH}")
                cells = (element("td", text, style=CELL, title=field.doc) for text in _cells(self._batch, group, field))
                yield element("tr", swatch, joined(*cells))

    @property
    def _stored(self) -> list[FieldBytes]:
        return _fields(self.groups, unpacked=False)

    @property
    def _unpacked(self) -> list[FieldBytes]:
        return _fields(self.groups, unpacked=True)

    @property
    def _title(self) -> str:
        row = self.row
        offsets = f"offsets {row['base_offset']} to {row['last_offset']}"
        return f"batch at {row['position']:#x} of {cell('path', row['path'])}: {amount(row['size'], 'byte')}, {offsets}"

    @property
    def _notes(self) -> list[str]:
        notes = [f"{self._apart.left_out} more records are not shown"] if self._apart.left_out else []
        return [*notes, f"cannot be taken apart to the end: {self._apart.failure}"] if self._apart.failure else notes


def _fields(groups: tuple[FieldGroup, ...], *, unpacked: bool) -> list[FieldBytes]:
    return [field for group in groups if group.unpacked is unpacked for field in group.fields]


def _cells(batch: Batch, group: FieldGroup, field: FieldBytes) -> Iterator[str]:
    """Yield position, name, bytes, value and meaning of a field."""
    cut = field.data[:FIELD_BYTES].hex(" ")
    yield f"{field.position:#010x}"
    yield field.name
    yield cut if len(field.data) <= FIELD_BYTES else f"{cut} … ({len(field.data)} bytes)"
    yield str(field.value) if isinstance(field.value, int) else ""
    yield meaning(batch, group, field)


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    wide = widths(rows)
    return ("  ".join(map(str.ljust, row, wide)).rstrip() for row in rows)
