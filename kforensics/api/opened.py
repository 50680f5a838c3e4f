"""Opens logs in a notebook: tables that are read on access, and batches that show their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack

from kforensics.analyses.audit import STORED
from kforensics.analyses.settings import Evaluation, parameters_of
from kforensics.analyses.topics import check_name
from kforensics.api import audits, partition_questions
from kforensics.api.arguments import Paths, path_names, with_checked_arguments
from kforensics.api.lazy_dump import Dump, dump
from kforensics.api.views.batch_view import BatchView
from kforensics.api.views.table_view import TableSource, TableView
from kforensics.errors import UsageError
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.tables.file_rows import table_name_of
from kforensics.parsers.tables.schemas import TABLES

if TYPE_CHECKING:
    from kforensics.render.markup import Markup

__all__ = ["BatchesView", "Opened", "open"]


@with_checked_arguments
def open(paths: Paths, **evaluation: Unpack[Evaluation]) -> Opened:  # noqa: A001  # it opens, as gzip.open does
    """Return the files under paths as tables that are read on access.

    Args:
        paths: log directories, partition folders, files of any kind, globs or URIs.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`. With a topic or a partition,
            tables of stored data are read from the files of those partitions only.

    Raises:
        InputError: a path cannot be listed.
        UsageError: there are no files, or no such topic or partition, or the time of evaluation is none.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1", topic="hanging")
        >>> len(log.batches), len(log.transactions)
        (7, 4)
        >>> log.lso.select(["topic", "last_stable_offset", "log_end_offset"])
        lso: 1 row, one per partition
          topic    last_stable_offset  log_end_offset
          hanging  3                   9
    """
    as_of_ms = parameters_of(**evaluation)["as_of_ms"]  # what is wrong is refused at once, not with the first table
    if as_of_ms is not None:
        evaluation["as_of"] = as_of_ms  # once, so that all tables have the same "now"
    files = _dump(paths, evaluation)
    if not files.files:
        raise UsageError(
            f"there is no file under {', '.join(path_names(paths))}; name log directories, partition folders or files"
        )
    return Opened(paths, files, evaluation)


def _dump(paths: Paths, evaluation: Evaluation, offset: str | None = None) -> Dump:
    return dump(paths, topic=evaluation.get("topic"), partition=evaluation.get("partition"), offset=offset)


class Opened:
    """The files under some paths.

    Every table is a :class:`TableView`: it shows its first rows; ``to_pandas()`` and ``to_arrow()`` return all rows.
    Tables of stored data are read from the files. Tables of results come from the function of the same name.
    """

    def __init__(self, paths: Paths, files: Dump, evaluation: Evaluation) -> None:
        self._paths = path_names(paths)
        self._dump, self._evaluation = files, evaluation

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
        return self._results("transactions", partition_questions.transactions)

    @cached_property
    def producers(self) -> TableView:
        """One row per producer, with the state of the broker at the end of the log."""
        return self._results("producers", partition_questions.producers)

    @cached_property
    def lso(self) -> TableView:
        """One row per partition, with its last stable offset and the transaction that blocks it."""
        return self._results("lso", partition_questions.lso)

    @cached_property
    def lso_history(self) -> TableView:
        """One row per step of a last stable offset."""
        return self._results("lso_history", partial(partition_questions.lso, history=True))

    @cached_property
    def duplicates(self) -> TableView:
        """One row per run of duplicate records."""
        return self._results("duplicates", partition_questions.duplicates)

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
        return self._dump.tables

    def table(self, name: str) -> TableView:
        """Return a table by name.

        Args:
            name: name of a table of stored data, such as ``index_entries``, or of a table of an audit of all
                partitions, such as ``distributed_transactions`` or ``replica_differences``.

        Raises:
            UnknownNameError: there is no such table; it is a KeyError.
        """
        check_name(name, (*TABLES, *STORED), "table")
        if name in TABLES:
            return TableView(TABLES[name], self._source(name))
        return self._results(name, lambda *_, **__: self._audit.tables[name])

    def batch(self, offset: int) -> BatchView:
        """Return the first batch whose offsets include an offset, whether or not its record was compacted away.

        Raises:
            IndexError: there is no such batch.
            InputError: a file cannot be read.
        """
        rows = _dump(self._paths, self._evaluation, str(offset)).first("batches", 1).to_pylist()
        if not rows:
            raise IndexError(f"no batch spans offset {offset}")
        return BatchView(rows[0])

    def __repr__(self) -> str:
        return repr(self._dump)

    def _repr_html_(self) -> Markup:
        return self._dump._repr_html_()  # Jupyter's name for what anyone may call

    def _source(self, name: str) -> TableSource:
        files = self._dump
        size = sum(file.size for file in files.files if _has_rows(file.kind, name))
        return TableSource(partial(files.first, name), partial(files.stream, name), size)

    def _results(self, name: str, evaluate: Callable[..., TableView]) -> TableView:
        """Return a table of results, which is evaluated once on first access."""
        evaluated = partial(evaluate, self._paths, **self._evaluation)
        return TableView(RESULTS[name], TableSource.of_table(lambda: evaluated().to_arrow()))

    @cached_property
    def _audit(self) -> audits.Audit:
        return audits.audit(self._paths, **self._evaluation)


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
