"""What the next start does to the log directories of a broker, as far as a copy of them shows it for certain.

Kafka looks for a partition in all log directories. One of them has the effects of all: that with the metadata log, and
without one the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kforensics.errors import InputError
from kforensics.forensics.forecast.broker_forecast import COPIED, CREATED, BrokerForecast, PartitionForecast
from kforensics.forensics.forecast.effects import DIRECTORY_LOST, Effect
from kforensics.forensics.forecast.log_directory import (
    METADATA_FOLDER,
    LogDirectory,
    first_folder,
    had_data,
    has_log,
    read_log_directory,
)
from kforensics.forensics.forecast.next_start import forecast_start
from kforensics.forensics.partition.log_dirs import LogDir

__all__ = ["LEFT_OUT", "NOTHING_SERVED", "PROMOTED", "UNLED", "certain_effects", "directories_of"]

LEFT_OUT, NOTHING_SERVED, PROMOTED, UNLED = "left out", "nothing-served", "promoted", "without-leader"
# What no running broker changes.
STATIC = (UNLED, DIRECTORY_LOST, NOTHING_SERVED)


def directories_of(log_dir: LogDir) -> list[str]:
    """Return the log directories of a broker that were found, that with the metadata log first.

    Raises:
        InputError: one cannot be listed.
    """
    paths = sorted(each.path for each in (log_dir, *log_dir.beside) if each.path is not None)
    return sorted(paths, key=lambda path: not (first_folder(path) or "").endswith(f"/{METADATA_FOLDER}"))


def certain_effects(log_dir: LogDir, alone: BrokerForecast) -> dict[str, list[tuple[str, Effect]]]:
    """Return effects by kind, with the names of partitions; none if another log directory has those of the broker.

    Args:
        log_dir: a log directory that has a log.
        alone: the forecast of this log directory alone, which is that of the broker if it has no other.

    Raises:
        InputError: one of the broker cannot be read.
    """
    paths = directories_of(log_dir)
    if log_dir.path != next(path for path in paths if first_folder(path)):
        return {}
    directories = [read_log_directory(path) for path in paths]
    left_out = frozenset[tuple[str, int]]().union(*(each.left_out for each in directories))
    kinds: dict[str, list[tuple[str, Effect]]] = {}
    forecast = forecast_start(paths, loads_logs=False) if len(paths) > 1 else alone
    for partition, effect in forecast.all_effects():
        kind = effect.kind
        if kind in (CREATED, COPIED):
            if partition is None or not log_dir.clean_shutdown or not _is_lost(directories, partition):
                continue
            kind = LEFT_OUT if (partition.topic, partition.partition) in left_out else kind
        elif kind not in STATIC and not (kind == PROMOTED and _are_clean(directories)):
            continue
        kinds.setdefault(kind, []).append((partition.name if partition else "", effect))
    return kinds


def _are_clean(directories: Iterable[LogDirectory]) -> bool:
    return all(each.clean for each in directories)


def _is_lost(directories: Sequence[LogDirectory], created: PartitionForecast) -> bool:
    """Return whether the folder of a partition that had data is missing; one that becomes stray has its own finding."""
    stopped = (each for each in directories if each.clean)
    is_listed = had_data(stopped, created.topic, created.partition)
    return is_listed and not any(_has_log(f"{each.path}/{created.name}") for each in directories)


def _has_log(folder: str) -> bool:
    try:
        return has_log(folder)
    except InputError:
        return False
