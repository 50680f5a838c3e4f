"""The library twins of the commands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from kforensics.analyses.dump import Outcome, find_files
from kforensics.analyses.filters import isolation_level, offset_range, pattern, time_range
from kforensics.analyses.read_files import FilesReader, Isolation, drained, judge_of, kind_to_read, served
from kforensics.errors import InputError
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.log.selection import Selection
from kforensics.parsers.tables.arrow import (
    Parts,
    arrow_schema_of,
    arrow_table,
    batches_of_parts,
    table_of_parts,
    without_dictionaries,
)
from kforensics.parsers.tables.file_rows import Reading, damage_rows, table_of
from kforensics.parsers.tables.schemas import TABLES, Table
from kforensics.render.values import Shape, shape

if TYPE_CHECKING:
    import pyarrow as pa

    from kforensics.parsers.files.discover import FoundFile

__all__ = ["Dump", "dump"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def dump(  # noqa: PLR0913  # one parameter per filter of the command
    paths: Paths,
    *,
    offset: str | None = None,
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
    """Return what is in files, as Arrow tables that are read when they are asked for.

    Args:
        paths: files, folders, globs or URIs.
        offset: offsets ``A:B``, B not included.
        time: times ``A:B`` in ms or ISO 8601, B not included.
        key: pattern to find in keys.
        producer_id: producer id of the batch.
        producer_epoch: producer epoch of the batch.
        leader_epoch: partition leader epoch of the batch.
        transactional: transactional batches only, or others only.
        control: control batches only, or others only.
        isolation: ``read_committed`` for what such a consumer receives.
        aborted: records of aborted transactions, and no others.
        max_decompressed_bytes: most bytes to decompress per batch.

    Raises:
        InputError: a path cannot be read at all.
        UsageError: a filter is malformed.
    """
    names = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    selection = Selection(
        offset_range(offset),
        time_range(time),
        producer_id,
        producer_epoch,
        leader_epoch,
        transactional,
        control,
        pattern(key),
    )
    level = isolation_level(isolation, aborted=aborted)
    return Dump(tuple(os.fspath(name) for name in names), selection, max_decompressed_bytes, level, aborted=aborted)


class Dump:
    """The tables of a dump; each is read from the files when it is first asked for.

    Attributes:
        files: the files found.
        notes: sentences on what may make transactions differ from what the broker knew; there once a table is read.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        selection: Selection,
        budget: int,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        *,
        aborted: bool = False,
    ) -> None:
        unreadable: list[str] = []
        self.files: list[FoundFile] = find_files(paths, unreadable.append, Outcome())
        if unreadable:
            raise InputError(", ".join(paths), "; ".join(unreadable))
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

    def table(self, name: str) -> pa.Table:
        """Return a table by name, such as ``index_entries`` or ``producer_snapshots``.

        Raises:
            KeyError: there is no such table.
            InputError: a file cannot be read.
        """
        if name not in self._tables:
            self._tables[name] = self._damage_table() if name == "damage" else self._read(name)
        return self._tables[name]

    def first(self, name: str, count: int) -> pa.Table:
        """Return the first rows of a table, and read no more of the files than they need.

        Raises:
            KeyError: there is no such table.
            InputError: a file cannot be read.
        """
        if name in self._tables or name in ("files", "damage"):
            return self.table(name).slice(0, count)
        reader, files, shaped = self._reader(name, [])
        return arrow_table(shaped.table, map(shaped, islice(reader.rows(files), count)))

    def stream(self, name: str) -> Iterator[pa.RecordBatch]:
        """Yield a table piece by piece, and keep nothing of it.

        Raises:
            KeyError: there is no such table.
            InputError: a file cannot be read.
        """
        if name in self._tables or name in ("files", "damage"):
            yield from self.table(name).to_batches()
            return
        statement, parts = self._parts(name, [])
        schema = arrow_schema_of(statement)
        for batch in batches_of_parts(statement, parts):
            yield without_dictionaries(batch, schema)

    def _read(self, name: str) -> pa.Table:
        if name == "files":
            return arrow_table(TABLES[name], map(attrgetter(*TABLES[name].names), self.files))
        return table_of_parts(*self._parts(name, []))

    def _parts(self, name: str, damage: list[tuple[FoundFile, Damage]]) -> tuple[Table, Parts]:
        reader, files, shaped = self._reader(name, damage)
        return shaped.table, reader.parts(files, shaped, kernels_for)

    def _reader(self, name: str, damage: list[tuple[FoundFile, Damage]]) -> tuple[FilesReader, list[FoundFile], Shape]:
        records = name == "records"
        files = [found for found in self.files if table_of(kind_to_read(found), records=records) == name]
        reading = Reading(records, self._selection, self._budget)
        judge = judge_of(self._isolation, self._note, aborted=self._aborted)
        if judge and name in ("batches", "records"):
            files = served(files, self._paths, self._note)
        reader = FilesReader(reading, lambda found, row: damage.append((found, row)), _refuse, judge=judge)
        return reader, files, shape(TABLES[name], None, None)

    def _note(self, sentence: str) -> None:
        """Keep a note; every table may come upon it again."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _damage_table(self) -> pa.Table:
        damage: list[tuple[FoundFile, Damage]] = []
        for name in TABLES:
            if name not in ("files", "batches", "damage"):
                drained(self._parts(name, damage)[1])
        rows = (row for found, item in damage for row in damage_rows(found, [item]))
        return arrow_table(TABLES["damage"], rows)


def _refuse(error: InputError) -> None:
    raise error
