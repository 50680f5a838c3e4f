"""Checks what the next start of the broker does to a partition and its log directory: refuse, cut, make stray.

Rule: ``kforensics forecast``, whose rules were compared with real brokers. Files that a running broker changes are
evaluated only in a log directory with the marker of a clean shutdown, because a copy may have them from different
moments. What no broker changes while it runs, such as ``meta.properties`` and the names of folders, always is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.errors import InputError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.forecast.broker_forecast import COPIED, CREATED
from kforensics.forensics.forecast.broker_reader import CORRUPT, CorruptLogError, batches_from, next_offset
from kforensics.forensics.forecast.certain_effects import (
    LEFT_OUT,
    NOTHING_SERVED,
    PROMOTED,
    UNLED,
    certain_effects,
    directories_of,
)
from kforensics.forensics.forecast.effects import DIRECTORY_LOST, Effect, LoadRefusedError
from kforensics.forensics.forecast.index_limits import check_indexes, index_removal
from kforensics.forensics.forecast.log_directory import (
    MARKER,
    META,
    METADATA_FOLDER,
    SOME_COPIED,
    PartitionFolder,
    is_first_folder,
    read_log_directory,
)
from kforensics.forensics.forecast.metadata_loading import index_limits, metadata_beside, why_stray
from kforensics.forensics.forecast.next_start import forecast_start
from kforensics.forensics.forecast.older_releases import OUT_OF_SERVICE, fate_in_its_release
from kforensics.forensics.forecast.segment_files import (
    PartitionFiles,
    check_epochs,
    effects_of_end,
    is_corrupt,
    returning_records,
)
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs
from kforensics.forensics.partition.partition_files import LIVE, LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import METADATA_TOPIC, parse_folder_name
from kforensics.parsers.files.source import Window, file_name, open_source
from kforensics.parsers.format.rows import Batch

FORECAST = "Run `kforensics forecast` on all log directories of the broker before you start it."
COPY = "Copy the log directory before the broker starts."
CODES = by_name(
    Code(
        "start-refused",
        Severity.CRITICAL,
        meaning="A broker refuses to start on this log directory.",
        remedy=f"{COPY} Repair or move away {{path}}. {FORECAST}",
        why=(
            "The broker ends with an exception while it reads its identity, its checkpoints or its logs. If it has "
            "several log directories, some of these faults take only this one offline. A start that fails removes the "
            "marker of the clean shutdown, so that the next one recovers all logs."
        ),
        benign="Only some of the files were copied.",
    ),
    Code(
        "start-stray",
        Severity.ERROR,
        meaning="The next start takes a partition out of service, because the metadata does not assign it.",
        remedy=(
            f"{COPY} Compare topic_id in {{path}} with the metadata, which `kforensics cluster` shows, and write the "
            f"right one. {FORECAST}"
        ),
        why=(
            "A broker renames a folder to -stray if its topic id is missing or unknown to the metadata, or if the "
            "metadata assigns the partition to other brokers. It then serves an empty partition in its place, or "
            "copies it from the leader, and logs one warning. Before 3.7 it deletes the folder, without a word."
        ),
        benign="The folder was put there on purpose. If the metadata log shows that the topic was deleted: info.",
    ),
    Code(
        "start-creates-empty",
        Severity.ERROR,
        meaning="The folder of a partition is missing, and the next start creates an empty one without a warning.",
        remedy=f"{COPY} Put the folder of the partition back, if a copy of it exists. {FORECAST}",
        why=(
            "The metadata assigns the partition to this broker, and its checkpoints show that it had data. Without "
            "other replicas its records are lost; with others it is copied from the leader."
        ),
        benign="Only some of the folders were copied (info if it is likely), or it is in another log directory.",
    ),
    Code(
        "start-without-leader",
        Severity.CRITICAL,
        meaning="The next start leaves partitions without a leader, and the broker logs no error.",
        remedy=f"{COPY} Put the directory.id back that meta.properties had: the metadata log names it. {FORECAST}",
        why=(
            "Since 3.7 the metadata names the log directory of each replica by its directory id. If meta.properties "
            "has another one, the controller treats the directory as lost. With the topic id of another topic in a "
            "folder, the broker stops applying the metadata."
        ),
        benign="None is known.",
    ),
    Code(
        "start-promotes-future",
        Severity.WARNING,
        meaning="The next start serves a folder that was still being copied, because the original is missing.",
        remedy=f"{COPY} Put the original folder back, if there is a copy of it. {FORECAST}",
        why=(
            "A -future folder is a replica on its way to another log directory. If the original is missing, the broker "
            "takes the copy as it is, complete or not."
        ),
        benign="The original was moved away on purpose, once the copy was complete.",
    ),
    Code(
        "start-torn-tail",
        Severity.ERROR,
        meaning="The log has a torn end, which a broker that was shut down cleanly does not truncate when it starts.",
        remedy=f"{COPY} Delete .kafka_cleanshutdown, so that the broker recovers the log before it writes. {FORECAST}",
        why=(
            "After a clean shutdown a broker does not read its logs. It ignores bytes that are no whole batch and "
            "appends the next records after them; it acknowledges these records, and the next recovery truncates "
            "them together with the torn end."
        ),
        benign="None is known: a clean shutdown leaves no torn end. A failing disk, a tool or a full copy target does.",
    ),
    Code(
        "start-cuts-log",
        Severity.ERROR,
        meaning="A broker that starts treats the log as shorter than it is, without a warning.",
        remedy=(
            f"{COPY} Delete the .index of the segment {{path}}: the broker then reads the segment and rebuilds it. "
            f"{FORECAST}"
        ),
        why=(
            "After a clean shutdown a broker finds the end of the log from the last entry of the offset index. If the "
            "entry points to the wrong place, the log seems to end there, and the next records get offsets again that "
            "are in use."
        ),
        benign="None is known.",
    ),
    Code(
        "start-returns-records",
        Severity.ERROR,
        meaning="The next start brings deleted records back.",
        remedy=(
            f"{COPY} Restore log-start-offset-checkpoint from a copy, or delete the records again after the start with "
            "kafka-delete-records.sh."
        ),
        why=(
            "A broker keeps in log-start-offset-checkpoint up to where records were deleted within a segment. Without "
            "the entry the log starts at its first segment again; the leader epochs still begin at the deleted offset."
        ),
        benign="A running broker writes the checkpoint once a minute, so only clean shutdowns are checked.",
    ),
)
# The release that starts is not known; this one refuses less than later ones.
OLDEST = "3.3"
# Folders that a start loads, too.
BESIDE = ("stray", "future")
# Files whose names a broker reads as numbers.
NUMBERED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
# What has a code of its own that says the same.
SAID_ELSEWHERE = (".checkpoint", METADATA_FOLDER)
CHECKPOINT_CODES = {
    "recovery-point-offset-checkpoint": "checkpoint-start-invalid",
    "log-start-offset-checkpoint": "checkpoint-start-invalid",
    "cleaner-offset-checkpoint": "checkpoint-cleaner-invalid",
    "replication-offset-checkpoint": "checkpoint-hw-beyond-end",
    "leader-epoch-checkpoint": "leader-epoch-checkpoint-mismatch",
}
DIRECTORY_CODES = {
    **dict.fromkeys((CREATED, COPIED, LEFT_OUT), "start-creates-empty"),
    **dict.fromkeys((UNLED, DIRECTORY_LOST, NOTHING_SERVED), "start-without-leader"),
    PROMOTED: "start-promotes-future",
}
LOG_CODES = {"torn-tail": "start-torn-tail", "truncated": "start-cuts-log", "records-return": "start-returns-records"}
# Partitions that a message names.
NAMED = 5


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what the next start does to a partition, and, at the first one of a log directory, to the directory."""
    partition = state.partition
    name, log_dir = parse_folder_name(file_name(partition.folder)), partition.log_dir.path
    if name is None or name.state != LIVE or log_dir is None:
        return
    try:
        for finding in _in_folder(state, PartitionFolder(partition.folder, name, partition.topic_id), log_dir):
            remedy = finding.remedy or finding.code.remedy
            words = " ".join(
                shell_word(f"./{path}" if path.startswith("-") else path) for path in directories_of(partition.log_dir)
            )
            for command in ("`kforensics forecast", "`kforensics cluster"):
                remedy = remedy.replace(f"{command}`", f"{command} {words}`")
            yield replace(finding, remedy=remedy)
    except InputError:
        return  # the file has a finding of its own, or the partition an error


