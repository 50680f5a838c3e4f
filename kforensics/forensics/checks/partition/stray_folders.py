"""Checks whether a folder that a start has set aside has records that the broker no longer serves.

Rule: ``LogManager.loadLog``. A broker that starts renames the folder of a partition to ``-stray`` if its metadata does
not have the topic id in ``partition.metadata``, or if that file is missing. If the partition is assigned to the broker
nevertheless, the broker creates an empty folder in its place, and fills it from the leader, or is the leader itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from kforensics.errors import InputError, InputForbiddenError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.broker_settings import RETENTION_MS
from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.forecast.broker_reader import CorruptLogError, ReadBatch, last_batch, last_readable_batch
from kforensics.forensics.forecast.effects import LoadRefusedError
from kforensics.forensics.forecast.log_directory import topic_id_in
from kforensics.forensics.forecast.metadata_loading import topic_beside
from kforensics.forensics.partition.epoch_starts import epoch_starts
from kforensics.forensics.partition.log_dirs import LIVE
from kforensics.forensics.partition.log_places import folders_in
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import base_offset_of, parse_folder_name
from kforensics.parsers.files.source import file_name

__all__ = ["CHECK", "CODES", "findings"]

CODES = by_name(
    Code(
        "stray-has-records",
        Severity.ERROR,
        meaning="A folder that a start has set aside as stray has records that the broker no longer serves.",
        remedy="Copy both folders, and give the stray one its place back while the broker is stopped.",
        why=(
            "A broker renames a folder to -stray if partition.metadata is missing, or has an id that the metadata "
            "lacks or assigns to other brokers. If the broker has the partition nevertheless, it creates an empty "
            "folder for it. If it is the leader (critical), consumers no longer receive what is in the stray folder, "
            "and the other replicas truncate their logs, too. No broker serves or deletes a stray folder."
        ),
        benign=(
            "Another replica has the records, and this one is being filled from it: info if another broker leads. "
            "Retention would have deleted the records since: info, or a warning if retention.ms is not known. The "
            "folder of a topic that was deleted and created again has another topic id, and is no finding."
        ),
    )
)
REMEDY = (
    "Copy both folders. If {name} has other replicas, assign it to this broker alone with "
    "kafka-reassign-partitions.sh first, because they lack the records, too, and this broker would truncate its log "
    "as theirs. Stop the broker, and give the stray folder its place back: `cp {live}/partition.metadata {stray}/`, "
    "`mv {live} /path/outside/`, `mv {stray} {back}`. What was written since is then only in /path/outside."
)
COMPARE = (
    "Look first whether another replica of {name} has these offsets: then this one is filled from it, and there is "
    "nothing to do. Otherwise copy both folders, and decide whether the records are still needed."
)
FILLED = "the partition is being filled from broker {}: likely"
UNKNOWN = "another replica has the records, and this one is being filled from it: not ruled out"
EXPIRED = "retention.ms ({}) would have deleted the records since: {}"


@dataclass(frozen=True, slots=True)
class _Stray:
    """The log in a stray folder.

    Attributes:
        path: the folder.
        topic_id: from its ``partition.metadata``; None without that file.
        start: base offset of its first segment.
        last: its last batch.
        written_ms: when its last segment was written; None if it is unknown.
    """

    path: str
    topic_id: str | None
    start: int
    last: ReadBatch
    written_ms: int | None


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield the records in stray folders of the partition that its log lacks."""
    partition = state.partition
    name = parse_folder_name(file_name(partition.folder))
    if name is None or name.state != LIVE:
        return
    for log_dir in (partition.log_dir, *partition.log_dir.beside):
        for path in folders_in(log_dir.path, "stray").get((name.topic, name.partition), ()):
            yield from _of_folder(state, path)


def _of_folder(state: PartitionState, path: str) -> Iterator[Finding]:
    try:
        stray = _read(path)
        if stray is not None and _is_of_topic(stray, state):
            yield from _compared(state, stray)
    except InputForbiddenError as error:
        yield state.forbidden(CODES["stray-has-records"], path, error.why)
    except InputError:
        return  # it was removed since it was listed, or cannot be read


def _read(path: str) -> _Stray | None:
    """Return the log in a folder, None if it has no records that can be read."""
    entries = {entry.name: entry for entry in folders_of(path).children(path) if entry.size}
    logs = {base_offset_of(name): entry for name, entry in entries.items() if name.endswith(".log")}
    bases = sorted(base for base in logs if base is not None)
    for base in reversed(bases):
        index = entries.get(f"{logs[base].name.removesuffix('.log')}.index")
        last = _last_batch(logs[base].path, index.path if index else None, base)
        if last is not None:
            topic_id = None
            with suppress(LoadRefusedError):
                topic_id = topic_id_in(path)
            return _Stray(path, topic_id, bases[0], last, logs[base].mtime_ms)
    return None


