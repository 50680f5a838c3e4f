"""Everything that is to be said of the keys of a topic: the way in for whoever joins its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kforensics.forensics.checks.key_checks import KEY_FAMILIES
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_result_rows import apart_rows, partition_rows, producer_rows
from kforensics.forensics.keys.key_summary import KeySummary
from kforensics.forensics.keys.topic_keys import Placed, TopicKeys, joined_keys
from kforensics.forensics.metadata.topic_metadata import TopicMetadata
from kforensics.forensics.partition.partition_rows import worst
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.log.log_rows import Place

__all__ = ["KeyJudgement", "best_copies", "findings_on", "has_keys", "judge_keys", "judged_keys"]

# Their keys are not placed by murmur2, or by no hash at all; the families on clusters look at them.
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata", METADATA_TOPIC)


@dataclass(frozen=True, slots=True)
class KeyJudgement:
    """What is said of the keys of a topic.

    Attributes:
        topic: its keys.
        rows: rows by table.
        placed: findings with their places, the worst first.
    """

    topic: TopicKeys
    rows: Mapping[str, Rows]
    placed: tuple[Placed, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, without their places."""
        return tuple(one.finding for one in self.placed)

    @property
    def worst(self) -> Severity | None:
        """The worst severity, None where nothing was found."""
        return worst(self.findings)


def has_keys(place: Place) -> bool:
    """Whether a partition is of a topic whose keys are judged: of one with a name, and not of a broker's own."""
    return place.topic is not None and place.partition is not None and place.topic not in INTERNAL


def best_copies(summaries: Iterable[KeySummary]) -> list[KeySummary]:
    """Return of each partition the copy that reaches furthest, and then back furthest, by number."""
    best: dict[int, KeySummary] = {}
    for one in summaries:
        other = best.get(one.number)
        if other is None or _reach(one) > _reach(other):
            best[one.number] = one
    return [best[number] for number in sorted(best)]


def _reach(summary: KeySummary) -> tuple[int, int]:
    return summary.log_end_offset, -summary.log_start_offset


def judge_keys(
    summaries: Sequence[KeySummary],
    rules: Rules,
    partition_count: int | None = None,
    metadata: TopicMetadata | None = None,
) -> KeyJudgement:
    """Return rows and findings on the keys of one topic.

    Args:
        summaries: of its partitions, as ``summary.key_summary`` makes them, wherever they were made; of several copies
            of a partition the best is taken. The segments they name must be in reach.
        rules: limits and the time of evaluation.
        partition_count: how many partitions the topic has today, None if nobody says.
        metadata: what the cluster's metadata says of the topic, one of ``topic_metadata.topics_in``.

    Returns:
        Rows of the tables of ``keys.tables``, and findings.

    Raises:
        InputError: a segment cannot be read.
        ValueError: there is no partition.
    """
    copies = best_copies(summaries)
    if not copies:
        raise ValueError("it takes one partition to judge its keys")
    return judged_keys(joined_keys(copies, rules, partition_count, metadata))


def judged_keys(topic: TopicKeys) -> KeyJudgement:
    """Return rows and findings on keys that were joined."""
    rows = (partition_rows(topic), apart_rows(topic), producer_rows(topic))
    return KeyJudgement(topic, {one.table.name: one for one in rows}, findings_on(topic))


def findings_on(topic: TopicKeys) -> tuple[Placed, ...]:
    """Return what all families find, the worst first, then by partition."""
    found = [placed for family in KEY_FAMILIES for placed in family.findings(topic)]
    return tuple(sorted(found, key=_rank))


def _rank(placed: Placed) -> tuple[int, str, int, int]:
    place, found = placed
    first = -1 if found.first_offset is None else found.first_offset
    return -found.severity, found.code.name, -1 if place.partition is None else place.partition, first
