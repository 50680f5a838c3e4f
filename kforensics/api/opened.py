"""A path that has been opened: its tables, each read when it is looked at, and batches that show their bytes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING

from kforensics.analyses.read_files import kind_to_read
from kforensics.api import verdicts
from kforensics.api.dump import Dump, Paths, dump
from kforensics.api.views.batch_view import BatchView
from kforensics.api.views.table_view import CELL, TableSource, TableView
from kforensics.errors import UsageError
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.format.printable import printable
from kforensics.parsers.tables.file_rows import table_of
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.cells import widths
from kforensics.render.formatting import amount, size_text
from kforensics.render.markup import Markup, element

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchesView", "Opened", "open"]

# Tables that need all files of a kind to be read, and hold what was not to be had.
WITHOUT_KIND = ("files", "damage")


def open(paths: Paths, *, as_of_ms: int | None = None) -> Opened:  # noqa: A001  # it opens, as gzip.open does
    """Return what is under paths, as tables that are read when they are looked at.

    Args:
        paths: log directories, partition folders, files of any kind, globs or URIs.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: a path cannot be looked into.
        UsageError: there is nothing there.
    """
    found = dump(paths)
    if not found.files:
        names = [paths] if isinstance(paths, str | os.PathLike) else [*paths]
        where = ", ".join(os.fspath(name) for name in names)
        raise UsageError(f"there is no file under {where}; name log directories, partition folders or files")
    return Opened(paths, found, as_of_ms)


class Opened:
    """What lies under some paths.

    Every table is a :class:`TableView`: it shows its first rows, and ``to_pandas()`` and ``to_arrow()`` give all of it.
    Tables of what is stored are read from the files, those of verdicts as the function of the same name gives them.
    """

    def __init__(self, paths: Paths, found: Dump, as_of_ms: int | None = None) -> None:
        self._paths: Paths = paths if isinstance(paths, str | os.PathLike) else [*paths]
        self._dump, self._as_of_ms = found, as_of_ms

    @cached_property
    def batches(self) -> BatchesView:
        """A row per record batch; each shows its bytes field by field."""
        return BatchesView(TABLES["batches"], self._source("batches"))

    @cached_property
    def records(self) -> TableView:
        """A row per record."""
        return self.table("records")

    @cached_property
    def files(self) -> TableView:
        """A row per file found."""
        return self.table("files")

    @cached_property
    def damage(self) -> TableView:
        """A row per range of bytes that could not be decoded."""
        return self.table("damage")

    @cached_property
    def transactions(self) -> TableView:
        """A row per transaction of a partition."""
        return self._verdicts("transactions", verdicts.transactions)

    @cached_property
    def producers(self) -> TableView:
        """A row per producer: what a broker knows of it at the end of the log."""
        return self._verdicts("producers", verdicts.producers)

    @cached_property
    def lso(self) -> TableView:
        """A row per partition: its last stable offset, and who holds it."""
        return self._verdicts("lso", verdicts.lso)

    @cached_property
    def lso_history(self) -> TableView:
        """A row per step of a last stable offset."""
        return self._verdicts("lso_history", partial(verdicts.lso, history=True))

    @cached_property
    def duplicates(self) -> TableView:
        """A row per run of records that were written twice."""
        return self._verdicts("duplicates", verdicts.duplicates)

    @cached_property
    def findings(self) -> TableView:
        """A row per finding of an audit of all partitions; see also ``partitions``."""
        return self.table("findings")

    @cached_property
    def partitions(self) -> TableView:
        """A row per partition, with its worst finding."""
        return self.table("partitions")

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables of what is stored that these files fill; :meth:`table` gives each."""
        kinds = {kind_to_read(found) for found in self._dump.files}
        filled = {table_of(kind, records=records) for kind in kinds for records in (False, True)}
        return tuple(name for name in TABLES if name in filled or name in WITHOUT_KIND)

    def table(self, name: str) -> TableView:
        """Return a table by its name.

        Args:
            name: of a table of what is stored, such as ``index_entries``, or of one that an audit of all partitions
                gives, such as ``distributed_transactions`` or ``replica_differences``.

        Raises:
            KeyError: there is no such table.
        """
        if name in TABLES:
            return TableView(TABLES[name], self._source(name))
        return self._verdicts(name, lambda *_, **__: self._audit.tables[name])

    def batch(self, offset: int) -> BatchView:
        """Return the first batch that holds an offset, or would if that had not been compacted away.

        Raises:
            IndexError: there is none.
            InputError: a file cannot be read.
        """
        found = dump(self._paths, offset=str(offset)).first("batches", 1).to_pylist()
        if not found:
            raise IndexError(f"no batch spans offset {offset}")
        return BatchView(found[0])

    def __repr__(self) -> str:
        rows = [[printable(kind), str(count), size] for kind, count, size in self._kinds()]
        wide = widths(rows)
        lines = ("  ".join(map(str.ljust, row, wide)).rstrip() for row in rows)
        return "\n".join([self._title, *lines, f"tables: {', '.join(self.tables)}"])

    def _repr_html_(self) -> Markup:
        rows = (element("tr", *(element("td", text, style=CELL) for text in map(str, row))) for row in self._kinds())
        table = element("table", element("tbody", *rows))
        return element("div", element("p", element("b", self._title)), table, element("p", ", ".join(self.tables)))

    @property
    def _title(self) -> str:
        files = self._dump.files
        partitions = {(found.log_dir, found.topic, found.partition) for found in files if found.topic is not None}
        size = size_text(sum(found.size for found in files))
        return f"{amount(len(files), 'file')} of {amount(len(partitions), 'partition')}, {size}"

    def _kinds(self) -> Iterator[tuple[str, int, str]]:
        """Yield kind, number and size of files."""
        counts = Counter(found.kind for found in self._dump.files)
        for kind, count in counts.most_common():
            yield kind, count, size_text(sum(found.size for found in self._dump.files if found.kind == kind))

    def _source(self, name: str) -> TableSource:
        found = self._dump
        size = sum(each.size for each in found.files if _fills(each.kind, name))
        return TableSource(partial(found.first, name), partial(found.stream, name), size)

    def _verdicts(self, name: str, twin: Callable[..., pa.Table]) -> TableView:
        made: list[pa.Table] = []

        def table() -> pa.Table:
            if not made:
                made.append(twin(self._paths, as_of_ms=self._as_of_ms))
            return made[0]

        return TableView(RESULTS[name], TableSource.of_table(table))

    @cached_property
    def _audit(self) -> verdicts.Audit:
        return verdicts.audit(self._paths, as_of_ms=self._as_of_ms)


class BatchesView(TableView):
    """The table ``batches``; iterating gives its batches, which show their bytes."""

    def __getitem__(self, index: int) -> BatchView:
        """Return a batch by its number; one near the beginning is found without reading the others.

        Raises:
            IndexError: there is no such batch.
            TypeError: the index is no whole number.
        """
        return BatchView(super().__getitem__(index))

    def __iter__(self) -> Iterator[BatchView]:
        return map(BatchView, self._rows())


def _fills(kind: str, name: str) -> bool:
    """Whether a kind of file has to be read for a table."""
    if name == "damage":
        return True
    return table_of(kind, records=name == "records") == name
