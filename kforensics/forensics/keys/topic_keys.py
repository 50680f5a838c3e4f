"""All that checks may look at of the keys of a topic, once those of its partitions were joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_bytes import Where, key_at
from kforensics.forensics.keys.key_locations import Apart, Lying, lying, lying_rows
from kforensics.forensics.keys.key_rows import KEY
from kforensics.forensics.keys.key_summary import Counts, KeySummary
from kforensics.forensics.keys.partitioner_fit import CountSource, Placing, placing_of, sample_of
from kforensics.forensics.metadata.topic_metadata import TopicMetadata
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "KeyApart",
    "Placed",
    "TopicKeys",
    "is_compacted",
    "joined_keys",
    "lying_in",
    "placing_by",
    "rows_of",
    "told_keys",
]

# Rows of all partitions that are joined at a time; they are held some times over.
SHARE_BYTES = 16 << 20


class Placed(NamedTuple):
    """A finding, and the partition it speaks of.

    Attributes:
        place: the partition.
        finding: the finding.
    """

    place: Place
    finding: Finding


@dataclass(frozen=True, slots=True)
class KeyApart:
    """A key in two partitions.

    Attributes:
        kind: why.
        key: the key, None where it cannot be read any more.
        first: LYING row of the earlier one, or of the value, as Python values by name.
        second: of the later one, or of the tombstone.
    """

    kind: Apart
    key: bytes | None
    first: Row
    second: Row


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class TopicKeys:
    """The keys of a topic.

    Attributes:
        rules: limits and the time of evaluation.
        summaries: of its partitions on hand, by number.
        placing: how many partitions there were, and whether keys lie accordingly.
        lying: where they lie.
        apart: the first keys of each kind that lie in two partitions.
        is_compacted: whether tombstones delete values.
    """

    rules: Rules
    summaries: tuple[KeySummary, ...]
    placing: Placing
    lying: Lying
    apart: tuple[KeyApart, ...]
    is_compacted: bool

    @property
    def name(self) -> str:
        """The topic."""
        return self.summaries[0].place.topic or self.summaries[0].folder

    @cached_property
    def by_number(self) -> Mapping[int, KeySummary]:
        """The summaries by the number of the partition."""
        return {summary.number: summary for summary in self.summaries}

    @cached_property
    def counts(self) -> Counts:
        """Records of all partitions together."""
        return sum((summary.counts for summary in self.summaries), Counts())

    @property
    def grown_ms(self) -> int | None:
        """When the topic had its last count, None if it never grew or nobody knows."""
        return grown_ms_of(self.placing)

    @property
    def knows_growth(self) -> bool:
        """Whether the cluster's metadata tells of each growth."""
        return self.placing.source is CountSource.METADATA

    @property
    def exactness(self) -> Exactness:
        """How far it can be trusted what follows from the number of partitions."""
        told = self.placing.source in {CountSource.GIVEN, CountSource.METADATA}
        return Exactness.EXACT if told and not self.counts.unread else Exactness.APPROXIMATE

    def pair_counts(self, *kinds: Apart) -> Iterator[Row]:
        """Yield how many keys of some kinds lie in each two partitions."""
        rows = self.lying.counts
        yield from rows_of(rows[np.isin(rows["kind"], kinds)])

    def examples(self, kind: Apart, first: int, second: int) -> list[KeyApart]:
        """Return keys of a kind that lie in two partitions."""
        places = first, second
        return [
            one
            for one in self.apart
            if one.kind is kind and (one.first["partition"], one.second["partition"]) == places
        ]

    def finding(  # noqa: PLR0913  # what a finding has
        self,
        partition: int,
        code: Code,
        message: str,
        *,
        severity: Severity | None = None,
        at: Where | None = None,
        offsets: tuple[int, int] | None = None,
        producer_id: int | None = None,
        evidence: dict[str, object] | None = None,
        exactness: Exactness = Exactness.EXACT,
        benign: tuple[str, ...] = (),
        cause: str | None = None,
    ) -> Placed:
        """Return a finding in a partition.

        Args:
            partition: its number.
            code: its kind.
            message: a sentence with the figures in it.
            severity: None for that of the code.
            at: the record that shows it.
            offsets: first and last offset it is about.
            producer_id: whose records it is about.
            evidence: figures, as JSON has them.
            exactness: how far it can be trusted.
            benign: innocent explanations that were tested.
            cause: code of the finding it follows from.
        """
        first, last = offsets or (None, None)
        found = Finding(
            code=code,
            message=message,
            severity=code.severity if severity is None else severity,
            first_offset=first,
            last_offset=last,
            producer_id=producer_id,
            path=at.path if at else None,
            position=at.position if at else None,
            evidence=evidence or {},
            exactness=exactness,
            benign=benign,
            cause=cause,
        )
        return Placed(self.by_number[partition].place, found)

    def where(self, row: Row) -> Where:
        """Return where the first record of a row stands."""
        return Where.of(self.by_number[row["partition"]].paths, row["first_place"], row["first_offset"])


