"""The keys of a topic, joined from its partitions: everything that the checks of keys evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_columns import RecordLocation, read_key
from kforensics.forensics.keys.key_locations import (
    KeyLocations,
    KeyPairArray,
    SplitKeyCause,
    locate_keys,
    location_rows,
)
from kforensics.forensics.keys.key_rows import KEY_ROW, KeyRowArray
from kforensics.forensics.keys.key_summary import KeyCounts, KeySummary
from kforensics.forensics.keys.partitioner_fit import CountSource, PartitionerFit, fit_partitioner, sample_keys
from kforensics.forensics.metadata.topic_metadata import TopicMetadata
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "KeyFinding",
    "SplitKey",
    "TopicKeys",
    "assemble_topic_keys",
    "is_compacted",
    "join_topic_keys",
    "locate_share",
    "rows_as_dicts",
    "topic_fit",
]

# Bytes of rows of all partitions to join at a time; peak memory is several times this.
SHARE_BYTES = 16 << 20


class KeyFinding(NamedTuple):
    """A finding and the partition it is about.

    Attributes:
        place: the partition.
        finding: the finding.
    """

    place: Place
    finding: Finding


@dataclass(frozen=True, slots=True)
class SplitKey:
    """A key in two partitions.

    Attributes:
        cause: why it is in both.
        key: the key, None if it is no longer readable.
        first: the earlier KEY_LOCATION, or that of the value, as Python values by name.
        second: the later one, or that of the tombstone.
    """

    cause: SplitKeyCause
    key: bytes | None
    first: Row
    second: Row


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class TopicKeys:
    """The keys of a topic.

    Attributes:
        rules: limits and the time of evaluation.
        summaries: its available partitions, by number.
        fit: its partition counts, and whether the keys match them.
        locations: the partitions of its keys.
        split_keys: the first keys of each cause that are in two partitions.
        is_compacted: whether tombstones delete values.
    """

    rules: Rules
    summaries: tuple[KeySummary, ...]
    fit: PartitionerFit
    locations: KeyLocations
    split_keys: tuple[SplitKey, ...]
    is_compacted: bool

    @property
    def name(self) -> str:
        """The name of the topic."""
        return self.summaries[0].place.topic or self.summaries[0].folder

    @cached_property
    def by_number(self) -> Mapping[int, KeySummary]:
        """The summaries by partition number."""
        return {summary.number: summary for summary in self.summaries}

    @cached_property
    def counts(self) -> KeyCounts:
        """Numbers of records of all partitions together."""
        return sum((summary.counts for summary in self.summaries), KeyCounts())

    @property
    def grown_ms(self) -> int | None:
        """When the topic got its current partition count, None if it never grew or the time is unknown."""
        return grown_ms_of(self.fit)

    @property
    def knows_growth(self) -> bool:
        """Whether the cluster metadata contains every change of the partition count."""
        return self.fit.source is CountSource.METADATA

    @property
    def exactness(self) -> Exactness:
        """Exactness of findings that depend on the partition count."""
        is_known = self.fit.source in {CountSource.GIVEN, CountSource.METADATA}
        return Exactness.EXACT if is_known and not self.counts.unread else Exactness.APPROXIMATE

    def pair_counts(self, *causes: SplitKeyCause) -> Iterator[Row]:
        """Yield the number of split keys with one of these causes, for each pair of partitions."""
        rows = self.locations.counts
        yield from rows_as_dicts(rows[np.isin(rows["cause"], causes)])

    def examples(self, cause: SplitKeyCause, first: int, second: int) -> list[SplitKey]:
        """Return split keys with this cause in these two partitions."""
        partitions = first, second
        return [
            split_key
            for split_key in self.split_keys
            if split_key.cause is cause and (split_key.first["partition"], split_key.second["partition"]) == partitions
        ]

    def finding(  # noqa: PLR0913  # the fields of a finding
        self,
        partition: int,
        code: Code,
        message: str,
        *,
        severity: Severity | None = None,
        at: RecordLocation | None = None,
        offsets: tuple[int, int] | None = None,
        producer_id: int | None = None,
        evidence: dict[str, object] | None = None,
        exactness: Exactness = Exactness.EXACT,
        benign: tuple[str, ...] = (),
        cause: str | None = None,
    ) -> KeyFinding:
        """Return a finding in a partition.

        Args:
            partition: number of the partition.
            code: code of the finding.
            message: a sentence that contains the values.
            severity: its severity, None for that of the code.
            at: location of the record that shows it.
            offsets: its first and last offset.
            producer_id: id of the producer whose records it is about.
            evidence: its values for JSON.
            exactness: how reliable it is.
            benign: tested benign causes.
            cause: code of the finding that explains it.
        """
        first, last = offsets or (None, None)
        finding = Finding(
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
        return KeyFinding(self.by_number[partition].place, finding)

    def location(self, row: Row) -> RecordLocation:
        """Return the location of the first record of a row."""
        paths = self.by_number[row["partition"]].paths
        return RecordLocation.of(paths, row["first_position"], row["first_offset"])


def rows_as_dicts(rows: StructArray) -> Iterator[dict[str, Any]]:
    """Yield rows as Python values by field name."""
    names = rows.dtype.names or ()
    return (dict(zip(names, values, strict=True)) for values in rows.tolist())


def grown_ms_of(fit: PartitionerFit) -> int | None:
    """Return when a topic got its current partition count, None if it never grew or the time is unknown."""
    return fit.counts[-1].from_ms if fit.has_grown else None


def join_topic_keys(
    summaries: Sequence[KeySummary],
    rules: Rules,
    partition_count: int | None = None,
    metadata: TopicMetadata | None = None,
) -> TopicKeys:
    """Return the keys of a topic, joined share by share.

    Where the summaries are on other machines, tasks there can do the same: each passes ``KeySummary.share`` of all
    partitions to :func:`locate_share`; :func:`assemble_topic_keys` builds the result from ``KeySummary.sampled`` and
    the merged locations.

    Args:
        summaries: one for each partition.
        rules: limits and the time of evaluation.
        partition_count: current partition count, None if unknown.
        metadata: the topic in the cluster metadata, None if that is not available.

    Raises:
        InputError: a segment cannot be read.
    """
    fit = topic_fit(summaries, partition_count, metadata)
    tombstones = is_compacted(summaries, metadata)
    shares = sum(len(summary.keys) for summary in summaries) * KEY_ROW.itemsize // SHARE_BYTES + 1
    parts = (
        locate_share(
            [(summary.number, summary.share(share, shares)) for summary in summaries], fit, tombstones=tombstones
        )
        for share in range(shares)
    )
    locations = next(parts)
    for part in parts:
        locations = locations.merged(part)
    return assemble_topic_keys(summaries, rules, fit, locations, metadata)


def topic_fit(
    summaries: Sequence[KeySummary], partition_count: int | None = None, metadata: TopicMetadata | None = None
) -> PartitionerFit:
    """Return the partition counts of a topic, and whether its keys match them.

    Args:
        summaries: one for each partition; sampled ones are enough.
        partition_count: current partition count, None if unknown.
        metadata: the topic in the cluster metadata, None if that is not available.
    """
    numbers = [summary.number for summary in summaries]
    return fit_partitioner(sample_keys(summaries), numbers, partition_count, metadata)


def is_compacted(summaries: Sequence[KeySummary], metadata: TopicMetadata | None) -> bool:
    """Whether tombstones delete values: the log cleaner has run, or the topic's own cleanup policy is ``compact``."""
    return any(summary.is_compacted for summary in summaries) or bool(metadata and metadata.is_compacted)


