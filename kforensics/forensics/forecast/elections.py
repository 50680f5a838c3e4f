"""What it would cost to elect each replica of a partition as leader: records, transactions, offsets of groups.

Rules: ``AbstractFetcherThread.getOffsetTruncationState`` for what the other replicas truncate, KIP-966 for who is
eligible. Duplicates: a leader keeps what no high watermark covers, and producers without idempotence send it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.forecast.broker_reader import CorruptLogError, batches_from
from kforensics.forensics.metadata.cluster_image import ClusterImage
from kforensics.forensics.metadata.cluster_metadata import in_force, longest_copy
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.metadata.topic_image import PartitionRegistration
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition
from kforensics.forensics.replicas.lineage import truncation_offset
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.files.log_names import METADATA_TOPIC, parse_folder_name
from kforensics.parsers.files.source import Window, file_name, open_source
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.tables.schemas import Table, parse_columns, placed_table

__all__ = ["ELECTIONS", "Candidate", "candidate_rows", "candidates"]

COLUMNS = parse_columns("""
election string clean, eligible, last known, unclean, or not known without the metadata log
log_end_offset int64 where the candidate would continue
truncation_offset int64 offset to which the replica with the newest records truncates
records int64 records that would be lost
committed_transactions int64 transactions whose COMMIT marker would be lost
groups_beyond_end string groups with a committed offset after the log end offset, by name
duplicates int64 records that producers without idempotence may send again, because no high watermark covers them
message string what the election means
""")
ELECTIONS: Table = placed_table("elections", "candidate for an election", COLUMNS)
NOT_KNOWN = "not known"
# KIP-966 in words; Balanced, Aggressive and None are its strategies of unclean recovery.
MEANINGS = {
    "clean": "in sync: it is elected as it is, whatever the settings say",
    "eligible": "an eligible leader replica: it has all that was committed, and is elected without unclean elections",
    "last known": "the last known leader: Balanced recovery elects it if no eligible replica comes back",
    "unclean": (
        "not in sync: elected only by hand or with unclean.leader.election.enable. Balanced recovery waits for the last"
        " known replicas, Aggressive elects the longest log of those that are up, None elects none"
    ),
    NOT_KNOWN: "without the metadata log it is not known whether it is in sync",
}


class Log(NamedTuple):
    """The log of a leader as its followers see it.

    Attributes:
        epoch_starts: leader epochs with their start offsets.
        end: log end offset.
        high_watermark: high watermark, None if it is not known.
    """

    epoch_starts: Sequence[tuple[int, int]]
    end: int
    high_watermark: int | None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A replica that could be elected, and what that would cost.

    Attributes:
        partition: its files.
        election: ``clean``, ``eligible``, ``last known``, ``unclean`` or ``not known``.
        end: its log end offset.
        truncation: offset to which the replica with the newest records truncates.
        records: records that would be lost.
        committed: transactions whose COMMIT marker would be lost.
        groups: groups with a committed offset after its end.
        duplicates: records that producers without idempotence may send again.
    """

    partition: Partition
    election: str
    end: int
    truncation: int
    records: int
    committed: int
    groups: tuple[str, ...]
    duplicates: int

    @property
    def message(self) -> str:
        """What the election means."""
        return MEANINGS[self.election]


def candidates(
    partitions: Iterable[Partition], as_of_ms: int, on_read: Callable[[str], object] = str
) -> Iterator[Candidate]:
    """Yield what each replica would cost as leader, partition by partition; only of partitions with several replicas.

    Args:
        partitions: partitions of several brokers.
        as_of_ms: time of evaluation.
        on_read: takes the folder of each replica that has been compared.

    Raises:
        InputError: a log cannot be read.
    """
    live = [each for each in partitions if each.has_log and _is_live(each)]
    metadata = in_force(each for each in live if each.place.topic == METADATA_TOPIC)
    image = ImageReplay(longest_copy(metadata)).run().image if metadata else None
    rules = Rules(as_of_ms)
    groups = _groups([each for each in live if each.place.topic == CONSUMER_OFFSETS], rules)
    by_name: dict[tuple[str, int], list[Partition]] = {}
    for each in live:
        topic, number = each.place.topic, each.place.partition
        if topic not in (None, METADATA_TOPIC) and number is not None:
            by_name.setdefault((topic, number), []).append(each)
    for name, copies in sorted(by_name.items()):
        if len(copies) > 1:
            replicas = [Replica(order, examine(copy, rules), str(order)) for order, copy in enumerate(copies)]
            registration = _registration(image, name)
            yield from _of_partition(replicas, registration, groups.get(name, {}))
            for copy in copies:
                on_read(copy.folder)


