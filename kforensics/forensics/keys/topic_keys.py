"""All that checks may look at of the keys of a topic, once those of its partitions were joined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.keys.key_bytes import Where, key_at
from kforensics.forensics.keys.key_rows import KEY
from kforensics.forensics.keys.lying import Apart, Lying, lying, lying_rows
from kforensics.forensics.keys.placing import CountSource, Placing, placing_of, sample_of
from kforensics.forensics.keys.summary import Counts, KeySummary
from kforensics.forensics.keys.topic_metadata import TopicMetadata
from kforensics.forensics.replay.results import Records
from kforensics.forensics.rules import Rules
from kforensics.forensics.sorting import ROOM
from kforensics.forensics.telling import Row
from kforensics.parsers.log_rows import Place

__all__ = ["KeyApart", "Placed", "TopicKeys", "joined_keys", "rows_of"]

# Rows of all partitions are held some times over while they are joined.
SHARE_BYTES = ROOM


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

    Args:
        summaries: of its partitions, one of each.
        rules: limits and the time of evaluation.
        partition_count: how many partitions there are today, None if nobody says.
        metadata: what the cluster's metadata says of the topic, None if it is not there.

    Raises:
        InputError: a segment cannot be read.
    """
    ordered = tuple(sorted(summaries, key=lambda one: one.number))
    placing = placing_of(sample_of(ordered), [one.number for one in ordered], partition_count, metadata)
    is_compacted = any(one.is_compacted for one in ordered) or bool(metadata and metadata.is_compacted)
    shares = sum(len(one.keys) for one in ordered) * KEY.itemsize // SHARE_BYTES + 1
    parts = (_lying_of(ordered, placing, (share, shares), tombstones=is_compacted) for share in range(shares))
    found = next(parts)
    for part in parts:
        found = found.merged(part)
    return TopicKeys(rules, ordered, placing, found, tuple(_read(ordered, found.pairs)), is_compacted)


def _lying_of(summaries: Sequence[KeySummary], placing: Placing, share: tuple[int, int], *, tombstones: bool) -> Lying:
    rows = lying_rows(((one.number, one.share(*share)) for one in summaries), placing)
    return lying(rows, placing, grown_ms_of(placing), tombstones=tombstones)


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
