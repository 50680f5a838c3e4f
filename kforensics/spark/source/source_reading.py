"""Reads what one task of the data source has to read, as Arrow record batches of the columns wanted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from kforensics.errors import InputError
from kforensics.parsers.columns.arrow_columns import columns_of
from kforensics.parsers.files.discover import UNKNOWN, FoundFile
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import Damage, Header
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.log.batches import InFull
from kforensics.parsers.log.selection import Selection
from kforensics.parsers.tables.arrow import arrow_batches, arrow_schema_of, batches_of_parts, plain_text
from kforensics.parsers.tables.file_kinds import recognised
from kforensics.parsers.tables.file_rows import LOG_KINDS, Reading, damage_rows, file_rows, table_of
from kforensics.parsers.tables.schemas import TABLES
from kforensics.spark.source.arrow_selection import batches_kept, batches_to_look_into, range_of, records_kept
from kforensics.spark.source.input_head import Head
from kforensics.spark.source.input_slices import Slice, Work
from kforensics.spark.source.pushed_filters import Condition, kept_by
from kforensics.spark.source.source_options import Wanted

__all__ = ["record_batches"]

Row = tuple[Any, ...]
Item = TypeVar("Item")
Part: TypeAlias = pa.RecordBatch | Iterator[Row]


def record_batches(work: Work, wanted: Wanted, conditions: Sequence[Condition] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, in the order of its slices.

    Of a file that cannot be read the rows up to there are given; the table ``damage`` says why there are no more.

    Args:
        work: what to read.
        wanted: the table, its columns, and what of it.
        conditions: what rows have to meet beyond that.
    """
    schema = arrow_schema_of(wanted.table)
    for batch in _all_columns(work, wanted):
        kept = kept_by((*_of_places(wanted), *conditions), batch)
        if kept.num_rows:
            columns = [plain_text(kept.column(name)) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _of_places(wanted: Wanted) -> Iterator[Condition]:
    """Yield the conditions on topic and partition; but for checkpoints, files were chosen by them."""
    if wanted.name == "checkpoints":
        if wanted.topics:
            yield Condition("topic", "is_in", tuple(wanted.topics))
        if wanted.partitions:
            yield Condition("partition", "is_in", tuple(wanted.partitions))


def _all_columns(work: Work, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    table = TABLES[wanted.name]
    if wanted.name == "files":
        yield from arrow_batches(table, map(attrgetter(*table.names), (piece.found for piece in work.slices)))
    elif wanted.name == "damage":
        yield from arrow_batches(table, _damage(work, wanted.budget))
    else:
        for piece in work.slices:
            yield from _of_slice(piece, wanted)


def _of_slice(piece: Slice, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    try:
        with open_source(piece.found.path) as source:
            known = recognised(piece.found, source)
            if table_of(known.kind, records=wanted.name == "records") == wanted.name:
                yield from _selected(_Opened(known, source, piece, wanted.budget, _looked_at(wanted)), wanted)
    except InputError:
        return  # damage says so


def _looked_at(wanted: Wanted) -> frozenset[str]:
    """Return the columns that are needed, none for all: a selection looks at others than those wanted."""
    return frozenset(wanted.table.names) if wanted.selection == Selection() else frozenset()


class _Opened:
    """A file that is open, the range of it that is to be read, and the columns that are needed."""

    def __init__(
        self, known: FoundFile, source: Source, piece: Slice, budget: int, columns: frozenset[str] = frozenset()
    ) -> None:
        self._known, self._budget, self._columns = known, budget, columns
        self._source, self._start = source, piece.start
        self._head: Source = source if piece.stop is None else Head(source, piece.stop)
        self._in_full = InFull(source)
        self.damage: list[Damage] = []
        self.failed: list[InputError] = []

    def within(self, start: int, stop: int) -> _Opened:
        """Return the same with a smaller range."""
        return _Opened(self._known, self._source, Slice(self._known, start, stop), self._budget, self._columns)

    def batches(self, table: str) -> Iterator[pa.RecordBatch]:
        """Yield record batches with all columns of a table, text perhaps in dictionaries."""
        return batches_of_parts(TABLES[table], self.parts(records=table == "records"))

    def parts(self, *, records: bool) -> Iterator[Part]:
        """Yield columns where kernels can make them, and rows, to be consumed before the next part is asked for."""
        reading = Reading(records, budget=self._budget, start=self._start, columns=self._columns)
        is_log = self._known.kind in LOG_KINDS
        kernels = kernels_for(self._head.size - self._start) if is_log else None
        if kernels is None:
            rows = file_rows(self._known, self._head, reading, self._report)
            yield _until(map(partial(_fitting, records=records), rows), self.failed)
            return
        # A task has one processor; Spark runs as many as there are.
        parts = columns_of(self._known, self._head, reading, self._report, kernels, workers=0)
        for part in _until(parts, self.failed):
            rows_between = isinstance(part, Iterator)
            yield _until(map(partial(_fitting, records=records), part), self.failed) if rows_between else part
            if self.failed:
                return

    def _report(self, damage: Damage) -> None:
        # A file that is shorter than when it was found ends within the range.
        cut = self._head.size if self._head.size < self._source.size else None
        self.damage.append(self._in_full.damage(damage, cut))


def _until(items: Iterable[Item], failed: list[InputError]) -> Iterator[Item]:
    """Yield items up to where the file they come from cannot be read."""
    try:
        yield from items
    except InputError as error:
        failed.append(error)


def _fitting(row: Row, *, records: bool) -> Row:
    """Return a row as Arrow takes it: the keys of headers are text."""
    if not records:
        return row
    return tuple(_headers(value) if isinstance(value, tuple) else value for value in row)


def _headers(pairs: Iterable[Header]) -> list[dict[str, Any]]:
    return [{"key": key.decode("utf-8", "replace"), "value": value} for key, value in pairs]


def _selected(opened: _Opened, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield the batches or records that are selected; only where wanted batches lie are records looked at."""
    selection, name = wanted.selection, wanted.name
    if selection == Selection():
        yield from opened.batches(name)
        return
    batches = opened.batches("batches")
    if name == "batches":
        yield from (batches_kept(batch, selection) for batch in batches)
        return
    found = range_of(batches_to_look_into(batch, selection) for batch in batches)
    if found:
        for batch in opened.within(found.start, found.stop).batches("records"):
            yield records_kept(batch, selection, found)


def _damage(work: Work, budget: int) -> Iterator[Row]:
    for row in work.unreadable:
        yield from _unread(Slice(FoundFile(row.path, UNKNOWN, 0)), row.why)
    for piece in work.slices:
        try:
            with open_source(piece.found.path) as source:
                known = recognised(piece.found, source)
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
    return damage_rows(piece.found, [Damage(piece.start, piece.start + piece.size, "unreadable", why)])
