"""Checks the snapshots of a KRaft cluster's metadata log: whether a node can load them, and whether they are true.

Rule: ``KafkaRaftLog`` and ``MetadataLoader``. A node loads the newest snapshot when it starts, and then the log
after it. If the log begins after offset 0 there must be a snapshot at its start or later (KAFKA-14240); if the newest
snapshot is beyond the end of the log, the node empties the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.errors import InputError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.metadata.cluster_metadata import METADATA_SNAPSHOT, is_whole_snapshot, snapshots_of
from kforensics.forensics.metadata.image_changes import Change, Touched, changes_between
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.partition.partition_files import LIVE
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import METADATA_TOPIC, parse_file_name
from kforensics.parsers.files.source import file_name

CODES = by_name(
    Code(
        "metadata-snapshot-damaged",
        Severity.CRITICAL,
        meaning="The newest snapshot of the cluster's metadata is damaged or incomplete.",
        remedy=(
            "Copy the metadata log directory before this node starts again. If another controller leads, treat it as a "
            "failed disk: move the folder {topic}-{partition} away, so that the node fetches the metadata from the "
            "leader; on a controller only while a majority of the other voters is up. If it is the only controller, "
            "restore {path} from a backup."
        ),
        why=(
            "A node loads the newest snapshot when it starts, and refuses to start, or hangs, if it cannot read it. "
            "Nothing reads it while the node runs, so damage shows at the next start."
        ),
        benign="An older snapshot than the newest one is damaged. Nodes do not load it.",
    ),
    Code(
        "metadata-snapshot-missing",
        Severity.CRITICAL,
        meaning="The metadata log does not begin at offset 0, and no snapshot has what was before.",
        remedy=(
            "Restore the .checkpoint files of {topic}-{partition} from a backup, or from another controller. If "
            "another controller leads, treat it as a failed disk: move the folder away, so that the node fetches the "
            "metadata from the leader; on a controller only while a majority of the other voters is up."
        ),
        why=(
            "A node deletes the start of its metadata log only after it has written a snapshot of it. Without one it "
            "refuses to start (Inconsistent snapshot state), because topics, partitions and settings from before are "
            "unknown."
        ),
        benign="Only the logs were copied.",
    ),
    Code(
        "metadata-snapshot-differs",
        Severity.WARNING,
        meaning="A snapshot of the cluster's metadata is not what its log says at the same offset.",
        remedy=(
            "Nodes that started since the snapshot have only what it says. Write what differs again, with the tool "
            "that wrote it first."
        ),
        why=(
            "A snapshot is written from the image in the memory of a node, which may lack what the log has: Kafka "
            "loses a SCRAM credential that it applies together with the removal of another one. Nodes that start from "
            "the snapshot lack it, and all nodes do once the log before it is deleted."
        ),
        benign="None is known. A log with gaps, or with records of unknown types, is not compared.",
    ),
    Code(
        "metadata-snapshot-ahead",
        Severity.INFO,
        meaning="The newest snapshot of the cluster's metadata is beyond the end of the log.",
        why=(
            "The node crashed after it had fetched the snapshot from the leader, or the log has lost its end. When it "
            "starts, it empties the log and continues at the snapshot, which has everything before it."
        ),
        benign="A follower that had fallen far back and crashed.",
    ),
)
# Differences that a message names.
NAMED = 3


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the snapshots of a metadata log."""
    metadata = state.partition
    if metadata.place.topic != METADATA_TOPIC:
        return
    snapshots = snapshots_of(metadata)
    try:
        whole = {offset: is_whole_snapshot(path) for offset, path in snapshots.items()}
    except InputError as error:
        yield state.forbidden(CODES["metadata-snapshot-damaged"], error.path, error.why)
        return
    newest = max(snapshots, default=None)
    for offset in (offset for offset, is_whole in whole.items() if not is_whole):
        yield _damaged(state, offset, snapshots[offset], is_newest=offset == newest)
    start = metadata.first_offset
    if start > 0 and (newest is None or newest < start):
        if _lists_newer(metadata.folder, start):
            return  # only some of the files were named
        missing = f"The metadata log begins at offset {start}, and there is no snapshot at this offset or a later one:"
        message = f"{missing} a node that starts here ends with 'Inconsistent snapshot state'."
        evidence: dict[str, object] = {"first_offset": start, "snapshots": sorted(snapshots)}
        innocent = ("only some of the files were copied: not ruled out",)
        finding = state.finding(CODES["metadata-snapshot-missing"], message, evidence=evidence, benign=innocent)
        yield replace(finding, path=metadata.folder)
    elif newest is not None and newest > state.log_end_offset:
        message = (
            f"The newest snapshot ends at offset {newest}, the log at {state.log_end_offset}: a node that starts here "
            f"empties the log, and continues at offset {newest}."
        )
        evidence = {"snapshot": newest, "log_end_offset": state.log_end_offset}
        yield replace(
            state.finding(CODES["metadata-snapshot-ahead"], message, evidence=evidence), path=snapshots[newest]
        )
    elif newest is not None and whole[newest]:
        yield from _different(state, newest, snapshots[newest])


