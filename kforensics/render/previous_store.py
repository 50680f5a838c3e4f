"""Reads the summaries in the evidence store of an earlier audit, so that the next one reads what is new."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from kforensics.errors import InputError, UsageError
from kforensics.forensics.partition.chunk_bytes import CHUNK_FORMAT
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES, StoredChunk
from kforensics.parsers.tables.schemas import encodable
from kforensics.render.evidence_store import MANIFEST, locate_store

__all__ = ["PreviousStore", "previous_store"]

# Columns by which row groups and their rows are selected, and row groups to keep in memory.
KEYS = ("broker_id", "topic", "partition", "base_offset")
KEPT_GROUPS = 2
Key = tuple[int | None, str, int, int]


@dataclass(frozen=True, slots=True)
class PreviousStore:
    """The summaries in a store; it is serialized to workers, and each opens the files itself.

    Attributes:
        folder: folder of the store, a path or a URI.
    """

    folder: str

    def of_segment(self, partition: Partition, base_offset: int) -> Iterator[StoredChunk]:
        """Yield the chunks of a segment in log order, none if there are none.

        A broker is known by its id. Without one, and if it was copied several times, the log directory must be the
        same.

        Raises:
            InputError: the store cannot be read. To read the log instead would be wrong where other tasks, which read
                other splits of the segment, could read the store.
        """
        broker_id, log_dir, topic, number = partition.place
        if topic is None or number is None:
            return
        with _reading(self.folder):
            rows = _rows_of(self.folder, (broker_id, encodable(topic), number, base_offset))
            log_dirs = {row["log_dir"] for row, _, _ in rows}
            own = None if log_dir is None else encodable(log_dir)
            if own not in log_dirs and (broker_id is None or len(log_dirs) > 1):
                return
            for row, group, index in sorted(rows, key=lambda found: int(found[0]["start"])):
                if row["log_dir"] == own or own not in log_dirs:
                    summary = _group_table(self.folder, group.path, group.number)["summary"][index].as_py()
                    yield StoredChunk(**{name: row[name] for name in StoredChunk._fields[:-1]}, summary=summary)


@contextmanager
def _reading(folder: str) -> Iterator[None]:
    """Raise errors of the store as errors of an input."""
    try:
        yield
    except (OSError, pa.ArrowException, KeyError) as error:
        why = (str(error).splitlines() or ["it cannot be read"])[0]
        raise InputError(f"{folder}/{CHUNK_SUMMARIES.name}", f"{why}; leave out --previous") from error


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of a file, with the least and the greatest value of each key in it; None if that is unknown."""

    path: str
    number: int
    ranges: tuple[tuple[Any, Any] | None, ...]

    def may_have(self, key: Key) -> bool:
        pairs = zip(self.ranges, key, strict=True)
        return all(limits is None or value is None or limits[0] <= value <= limits[1] for limits, value in pairs)


@lru_cache(maxsize=1)
def _groups(folder: str) -> tuple[_Group, ...]:
    """Return the row groups of a store's summaries."""
    system, root = locate_store(folder)
    infos = system.get_file_info(fs.FileSelector(f"{root}/{CHUNK_SUMMARIES.name}", allow_not_found=True))
    paths = sorted(info.path for info in infos if info.base_name.endswith(".parquet"))
    return tuple(group for path in paths for group in _in_file(system, path))


def _in_file(system: fs.FileSystem, path: str) -> Iterator[_Group]:
    with system.open_input_file(path) as stream:
        metadata = pq.ParquetFile(stream).metadata
    columns = [CHUNK_SUMMARIES.names.index(name) for name in KEYS]
    for number in range(metadata.num_row_groups):
        known = [metadata.row_group(number).column(column).statistics for column in columns]
        yield _Group(path, number, tuple((one.min, one.max) if one and one.has_min_max else None for one in known))


@lru_cache(maxsize=KEPT_GROUPS)
def _group_table(folder: str, path: str, number: int) -> pa.Table:
    system, _ = locate_store(folder)
    with system.open_input_file(path) as stream:
        return pq.ParquetFile(stream).read_row_group(number)


def _rows_of(folder: str, key: Key) -> list[tuple[dict[str, Any], _Group, int]]:
    """Return the rows of a segment without their summaries, each with its row group and its index there."""
    rows: list[tuple[dict[str, Any], _Group, int]] = []
    for group in _groups(folder):
        if group.may_have(key):
            table = _group_table(folder, group.path, group.number)
            pairs = zip(KEYS, key, strict=True)
            tests = (
                pc.is_null(table[name]) if value is None else pc.equal(table[name], value) for name, value in pairs
            )
            indexes = pc.indices_nonzero(reduce(pc.and_kleene, tests))
            parts = table.drop_columns(["summary"]).take(indexes).to_pylist()
            rows += ((row, group, index) for row, index in zip(parts, indexes.to_pylist(), strict=True))
    return rows


def previous_store(
    folder: str, cluster_ids: Collection[str | None], note: Callable[[str], object]
) -> PreviousStore | None:
    """Return the summaries in a store; None if they are not of this release, so that everything is read.

    Args:
        folder: folder of the store, a path or a URI.
        cluster_ids: ids of the clusters to evaluate, None for unknown ones.
        note: takes a sentence on why everything is read.

    Raises:
        UsageError: it is no store, or that of another cluster.
        InputError: its manifest cannot be read.
    """
    manifest = _manifest(folder)
    of_format = manifest.get("summaries")
    if of_format != CHUNK_FORMAT:
        by = f"has those of kforensics {manifest.get('version')}" if of_format else "has none"
        note(f"the whole log is read: this release needs summaries of its own in the store, and {folder} {by}")
        return None
    here, there = {one for one in cluster_ids if one is not None}, set(manifest.get("clusters") or ())
    if here and there and not here & there:
        raise UsageError(
            f"{folder} is an audit of cluster {', '.join(sorted(there))}, and these are files of"
            f" {', '.join(sorted(here))}; name a store of the same cluster, or leave out --previous"
        )
    _groups.cache_clear()  # a store of the same name may have been written since
    _group_table.cache_clear()
    try:
        _groups(folder)
    except (OSError, pa.ArrowException) as error:
        why = (str(error).splitlines() or ["it is damaged"])[0]
        note(f"the whole log is read: the summaries in {folder} cannot be read: {why}")
        return None
    return PreviousStore(folder)


def _manifest(folder: str) -> Mapping[str, Any]:
    system, root = locate_store(folder)
    manifest: Any = None
    try:
        with system.open_input_stream(f"{root}/{MANIFEST}") as stream, suppress(ValueError):
            manifest = json.loads(stream.read())
    except FileNotFoundError as error:
        raise UsageError(f"{folder} has no {MANIFEST}, so it is not an evidence store; leave out --previous") from error
    except OSError as error:
        raise InputError(f"{folder}/{MANIFEST}", (str(error).splitlines() or ["it cannot be read"])[0]) from error
    if not isinstance(manifest, dict):
        raise UsageError(f"{folder}/{MANIFEST} is not that of an evidence store; leave out --previous")
    return manifest