def _in_folder(state: PartitionState, folder: PartitionFolder, log_dir: str) -> Iterator[Finding]:
    try:
        if state.partition.place.topic != METADATA_TOPIC:
            yield from _of_partition(state, folder)
    except LoadRefusedError as refused:
        yield _refused(state, refused)
    if is_first_folder(folder.path, log_dir):
        yield from _of_log_directory(state, log_dir)


def _names(folder: str) -> Iterator[str]:
    return (entry.name for entry in folders_of(folder).children(folder))


# A log directory.


def _of_log_directory(state: PartitionState, log_dir: str) -> Iterator[Finding]:
    forecast, directory = forecast_start([log_dir], loads_logs=False), read_log_directory(log_dir)
    # Otherwise only folders of it were copied, perhaps among others: what is missing or foreign is no evidence.
    is_whole = META in directory.files or {RECOVERY_POINT, MARKER} <= directory.files
    for refusal in forecast.refusals:
        is_evidence = is_whole or not (refusal.is_foreign or refusal.path == f"{log_dir}/{META}")
        if is_evidence and not refusal.path.endswith(SAID_ELSEWHERE):
            yield _refused(state, refusal)
    for folder in directory.folders if directory.clean else ():
        try:
            if folder.name.state in BESIDE:
                check_indexes(folder.path, index_limits(metadata_beside(state.partition), folder.name.topic))
        except LoadRefusedError as refused:
            yield _refused(state, refused)
    for kind, effects in certain_effects(state.partition.log_dir, forecast).items():
        yield _directory_finding(state, log_dir, kind, effects)