def _is_live(partition: Partition) -> bool:
    name = parse_folder_name(file_name(partition.folder))
    return name is not None and name.state == "live"


def _registration(image: ClusterImage | None, name: tuple[str, int]) -> PartitionRegistration | None:
    return image.partition_named(*name) if image else None


def _groups(logs: Iterable[Partition], rules: Rules) -> dict[tuple[str, int], dict[str, int]]:
    """Return the committed offsets by topic and partition, then by group; of several copies the furthest."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    for log in logs:
        last = commits_of(examine(log, rules)).last
        for topic, number in last.partitions[0]:
            of_partition = found.setdefault((topic, number), {})
            for group, commit in last.of_partition(topic, number):
                of_partition[group] = max(of_partition.get(group, 0), commit.committed)
    return found


def _of_partition(
    replicas: Sequence[Replica], registration: PartitionRegistration | None, groups: Mapping[str, int]
) -> Iterator[Candidate]:
    newest = max(replicas, key=lambda each: (max((epoch for epoch, _ in each.epoch_starts), default=-1), each.end))
    watermark = max((each.high_watermark or 0 for each in replicas), default=0)
    for each in replicas:
        truncation = newest.end if each is newest else _truncation(newest, each, replicas)
        records, committed = _after(newest.partition, truncation)
        yield Candidate(
            each.partition,
            _election(registration, each.partition.place.broker_id),
            each.end,
            truncation,
            records,
            committed,
            tuple(sorted(group for group, offset in groups.items() if offset > each.end)),
            _without_idempotence(each.partition, watermark),
        )


def _truncation(newest: Replica, elected: Replica, replicas: Sequence[Replica]) -> int:
    """Return where the newest replica truncates when it follows another one, which writes a new epoch at its end."""
    epoch = max((epoch for each in replicas for epoch, _ in each.epoch_starts), default=-1) + 1
    return truncation_offset(newest, Log([*elected.epoch_starts, (epoch, elected.end)], elected.end, None))


def _election(registration: PartitionRegistration | None, broker_id: int | None) -> str:
    if registration is None or broker_id is None:
        return NOT_KNOWN
    if broker_id in registration.isr:
        return "clean"
    if broker_id in registration.elr:
        return "eligible"
    return "last known" if broker_id in registration.last_known_elr else "unclean"


def _after(partition: Partition, offset: int) -> tuple[int, int]:
    """Return how many records and how many COMMIT markers a log has from an offset on."""
    records = commits = 0
    for batch, marker in _batches(partition, offset):
        records += 0 if batch.is_control else batch.count or 0
        commits += marker == "COMMIT"
    return records, commits


def _without_idempotence(partition: Partition, watermark: int) -> int:
    batches = (batch for batch, _ in _batches(partition, watermark) if not batch.is_control)
    return sum(batch.count or 0 for batch in batches if batch.producer_id is None or batch.producer_id < 0)


def _batches(partition: Partition, offset: int) -> Iterator[tuple[Batch, str | None]]:
    """Yield the batches from an offset on, with the type of a marker."""
    segments = partition.segments
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and (segments[number + 1].base_offset or 0) <= offset:
            continue
        with open_source(segment.path) as source, suppress(CorruptLogError):
            for each in batches_from(Window(source), 0, segment.path):
                batch = each.header
                if batch.last_offset >= offset:
                    record = next(iter(read_records(source, batch)), None) if batch.is_control else None
                    yield batch, control_fields(record)[0] if isinstance(record, Record) else None


def candidate_rows(candidate: Candidate) -> Iterator[tuple[Any, ...]]:
    """Yield the row of a candidate, in the column order of the table."""
    numbers = (candidate.end, candidate.truncation, candidate.records, candidate.committed)
    groups = ", ".join(candidate.groups) or None
    yield (*candidate.partition.place, candidate.election, *numbers, groups, candidate.duplicates, candidate.message)