def _last_batch(log: str, index: str | None, base: int) -> ReadBatch | None:
    """Return the last batch of a segment, or the last before the first one that cannot be read."""
    with suppress(CorruptLogError):
        last = last_batch(log, index, base)
        if last is not None:
            return last
    return last_readable_batch(log)


def _is_of_topic(stray: _Stray, state: PartitionState) -> bool:
    """Return whether the stray folder is of the topic that is served, not of a deleted one of the same name."""
    if None not in (stray.topic_id, state.partition.topic_id):
        return stray.topic_id == state.partition.topic_id
    topic = topic_beside(state.partition)
    created = None if topic is None else topic.created_ms
    return created is None or stray.written_ms is None or stray.written_ms > created - state.rules.clock_skew_ms


def _compared(state: PartitionState, stray: _Stray) -> Iterator[Finding]:
    """Yield which offsets of a stray log the served one lacks.

    If the served log begins with a later leader epoch, its first leader began without the records of the stray one.
    """
    end, last_epoch = stray.last.next_offset, stray.last.header.partition_leader_epoch or 0
    starts = epoch_starts(state)
    later = [start for epoch, start in starts if epoch > last_epoch and start < end]
    is_new_log = bool(later) and min(later) == min(start for _, start in starts)
    first = max(stray.start, state.log_start_offset, 0 if is_new_log else state.log_end_offset)
    if first >= end or (later and not is_new_log):
        return  # the log has them, or a later leader has overruled them, as happens to what is not committed
    severity, benign = _severity(state, stray, is_new_log=is_new_log)
    started = state.partition.created_ms
    when = "" if started is None or started < (stray.written_ms or started) else f" at {format_time(started)}"
    served = state.log_start_offset, state.log_end_offset
    finding = state.finding(
        CODES["stray-has-records"],
        (
            f"Records at offsets {first} to {end - 1} are only in {file_name(stray.path)}, which the start of the "
            f"broker{when} set aside: the log that it serves begins at {served[0]} and ends at {served[1]}."
        ),
        severity=severity,
        offsets=(first, end - 1),
        evidence={"stray": stray.path},
        benign=benign,
    )
    yield replace(finding, path=stray.path, remedy=_remedy(state, stray, severity))


def _severity(state: PartitionState, stray: _Stray, *, is_new_log: bool) -> tuple[Severity, tuple[str, ...]]:
    """Return the severity, and what may excuse the finding."""
    leading, node_id = _leading(state), state.partition.place.broker_id
    if leading and node_id not in {None, *leading} and not is_new_log:
        return Severity.INFO, (FILLED.format(", ".join(map(str, sorted(leading)))),)
    retention, newest = state.rules.of_topic(RETENTION_MS), stray.last.header.max_timestamp or 0
    kept_ms = -1 if state.rules.compaction is not None else retention.number
    if kept_ms >= 0 and 0 < newest < state.rules.as_of_ms - kept_ms:
        hedge = "not ruled out" if retention.is_default else "likely"
        return Severity.WARNING if retention.is_default else Severity.INFO, (EXPIRED.format(retention.value, hedge),)
    if leading == {node_id}:
        return Severity.CRITICAL, ()
    return (Severity.ERROR, ()) if is_new_log else (Severity.WARNING, (UNKNOWN,))


def _leading(state: PartitionState) -> set[int]:
    """Return the leader by the metadata beside, those that may become it if there is none; empty if unknown."""
    topic = topic_beside(state.partition)
    assigned = topic.partitions.get(state.partition.place.partition or 0) if topic else None
    if assigned is None:
        return set()
    return {*assigned.isr, *assigned.elr} if assigned.leader < 0 else {assigned.leader}


def _remedy(state: PartitionState, stray: _Stray, severity: Severity) -> str | None:
    """Return the commands that give the stray folder its place back, if it is certain that nothing else has the log."""
    name = file_name(state.partition.folder)
    if severity <= Severity.WARNING:
        return None if severity is Severity.INFO else COMPARE.format(name=name)
    back = f"{stray.path.rstrip('/').rpartition('/')[0]}/{name}"
    words = {"live": state.partition.folder, "stray": stray.path.rstrip("/"), "back": back}
    return REMEDY.format(name=name, **{key: shell_word(path) for key, path in words.items()})


CHECK = Check("stray_folders", CODES, findings)