def _directory_finding(state: PartitionState, log_dir: str, kind: str, effects: list[tuple[str, Effect]]) -> Finding:
    names, first = [name for name, _ in effects if name], effects[0][1]
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    message = f"The next start: {shown + ': ' if shown else ''}{first.detail}."
    likely, code = kind == LEFT_OUT, CODES[DIRECTORY_CODES[kind]]
    if likely:
        message = f"The folders of {shown} are missing, as if {SOME_COPIED}. The next start creates them empty."
    finding = state.finding(
        code,
        message,
        severity=Severity.INFO if likely else None,
        evidence={"partitions": names},
        benign=(f"{SOME_COPIED}: {'likely' if likely else 'not ruled out'}",) * (code.name == "start-creates-empty"),
    )
    return replace(finding, path=first.path or log_dir)


# A partition.


def _of_partition(state: PartitionState, folder: PartitionFolder) -> Iterator[Finding]:
    partition = state.partition
    for name in sorted(file_name(file.path) for file in partition.others):
        if name.endswith(NUMBERED):
            PartitionFiles(partition.folder, {}).number(name)
    if partition.leader_epochs is not None:
        check_epochs(partition.folder)
    if not partition.log_dir.clean_shutdown:
        return
    stray = _stray(state, folder)
    if stray is not None:
        yield stray
    elif partition.segments:
        for effect in _of_log(state):
            if effect.kind in LOG_CODES:
                yield _log_finding(state, effect)


def _stray(state: PartitionState, folder: PartitionFolder) -> Finding | None:
    metadata, node_id = metadata_beside(state.partition), state.partition.place.broker_id
    if metadata is None or metadata.lost or node_id not in metadata.image.brokers:
        return None
    fate = fate_in_its_release(folder, metadata, node_id)
    if fate not in OUT_OF_SERVICE or (folder.topic_id is None and "partition.metadata" in _names(folder.path)):
        return None
    assigned = metadata.image.partition_named(folder.name.topic, folder.name.partition)
    is_only = assigned is not None and assigned.replicas == (node_id,)
    message = f"The next start {OUT_OF_SERVICE[fate]}: {why_stray(folder, metadata)}."
    if is_only:
        message += " The broker has the only replica, and serves an empty partition in its place."
    severity = Severity.INFO if folder.topic_id in metadata.removed else Severity.CRITICAL if is_only else None
    finding = state.finding(CODES["start-stray"], message, severity=severity)
    return replace(finding, path=f"{folder.path.rstrip('/')}/partition.metadata")


