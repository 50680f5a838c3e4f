"""What a broker learns at its start from the controllers, where its own copy of the metadata log ends earlier.

A broker loads its copy, fetches what its quorum has committed since, and only then looks at its logs. Rules:
``MetadataLoader.stillNeedToCatchUp``, ``BrokerMetadataPublisher.initializeManagers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from kforensics.errors import InputError
from kforensics.forensics.forecast.effects import HOUSEKEEPING, LoadRefusedError
from kforensics.forensics.forecast.metadata_loading import LoadedMetadata, load_metadata
from kforensics.forensics.partition.epoch_starts import epochs_in
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.log_names import parse_file_name

__all__ = ["caught_up"]

# Last leader epoch by the checkpoint, then base offset and size of the last segment.
_Size = tuple[int, int, int]


def caught_up(own: LoadedMetadata, node_id: int | None, others: Sequence[str]) -> LoadedMetadata:
    """Return what a broker reads from its metadata log and, if another copy goes on, from the controllers.

    Which copy goes on is decided as in elections of controllers: by the leader epoch, then by the offset. A broker that
    is the only controller fetches nothing, and one whose snapshot is torn does not get what it lacks.

    Args:
        own: what it reads from its own copy.
        node_id: id of the broker, None if it is not known.
        others: folders of the copies of other nodes of the cluster.
    """
    if not own.folder or own.lost is not None or own.has_only_controller(node_id):
        return own
    later = _furthest(own, others)
    if later is None:
        return own
    removed = {**own.removed, **later.removed}
    return replace(own, image=later.image, versions=later.versions, removed=removed, reach=later.reach, own=own.image)


def _furthest(own: LoadedMetadata, others: Iterable[str]) -> LoadedMetadata | None:
    """Return the copy that goes on after another one, the longest by its files first; None if none does."""
    is_whole = all(effect.kind == HOUSEKEEPING for effect in own.effects)
    with suppress(InputError):  # the forecast of its own broker says what is wrong
        least = _size_of(folders_of(own.folder).children(own.folder), own.folder)
        sizes = {other: size for other in others if (size := _size(other)) is not None}
        for other in sorted(sizes, key=lambda each: sizes[each], reverse=True):
            if is_whole and sizes[other] <= least:
                return None
            later = _loaded(other, tuple(folders_of(other).children(other)))
            if later is not None and later.reach > own.reach and _is_of_one_cluster(own, later):
                return later
    return None


def _is_of_one_cluster(own: LoadedMetadata, later: LoadedMetadata) -> bool:
    """Return whether two metadata logs have a topic in common, or one has none: cluster ids may be the same."""
    known = later.image.topics.keys() | later.removed.keys()
    return not own.image.topics or not known.isdisjoint(own.image.topics)


def _size(folder: str) -> _Size | None:
    with suppress(InputError):
        return _size_of(folders_of(folder).children(folder), folder)
    return None


def _size_of(entries: Iterable[Entry], folder: str) -> _Size:
    last = max(
        (
            (name.base_offset or 0, entry.size)
            for entry in entries
            if (name := parse_file_name(entry.name)) is not None and name.kind == "log" and name.state == "live"
        ),
        default=(0, 0),
    )
    return max(epochs_in(f"{folder}/leader-epoch-checkpoint"), default=-1), *last


@lru_cache(maxsize=16)
def _loaded(folder: str, _entries: tuple[Entry, ...]) -> LoadedMetadata | None:
    """Return what a copy has; None if its own broker could not load it, or not all of it."""
    with suppress(InputError, LoadRefusedError):
        metadata = load_metadata(folder, None)
        return metadata if metadata.lost is None else None
    return None