def locate_share(rows: Iterable[tuple[int, KeyRowArray]], fit: PartitionerFit, *, tombstones: bool) -> KeyLocations:
    """Return the locations of one share of the keys of a topic.

    Args:
        rows: partition numbers, each with its KEY_ROWs of the share.
        fit: the partition counts of the topic.
        tombstones: whether tombstones delete values.
    """
    return locate_keys(location_rows(rows, fit), fit, grown_ms_of(fit), tombstones=tombstones)


def assemble_topic_keys(
    summaries: Sequence[KeySummary],
    rules: Rules,
    fit: PartitionerFit,
    locations: KeyLocations,
    metadata: TopicMetadata | None = None,
) -> TopicKeys:
    """Return the keys of a topic; reads the bytes of the split keys to report.

    Args:
        summaries: one for each partition; sampled ones are enough.
        rules: limits and the time of evaluation.
        fit: the partition counts of the topic.
        locations: the partitions of all its keys.
        metadata: the topic in the cluster metadata, None if that is not available.

    Raises:
        InputError: a segment cannot be read.
    """
    ordered = tuple(sorted(summaries, key=lambda summary: summary.number))
    split_keys = tuple(_read_split_keys(ordered, locations.pairs))
    return TopicKeys(rules, ordered, fit, locations, split_keys, is_compacted(ordered, metadata))


def _read_split_keys(summaries: Sequence[KeySummary], pairs: KeyPairArray) -> Iterator[SplitKey]:
    """Yield pairs with the bytes of their keys; different keys with the same hashes are left out."""
    paths = {summary.number: summary.paths for summary in summaries}
    names = pairs.dtype["first"].names or ()
    for cause, *sides in pairs.tolist():
        first, second = (dict(zip(names, values, strict=True)) for values in sides)
        first_key, second_key = (
            read_key(RecordLocation.of(paths[row["partition"]], row["first_position"], row["first_offset"]))
            for row in (first, second)
        )
        if first_key == second_key or first_key is None or second_key is None:
            yield SplitKey(SplitKeyCause(cause), first_key if second_key is None else second_key, first, second)
