"""Reads the work of one task of the data source of Spark, as Arrow record batches with the selected columns.

Batches and records are selected by the rules of :class:`.selection.Selection`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.errors import InputError
from kforensics.parsers.columns.arrow_columns import read_arrow_columns
from kforensics.parsers.files.discover import UNKNOWN, FoundFile
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import Damage, Header
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.log.batches import DamageContext
from kforensics.parsers.log.selection import HalfOpenRange, Selection
from kforensics.parsers.tables.arrow import arrow_batches, arrow_schema_of, batches_of_parts, plain_text
from kforensics.parsers.tables.file_rows import (
    LOG_KINDS,
    ReadOptions,
    damage_rows,
    detect_log,
    file_rows,
    table_name_of,
)
from kforensics.parsers.tables.schemas import TABLES
from kforensics.spark.source.input_slices import Slice, Work
from kforensics.spark.source.source_options import Wanted

__all__ = ["Head", "Span", "batches_kept", "batches_to_look_into", "range_of", "record_batches", "records_kept"]


class Head:
    """The first bytes of a source, for readers that read to the end of their source.

    Args:
        source: the source; the caller that opened it closes it.
        size: number of bytes.
    """

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self.path, self.size, self.mtime_ms = source.path, size, source.mtime_ms

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``."""
        return self._source.read(position, max(0, min(length, self.size - position)))

    def read_into(self, position: int, target: memoryview) -> int:
        """Read from ``position`` into memory and return the number of bytes."""
        return self._source.read_into(position, target[: max(0, min(len(target), self.size - position))])

    def next_data(self, position: int) -> int:
        """Return the first position from ``position`` on that may have a non-zero byte."""
        return min(self.size, self._source.next_data(position))

    def close(self) -> None:
        """Do nothing."""


Row = tuple[Any, ...]
Item = TypeVar("Item")
Part: TypeAlias = pa.RecordBatch | Iterator[Row]


