"""One of several copies of a partition, and which copies belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

from kforensics.forensics.core.record_types import TransactionArray
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs, epoch_starts
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.log_names import parse_file_name, parse_folder_name
from kforensics.parsers.files.source import file_name

__all__ = ["Replica", "all_copies_of", "replica_groups", "replicas_of"]

LIVE_STATE = "live"
# States of a folder that the broker has set aside, or does not serve yet.
ASIDE_STATES = ("future", "stray", "deleted")


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class Replica:
    """A copy of a partition.

    Attributes:
        number: its number among the compared replicas.
        state: the examined partition.
        name: its name in messages.
        compacted_to: offset up to which a log cleaner has processed any of the replicas, by their cleaner checkpoints;
            None if none of these lists the partition.
    """

    number: int
    state: PartitionState
    name: str
    compacted_to: int | None = None

    @property
    def partition(self) -> Partition:
        """Its files."""
        return self.state.partition

    @property
    def is_live(self) -> bool:
        """Whether the broker serves this copy."""
        return _folder_state(self.partition.folder) == LIVE_STATE

    @property
    def first_uncompacted_offset(self) -> int:
        """Offset from which on its batches are as the leader wrote them.

        A follower may have fetched what its leader had already cleaned, and its own cleaner checkpoint does not show
        this. If the checkpoint of any replica shows compaction, the log itself must show what was not cleaned.
        """
        if self.compacted_to is None:
            return self.state.first_uncompacted_offset
        return max(self.state.first_uncompacted_offset, self.state.log.cleaned_to + 1)

    @property
    def first_fetched_whole(self) -> int:
        """Offset from which on it lacks no batch because a leader had compacted its log before it was fetched.

        Whichever replica a cleaner has processed may have been the leader. A batch that only this one lacks is missing
        without an explanation from there on. Its own cleaner checkpoint goes back when the replica truncates its log.
        Rule: ``LogCleanerManager.maybeTruncateCheckpoint``.
        """
        return max(self.first_uncompacted_offset, self.compacted_to or 0)

    @property
    def first_offset(self) -> int:
        """First offset that its files can contain."""
        return self.partition.first_offset

    @property
    def end(self) -> int:
        """Its log end offset."""
        return self.state.log_end_offset

    @property
    def high_watermark(self) -> int | None:
        """Its checkpointed high watermark, None for a copy that the checkpoint does not contain."""
        return self.state.high_watermark if self.is_live else None

    @property
    def last_leader_epoch(self) -> int:
        """Leader epoch of its last batch that has one, -1 if none has."""
        runs = self.state.log.epochs
        return int(runs["leader_epoch"][-1]) if len(runs) else -1

    def transactions(self) -> Iterator[TransactionArray]:
        """Return its TRANSACTION records in pages: closed ones by marker offset, then open ones."""
        return iter(self.state.transaction_store)

    @cached_property
    def epoch_starts(self) -> tuple[tuple[int, int], ...]:
        """Leader epochs with their start offsets, from its batches and its ``leader-epoch-checkpoint``."""
        return epoch_starts(self.state)

    @cached_property
    def checkpointed_epochs(self) -> Mapping[int, int]:
        """Start offsets by leader epoch from ``leader-epoch-checkpoint``; empty if a broker would reject the file."""
        return checkpointed_epochs(self.partition)


def replicas_of(states: Sequence[PartitionState]) -> tuple[Replica, ...]:
    """Return the examined copies of one partition as replicas, in the same order."""
    cleaned = (end for state in states if (end := _cleaned_to(state)) is not None)
    compacted_to = max(cleaned, default=None)
    names = [_name(state.partition) for state in states]
    distinct_names = [
        name if names.count(name) == 1 else state.partition.folder for name, state in zip(names, states, strict=True)
    ]
    return tuple(Replica(number, state, distinct_names[number], compacted_to) for number, state in enumerate(states))


def _cleaned_to(state: PartitionState) -> int | None:
    """Return up to which offset the cleaner of a broker may have processed a log; None if its checkpoint lacks it.

    The cleaner of a running broker may have continued after its checkpoint was copied.
    """
    dirty = state.first_dirty_offset
    return dirty if dirty is None or state.partition.log_dir.clean_shutdown else state.first_uncompacted_offset


def _name(partition: Partition) -> str:
    broker_id, state = partition.place.broker_id, _folder_state(partition.folder)
    if broker_id is None:
        return partition.folder
    return f"broker {broker_id}" if state == LIVE_STATE else f"the {state} copy of broker {broker_id}"


def _folder_state(folder: str) -> str:
    """Return the state in the name of a folder: ``live``, ``future``, ``stray`` or ``deleted``."""
    name = parse_folder_name(file_name(folder))
    return name.state if name else LIVE_STATE


def replica_groups(partitions: Iterable[Partition]) -> list[tuple[Partition, ...]]:
    """Return the partitions with several copies, as groups of copies by topic and number; a copy without a log is none.

    Copies of topics with the same name but different ids are not replicas of each other: the topic was deleted and
    recreated. A copy without ``partition.metadata`` belongs to the only topic of its name, or to none of several.
    """
    by_name: dict[tuple[str, int], list[Partition]] = {}
    for partition in partitions:
        topic, number = partition.place.topic, partition.place.partition
        if topic is not None and number is not None and partition.has_log:
            by_name.setdefault((topic, number), []).append(partition)
    groups = (group for _, copies in sorted(by_name.items()) for group in _by_topic_id(copies))
    return [tuple(group) for group in groups if len(group) > 1]


def _by_topic_id(copies: Sequence[Partition]) -> list[list[Partition]]:
    ids = sorted({copy.topic_id for copy in copies if copy.topic_id is not None})
    without_id = [copy for copy in copies if copy.topic_id is None]
    groups = [[copy for copy in copies if copy.topic_id == topic_id] for topic_id in ids]
    if len(groups) == 1:
        groups[0] += without_id
    elif without_id:
        groups.append(without_id)
    return [sorted(group, key=_order) for group in groups]


def _order(partition: Partition) -> tuple[int, str]:
    broker_id = partition.place.broker_id
    return -1 if broker_id is None else broker_id, partition.folder


def all_copies_of(files: Iterable[FoundFile]) -> list[Partition]:
    """Return the partitions among files, including copies that brokers have set aside or do not serve yet.

    Args:
        files: discovered files, including those of the log directories.
    """
    found_files = list(files)
    aside: dict[str, list[FoundFile]] = {}
    for file in found_files:
        folder = file.path.rpartition("/")[0]
        if _folder_state(folder) in ASIDE_STATES:
            aside.setdefault(folder, []).append(replace(file, state=_own_state(file)))
    log_dir_files = [file for file in found_files if file.topic is None]
    copies = (copy for files_aside in aside.values() for copy in partitions_of([*files_aside, *log_dir_files]))
    return sorted([*partitions_of(found_files), *copies], key=attrgetter("folder"))


def _own_state(file: FoundFile) -> str:
    """Return the state in a file's own name, whatever its folder's state is."""
    name = parse_file_name(file_name(file.path))
    return name.state if name else LIVE_STATE
