"""The question of ``forecast``: what will the next start of a broker do to its log directories?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kforensics.analyses.find_files import Notify, find_files
from kforensics.errors import InputError, UsageError
from kforensics.forensics.forecast.broker_forecast import BrokerForecast
from kforensics.forensics.forecast.elections import Candidate, candidates
from kforensics.forensics.forecast.log_directory import MARKER, META, METADATA_FOLDER, read_identity
from kforensics.forensics.forecast.next_start import forecast_start
from kforensics.forensics.forecast.release_limits import release_numbers
from kforensics.forensics.metadata.metadata_versions import KNOWN, release_name
from kforensics.forensics.partition.partition_files import HIGH_WATERMARK, RECOVERY_POINT, partitions_of
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import parse_folder_name

__all__ = ["forecast_brokers", "forecast_elections", "known_release"]

MARKS = (META, MARKER, METADATA_FOLDER, RECOVERY_POINT, HIGH_WATERMARK)
NO_LOG_DIRECTORY = "there is no log directory at {}; name the directories in log.dirs of the broker"


def known_release(release: str | None) -> str | None:
    """Return the release that is started, None for that of the files.

    Raises:
        UsageError: it is no release of Kafka, or one before 3.9, whose starts are not forecast.
    """
    if release is None:
        return None
    try:
        numbers = release_numbers(release)
    except ValueError:
        raise UsageError(f"--release {release!r} is not a release of Kafka, such as 4.4.0") from None
    # What an older one accepts of the metadata of a newer one is not known.
    if numbers < min(KNOWN):
        oldest = release_name(min(KNOWN))
        raise UsageError(f"--release {release}: starts of releases before {oldest} are not forecast")
    return release


def forecast_brokers(paths: Sequence[str], release: str | None) -> Iterator[BrokerForecast]:
    """Yield what the next start of each broker does.

    Args:
        paths: log directories, globs, or folders of log directories. Those of the same node are of one broker.
        release: the release that is started; None for the one with which each broker registered last.

    Raises:
        UsageError: there is no log directory.
        InputError: one cannot be read.
    """
    directories = [directory for path in paths for directory in _log_directories(path)]
    brokers: dict[object, list[str]] = {}
    unnamed: list[str] = []
    for directory in dict.fromkeys(directories):
        identity = read_identity(directory)
        (unnamed if identity is None else brokers.setdefault(identity, [])).append(directory)
    if len(brokers) == 1:
        next(iter(brokers.values())).extend(unnamed)
    elif unnamed:
        brokers[None] = unnamed
    for directories in brokers.values():
        yield forecast_start(directories, release)


def forecast_elections(paths: Sequence[str], notify: Notify) -> Iterator[Candidate]:
    """Yield what each replica would cost as leader, of partitions with several replicas under the paths.

    Args:
        paths: log directories of several brokers, globs, or folders of them.
        notify: takes a sentence for each path that cannot be read.

    Raises:
        UsageError: no partition has several replicas.
        InputError: a log cannot be read.
    """
    files, _ = find_files(paths, notify)
    newest = max((file.mtime_ms for file in files if file.mtime_ms is not None), default=0)
    is_any = False
    for candidate in candidates(partitions_of(files), newest):
        is_any = True
        yield candidate
    if not is_any:
        raise UsageError("no partition has several replicas here; name the log directories of all brokers")


def _log_directories(path: str) -> list[str]:
    """Return a path if it is a log directory, otherwise the log directories in it."""
    folders = folders_of(path)
    directories: list[str] = []
    for entry in folders.expand(path):
        if not entry.is_folder:
            raise UsageError(NO_LOG_DIRECTORY.format(entry.path))
        children = folders.children(entry.path)
        if _is_log_directory([child.name for child in children]):
            directories.append(entry.path.rstrip("/") or entry.path)
            continue
        inner = [child.path for child in children if child.is_folder and _contains_log(child.path)]
        directories += inner
        if not inner:
            raise UsageError(NO_LOG_DIRECTORY.format(entry.path))
    return directories


def _contains_log(path: str) -> bool:
    try:
        return _is_log_directory([child.name for child in folders_of(path).children(path)])
    except InputError:
        return False


def _is_log_directory(names: list[str]) -> bool:
    return any(name in MARKS for name in names) or any(
        (parsed := parse_folder_name(name)) is not None and parsed.topic.startswith("__") for name in names
    )
