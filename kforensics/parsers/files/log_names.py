"""Parses names in a log directory: kind, base offset and state of a file; topic, partition and state of a folder.

Rules: ``LogFileUtils``, ``LocalLog.parseTopicPartitionName``, ``Snapshots`` and ``RemoteIndexCache`` in Kafka. No file
is opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from kforensics.parsers.files.text_lines import parse_int, parse_long

__all__ = [
    "ALWAYS_COMPACTED",
    "CONSUMER_OFFSETS",
    "METADATA_TOPIC",
    "REMOTE_LOG_METADATA",
    "SHARE_GROUP_STATE",
    "TRANSACTION_STATE",
    "FileName",
    "FolderName",
    "base_offset_of",
    "parse_file_name",
    "parse_folder_name",
]

METADATA_TOPIC = "__cluster_metadata"
CONSUMER_OFFSETS = "__consumer_offsets"
REMOTE_LOG_METADATA = "__remote_log_metadata"
SHARE_GROUP_STATE = "__share_group_state"
TRANSACTION_STATE = "__transaction_state"
# Internal topics that brokers always compact.
ALWAYS_COMPACTED = (CONSUMER_OFFSETS, TRANSACTION_STATE)

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
# The last suffix is the state. .part is an unfinished KRaft snapshot, .tmp an unfinished checkpoint or download.
STATES = ("deleted", "cleaned", "swap", "tmp", "part")
STATE = re.compile(rf"(.+)\.({'|'.join(STATES)})")
SEGMENT = re.compile(r"([0-9]+)\.(log|index|timeindex|txnindex|snapshot)")
# The UUID itself may contain underscores, so the offset ends at the first one.
REMOTE_INDEX = re.compile(r"([0-9]+)_([A-Za-z0-9_-]{22})\.(index|timeindex|txnindex)")
CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})(?:-[^.]+)?\.checkpoint")
RENAMED = re.compile(r"(\S+-\S+)\.(\S+)-(delete|future|stray)")
FOLDER_STATES = {"delete": "deleted", "future": "future", "stray": "stray"}
# Kafka shortens -delete and -stray names to this many characters.
LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class FileName:
    """A parsed file name.

    Attributes:
        name: the name.
        kind: ``log``, ``index``, ``timeindex``, ``txnindex``, ``snapshot``, ``checkpoint``, ``offset-checkpoint``, …
        base_offset: number in the name: base offset of a segment, or end offset of a snapshot.
        state: ``live``, ``deleted``, ``cleaned``, ``swap``, ``tmp`` or ``part``.
        leader_epoch: epoch in the name of a KRaft snapshot.
        remote_segment_id: UUID text of the segment in the name of a cached remote index.
    """

    name: str
    kind: str
    base_offset: int | None = None
    state: str = "live"
    leader_epoch: int | None = None
    remote_segment_id: str | None = None


@dataclass(frozen=True, slots=True)
class FolderName:
    """A parsed name of a partition folder.

    Attributes:
        name: the name.
        topic: the topic; may be shortened if ``topic_may_be_cut``.
        partition: the partition.
        state: ``live``, ``deleted``, ``future`` or ``stray``.
        topic_may_be_cut: whether the name is so long that Kafka may have shortened the topic.
    """

    name: str
    topic: str
    partition: int
    state: str = "live"
    topic_may_be_cut: bool = False


@lru_cache(maxsize=4096)  # listing a folder asks several times for each of its names
def parse_file_name(name: str) -> FileName | None:
    """Return the parsed file name, None if it is not a name that Kafka uses.

    >>> parse_file_name("00000000000000000042.timeindex.swap").state
    'swap'
    """
    state = "live"
    parts = _parse_live(name)
    match = STATE.fullmatch(name)
    if parts is None and match:
        parts, state = _parse_live(match[1]), match[2]
    if parts is None:
        return None
    kind, base_offset, leader_epoch, segment_id = parts
    return FileName(name, kind, base_offset, state, leader_epoch, segment_id)


# Kind, base offset, leader epoch and remote segment id.
_NameParts = tuple[str, int | None, int | None, str | None]


def _parse_live(name: str) -> _NameParts | None:
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
    """Return the parsed folder name, None if it is not the name of a partition folder.

    >>> folder = parse_folder_name("my-topic-7.0123456789abcdef0123456789abcdef-delete")
    >>> folder.topic, folder.partition, folder.state
    ('my-topic', 7, 'deleted')
    """
    state, live = "live", name
    if name.endswith(tuple(f"-{suffix}" for suffix in FOLDER_STATES)):
        match = RENAMED.fullmatch(name)
        if match is None:
            return None
        # Kafka's pattern allows more dots. Like Kafka, drop everything from the last one on.
        live, state = name.rpartition(".")[0], FOLDER_STATES[match[3]]
    topic, _, number = live.rpartition("-")
    partition = parse_int(number)
    if not topic or partition is None or partition < 0:
        return None
    may_be_cut = state in ("deleted", "stray") and len(name) >= LONGEST_NAME
    return FolderName(name, topic, partition, state, may_be_cut)


def base_offset_of(path: str) -> int | None:
    """Return the base offset in the name of a segment file, None if there is none.

    >>> base_offset_of("t-0/00000000000000000042.index")
    42
    """
    name = parse_file_name(PurePosixPath(path).name)
    return name.base_offset if name else None