def _of_log(state: PartitionState) -> Iterator[Effect]:
    """Yield what a start after a clean shutdown makes of the log."""
    partition = state.partition
    last = partition.segments[-1]
    base = last.base_offset or 0
    rebuilt = [
        number
        for number, file in partition.transaction_indexes.items()
        if file.size and is_corrupt(file.path, number, OLDEST)
    ]
    if base in partition.indexes and base not in rebuilt:
        check_indexes(partition.folder, index_limits(metadata_beside(partition), partition.place.topic))
    if base in partition.indexes and base not in rebuilt and last.size:
        try:
            end = next_offset(last.path, partition.indexes[base].path, base)
        except CorruptLogError as error:
            raise LoadRefusedError(CORRUPT, f"{error.why} in file {error.path}.", error.path) from error
        if end != state.log_end_offset or state.torn_end is not None:
            yield from effects_of_end(last.path, base, last.size, end, partition.checkpoint(RECOVERY_POINT) or 0)
    read, damaged, forbidden = partition.log_dir.checkpoints, partition.log_dir.damaged, partition.log_dir.forbidden
    if LOG_START in {*read, *damaged, *forbidden}:
        return  # a checkpoint without the partition: a crash before it was written, and they came back then
    starts = checkpointed_epochs(partition)
    if starts and min(starts.values()) > state.local_log_start_offset:
        returned = returning_records(starts, state.local_log_start_offset, _batches(state))
        yield from [] if returned is None or min(starts.values()) > state.log_end_offset else [returned]


def _batches(state: PartitionState) -> Iterator[Batch]:
    for segment in state.partition.segments:
        with open_source(segment.path) as source:
            try:
                for batch in batches_from(Window(source), 0, segment.path):
                    if batch.header.last_offset >= state.local_log_start_offset:
                        yield batch.header
            except CorruptLogError:
                return


def _log_finding(state: PartitionState, effect: Effect) -> Finding:
    offset = effect.offset or 0
    lost = f" ({format_count(effect.records, 'offset')})" if effect.records else ""
    evidence: dict[str, object] = {"records": effect.records, "bytes": effect.size}
    finding = state.finding(
        CODES[LOG_CODES[effect.kind]],
        f"The next start: {effect.detail}{lost}.",
        offsets=(offset, offset + max(effect.records or 1, 1) - 1),
        evidence={name: value for name, value in evidence.items() if value is not None},
    )
    return replace(finding, path=effect.path or state.partition.folder)


def _refused(state: PartitionState, refusal: LoadRefusedError) -> Finding:
    name = refusal.path.rpartition("/")[2]
    cause = CHECKPOINT_CODES.get(name) or ("txnindex-corrupt" if name.endswith(".txnindex") else None)
    # A broker replaces such a file as a whole, but a copy may still be incomplete.
    is_copied = name in CHECKPOINT_CODES and not state.partition.log_dir.clean_shutdown
    finding = state.finding(
        CODES["start-refused"],
        f"A broker refuses to start here: {refusal.exception}: {refusal.message}",
        severity=Severity.WARNING if is_copied else None,
        evidence={"exception": refusal.exception},
        benign=("only some of the files were copied: possible",) if name == META else (),
        cause=cause,
    )
    return replace(finding, path=refusal.path, remedy=_remedy(refusal))


def _remedy(refusal: LoadRefusedError) -> str | None:
    """Return what to do if it is to take a file or a folder away."""
    if refusal.path.endswith((".index", ".timeindex")):
        return f"{COPY} Then take the indexes away, the broker rebuilds them: `{index_removal(refusal.path)}`."
    if not refusal.is_foreign and file_name(refusal.path) not in CHECKPOINT_CODES:
        return None
    outside = "a broker makes a new one" if not refusal.is_foreign else "no broker knows its name"
    return f"{COPY} Then take it away, {outside}: `mv {shell_word(refusal.path)} /path/outside/`."


CHECK = Check("start_effects", CODES, findings, needs_log=False)
