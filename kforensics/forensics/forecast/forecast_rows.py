"""The table ``forecast``, how bad each effect is, and what to do before the start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kforensics.forensics.core.commands import BOOTSTRAP, delete_records
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.forecast.broker_forecast import ASSIGNED, COPIED, STARTS, BrokerForecast, PartitionForecast
from kforensics.forensics.forecast.effects import (
    DIRECTORY_LOST,
    FILE_DELETED,
    FILE_WRITTEN,
    HOUSEKEEPING,
    IN_ZOOKEEPER,
    LOG_CREATED,
    LOG_EMPTIED,
    OTHER_CLUSTER,
    RETENTION_DUE,
    START_UNREAD,
    Effect,
    LoadRefusedError,
)
from kforensics.forensics.forecast.identity import UNFORMATTED
from kforensics.forensics.forecast.index_limits import FULL, index_removal
from kforensics.forensics.forecast.metadata_loading import NOT_KNOWN
from kforensics.forensics.forecast.release_limits import ReleaseRefusedError
from kforensics.parsers.files.log_names import parse_folder_name
from kforensics.parsers.tables.schemas import Table, parse_columns, placed_table

__all__ = ["FORECAST", "forecast_rows", "remedies", "severity_of_effect", "worst_severity_of"]

COLUMNS = parse_columns("""
effect string what happens: starts, refuses or not known for the broker; served, stray, … for a partition
severity string severity of the consequence
silent bool whether the broker logs no warning and no error of it
offset int64 from which offset on; null if the effect has none, like the next two columns
records int64 offsets, producers or transactions concerned; null if that is not known
bytes int64 bytes that are read, ignored or cut off
log_start_offset int64 log start offset after the start; null without a log, like the next two columns
log_end_offset int64 log end offset after the start
last_stable_offset int64 last stable offset after the start, once all is replicated
exception string class of the exception that the broker logs first; null without one
message string a sentence, or the message of the exception
path string file or folder
""")
FORECAST: Table = placed_table("forecast", "effect of the next start", COLUMNS)
SEVERITIES = {
    HOUSEKEEPING: Severity.INFO,
    RETENTION_DUE: Severity.INFO,
    IN_ZOOKEEPER: Severity.INFO,
    FILE_DELETED: Severity.INFO,
    FILE_WRITTEN: Severity.INFO,
    LOG_EMPTIED: Severity.INFO,
    "recovered": Severity.INFO,
    "producers-rebuilt": Severity.INFO,
    "indexes-rebuilt": Severity.INFO,
    "file-renamed": Severity.INFO,
    "orphan-deleted": Severity.INFO,
    "snapshot-dropped": Severity.INFO,
    "deleted": Severity.INFO,
    "topic-deleted": Severity.INFO,
    "created-again": Severity.INFO,
    ASSIGNED: Severity.INFO,
    COPIED: Severity.WARNING,
    "short-log": Severity.WARNING,
    "unserved": Severity.WARNING,
    "promoted": Severity.WARNING,
    "marker-removed": Severity.WARNING,
    "marker-written": Severity.ERROR,
    "not-known": Severity.WARNING,
    "stray-deleted": Severity.CRITICAL,
    "offline": Severity.CRITICAL,
    "nothing-served": Severity.CRITICAL,
    "without-leader": Severity.CRITICAL,
    DIRECTORY_LOST: Severity.CRITICAL,
}
# Effects of a wrong or missing topic id.
STRAYS = ("stray", "stray-deleted", "nothing-served")
# What becomes of partitions that a start does not change, unless it is harmless, as it is of folders that are stray.
FATES = {"unserved": Severity.WARNING, "offline": Severity.CRITICAL}


class Remedy(NamedTuple):
    """A step before the start.

    Attributes:
        text: what to do, and why.
        command: a shell command; empty if there is none.
    """

    text: str
    command: str = ""


def severity_of_effect(effect: Effect) -> Severity:
    """Return how bad the consequence of an effect is."""
    if effect.kind == "truncated" and not effect.records:
        return Severity.INFO if effect.is_unused else Severity.WARNING  # bytes that were never whole
    if effect.kind == LOG_CREATED and not effect.records:
        return Severity.INFO
    return SEVERITIES.get(effect.kind, Severity.ERROR)


def worst_severity_of(forecast: BrokerForecast) -> Iterator[Severity]:
    """Yield the severities of everything that the start does, but housekeeping."""
    if forecast.outcome != STARTS or forecast.refusals:
        yield Severity.CRITICAL if forecast.outcome != NOT_KNOWN else Severity.WARNING
    for _, effect in forecast.all_effects():
        yield severity_of_effect(effect)


def forecast_rows(forecast: BrokerForecast) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a forecast, in the column order of the table: the broker, then effect by effect."""
    first = forecast.refusals[0] if forecast.refusals and forecast.outcome != STARTS else None
    yield _broker_row(forecast, forecast.outcome, first)
    for refusal in forecast.refusals[1 if first else 0 :]:
        yield _broker_row(forecast, "offline" if forecast.outcome == STARTS else "refuses", refusal)
    for partition, effect in forecast.all_effects():
        yield _effect_row(forecast, partition, effect)
    for partition in forecast.partitions:
        if not partition.effects:
            yield _effect_row(forecast, partition, Effect(partition.fate, "nothing is changed", silent=True))


