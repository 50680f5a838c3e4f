"""Opens logs in a notebook: tables that are read on access, and batches that show their bytes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from kforensics.analyses.read_files import kind_to_read
from kforensics.analyses.times import as_of_ms
from kforensics.api import audits, verdicts
from kforensics.api.dump_result import Dump, Paths, dump
from kforensics.api.views.batch_view import BatchView
from kforensics.api.views.table_view import CELL_STYLE, TableSource, TableView, aligned_lines
from kforensics.errors import UsageError
from kforensics.forensics.core.formatting import format_count, format_size
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.tables.file_rows import table_name_of
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.markup import Markup, element

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["BatchesView", "Opened", "open"]

# Tables that do not belong to one kind of file.
GENERAL_TABLES = ("files", "damage")


def open(paths: Paths, *, as_of: datetime | str | int | None = None) -> Opened:  # noqa: A001  # it opens, as gzip.open does
    """Return the files under paths as tables that are read on access.

    Args:
        paths: log directories, partition folders, files of any kind, globs or URIs.
        as_of: time of evaluation: a datetime with a time zone, text in ISO 8601 or ``"now"``, or milliseconds; None for
            the newest modification time of the files.

    Raises:
        InputError: a path cannot be listed.
        UsageError: there are no files, or the time of evaluation is none.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1/hanging-0")
        >>> len(log.batches), len(log.transactions)
        (7, 4)
        >>> log.lso.select(["topic", "last_stable_offset", "log_end_offset"])
        lso: 1 row, one per partition
          topic    last_stable_offset  log_end_offset
          hanging  3                   9
    """
    time_ms = as_of_ms(as_of)  # once, so that all tables have the same "now"
    files = dump(paths)
    if not files.files:
        names = [paths] if isinstance(paths, str | os.PathLike) else [*paths]
        listed = ", ".join(os.fspath(name) for name in names)
        raise UsageError(f"there is no file under {listed}; name log directories, partition folders or files")
    return Opened(paths, files, time_ms)


class Opened:
    """The files under some paths.

    Every table is a :class:`TableView`: it shows its first rows; ``to_pandas()`` and ``to_arrow()`` return all rows.
    Tables of stored data are read from the files. Tables of results come from the function of the same name.
    """

    def __init__(self, paths: Paths, files: Dump, as_of_ms: int | None = None) -> None:
        self._paths: Paths = paths if isinstance(paths, str | os.PathLike) else [*paths]
        self._dump, self._as_of_ms = files, as_of_ms

    @cached_property
    def batches(self) -> BatchesView:
        """One row per record batch; each batch shows its bytes field by field."""
        return BatchesView(TABLES["batches"], self._source("batches"))

    @cached_property
    def records(self) -> TableView:
        """One row per record."""
        return self.table("records")

    @cached_property
    def files(self) -> TableView:
        """One row per file."""
        return self.table("files")

    @cached_property
    def damage(self) -> TableView:
        """One row per range of bytes that could not be decoded."""
        return self.table("damage")

    @cached_property
    def transactions(self) -> TableView:
        """One row per transaction in a partition."""
        return self._results("transactions", verdicts.transactions)

    @cached_property
    def producers(self) -> TableView:
        """One row per producer, with the state of the broker at the end of the log."""
        return self._results("producers", verdicts.producers)

    @cached_property
    def lso(self) -> TableView:
        """One row per partition, with its last stable offset and the transaction that blocks it."""
        return self._results("lso", verdicts.lso)

    @cached_property
    def lso_history(self) -> TableView:
        """One row per step of a last stable offset."""
        return self._results("lso_history", partial(verdicts.lso, history=True))

    @cached_property
    def duplicates(self) -> TableView:
        """One row per run of duplicate records."""
        return self._results("duplicates", verdicts.duplicates)

    @cached_property
    def findings(self) -> TableView:
        """One row per finding of an audit of all partitions; see also ``partitions``."""
        return self.table("findings")

    @cached_property
    def incidents(self) -> TableView:
        """One row per incident of an audit of all partitions, worst first: the findings of one cause."""
        return self.table("incidents")

    @cached_property
    def partitions(self) -> TableView:
        """One row per partition, with its worst finding."""
        return self.table("partitions")

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables of stored data that these files have rows for; :meth:`table` returns each."""
        kinds = {kind_to_read(file) for file in self._dump.files}
        names = {table_name_of(kind, records=records) for kind in kinds for records in (False, True)}
        return tuple(name for name in TABLES if name in names or name in GENERAL_TABLES)

    def table(self, name: str) -> TableView:
        """Return a table by name.

        Args:
            name: name of a table of stored data, such as ``index_entries``, or of a table of an audit of all
                partitions, such as ``distributed_transactions`` or ``replica_differences``.

        Raises:
            KeyError: there is no such table.
        """
        if name in TABLES:
            return TableView(TABLES[name], self._source(name))
        return self._results(name, lambda *_, **__: self._audit.tables[name])

    def batch(self, offset: int) -> BatchView:
        """Return the first batch whose offsets include an offset, whether or not its record was compacted away.

        Raises:
            IndexError: there is no such batch.
            InputError: a file cannot be read.
        """
        rows = dump(self._paths, offset=str(offset)).first("batches", 1).to_pylist()
        if not rows:
            raise IndexError(f"no batch spans offset {offset}")
        return BatchView(rows[0])

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
        files = self._dump.files
        partitions = {(file.log_dir, file.topic, file.partition) for file in files if file.topic is not None}
        size = format_size(sum(file.size for file in files))
        return f"{format_count(len(files), 'file')} of {format_count(len(partitions), 'partition')}, {size}"

    def _kinds(self) -> Iterator[tuple[str, int, str]]:
        """Yield kind, number and size of the files."""
        counts = Counter(file.kind for file in self._dump.files)
        for kind, count in counts.most_common():
            yield kind, count, format_size(sum(file.size for file in self._dump.files if file.kind == kind))

    def _source(self, name: str) -> TableSource:
        files = self._dump
        size = sum(file.size for file in files.files if _has_rows(file.kind, name))
        return TableSource(partial(files.first, name), partial(files.stream, name), size)

    def _results(self, name: str, evaluate: Callable[..., TableView]) -> TableView:
        """Return a table of results, which is evaluated once on first access."""
        evaluated = partial(evaluate, self._paths, as_of=self._as_of_ms)
        return TableView(RESULTS[name], TableSource.of_table(lambda: evaluated().to_arrow()))

    @cached_property
    def _audit(self) -> audits.Audit:
        return audits.audit(self._paths, as_of=self._as_of_ms)


class BatchesView(TableView):
    """The table ``batches``; iterating yields batches that show their bytes."""

    def __getitem__(self, index: int | str) -> Any:
        """Return a batch by index, or an Arrow column by its name; a batch near the beginning is read without others.

        Raises:
            IndexError: there is no such batch.
            KeyError: there is no such column.
            TypeError: the index is neither an integer nor a name.
        """
        item = super().__getitem__(index)
        return item if isinstance(index, str) else BatchView(item)

    def __iter__(self) -> Iterator[BatchView]:
        return map(BatchView, self._rows())


def _has_rows(kind: str, name: str) -> bool:
    """Return whether a kind of file must be read for a table."""
    return name == "damage" or table_name_of(kind, records=name == "records") == name
