"""The tables that SQL can name: those of an evidence store, or those that are read from logs while a query runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_, attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from kforensics.analyses.duplicates import DuplicatesQuestion
from kforensics.analyses.lso import LsoQuestion
from kforensics.analyses.partitions import Investigation
from kforensics.analyses.producers import ProducersQuestion
from kforensics.analyses.questions import Question
from kforensics.analyses.read_files import FilesReader, drain, kind_to_read
from kforensics.analyses.transactions import TransactionsQuestion
from kforensics.errors import InputError
from kforensics.forensics.core.tables import RESULTS, STORED
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.tables.arrow import arrow_batches, arrow_schema_of, batches_of_parts, plain_text
from kforensics.parsers.tables.file_rows import ReadOptions, damage_rows, table_name_of
from kforensics.parsers.tables.schemas import TABLES, Table
from kforensics.render.payloads import row_converter
from kforensics.render.redaction import Redaction
from kforensics.render.streams import OtherWork, ProgressMeter
from kforensics.report_html.store_reader import StoreReader
from kforensics.sql.scanned_table import Filter, Source

__all__ = ["ABSENT_FROM_LOGS", "LogTables", "once", "redacted_tables", "store_tables"]

# The questions whose answers are tables, too.
QUESTIONS: Mapping[str, Callable[[], Question[Any]]] = {
    "lso": LsoQuestion,
    "transactions": TransactionsQuestion,
    "producers": ProducersQuestion,
    "duplicates": DuplicatesQuestion,
}
# Tables whose rows have the place of their file, which therefore need not be read if a filter excludes that place.
OF_LOGS = ("batches", "records")
ABSENT_FROM_LOGS = {
    name: "it is a table of an audit: run kforensics audit --output STORE, and query the store"
    for name in RESULTS
    if name not in QUESTIONS
}


@dataclass(frozen=True, slots=True)
class LogTables:
    """The tables of logs, each read from the files whenever a query scans it.

    Attributes:
        files: the files.
        investigate: returns the partitions; called by each scan of the answer to a question.
        on_unreadable: takes the error of a file or partition that cannot be read; the others are read anyway.
        meter: shows how far each scan has read; None for nothing.
    """

    files: Sequence[FoundFile]
    investigate: Callable[[], Investigation]
    on_unreadable: Callable[[InputError], None]
    meter: ProgressMeter | None = None

    def sources(self) -> dict[str, Source]:
        """Return where the rows of each table come from."""
        stored = {name: Source(arrow_schema_of(table), partial(self._stored, table)) for name, table in TABLES.items()}
        answers = {name: Source(arrow_schema_of(RESULTS[name]), partial(self._answers, name)) for name in QUESTIONS}
        return stored | answers

    def _stored(self, table: Table, columns: Sequence[str], row_filter: Filter) -> Iterator[pa.RecordBatch]:
        """Yield some columns of a table of stored data."""
        if table.name == "files":
            yield from arrow_batches(table, map(attrgetter(*table.names), self.files))
        elif table.name == "damage":
            yield from arrow_batches(table, self._damage())
        else:
            yield from self._read(table, columns, row_filter)

    def _read(self, table: Table, columns: Sequence[str], row_filter: Filter) -> Iterator[pa.RecordBatch]:
        is_records = table.name == "records"
        files = [file for file in self.files if table_name_of(kind_to_read(file), records=is_records) == table.name]
        if table.name in OF_LOGS and row_filter is not None:
            files = _matching(files, arrow_schema_of(table), row_filter)
        # Without any column rows are only counted, but no columns would mean all of them.
        options = ReadOptions(is_records, columns=frozenset(columns or ("partition",)))
        reader = FilesReader(options, _ignore, self.on_unreadable, self._work(files))
        parts = reader.parts(files, row_converter(table, None, None), kernels_for)
        schema = pa.schema([pa.field(name, kind) for name, kind in _kinds(table) if name in columns])
        for batch in batches_of_parts(table, parts):
            yield _selected(batch, schema)

    def _damage(self) -> Iterator[Sequence[Any]]:
        damage: list[Damage] = []
        files = [file for file in self.files if table_name_of(kind_to_read(file), records=True) is not None]
        on_damage = partial(_append, damage)
        reader = FilesReader(ReadOptions(records=True), on_damage, self.on_unreadable, self._work(files))
        for file in files:
            drain(reader.parts([file], tuple, kernels_for))
            yield from damage_rows(file, damage)
            damage.clear()

    def _answers(self, name: str, _columns: Sequence[str], _filter: Filter) -> Iterator[pa.RecordBatch]:
        investigation = replace(self.investigate(), progress=self.meter)
        for answer in QUESTIONS[name]().answers(investigation, self.on_unreadable):
            yield from answer.rows.record_batches()

    def _work(self, files: Sequence[FoundFile]) -> OtherWork | None:
        return None if self.meter is None else self.meter.other_work(sum(file.size for file in files))


def _append(damaged: list[Damage], _file: FoundFile, damage: Damage) -> None:
    """Keep damage for the table of it."""
    damaged.append(damage)


def _ignore(_file: FoundFile, _damage: Damage) -> None:
    """Ignore damage: it is in a table of its own."""


def _kinds(table: Table) -> Iterator[tuple[str, pa.DataType]]:
    schema = arrow_schema_of(table)
    return zip(schema.names, schema.types, strict=True)


def _selected(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return some columns of a batch, with plain text; without any, its rows are counted."""
    if not schema.names:
        return batch
    return pa.RecordBatch.from_arrays([plain_text(batch.column(name)) for name in schema.names], schema=schema)


