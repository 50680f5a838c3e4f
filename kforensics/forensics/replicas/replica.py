"""One of several copies of a partition, and which copies belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

from kforensics.errors import InputError
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.log_names import parse_file_name, parse_folder_name
from kforensics.parsers.files.source import file_name, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

__all__ = ["Replica", "all_copies_of", "replica_groups", "replicas_of"]

LIVE = "live"
# States of a folder whose files a broker has set aside, or does not serve yet.
ASIDE = ("future", "stray", "deleted")


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Replica:
    """A copy of a partition.

    Attributes:
        number: its place among the replicas that are compared.
        case: what its log amounts to.
        name: what to call it in a sentence.
        is_compacted: whether a cleaner has been at one of the replicas, as a checkpoint says.
    """

    number: int
    case: Case
    name: str
    is_compacted: bool = False

    @property
    def partition(self) -> Partition:
        """Its files."""
        return self.case.partition

    @property
    def is_live(self) -> bool:
        """Whether the broker serves this copy."""
        return _state(self.partition.folder) == LIVE

    @property
    def strict_from(self) -> int:
        """Offset from which its batches stand as the leader wrote them.

        A follower may have fetched what its leader had cleaned, and its own cleaner's checkpoint does not know. Once
        another replica's does, only what the log itself shows can tell.
        """
        if not self.is_compacted:
            return self.case.strict_from
        return max(self.case.strict_from, self.case.log.cleaned_to + 1)

    @property
    def first_offset(self) -> int:
        """First offset its files can have."""
        return self.partition.first_offset

    @property
    def end(self) -> int:
        """Its log end offset."""
        return self.case.log_end_offset

    @property
    def high_watermark(self) -> int | None:
        """The checkpoint's, None for a copy that the checkpoint does not speak of."""
        return self.case.high_watermark if self.is_live else None

    @property
    def last_leader_epoch(self) -> int:
        """Leader epoch of its last batch that has one, -1 if none has."""
        runs = self.case.log.epochs
        return int(runs["leader_epoch"][-1]) if len(runs) else -1

    def transactions(self) -> Iterator[Records]:
        """Return its TRANSACTION records in parts: closed ones by the offset of their markers, then open ones."""
        return iter(self.case.ledger)

    @cached_property
    def epoch_starts(self) -> tuple[tuple[int, int], ...]:
        """Leader epochs and where each begins: of its batches, and of the checkpoint where that knows more.

        A broker notes its epoch when it is elected, before it has written anything.
        """
        starts = dict(self.noted_epochs)
        runs = self.case.log.epochs
        for epoch, first in zip(runs["leader_epoch"].tolist(), runs["first_offset"].tolist(), strict=True):
            starts[epoch] = min(first, starts.get(epoch, first))
        return tuple(sorted(starts.items()))

    @cached_property
    def noted_epochs(self) -> Mapping[int, int]:
        """Where leader epochs begin as ``leader-epoch-checkpoint`` has it; empty if a broker would refuse the file."""
        found = self.partition.leader_epochs
        if found is None:
            return {}
        try:
            with open_source(found.path) as source:
                rows = list(read_leader_epochs(source))
        except InputError:
            return {}  # the family of leader epochs says so
        entries = [row for row in rows if isinstance(row, LeaderEpochEntry)]
        is_refused = any(isinstance(row, Damage) for row in rows)
        if is_refused or any(min(row.leader_epoch, row.start_offset) < 0 for row in entries):
            return {}
        return {row.leader_epoch: row.start_offset for row in entries}


def replicas_of(cases: Sequence[Case]) -> tuple[Replica, ...]:
    """Return the cases of the copies of one partition as replicas, in their order."""
    is_compacted = any(case.first_dirty_offset is not None for case in cases)
    names = [_name(case.partition) for case in cases]
    unlike = [
        name if names.count(name) == 1 else case.partition.folder for name, case in zip(names, cases, strict=True)
    ]
    return tuple(Replica(number, case, unlike[number], is_compacted) for number, case in enumerate(cases))


def _name(partition: Partition) -> str:
    broker_id, state = partition.place.broker_id, _state(partition.folder)
    if broker_id is None:
        return partition.folder
    return f"broker {broker_id}" if state == LIVE else f"the {state} copy of broker {broker_id}"


def _state(folder: str) -> str:
    """Return ``live``, or what the name of a folder says: ``future``, ``stray`` or ``deleted``."""
    found = parse_folder_name(file_name(folder))
    return found.state if found else LIVE


def replica_groups(partitions: Iterable[Partition]) -> list[tuple[Partition, ...]]:
    """Return the partitions that there are several copies of, by topic and number.

    Copies of topics with the same name and other ids are no replicas of one another: the topic was deleted and made
    again. A copy without ``partition.metadata`` belongs to the only topic of its name, or to none.
    """
    named: dict[tuple[str, int], list[Partition]] = {}
    for one in partitions:
        topic, number = one.place.topic, one.place.partition
        if topic is not None and number is not None:
            named.setdefault((topic, number), []).append(one)
    groups = (group for _, copies in sorted(named.items()) for group in _by_topic_id(copies))
    return [tuple(group) for group in groups if len(group) > 1]


def _by_topic_id(copies: Sequence[Partition]) -> list[list[Partition]]:
    ids = sorted({one.topic_id for one in copies if one.topic_id is not None})
    nameless = [one for one in copies if one.topic_id is None]
    groups = [[one for one in copies if one.topic_id == topic_id] for topic_id in ids]
    if len(groups) == 1:
        groups[0] += nameless
    elif nameless:
        groups.append(nameless)
    return [sorted(group, key=_order) for group in groups]


def _order(partition: Partition) -> tuple[int, str]:
    broker_id = partition.place.broker_id
    return -1 if broker_id is None else broker_id, partition.folder


def all_copies_of(files: Iterable[FoundFile]) -> list[Partition]:
    """Return the partitions among files, and the copies that brokers have set aside or do not serve yet.

    Args:
        files: as discovered, those of the log directories included.
    """
    found = list(files)
    aside: dict[str, list[FoundFile]] = {}
    for one in found:
        folder = one.path.rpartition("/")[0]
        if _is_aside(folder):
            aside.setdefault(folder, []).append(replace(one, state=_own_state(one)))
    roots = [one for one in found if one.topic is None]
    copies = (one for files_of_one in aside.values() for one in partitions_of([*files_of_one, *roots]))
    return sorted([*partitions_of(found), *copies], key=attrgetter("folder"))


def _is_aside(folder: str) -> bool:
    return _state(folder) in ASIDE


def _own_state(found: FoundFile) -> str:
    """Return the state that a file has by its own name, whatever its folder is called."""
    name = parse_file_name(file_name(found.path))
    return name.state if name else LIVE
