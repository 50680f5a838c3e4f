"""Topics of several partitions by hand, and what stands in several of them by the plainest way to say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content_entries import Reading
from kforensics.forensics.duplicates.duplicate_rows import REASONS, View, Why
from kforensics.forensics.duplicates.topic_pairs import OFTEN, numbers_of, places_of
from kforensics.forensics.duplicates.topic_search import Searched
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.kernels.policy import Choice, no_kernels
from tests.forensics.cases import partitions_under
from tests.forensics.duplicate_logs import WINDOW_MS, Log, Written

__all__ = ["Place", "Topic", "expected_across", "found_across", "saved", "searching"]

Topic = Mapping[int, Log]
# Partition, and number of the record in it.
Place = tuple[int, int]
# Of the first writing and the second one, why, and in which view.
Pair = tuple[Place, Place, Why, View]


def saved(folder: Path, topic: Topic, name: str = "t") -> list[Partition]:
    """Write the partitions of a topic, a log each; returns them."""
    for number, log in topic.items():
        place = folder / f"{name}-{number}"
        place.mkdir(parents=True, exist_ok=True)
        log.save(place)
    return [one for one in partitions_under(folder) if one.place.topic == name]


def searching(topic: Topic, choice: Choice = no_kernels) -> Callable[[Partition], Searched]:
    """Return what examines a partition: here the log knows itself what is hidden."""

    def searched(partition: Partition) -> Searched:
        number = partition.place.partition or 0
        reading = Reading([one.path for one in partition.segments], topic[number].hidden, kernels=choice, workers=0)
        return Searched(partition.place, partition.folder, reading, 0)

    return searched


def expected_across(topic: Topic) -> Iterator[tuple[Pair, bool]]:
    """Yield each pair, and whether it says something by itself."""
    every = [((number, place), one) for number, log in topic.items() for place, one in enumerate(log.records)]
    counts = Counter((place[0], one.content) for place, one in every)
    often = {content for (_, content), count in counts.items() if count > OFTEN}
    every = sorted((one for one in every if one[1].content not in often), key=lambda one: (one[1].timestamp, one[0]))
    pairs = {view: dict(_paired(every, view)) for view in View}
    for view, found in pairs.items():
        for second, first in found.items():
            one, other = (topic[place[0]].records[place[1]] for place in (first, second))
            yield (first, second, _why(topic, first, second, found), view), _tells(one, other)


def _paired(every: list[tuple[Place, Written]], view: View) -> Iterator[tuple[Place, Place]]:
    """Yield the second place and the first one of each pair of a view."""
    for at, (place, second) in enumerate(every):
        before = [one for one in every[:at] if one[1].content == second.content and one[0][0] != place[0]]
        seen = [] if second.is_hidden else [one for one in before if not one[1].is_hidden]
        if before and view is View.RAW and (second.is_hidden or before[-1][1].is_hidden):
            yield place, before[-1][0]
        if seen and view is View.COMMITTED:
            yield place, seen[-1][0]


def _tells(first: Written, second: Written) -> bool:
    same_time = first.is_stamped and second.is_stamped and first.timestamp == second.timestamp
    return bool(second.value) or (bool(second.key) and same_time)


def _why(topic: Topic, first: Place, second: Place, found: Mapping[Place, Place]) -> Why:
    one, other = (topic[place[0]].records[place[1]] for place in (first, second))
    if one.producer_id >= 0 or other.producer_id >= 0:
        if one.producer_id != other.producer_id:
            return Why.OTHER_PRODUCER
        return Why.SAME_PRODUCER if one.producer_epoch == other.producer_epoch else Why.OTHER_EPOCH
    if other.timestamp - one.timestamp >= WINDOW_MS:
        return Why.NO_PRODUCER
    if one.is_stamped and other.is_stamped and one.timestamp == other.timestamp:
        return Why.RETRY_SAME_TIME
    whole = one.count == other.count > 1 and one.index == other.index
    steps = range(-one.index, one.count - one.index)
    if whole and all(found.get(_moved(second, step)) == _moved(first, step) for step in steps):
        return Why.RETRY_WHOLE_BATCH
    return Why.NO_PRODUCER


def _moved(place: Place, step: int) -> Place:
    return place[0], place[1] + step


def found_across(runs: Records, expected: Collection[Pair]) -> list[Pair]:
    """Return the pairs that RUN rows stand for; a run has as many as it says, and others may lie between them.

    Args:
        runs: what was found.
        expected: the pairs there are.
    """
    found: list[Pair] = []
    for row in runs:
        first, second = ((int(numbers_of(row[side])), int(places_of(row[side]))) for side in ("first", "second"))
        assert row["why"] in REASONS
        pairs = [
            (_moved(first, step), _moved(second, step), Why(row["why"]), View(row["view"]))
            for step in range(row["span"])
        ]
        assert pairs[0] in expected
        assert pairs[-1] in expected
        found += (some := [pair for pair in pairs if pair in expected])
        assert len(some) == row["records"]
    return found
