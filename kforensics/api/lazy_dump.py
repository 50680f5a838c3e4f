"""Dumps files as Arrow tables: the Python function of the command ``dump``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from kforensics.analyses.filters import Isolation, isolation_level, offsets_of, pattern, time_range
from kforensics.analyses.formatted_records import formatted_texts, logs_of_formatter
from kforensics.analyses.read_files import FilesReader, drain, isolation_filter_of, kind_to_read, served_files
from kforensics.analyses.topics import check_name, files_of_partitions, selection_of
from kforensics.api.arguments import Paths, path_names, with_checked_arguments
from kforensics.api.views.table_view import CELL_STYLE, aligned_lines
from kforensics.errors import InputError
from kforensics.forensics.core.formatting import format_count, format_size
from kforensics.parsers.files.discover import find_files
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.log.selection import Selection
from kforensics.parsers.tables.arrow import (
    ArrowParts,
    arrow_schema_of,
    arrow_table,
    batches_of_parts,
    table_of_parts,
    without_dictionaries,
)
from kforensics.parsers.tables.file_rows import ReadOptions, damage_rows, table_name_of
from kforensics.parsers.tables.schemas import TABLES, Table
from kforensics.render.markup import Markup, element
from kforensics.render.payloads import RowConverter, row_converter
from kforensics.render.streams import watcher

if TYPE_CHECKING:
    import pyarrow as pa

    from kforensics.parsers.files.discover import FoundFile

__all__ = ["Dump", "dump"]

# Tables that do not belong to one kind of file.
GENERAL_TABLES = ("files", "damage")


@with_checked_arguments
def dump(  # noqa: PLR0913  # one parameter per filter of the command
    paths: Paths,
    *,
    topic: str | Iterable[str] | None = None,
    partition: int | str | Iterable[int | str] | None = None,
    offset: int | str | range | None = None,
    time: str | None = None,
    key: str | None = None,
    producer_id: int | None = None,
    producer_epoch: int | None = None,
    leader_epoch: int | None = None,
    transactional: bool | None = None,
    control: bool | None = None,
    isolation: str = Isolation.READ_UNCOMMITTED,
    aborted: bool = False,
    max_decompressed_bytes: int = DEFAULT_BUDGET,
) -> Dump:
    """Return the contents of files as Arrow tables, which are read when they are first used.

    Args:
        paths: files, folders, archives, globs or URIs.
        topic: only files of topics with this name or glob, or with one of several; one that begins with ``!`` excludes.
        partition: only files of partitions with this number, with one in a range such as ``"0-9"``, or with one of
            several.
        offset: an offset, or several as a range or as text ``"A:B"``, without B.
        time: times ``A:B`` in ms or ISO 8601, without B.
        key: a regular expression that keys match.
        producer_id: only batches of this producer.
        producer_epoch: only batches of this producer epoch.
        leader_epoch: only batches of this partition leader epoch.
        transactional: only transactional batches if true, only others if false.
        control: only control batches if true, only others if false.
        isolation: ``read_committed`` for the records that such a consumer receives.
        aborted: only the records of aborted transactions.
        max_decompressed_bytes: maximum number of bytes to decompress per batch.

    Raises:
        InputError: a path cannot be read at all.
        UsageError: a filter is malformed, or there is no such topic or partition.

    Examples:
        >>> dump = kforensics.dump("sample_logs/classic-transaction", transactional=True)
        >>> dump.batches["control_type"].to_pylist()
        [None, 'COMMIT']
        >>> dump.damage.num_rows
        0
    """
    selection = Selection(
        offsets_of(offset),
        time_range(time),
        producer_id,
        producer_epoch,
        leader_epoch,
        transactional,
        control,
        pattern(key),
    )
    level = isolation_level(isolation, aborted=aborted)
    places = selection_of(topic, partition)
    return Dump(path_names(paths), selection, max_decompressed_bytes, level, aborted=aborted, places=places)


class Dump:
    """The tables of a dump; each is read from the files when it is first used.

    Attributes:
        files: the files.
        notes: sentences on what may make the outcomes of transactions differ from those of the broker. They are there
            after a table was read.
    """

    def __init__(  # noqa: PLR0913  # what dump() was asked for
        self,
        paths: tuple[str, ...],
        selection: Selection,
        budget: int,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        *,
        aborted: bool = False,
        places: tuple[tuple[str, ...], tuple[range, ...]] = ((), ()),
    ) -> None:
        unreadable: list[str] = []
        files, _ = find_files(paths, unreadable.append)
        if unreadable:
            raise InputError(", ".join(paths), "; ".join(unreadable))
        self.files = files_of_partitions(files, *places)
        self.notes: list[str] = []
        self._paths, self._selection, self._budget = paths, selection, budget
        self._isolation, self._aborted = isolation, aborted
        self._tables: dict[str, pa.Table] = {}

    @property
    def batches(self) -> pa.Table:
        """A row per record batch."""
        return self.table("batches")

    @property
    def records(self) -> pa.Table:
        """A row per record."""
        return self.table("records")

    @property
    def damage(self) -> pa.Table:
        """A row per range of bytes that could not be decoded, records included."""
        return self.table("damage")

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that these files have rows for; :meth:`table` returns each."""
        kinds = {kind_to_read(file) for file in self.files}
        names = {table_name_of(kind, records=records) for kind in kinds for records in (False, True)}
        return tuple(name for name in TABLES if name in names or name in GENERAL_TABLES)

    def __repr__(self) -> str:
        rows = [[printable(kind), str(count), size] for kind, count, size in self._kinds()]
        return "\n".join([self._title, *aligned_lines(rows), f"tables: {', '.join(self.tables)}"])

    def _repr_html_(self) -> Markup:
        kinds = [map(str, row) for row in self._kinds()]
        rows = (element("tr", *(element("td", text, style=CELL_STYLE) for text in row)) for row in kinds)
        table = element("table", element("tbody", *rows))
        return element("div", element("p", element("b", self._title)), table, element("p", ", ".join(self.tables)))

    @property
    def _title(self) -> str:
        files = self.files
        partitions = {(file.log_dir, file.topic, file.partition) for file in files if file.topic is not None}
        size = format_size(sum(file.size for file in files))
        return f"{format_count(len(files), 'file')} of {format_count(len(partitions), 'partition')}, {size}"

    def _kinds(self) -> Iterator[tuple[str, int, str]]:
        """Yield kind, number and size of the files."""
        counts = Counter(file.kind for file in self.files)
        for kind, count in counts.most_common():
            yield kind, count, format_size(sum(file.size for file in self.files if file.kind == kind))

    def table(self, name: str) -> pa.Table:
        """Return a table by name, such as ``index_entries`` or ``producer_snapshots``.

        Raises:
            UnknownNameError: there is no such table; it is a KeyError.
            InputError: a file cannot be read.
        """
        if name not in self._tables:
            self._tables[name] = self._damage_table() if name == "damage" else self._read(name)
        return self._tables[name]

    def first(self, name: str, count: int) -> pa.Table:
        """Return the first rows of a table; only as much of the files is read as that needs.

        Raises:
            UnknownNameError: there is no such table; it is a KeyError.
            InputError: a file cannot be read.
        """
        if name in self._tables or name in ("files", "damage"):
            return self.table(name).slice(0, count)
        reader, files, converter = self._reader(name, [])
        return arrow_table(converter.table, map(converter, islice(reader.rows(files), count)))

    def stream(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield a table in record batches, without keeping it in memory.

        Raises:
            UnknownNameError: there is no such table; it is a KeyError.
            InputError: a file cannot be read.
        """
        if name in self._tables or name in ("files", "damage"):
            yield from self.table(name).to_batches()
            return
        table, parts = self._parts(name, [])
        schema = arrow_schema_of(table)
        for batch in batches_of_parts(table, parts):
            yield without_dictionaries(batch, schema)

    def formatted(self, formatter: str, style: str | None = None) -> Iterator[str]:
        """Yield the text of each record as a formatter of kafka-console-consumer prints it.

        Args:
            formatter: ``transaction-log``, ``offsets`` or ``group-metadata``; only logs of its topic are read.
            style: the release to imitate, ``4.3``, ``3.9`` or ``2.8``; None for a line of JSON for each record.

        Raises:
            InputError: a file cannot be read.
            KforensicsError: the formatter cannot print a record.
            UsageError: there is no such formatter, style or log.
        """
        reader, _, _ = self._reader("records", [])
        files = logs_of_formatter(self.files, formatter, self._paths)
        for _, _, text in formatted_texts(reader, files, formatter, style):
            if not isinstance(text, str):
                raise text
            yield text

    def _read(self, name: str) -> pa.Table:
        if name == "files":
            return arrow_table(TABLES[name], map(attrgetter(*TABLES[name].names), self.files))
        return table_of_parts(*self._parts(name, []))

    def _parts(self, name: str, damaged: list[tuple[FoundFile, Damage]]) -> tuple[Table, ArrowParts]:
        reader, files, converter = self._reader(name, damaged)
        reader = replace(reader, meter=watcher().other_work(sum(file.size for file in files)))
        return converter.table, reader.parts(files, converter, kernels_for)

    def _reader(
        self, name: str, damaged: list[tuple[FoundFile, Damage]]
    ) -> tuple[FilesReader, list[FoundFile], RowConverter]:
        check_name(name, TABLES, "table")
        records = name == "records"
        files = [file for file in self.files if table_name_of(kind_to_read(file), records=records) == name]
        options = ReadOptions(records, self._selection, self._budget)
        isolation_filter = isolation_filter_of(self._isolation, self._note, aborted=self._aborted)
        if isolation_filter and name in ("batches", "records"):
            files = served_files(files, self._paths, self._note)

        def on_damage(file: FoundFile, damage: Damage) -> None:
            damaged.append((file, damage))

        reader = FilesReader(options, on_damage, _raise, isolation_filter=isolation_filter)
        return reader, files, row_converter(TABLES[name], None, None)

    def _note(self, sentence: str) -> None:
        """Keep a note once; the same one may come with every table."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _damage_table(self) -> pa.Table:
        damaged: list[tuple[FoundFile, Damage]] = []
        for name in TABLES:
            if name not in ("files", "batches", "damage"):
                drain(self._parts(name, damaged)[1])
        rows = (row for file, damage in damaged for row in damage_rows(file, [damage]))
        return arrow_table(TABLES["damage"], rows)


def _raise(error: InputError) -> None:
    raise error
