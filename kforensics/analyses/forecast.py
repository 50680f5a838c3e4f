"""The question of ``forecast``: what will the next start of a broker do to its log directories?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

from kforensics.errors import InputError, UsageError
from kforensics.forensics.forecast.broker_forecast import STARTS, BrokerForecast
from kforensics.forensics.forecast.cluster_ids import ForeignClusterId, foreign_cluster_ids
from kforensics.forensics.forecast.effects import OTHER_CLUSTER, Effect
from kforensics.forensics.forecast.elections import Candidate, candidates
from kforensics.forensics.forecast.identity import unnamed_ids
from kforensics.forensics.forecast.log_directory import MARKER, META, METADATA_FOLDER, read_identity
from kforensics.forensics.forecast.next_start import forecast_start
from kforensics.forensics.forecast.release_limits import release_numbers
from kforensics.forensics.metadata.metadata_versions import KNOWN, release_name
from kforensics.forensics.partition.cluster_copies import copies_by_names
from kforensics.forensics.partition.partition_files import HIGH_WATERMARK, RECOVERY_POINT, folder_of, partitions_of
from kforensics.forensics.partition.unused_metadata import metadata_unused_since
from kforensics.parsers.files.discover import Notify, find_files
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.log_names import parse_folder_name
from kforensics.parsers.files.meta_properties import MetaProperties
from kforensics.parsers.files.source import content_path
from kforensics.render.streams import watcher

__all__ = ["forecast_brokers", "forecast_elections", "known_release"]

MARKS = (META, MARKER, METADATA_FOLDER, RECOVERY_POINT, HIGH_WATERMARK)
# Folders of brokers, and log directories in them.
LEVELS = 2
# Empty folders that are of no use to a broker.
OF_FILE_SYSTEMS = ("lost+found",)
# The oldest release with ZooKeeper whose starts were recorded.
OLDEST_WITH_ZOOKEEPER = (2, 8)
# Cluster id, node id and the folder of its copy; None for log directories that name none of these.
_Broker: TypeAlias = tuple[str | None, int | None, str | None] | None
NO_LOG_DIRECTORY = "there is no log directory at {}; name the directories in log.dirs of the broker"


def known_release(release: str | None) -> str | None:
    """Return the release that is started, None for that of the files.

    Raises:
        UsageError: it is no release of Kafka, or one before 2.8, whose starts are not forecast.
    """
    if release is None:
        return None
    try:
        numbers = release_numbers(release)
    except ValueError:
        raise UsageError(f"--release {release!r} is not a release of Kafka, such as 4.4.0") from None
    if numbers < OLDEST_WITH_ZOOKEEPER:
        oldest = release_name(OLDEST_WITH_ZOOKEEPER)
        raise UsageError(f"--release {release}: starts of releases before {oldest} are not forecast")
    return release


def _has_metadata(path: str, meta: MetaProperties | None) -> bool:
    """Return whether a log directory has a metadata log that is in force."""
    has_folder = any(child.name == METADATA_FOLDER for child in folders_of(path).children(path))
    return has_folder and metadata_unused_since(path, meta is not None and meta.has_zookeeper) is None


def _require_known(release: str) -> None:
    # What an older one accepts of the metadata of a newer one is not known.
    if release_numbers(release) < min(KNOWN):
        oldest = release_name(min(KNOWN))
        raise UsageError(f"--release {release}: starts of releases before {oldest} are forecast only with ZooKeeper")


def forecast_brokers(paths: Sequence[str], release: str | None) -> Iterator[BrokerForecast]:
    """Yield what the next start of each broker does.

    Args:
        paths: log directories, globs, or folders of log directories. Those of the same node are of one broker.
        release: the release that is started; None for the one with which each broker registered last.

    Raises:
        UsageError: there is no log directory, or the release is too old for one with KRaft.
        InputError: one cannot be read.
    """
    directories = _all_log_directories(paths)
    metas = {directory: read_identity(directory) for directory in _once(directories)}
    identities = {directory: meta for directory, meta in metas.items() if meta is not None}
    if release is not None and any(meta.version > 0 or _has_metadata(path, meta) for path, meta in identities.items()):
        _require_known(release)
    # What the caller names is taken at its word: a broker with two copies of one log directory refuses to start.
    are_named = {path.rstrip("/") for path in paths} >= metas.keys()
    foreign = {each.path: each for each in foreign_cluster_ids(identities)}
    ids = {directory: (meta.node_id, meta.directory_id) for directory, meta in identities.items()}
    brokers = _by_broker(metas, foreign, {} if are_named else copies_by_names(ids))
    meter = watcher()
    sizes = [_folder_sizes(directories) if meter.is_shown else {} for directories in brokers.values()]
    for expected in sizes:
        meter.expect(expected)
    having = [directory for directory, meta in metas.items() if _has_metadata(directory, meta)]
    metadata = {directory: f"{directory}/{METADATA_FOLDER}" for directory in having}
    for (broker, directories), folders in zip(brokers.items(), sizes, strict=True):
        others = _others_of_cluster(broker, brokers, metadata)
        start = partial(forecast_start, release=release, other_metadata=others)
        forecast = start(directories, on_loaded=meter.finish)
        forecast = forecast if are_named else _with_emptied(forecast, directories, identities, start)
        if forecast.outcome == STARTS:
            messages = [each for path in directories if (each := foreign.get(path))]
            forecast.effects += (Effect(OTHER_CLUSTER, each.message, path=f"{each.path}/{META}") for each in messages)
        for folder in folders:
            meter.finish(folder)  # the metadata log too, and all logs if the broker refuses before it loads them
        yield forecast


def _by_broker(
    metas: Mapping[str, MetaProperties | None], foreign: Mapping[str, ForeignClusterId], copies: Mapping[str, str]
) -> dict[_Broker, list[str]]:
    """Return log directories by broker.

    Args:
        metas: log directories with their identities.
        foreign: those that name another cluster than the metadata log does.
        copies: the folder of its copy by log directory.
    """
    brokers: dict[_Broker, list[str]] = {}
    unnamed: list[str] = []
    for directory, meta in metas.items():
        if meta is None:
            unnamed.append(directory)
            continue
        # A log directory beside the one with the metadata log is of the same broker, whatever cluster it names.
        beside = foreign.get(directory)
        other = None if beside is None else metas[beside.other]
        is_same_node = other is not None and other.node_id == meta.node_id
        cluster_id = beside.expected if beside is not None and is_same_node else meta.cluster_id
        brokers.setdefault((cluster_id, meta.node_id, copies.get(directory)), []).append(directory)
    if len(brokers) == 1:
        next(iter(brokers.values())).extend(unnamed)
    elif unnamed:
        brokers[None] = unnamed
    return brokers


def _others_of_cluster(broker: _Broker, brokers: Mapping[_Broker, list[str]], metadata: Mapping[str, str]) -> list[str]:
    """Return the folders of the metadata logs of the other nodes in a copy of a cluster.

    Args:
        broker: the broker.
        brokers: the log directories of all brokers.
        metadata: the folders by log directory.
    """
    if broker is None:
        return []
    cluster_id, _, copy = broker
    others = (
        each
        for other, each in brokers.items()
        if other is not None and other != broker and other[::2] == (cluster_id, copy)
    )
    return [metadata[directory] for directories in others for directory in directories if directory in metadata]


def _with_emptied(
    forecast: BrokerForecast,
    directories: Sequence[str],
    identities: Mapping[str, MetaProperties],
    start: Callable[[Sequence[str]], BrokerForecast],
) -> BrokerForecast:
    """Return the forecast with the log directory that has been emptied, as when its disk is not mounted, if one was.

    It is an empty folder beside the others, if just one of those that the broker registered last is missing.
    """
    metas = [identities[path] for path in directories if path in identities]
    if forecast.metadata is None or len(unnamed_ids(metas, forecast.metadata)) != 1:
        return forecast
    parents = {path.rpartition("/")[0] for path in directories if "/" in path}
    beside = (entry for parent in sorted(parents) for entry in folders_of(parent).children(parent))
    empty = [each.path for each in beside if each.is_folder and each.name not in OF_FILE_SYSTEMS and _is_empty(each)]
    return start([*directories, *empty]) if len(empty) == 1 else forecast


def _is_empty(folder: Entry) -> bool:
    try:
        return not folders_of(folder.path).children(folder.path)
    except InputError:
        return False


def _once(directories: Sequence[str]) -> list[str]:
    """Return log directories without those that have another path, as by a link."""
    return [*{folders_of(path).identity(path): path for path in reversed(directories)}.values()][::-1]


def forecast_elections(paths: Sequence[str], notify: Notify) -> Iterator[Candidate]:
    """Yield what each replica would cost as leader, of partitions with several replicas under the paths.

    Args:
        paths: log directories of several brokers, globs, or folders of them.
        notify: takes a sentence for each path that cannot be read.

    Raises:
        UsageError: no partition has several replicas.
        InputError: a log cannot be read.
    """
    files, unreadable = find_files(paths, notify)
    newest = max((file.mtime_ms for file in files if file.mtime_ms is not None), default=0)
    partitions, is_any, meter = partitions_of(files), False, watcher()
    names = Counter((each.place.topic, each.place.partition) for each in partitions)
    several = {each.folder: each.size for each in partitions if names[each.place.topic, each.place.partition] > 1}
    meter.expect(several)
    for candidate in candidates(partitions, newest, meter.finish):
        is_any = True
        yield candidate
    for folder in several:
        meter.finish(folder)  # logs of coordinators and of the metadata, which are no candidates
    if not is_any and not unreadable:
        raise UsageError("no partition has several replicas here; name the log directories of all brokers")


def _folder_sizes(directories: Sequence[str]) -> dict[str, int]:
    """Return how many bytes the files of each partition have, by folder."""
    sizes: dict[str, int] = {}
    for file in find_files(directories, lambda _: None)[0]:
        if file.topic is not None:
            sizes[folder_of(file)] = sizes.get(folder_of(file), 0) + file.size
    return sizes


def _all_log_directories(paths: Sequence[str]) -> list[str]:
    """Return the log directories under some paths; an empty folder that is named beside others is one, too."""
    by_path = [_log_directories(path, is_alone=len(paths) == 1) for path in paths]
    if not any(map(_contains_log, chain.from_iterable(by_path))):
        raise UsageError(NO_LOG_DIRECTORY.format(paths[0]))
    return [*chain.from_iterable(by_path)]


def _log_directories(path: str, *, is_alone: bool) -> list[str]:
    """Return a path if it is a log directory, otherwise the log directories in it."""
    directories: list[str] = []
    for entry in folders_of(path).expand(path):
        if entry.why is not None:
            # A start reads every file: without one of them, the forecast would be that of another directory.
            raise InputError(entry.path, entry.why)
        inner = _directories_in(entry.path) if entry.is_folder else []
        if entry.is_folder and not is_alone and not folders_of(entry.path).children(entry.path):
            inner = [entry.path]  # the broker refuses to start with it, unless it is formatted
        if not inner:
            raise UsageError(NO_LOG_DIRECTORY.format(entry.path))
        directories += inner
    return directories


def _directories_in(path: str, levels: int = LEVELS) -> list[str]:
    """Return a folder if it is a log directory, otherwise those in it and in folders in it.

    The folder that was packed in an archive may have any number of folders above it, as a path has.
    """
    children = folders_of(path).children(path)
    if _is_log_directory([child.name for child in children]):
        return [path.rstrip("/") or path]
    found: list[str] = []
    for folder in (child.path for child in children if child.is_folder):
        if _contains_log(folder):
            found.append(folder)
        elif levels > 1 or content_path(path) != path:
            found += _readable_directories_in(folder, max(levels - 1, 1))
    return found


def _contains_log(path: str) -> bool:
    try:
        return _is_log_directory([child.name for child in folders_of(path).children(path)])
    except InputError:
        return False


def _readable_directories_in(path: str, levels: int) -> list[str]:
    try:
        return _directories_in(path, levels)
    except InputError:
        return []


def _is_log_directory(names: list[str]) -> bool:
    return any(name in MARKS for name in names) or any(
        (parsed := parse_folder_name(name)) is not None and parsed.topic.startswith("__") for name in names
    )