def _broker_row(forecast: BrokerForecast, effect: str, refusal: LoadRefusedError | None) -> tuple[Any, ...]:
    severity = Severity.INFO if effect == STARTS else Severity.CRITICAL
    exception, message, path = (refusal.exception, refusal.message, refusal.path) if refusal else (None, None, None)
    log_dir = next((each for each in forecast.log_dirs if (path or "").startswith(each)), forecast.log_dirs[0])
    place = (forecast.node_id, log_dir, None, None)
    return (*place, effect, str(severity), refusal is None, *(None,) * 6, exception, message, path)


def _effect_row(forecast: BrokerForecast, partition: PartitionForecast | None, effect: Effect) -> tuple[Any, ...]:
    topic, number = (partition.topic, partition.partition) if partition else (None, None)
    log_dir = partition.log_dir if partition else forecast.log_dirs[0]
    is_unchanged = partition is not None and not partition.effects
    severity = FATES.get(effect.kind, Severity.INFO) if is_unchanged else severity_of_effect(effect)
    loaded = partition.loaded if partition else None
    offsets = (loaded.log_start, loaded.log_end, loaded.last_stable) if loaded else (None, None, None)
    what = (effect.kind, str(severity), effect.silent, effect.offset, effect.records, effect.size)
    return (forecast.node_id, log_dir, topic, number, *what, *offsets, None, effect.detail, effect.path)


def remedies(forecast: BrokerForecast, again: str) -> list[Remedy]:
    """Return what to do before the start, in the order in which it has to be done, each step once.

    Args:
        forecast: the forecast.
        again: the command that repeats it, with its options: another release may have other rules.
    """
    steps: list[Remedy | None] = [_of_refusal(refusal, forecast.log_dirs) for refusal in forecast.refusals]
    every = list(forecast.all_effects())
    steps += [_of_effect(effect) for _, effect in every if effect.kind in (*STRAYS, OTHER_CLUSTER)]
    for kind, text in BY_KIND.items():
        log_dirs = dict.fromkeys(
            part.log_dir
            for part, effect in every
            if part is not None and effect.kind == kind and severity_of_effect(effect) > Severity.WARNING
        )
        commands = [REMOVED[kind].format(shlex.quote(log_dir)) for log_dir in log_dirs if kind in REMOVED]
        steps += [Remedy(text, " && ".join(commands))] if log_dirs else []
    steps += [_of_unread_start(part, effect) for part, effect in every if part and effect.kind == START_UNREAD]
    remedies = [step for step in dict.fromkeys(steps) if step is not None]
    is_of_release = bool(forecast.refusals) and all(isinstance(one, ReleaseRefusedError) for one in forecast.refusals)
    if remedies and not is_of_release:
        sources = " ".join(shlex.quote(path) for path in forecast.log_dirs)
        copy = f"cp --archive --sparse=always {sources} /path/with/space/"
        remedies.insert(0, Remedy("First copy the log directories as they are: a start changes them.", copy))
    if remedies:
        release = " for the release that you will start" if needs_another_release(forecast) else ""
        text = f"Run forecast again{release}. Start the broker only when it shows what you expect."
        remedies.append(Remedy(text, again))
    return remedies


def needs_another_release(forecast: BrokerForecast) -> bool:
    """Return whether the release refuses the metadata whatever is done before the start."""
    return any(isinstance(one, ReleaseRefusedError) and not one.command for one in forecast.refusals)


