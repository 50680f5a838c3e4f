"""Cluster ids that a metadata log contradicts: log directories of one cluster that name different ones.

The metadata log does not have the cluster id, but since 3.7 it has the directory ids of the brokers. If the metadata
log in one log directory has another one registered, both are of one cluster, whatever their ``meta.properties`` say.
Log directories of several clusters are registered in the metadata of their own, and are no contradiction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from kforensics.errors import InputError
from kforensics.forensics.forecast.effects import LoadRefusedError
from kforensics.forensics.forecast.log_directory import META, METADATA_FOLDER
from kforensics.forensics.forecast.metadata_loading import load_metadata
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.meta_properties import MetaProperties

__all__ = ["ForeignClusterId", "foreign_cluster_ids"]


class ForeignClusterId(NamedTuple):
    """A log directory that names another cluster than its own.

    Attributes:
        path: the log directory.
        cluster_id: the cluster id in its ``meta.properties``.
        other: another log directory of its cluster.
        expected: the cluster id of that one.
    """

    path: str
    cluster_id: str
    other: str
    expected: str

    @property
    def message(self) -> str:
        """What is wrong, as a sentence without its full stop."""
        return (
            f"{self.path}/{META} has cluster.id {self.cluster_id} and {self.other}/{META} has {self.expected}, but the"
            " metadata log has both registered in one cluster: its controllers take no broker of another cluster"
        )


def foreign_cluster_ids(identities: Mapping[str, MetaProperties]) -> Iterator[ForeignClusterId]:
    """Yield the log directories whose cluster id a metadata log contradicts.

    Of two log directories that disagree, it is the one whose cluster id fewer of all have. If it is as many, it is the
    one that the metadata log of the other has registered.

    Args:
        identities: the identities of log directories, by their paths.
    """
    counts = Counter(meta.cluster_id for meta in identities.values())
    if len(counts) < 2:
        return
    known = {(meta.cluster_id, meta.directory_id) for meta in identities.values()}
    registered = {path: _registered(path, meta) for path, meta in identities.items()}

    def has(log: str, meta: MetaProperties) -> bool:
        # A cluster that was copied under another id has the same directory ids.
        is_copied = (identities[log].cluster_id, meta.directory_id) in known
        return not is_copied and registered[log].get(meta.directory_id or "") == meta.node_id

    for path, meta in identities.items():
        for other, other_meta in identities.items():
            named, expected = meta.cluster_id, other_meta.cluster_id
            if named is None or expected is None or named == expected or counts[named] > counts[expected]:
                continue
            if has(other, meta) or (counts[named] < counts[expected] and has(path, other_meta)):
                yield ForeignClusterId(path, named, other, expected)
                break


def _registered(path: str, meta: MetaProperties) -> Mapping[str, int]:
    """Return node ids by the directory ids that the metadata log of a log directory has; empty without one."""
    folder = f"{path}/{METADATA_FOLDER}"
    with suppress(InputError, LoadRefusedError):  # the forecast of its own broker says what is wrong
        if any(entry.name == METADATA_FOLDER for entry in folders_of(path).children(path)):
            return _directories(folder, meta.node_id, tuple(folders_of(folder).children(folder)))
    return {}


@lru_cache(maxsize=64)
def _directories(folder: str, node_id: int | None, _entries: tuple[Entry, ...]) -> Mapping[str, int]:
    return load_metadata(folder, node_id).directories
