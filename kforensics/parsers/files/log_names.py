"""What the names in a log directory say: of files their kind, base offset and state, of folders topic and partition.

Rule: ``LogFileUtils``, ``LocalLog.parseTopicPartitionName``, ``Snapshots`` and ``RemoteIndexCache`` of Kafka. Nothing
here looks at a file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from kforensics.parsers.files.text_lines import parse_int, parse_long

__all__ = ["METADATA_TOPIC", "FileName", "FolderName", "base_offset_of", "parse_file_name", "parse_folder_name"]

METADATA_TOPIC = "__cluster_metadata"

FIXED_NAMES = {
    ".lock": "lock",
    "meta.properties": "meta-properties",
    ".kafka_cleanshutdown": "clean-shutdown",
    "recovery-point-offset-checkpoint": "offset-checkpoint",
    "log-start-offset-checkpoint": "offset-checkpoint",
    "replication-offset-checkpoint": "offset-checkpoint",
    "cleaner-offset-checkpoint": "offset-checkpoint",
    "leader-epoch-checkpoint": "leader-epoch-checkpoint",
    "_rlmm_committed_offsets": "remote-offsets",
    "partition.metadata": "partition-metadata",
    "quorum-state": "quorum-state",
    "remote_log_snapshot": "remote-log-snapshot",
    "bootstrap.checkpoint": "checkpoint",
}
# The last suffix tells the state; .part is a KRaft snapshot and .tmp a checkpoint or download that is being written.
STATES = ("deleted", "cleaned", "swap", "tmp", "part")
STATE = re.compile(rf"(.+)\.({'|'.join(STATES)})")
SEGMENT = re.compile(r"([0-9]+)\.(log|index|timeindex|txnindex|snapshot)")
# A uuid's text may hold underscores itself, so the first one ends the offset.
REMOTE_INDEX = re.compile(r"([0-9]+)_([A-Za-z0-9_-]{22})\.(index|timeindex|txnindex)")
CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})(?:-[^.]+)?\.checkpoint")
RENAMED = re.compile(r"(\S+-\S+)\.(\S+)-(delete|future|stray)")
FOLDER_STATES = {"delete": "deleted", "future": "future", "stray": "stray"}
# -delete and -stray names are cut to fit this many characters.
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class FileName:
    """What a file's name says.

    Attributes:
        name: the name.
        kind: ``log``, ``index``, ``timeindex``, ``txnindex``, ``snapshot``, ``checkpoint``, ``offset-checkpoint``, …
        base_offset: number in the name: a segment's base offset, or the end of what a snapshot describes.
        state: ``live``, or what is to become of it: ``deleted``, ``cleaned``, ``swap``, ``tmp``, ``part``.
        leader_epoch: epoch in the name of a KRaft snapshot.
        remote_segment_id: segment's uuid text in the name of a cached index of remote storage.
    """

    name: str
    kind: str
    base_offset: int | None = None
    state: str = "live"
    leader_epoch: int | None = None
    remote_segment_id: str | None = None


@dataclass(frozen=True, slots=True)
class FolderName:
    """What a partition folder's name says.

    Attributes:
        name: the name.
        topic: the topic; its end may be missing if ``topic_may_be_cut``.
        partition: the partition.
        state: ``live``, ``deleted``, ``future`` or ``stray``.
        topic_may_be_cut: the name is so long that Kafka may have shortened the topic.
    """

    name: str
    topic: str
    partition: int
    state: str = "live"
    topic_may_be_cut: bool = False


def parse_file_name(name: str) -> FileName | None:
    """Return what a file's name says, None if it is not one of Kafka's names.

    >>> parse_file_name("00000000000000000042.timeindex.swap").state
    'swap'
    """
    state = "live"
    found = _parse_live(name)
    match = STATE.fullmatch(name)
    if found is None and match:
        found, state = _parse_live(match[1]), match[2]
    if found is None:
        return None
    kind, base_offset, leader_epoch, segment_id = found
    return FileName(name, kind, base_offset, state, leader_epoch, segment_id)


Found = tuple[str, int | None, int | None, str | None]


def _parse_live(name: str) -> Found | None:
    if name in FIXED_NAMES:
        return FIXED_NAMES[name], None, None, None
    if match := SEGMENT.fullmatch(name):
        return match[2], parse_long(match[1]), None, None
    if match := CHECKPOINT.fullmatch(name):
        return "checkpoint", parse_long(match[1]), parse_int(match[2]), None
    if match := REMOTE_INDEX.fullmatch(name):
        return match[3], parse_long(match[1]), None, match[2]
    return None


def parse_folder_name(name: str) -> FolderName | None:
    """Return what a folder's name says, None if it is not that of a partition.

    >>> folder = parse_folder_name("my-topic-7.0123456789abcdef0123456789abcdef-delete")
    >>> folder.topic, folder.partition, folder.state
    ('my-topic', 7, 'deleted')
    """
    state, live = "live", name
    if name.endswith(tuple(f"-{suffix}" for suffix in FOLDER_STATES)):
        match = RENAMED.fullmatch(name)
        if match is None:
            return None
        # Kafka's pattern allows more dots; like Kafka, drop everything from the last one.
        live, state = name.rpartition(".")[0], FOLDER_STATES[match[3]]
    topic, _, number = live.rpartition("-")
    partition = parse_int(number)
    if not topic or partition is None or partition < 0:
        return None
    may_be_cut = state in ("deleted", "stray") and len(name) >= LONGEST_NAME
    return FolderName(name, topic, partition, state, may_be_cut)


def base_offset_of(path: str) -> int | None:
    """Return the number in the name of a segment's file, None if there is none.

    >>> base_offset_of("t-0/00000000000000000042.index")
    42
    """
    found = parse_file_name(PurePosixPath(path).name)
    return found.base_offset if found else None