FORMAT = (
    "kafka-storage.sh format --ignore-formatted --config /path/to/server.properties --cluster-id"
    " $(sed -n 's/^cluster.id=//p' {0}/meta.properties)"
)
# Without the marker a broker recovers its logs, and without recovery points it recovers them from their start.
REMOVED = {
    "torn-tail": "rm {0}/.kafka_cleanshutdown",
    "producers-forgotten": "rm {0}/.kafka_cleanshutdown",
    "aborted-visible": "rm {0}/.kafka_cleanshutdown {0}/recovery-point-offset-checkpoint",
}
BY_KIND = {
    "truncated": (
        "Records will be cut off. If the partition has other replicas, elect one of them first; if it has none, save"
        " the records with kforensics dump."
    ),
    "torn-tail": (
        "Remove the marker of the clean shutdown, so that the broker recovers the logs and cuts the torn end off before"
        " it writes."
    ),
    "producers-forgotten": (
        "Remove the marker of the clean shutdown: the broker then rebuilds the state of producers from the logs."
    ),
    "aborted-visible": (
        "Remove the marker of the clean shutdown and the recovery points: the broker then rebuilds the transaction"
        " indexes, and reads all logs to do so."
    ),
    "records-return": (
        "Restore log-start-offset-checkpoint from a copy, or delete the records again after the start with"
        " kafka-delete-records.sh."
    ),
    LOG_CREATED: "Put the segments of the log back, if a copy of them exists.",
    "created": "Put the folders of the missing partitions back, if a copy of them exists.",
    DIRECTORY_LOST: (
        "Put the folders of the partitions back from a copy, into a log directory with the directory.id that the"
        " metadata log names. Without a copy their records are lost: delete and create the topics."
    ),
    "without-leader": "Put the directory.id back that meta.properties had: the metadata log names it.",
}


def _of_unread_start(partition: PartitionForecast, effect: Effect) -> Remedy:
    first_epoch = (effect.offset or 0) + (effect.records or 0)
    text = f"After the start, delete the records of {partition.name} before offset {first_epoch} again."
    return Remedy(text, delete_records(partition.topic, partition.partition, first_epoch).strip("`"))


def _of_refusal(refusal: LoadRefusedError, log_dirs: Sequence[str]) -> Remedy:
    if isinstance(refusal, ReleaseRefusedError):
        return Remedy(refusal.remedy, refusal.command)
    path = shlex.quote(refusal.path)
    name = refusal.path.rpartition("/")[2]
    if name.endswith("-future"):
        text = (
            "Move the -future folder away. If it is the only folder of its partition, give it the name of that instead."
        )
        return Remedy(text, f"mv {path} /path/outside/")
    if refusal.is_foreign:
        return Remedy(f"Move {name} out of the log directory.", f"mv {path} /path/outside/")
    if name.endswith("-checkpoint"):
        return Remedy(
            f"Replace {name} by a copy, or take it away: a missing one is rebuilt.", f"mv {path} /path/outside/"
        )
    if name.endswith((".checkpoint", "quorum-state", "__cluster_metadata-0")):
        return Remedy(
            "If other controllers have the metadata, move the whole metadata folder away and let this node fetch it."
            " If this is the only one, put its files back from a copy.",
        )
    if name == "meta.properties":
        return _of_identity(refusal, log_dirs)
    if name == "partition.metadata":
        return Remedy(f"Write {path} again: `version: 0` and `topic_id: ` with the id from the metadata log.")
    return _of_indexes(refusal) or Remedy(f"Repair or replace {refusal.path}: {refusal.message}")


def _of_identity(refusal: LoadRefusedError, log_dirs: Sequence[str]) -> Remedy:
    if not refusal.message.startswith(UNFORMATTED.partition("{")[0]):
        text = "Put meta.properties back with the node id, cluster id and directory id of this log directory."
        return Remedy(text)
    text = (
        "If the disk is new, format it with the cluster id that the other log directories have. If only meta.properties"
        " is missing, put it back with the node id, cluster id and directory id of this one."
    )
    others = (each for each in log_dirs if f"{each}/meta.properties" != refusal.path)
    return Remedy(text, next((FORMAT.format(shlex.quote(each)) for each in others), ""))


def _of_indexes(refusal: LoadRefusedError) -> Remedy | None:
    """Return what to do about indexes that do not fit in ``segment.index.bytes``."""
    folder, _, name = refusal.path.rpartition("/")
    if name.endswith((".index", ".timeindex")):
        text = "Take the indexes of the segment away: the broker rebuilds them."
        return Remedy(text, index_removal(refusal.path))
    parsed = parse_folder_name(folder.rpartition("/")[2])
    if parsed is None or not refusal.message.startswith(FULL):
        return None
    text = "Raise segment.index.bytes while another broker of the cluster runs: this one gets the setting from it."
    alter = f"kafka-configs.sh --bootstrap-server {BOOTSTRAP} --alter --entity-type topics --entity-name {parsed.topic}"
    return Remedy(text, f"{alter} --add-config segment.index.bytes=10485760")


def _of_effect(effect: Effect) -> Remedy | None:
    if effect.path is None:
        return None
    if effect.kind == OTHER_CLUSTER:
        text = f"Write the cluster.id of the other log directories into {effect.path}, if it is of their cluster."
        return Remedy(text)
    path = effect.path.removesuffix("/partition.metadata") + "/partition.metadata"
    return Remedy(f"Check the topic id in {path} against the metadata log; a wrong or missing one makes the log stray.")
