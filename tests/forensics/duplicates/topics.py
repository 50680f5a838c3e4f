"""Topics of several partitions, and a simple definition of the records that several partitions have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from kforensics.forensics.duplicates.content_pairs import DuplicateRunArray
from kforensics.forensics.duplicates.cross_partition_pairs import (
    MAX_OCCURRENCES,
    partition_numbers,
    partition_ordinals,
)
from kforensics.forensics.duplicates.duplicate_rows import REASON_NAMES, DuplicateReason, DuplicateView
from kforensics.forensics.duplicates.record_reader import RecordReader
from kforensics.forensics.duplicates.topic_search import SearchedPartition
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from tests.forensics.duplicate_logs import WINDOW_MS, Log, WrittenRecord, is_conclusive
from tests.forensics.partition_states import partitions_under

__all__ = ["Topic", "TopicRecord", "expected_topic_pairs", "pairs_of_runs", "prepare_search", "save_topic"]

# The log of each partition, by number.
Topic = Mapping[int, Log]
# Partition number, and ordinal of a record in it.
TopicRecord = tuple[int, int]
# The earlier and the later copy, the reason, and the view.
TopicPair = tuple[TopicRecord, TopicRecord, DuplicateReason, DuplicateView]


def save_topic(folder: Path, topic: Topic, name: str = "t") -> list[Partition]:
    """Write the partitions of a topic, one log each, and return them."""
    for number, log in topic.items():
        partition_folder = folder / f"{name}-{number}"
        partition_folder.mkdir(parents=True, exist_ok=True)
        log.save(partition_folder)
    return [partition for partition in partitions_under(folder) if partition.place.topic == name]


def prepare_search(topic: Topic, kernels: KernelPolicy = no_kernels) -> Callable[[Partition], SearchedPartition]:
    """Return a function that prepares a partition for the search; the log itself knows what is hidden."""

    def prepare(partition: Partition) -> SearchedPartition:
        hidden = topic[partition.place.partition or 0].hidden
        reader = RecordReader([segment.path for segment in partition.segments], hidden, kernels=kernels, workers=0)
        return SearchedPartition(partition.place, partition.folder, reader, 0)

    return prepare


def expected_topic_pairs(topic: Topic) -> Iterator[tuple[TopicPair, bool]]:
    """Yield each pair, and whether it is conclusive on its own."""
    records = [
        ((number, ordinal), record) for number, log in topic.items() for ordinal, record in enumerate(log.records)
    ]
    counts = Counter((key[0], record.content) for key, record in records)
    frequent = {content for (_, content), count in counts.items() if count > MAX_OCCURRENCES}
    records = [(key, record) for key, record in records if record.content not in frequent]
    records.sort(key=lambda keyed: (keyed[1].timestamp, keyed[0]))
    pairs_of_view = {view: dict(_paired(records, view)) for view in DuplicateView}
    for view, pairs in pairs_of_view.items():
        for second, first in pairs.items():
            first_record, second_record = (topic[number].records[ordinal] for number, ordinal in (first, second))
            pair = (first, second, _reason(topic, first, second, pairs), view)
            yield pair, is_conclusive(first_record, second_record)


def _paired(
    records: list[tuple[TopicRecord, WrittenRecord]], view: DuplicateView
) -> Iterator[tuple[TopicRecord, TopicRecord]]:
    """Yield the later and the earlier copy of each pair of a view."""
    for index, (key, second) in enumerate(records):
        earlier = [
            (other, first) for other, first in records[:index] if first.content == second.content and other[0] != key[0]
        ]
        visible = [] if second.is_hidden else [(other, first) for other, first in earlier if not first.is_hidden]
        if earlier and view is DuplicateView.RAW and (second.is_hidden or earlier[-1][1].is_hidden):
            yield key, earlier[-1][0]
        if visible and view is DuplicateView.COMMITTED:
            yield key, visible[-1][0]


def _reason(
    topic: Topic, first: TopicRecord, second: TopicRecord, pairs: Mapping[TopicRecord, TopicRecord]
) -> DuplicateReason:
    earlier, later = (topic[number].records[ordinal] for number, ordinal in (first, second))
    if earlier.producer_id >= 0 or later.producer_id >= 0:
        if earlier.producer_id != later.producer_id:
            return DuplicateReason.OTHER_PRODUCER
        same_epoch = earlier.producer_epoch == later.producer_epoch
        return DuplicateReason.SAME_PRODUCER if same_epoch else DuplicateReason.OTHER_EPOCH
    if later.timestamp - earlier.timestamp >= WINDOW_MS:
        return DuplicateReason.NO_PRODUCER
    if earlier.has_create_time and later.has_create_time and earlier.timestamp == later.timestamp:
        return DuplicateReason.RETRY_SAME_TIME
    whole = earlier.count == later.count > 1 and earlier.index == later.index
    steps = range(-earlier.index, earlier.count - earlier.index)
    if whole and all(pairs.get(_moved(second, step)) == _moved(first, step) for step in steps):
        return DuplicateReason.RETRY_WHOLE_BATCH
    return DuplicateReason.NO_PRODUCER


def _moved(record: TopicRecord, step: int) -> TopicRecord:
    return record[0], record[1] + step


def pairs_of_runs(runs: DuplicateRunArray, expected: Collection[TopicPair]) -> list[TopicPair]:
    """Return the pairs in runs, after checking their number; other records may lie between the pairs of a run.

    Args:
        runs: the runs.
        expected: all pairs.
    """
    all_pairs: list[TopicPair] = []
    for row in runs:
        first, second = (
            (int(partition_numbers(row[side])), int(partition_ordinals(row[side]))) for side in ("first", "second")
        )
        assert row["why"] in REASON_NAMES
        reason, view = DuplicateReason(row["why"]), DuplicateView(row["view"])
        candidates = [(_moved(first, step), _moved(second, step), reason, view) for step in range(row["span"])]
        assert candidates[0] in expected
        assert candidates[-1] in expected
        pairs = [pair for pair in candidates if pair in expected]
        assert len(pairs) == row["records"]
        all_pairs += pairs
    return all_pairs