def _lists_newer(folder: str, start: int) -> bool:
    """Return whether a folder has a snapshot at an offset or later that the user did not name."""
    try:
        names = [parse_file_name(child.name) for child in folders_of(folder).children(folder)]
    except InputError:
        return True  # whoever cannot list the folder does not know
    live = (name for name in names if name is not None and name.state == LIVE)
    return any(name.kind == METADATA_SNAPSHOT and (name.base_offset or 0) >= start for name in live)


def _damaged(state: PartitionState, offset: int, path: str, *, is_newest: bool) -> Finding:
    what = f"The snapshot of the metadata at offset {offset} is damaged or incomplete"
    message = f"{what}: a node that starts here loads it first, and refuses to start or hangs."
    older = f"{what}; a newer one is loaded in its place."
    finding = state.finding(
        CODES["metadata-snapshot-damaged"],
        message if is_newest else older,
        severity=None if is_newest else Severity.INFO,
        evidence={"snapshot": offset},
        benign=() if is_newest else ("not read by a node that starts: yes, a newer snapshot is there",),
    )
    return replace(finding, path=path)


def _different(state: PartitionState, offset: int, path: str) -> Iterator[Finding]:
    """Yield that the newest snapshot is not the image of the log before it."""
    metadata = state.partition
    by_log = ImageReplay(metadata, at=offset).begin()
    if by_log.start >= offset or not by_log.is_complete:
        return  # the log before it is not there
    for record in by_log.records():
        by_log.apply(record)
    alone = replace(metadata, segments=(), others=tuple(file for file in metadata.others if file.path == path))
    by_snapshot = ImageReplay(alone).begin()
    if by_log.gaps or by_log.offset != offset or by_log.image.not_applied or by_log.skipped:
        return  # the log itself lacks something
    # A quorum without dynamic voters names them in its log alone.
    changes = [one for one in changes_between(by_log, by_snapshot, Touched()) if one.entity.kind != "voter"]
    if changes:
        named = "; ".join(map(_named, changes[:NAMED]))
        more = f"; and {format_count(len(changes) - NAMED, 'more difference')}" if len(changes) > NAMED else ""
        evidence: dict[str, object] = {"snapshot": offset, "differences": len(changes)}
        message = f"The snapshot {file_name(path)} differs from the log before it: {named}{more}."
        finding = state.finding(
            CODES["metadata-snapshot-differs"], message, offsets=(offset, offset), evidence=evidence
        )
        yield replace(finding, path=path)


def _named(change: Change) -> str:
    entity = change.entity
    label = f"{entity.kind.replace('_', ' ')} {entity.name}{f' {entity.setting}' if entity.setting else ''}"
    return f"{label} {'is missing' if change.after is None else 'is new' if change.before is None else 'differs'}"


CHECK = Check("metadata_snapshots", CODES, findings)