def rows_of(records: Records) -> Iterator[dict[str, Any]]:
    """Yield records as Python values by name."""
    names = records.dtype.names or ()
    return (dict(zip(names, values, strict=True)) for values in records.tolist())


def grown_ms_of(placing: Placing) -> int | None:
    """Return when a topic had its last count, None if it never grew or nobody knows."""
    return placing.counts[-1].from_ms if placing.has_grown else None


def joined_keys(
    summaries: Sequence[KeySummary],
    rules: Rules,
    partition_count: int | None = None,
    metadata: TopicMetadata | None = None,
) -> TopicKeys:
    """Return where the keys of a topic lie.

    It goes through the keys share by share. Where the summaries are far away, so may the tasks be that do the same:
    each takes ``KeySummary.share`` of all partitions to :func:`lying_in`; of ``KeySummary.light`` and what they return,
    merged, :func:`told_keys` makes the whole.

    Args:
        summaries: of its partitions, one of each.
        rules: limits and the time of evaluation.
        partition_count: how many partitions there are today, None if nobody says.
        metadata: what the cluster's metadata says of the topic, None if it is not there.

    Raises:
        InputError: a segment cannot be read.
    """
    placing = placing_by(summaries, partition_count, metadata)
    tombstones = is_compacted(summaries, metadata)
    shares = sum(len(one.keys) for one in summaries) * KEY.itemsize // SHARE_BYTES + 1
    parts = (
        lying_in([(one.number, one.share(share, shares)) for one in summaries], placing, tombstones=tombstones)
        for share in range(shares)
    )
    found = next(parts)
    for part in parts:
        found = found.merged(part)
    return told_keys(summaries, rules, placing, found, metadata)


def placing_by(
    summaries: Sequence[KeySummary], partition_count: int | None = None, metadata: TopicMetadata | None = None
) -> Placing:
    """Return how the keys of a topic were placed; light summaries will do.

    Args:
        summaries: of its partitions, one of each.
        partition_count: as for :func:`joined_keys`, as is the next one.
        metadata: see there.
    """
    return placing_of(sample_of(summaries), [one.number for one in summaries], partition_count, metadata)


def is_compacted(summaries: Sequence[KeySummary], metadata: TopicMetadata | None) -> bool:
    """Whether tombstones delete values: a cleaner has been here, or the topic's own policy says so."""
    return any(one.is_compacted for one in summaries) or bool(metadata and metadata.is_compacted)


def lying_in(rows: Iterable[tuple[int, Records]], placing: Placing, *, tombstones: bool) -> Lying:
    """Return where some keys lie.

    Args:
        rows: numbers of the partitions, each with its KEY rows of one share of all keys.
        placing: of the whole topic.
        tombstones: whether they delete values.
    """
    return lying(lying_rows(rows, placing), placing, grown_ms_of(placing), tombstones=tombstones)


def told_keys(
    summaries: Sequence[KeySummary],
    rules: Rules,
    placing: Placing,
    found: Lying,
    metadata: TopicMetadata | None = None,
) -> TopicKeys:
    """Return the keys of a topic, those that are told of with their bytes; light summaries will do.

    Args:
        summaries: of its partitions, one of each.
        rules: limits and the time of evaluation.
        placing: how the keys were placed.
        found: where they lie.
        metadata: as for :func:`joined_keys`.

    Raises:
        InputError: a segment cannot be read.
    """
    ordered = tuple(sorted(summaries, key=lambda one: one.number))
    told = tuple(_read(ordered, found.pairs))
    return TopicKeys(rules, ordered, placing, found, told, is_compacted(ordered, metadata))


def _read(summaries: Sequence[KeySummary], pairs: Records) -> Iterator[KeyApart]:
    """Yield pairs with the bytes of their keys; two keys that only share their hashes are no pair."""
    paths = {one.number: one.paths for one in summaries}
    for kind, first, second in pairs.tolist():
        one, other = (dict(zip(pairs.dtype["first"].names or (), row, strict=True)) for row in (first, second))
        keys = [
            key_at(Where.of(paths[row["partition"]], row["first_place"], row["first_offset"])) for row in (one, other)
        ]
        if keys[0] == keys[1] or None in keys:
            yield KeyApart(Apart(kind), keys[0] if keys[1] is None else keys[1], one, other)