def _matching(files: list[FoundFile], schema: pa.Schema, row_filter: ds.Expression) -> list[FoundFile]:
    """Return the files that may have rows that a filter selects, as far as topic, partition and folder decide.

    Arrow decides it, as for the folders of a partitioned dataset; nothing is opened for that.
    """
    kind = ds.ParquetFileFormat()
    fragments = [
        kind.make_fragment(str(index), fs.LocalFileSystem(), partition_expression=_place_of(file, schema))
        for index, file in enumerate(files)
    ]
    if not fragments:
        return []
    places = ds.FileSystemDataset(fragments, schema, kind, fs.LocalFileSystem())
    return [files[int(fragment.path)] for fragment in places.get_fragments(row_filter)]


def _place_of(file: FoundFile, schema: pa.Schema) -> ds.Expression:
    """Return what is true of all rows of a file."""
    place = {"broker_id": file.broker_id, "log_dir": file.log_dir, "topic": file.topic, "partition": file.partition}
    known = [
        ds.field(name) == pa.scalar(value, schema.field(name).type)
        for name, value in place.items()
        if value is not None
    ]
    return reduce(and_, known, ds.scalar(True))  # noqa: FBT003  # Arrow takes the value alone


def store_tables(store: StoreReader) -> dict[str, Source]:
    """Return where the rows of each table of a store come from.

    Columns that an older store lacks are null.

    Args:
        store: the store, whose meter shows how far each scan has read.

    Raises:
        InputError: a folder of the store cannot be read.
    """
    return {name: _stored_source(store, name) for name in sorted(store.manifest["rows"])}


def _stored_source(store: StoreReader, name: str) -> Source:
    known, files = STORED.get(name), store.files(name)
    schema = None if known is None else arrow_schema_of(known)
    rows = ds.dataset(files, schema=schema, filesystem=store.system, format="parquet")

    def read(columns: Sequence[str], row_filter: Filter) -> Iterator[pa.RecordBatch]:
        batches = rows.to_batches(columns=list(columns), filter=row_filter, batch_readahead=2, fragment_readahead=2)
        try:
            yield from store.metered(name, files, batches)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{store.root}/{name}", (str(error).splitlines() or ["it is damaged"])[0]) from error

    return Source(rows.schema, read)


def redacted_tables(tables: Mapping[str, Source], redaction: Redaction) -> dict[str, Source]:
    """Return tables whose rows are redacted before SQL sees them, so that no expression shows what was there.

    Args:
        tables: where the rows of each table come from.
        redaction: redacts them; it knows their names.
    """
    return {name: Source(source.schema, partial(_redacted, redaction, name, source)) for name, source in tables.items()}


def _redacted(
    redaction: Redaction, name: str, source: Source, columns: Sequence[str], _filter: Filter
) -> Iterator[pa.RecordBatch]:
    # The filter is on redacted values, so that it cannot be used before.
    return (redaction.record_batch(name, batch) for batch in source.read(columns, None))


def once(on_unreadable: Callable[[InputError], None]) -> Callable[[InputError], None]:
    """Return what takes each error once, however often a query reads the file."""
    seen: set[str] = set()

    def take(error: InputError) -> None:
        if str(error) not in seen:
            seen.add(str(error))
            on_unreadable(error)

    return take