def record_batches(work: Work, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, in the order of its slices.

    If a file becomes unreadable, the rows before that point are yielded; the table ``damage`` shows the reason.

    Args:
        work: what to read.
        wanted: the options of the query.
    """
    schema = arrow_schema_of(wanted.table)
    for batch in _all_columns(work, wanted):
        kept = _of_places(batch, wanted) if wanted.name == "checkpoints" else batch
        if kept.num_rows:
            columns = [plain_text(kept.column(name)) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_places(lines: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """Return the lines of the selected topics and partitions; other tables select whole files by them."""
    for name, selected in (("topic", wanted.topics), ("partition", wanted.partitions)):
        if selected:
            column = plain_text(lines.column(name))
            lines = lines.filter(pc.is_in(column, value_set=pa.array(sorted(selected), column.type)))
    return lines


def _all_columns(work: Work, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    table = TABLES[wanted.name]
    if wanted.name == "files":
        yield from arrow_batches(table, map(attrgetter(*table.names), (piece.file for piece in work.slices)))
    elif wanted.name == "damage":
        yield from arrow_batches(table, _damage(work, wanted.budget))
    else:
        for piece in work.slices:
            yield from _of_slice(piece, wanted)


def _of_slice(piece: Slice, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    try:
        with open_source(piece.file.path) as source:
            known = detect_log(piece.file, source)
            if table_name_of(known.kind, records=wanted.name == "records") == wanted.name:
                yield from _selected(_Opened(known, source, piece, wanted.budget, _needed_columns(wanted)), wanted)
    except InputError:
        return  # the table damage reports it


def _needed_columns(wanted: Wanted) -> frozenset[str]:
    """Return the columns to read, empty for all: a selection also needs columns that are not in the result."""
    return frozenset(wanted.table.names) if wanted.selection == Selection() else frozenset()


class _Opened:
    """An open file with the range and the columns to read.

    Attributes:
        damage: the damage that has been read so far.
        failed: the errors that ended the reading.
    """

    def __init__(
        self, known: FoundFile, source: Source, piece: Slice, budget: int, columns: frozenset[str] = frozenset()
    ) -> None:
        self._known, self._budget, self._columns = known, budget, columns
        self._source, self._start = source, piece.start
        self._head: Source = source if piece.stop is None else Head(source, piece.stop)
        self._in_full = DamageContext(source)
        self.damage: list[Damage] = []
        self.failed: list[InputError] = []

    def within(self, start: int, stop: int) -> _Opened:
        """Return the same file with a smaller range."""
        return _Opened(self._known, self._source, Slice(self._known, start, stop), self._budget, self._columns)

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        """Yield record batches with all columns of a table; text may be dictionary-encoded."""
        return batches_of_parts(TABLES[table], self.parts(records=table == "records"))

    def parts(self, *, records: bool) -> Iterator[Part]:
        """Yield columns where kernels can read them, else iterators of rows; consume each part before the next one."""
        reading = ReadOptions(records, budget=self._budget, start=self._start, columns=self._columns)
        is_log = self._known.kind in LOG_KINDS
        kernels = kernels_for(self._head.size - self._start) if is_log else None
        if kernels is None:
            rows = file_rows(self._known, self._head, reading, self._report)
            yield _until(map(partial(_fitting, records=records), rows), self.failed)
            return
        # A task uses one processor; Spark runs as many tasks as there are processors.
        parts = read_arrow_columns(self._known, self._head, reading, self._report, kernels, workers=0)
        for part in _until(parts, self.failed):
            rows_between = isinstance(part, Iterator)
            yield _until(map(partial(_fitting, records=records), part), self.failed) if rows_between else part
            if self.failed:
                return

    def _report(self, damage: Damage) -> None:
        # A file that has been truncated since it was listed ends within the range.
        cut = self._head.size if self._head.size < self._source.size else None
        self.damage.append(self._in_full.damage(damage, cut))


def _until(items: Iterable[Item], failed: list[InputError]) -> Iterator[Item]:
    """Yield items until their file cannot be read, and add that error to a list."""
    try:
        yield from items
    except InputError as error:
        failed.append(error)


def _fitting(row: Row, *, records: bool) -> Row:
    """Return a row in the types of its Arrow columns: header keys become text."""
    if not records:
        return row
    return tuple(_headers(value) if isinstance(value, tuple) else value for value in row)


def _headers(pairs: Iterable[Header]) -> list[dict[str, Any]]:
    return [{"key": key.decode("utf-8", "replace"), "value": value} for key, value in pairs]


def _selected(opened: _Opened, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the selected batches or records; records are decoded only in the range of selected batches."""
    selection, name = wanted.selection, wanted.name
    if selection == Selection():
        yield from opened.batches(name)
        return
    batches = opened.batches("batches")
    if name == "batches":
        yield from (batches_kept(batch, selection) for batch in batches)
        return
    span = range_of(batches_to_look_into(batch, selection) for batch in batches)
    if span:
        for batch in opened.within(span.start, span.stop).batches("records"):
            yield records_kept(batch, selection, span)


def _damage(work: Work, budget: int) -> Iterator[Row]:
    for row in work.unreadable:
        yield from _unread(Slice(FoundFile(row.path, UNKNOWN, 0)), row.why)
    for piece in work.slices:
        try:
            with open_source(piece.file.path) as source:
                known = detect_log(piece.file, source)
                opened = _Opened(known, source, piece, budget)
                for part in opened.parts(records=True):
                    deque(part if isinstance(part, Iterator) else (), maxlen=0)
        except InputError as error:
            yield from _unread(piece, error.why)
            continue
        yield from damage_rows(known, opened.damage)
        for failure in opened.failed:
            yield from _unread(piece, failure.why)


def _unread(piece: Slice, why: str) -> Iterator[Row]:
    return damage_rows(piece.file, [Damage(piece.start, piece.start + piece.size, "unreadable", why)])


@dataclass(frozen=True, slots=True)
class Span:
    """Positions of the batches that may contain selected records.

    Attributes:
        start: position of the first batch.
        stop: position after the last batch.
        positions: positions of all of them, ascending.
    """

    start: int
    stop: int
    positions: Any


def batches_kept(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """Return the batches that match by their headers.

    Args:
        batch: rows of ``batches``.
        selection: offsets, times and producer.
    """
    masks = [*_in_ranges(batch, selection), *_of_producer(batch, selection)]
    return batch.filter(reduce(pc.and_, masks)) if masks else batch


def batches_to_look_into(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """Return the batches that may contain matching records: those that match, and those whose headers may be wrong.

    Args:
        batch: rows of ``batches``.
        selection: offsets, times and producer.
    """
    ranges = list(_in_ranges(batch, selection))
    masks = [pc.or_(reduce(pc.and_, ranges), _in_doubt(batch))] if ranges else []
    masks += _of_producer(batch, selection)
    return batch.filter(reduce(pc.and_, masks)) if masks else batch


def _in_ranges(batch: pa.RecordBatch, selection: Selection) -> Iterator[pa.Array]:
    if selection.offsets:
        yield from _at_least(batch.column("last_offset"), selection.offsets.first)
        # An unknown offset may match.
        yield from _below(pc.fill_null(batch.column("base_offset"), 0), selection.offsets.end)
    if selection.times:
        yield from _at_least(batch.column("max_timestamp"), selection.times.first)


def _of_producer(batch: pa.RecordBatch, selection: Selection) -> Iterator[pa.Array]:
    if selection.producer_id is not None:
        yield pc.fill_null(pc.equal(batch.column("producer_id"), selection.producer_id), False)  # noqa: FBT003


def _in_doubt(batch: pa.RecordBatch) -> pa.Array:
    """Return which headers are inconsistent: an invalid checksum, or more records than offsets."""
    room = pc.subtract(batch.column("last_offset"), batch.column("base_offset"))
    fits = pc.and_(pc.greater(batch.column("count"), -1), pc.less_equal(batch.column("count"), pc.add(room, 1)))
    return pc.invert(pc.and_(batch.column("crc_valid"), pc.fill_null(fits, False)))  # noqa: FBT003


def range_of(kept: Iterable[pa.RecordBatch]) -> Span | None:
    """Return the positions of batches, None if there are none.

    Args:
        kept: rows of ``batches``, in log order.
    """
    positions, stop = [np.empty(0, np.int64)], 0
    for batch in kept:
        if batch.num_rows:
            positions.append(batch.column("position").to_numpy())
            stop = batch.column("position")[-1].as_py() + batch.column("size")[-1].as_py()
    all_positions = np.concatenate(positions)
    return Span(int(all_positions[0]), stop, all_positions) if len(all_positions) else None


def records_kept(batch: pa.RecordBatch, selection: Selection, span: Span) -> pa.RecordBatch:
    """Return the records that match.

    Args:
        batch: rows of ``records`` within the span.
        selection: offsets and times.
        span: the batches they may belong to.
    """
    batch_positions = batch.column("batch_position").to_numpy()
    nearest = np.searchsorted(span.positions, batch_positions).clip(max=len(span.positions) - 1)
    mask = pa.array(span.positions[nearest] == batch_positions)
    masks = [
        mask,
        *_within(batch.column("offset"), selection.offsets),
        *_within(batch.column("timestamp"), selection.times),
    ]
    return batch.filter(reduce(pc.and_, masks))


def _within(column: pa.Array, wanted: HalfOpenRange | None) -> Iterator[pa.Array]:
    if wanted:
        yield from _at_least(column, wanted.first)
        yield from _below(column, wanted.end)


def _at_least(column: pa.Array, first: int | None) -> Iterator[pa.Array]:
    if first is not None:
        yield pc.greater_equal(column, first)


def _below(column: pa.Array, end: int | None) -> Iterator[pa.Array]:
    if end is not None:
        yield pc.less(column, end)
