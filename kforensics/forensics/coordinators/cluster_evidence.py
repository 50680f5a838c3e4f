"""All that checks of a cluster may look at, and where what they find stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.coordinator_records import NONE, StateRecord, TopicPartition
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.coordinators.transactions.histories import Coordinators
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.transactions.marker_join import Joined, joined
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST, Row
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.log.log_rows import Place

__all__ = ["Cluster", "Placed", "each_placed", "mark_row", "rows_of", "written"]


class Placed(NamedTuple):
    """A finding, and the partition it speaks of.

    Attributes:
        place: that of a coordinator, or of the data.
        finding: the finding; its path, position and offsets are in that partition.
    """

    place: Place
    finding: Finding


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Cluster:
    """What coordinators decided, and what the partitions have of it.

    Attributes:
        rules: limits and the time of evaluation.
        coordinators: what is known of transactions.
        joined: transactions and markers, joined.
        commits: what partitions of ``__consumer_offsets`` say of groups.
        partition_count: how many partitions ``__transaction_state`` has, None if nobody told.
        offsets_partition_count: the same of ``__consumer_offsets``.
    """

    rules: Rules
    coordinators: Coordinators
    joined: Joined
    commits: tuple[Commits, ...] = ()
    partition_count: int | None = None
    offsets_partition_count: int | None = None

    @classmethod
    def of(  # noqa: PLR0913  # what a cluster is made of
        cls,
        histories: Iterable[History],
        markers: Iterable[Markers],
        rules: Rules,
        *,
        commits: Iterable[Commits] = (),
        partition_count: int | None = None,
        offsets_partition_count: int | None = None,
    ) -> Cluster:
        """Return a cluster of which each partition is given once.

        Args:
            histories: of coordinator partitions.
            markers: of data partitions.
            rules: limits and the time of evaluation.
            commits: of partitions of ``__consumer_offsets``, whose markers are given too.
            partition_count: how many partitions ``__transaction_state`` has, None if nobody told.
            offsets_partition_count: the same of ``__consumer_offsets``.
        """
        coordinators = Coordinators.of(histories)
        join = joined(coordinators, markers, rules)
        return cls(rules, coordinators, join, tuple(commits), partition_count, offsets_partition_count)

    @cached_property
    def supplied(self) -> Mapping[TopicPartition, int]:
        """The numbers of the data partitions of which a replica is on hand."""
        return {markers.name: number for number, markers in self.joined.markers.items()}

    @property
    def has_all_coordinators(self) -> bool:
        """Whether every partition of ``__transaction_state`` is on hand, as far as anybody told how many there are."""
        count = self.partition_count
        return count is not None and {history.place.partition for history in self.coordinators.histories} >= {
            *range(count)
        }

    def at_record(self, coordinator: int, record: StateRecord, code: Code, message: str, **more: Any) -> Placed:
        """Return a finding about a record of a coordinator.

        Args:
            coordinator: number of its partition.
            record: the record.
            code: kind of the finding.
            message: a sentence with the figures in it.
            more: other attributes of a finding.
        """
        row = {
            "coordinator": coordinator,
            **{name: getattr(record, name) for name in ("segment", "position", "offset")},
        }
        producer = (record.producer_id, record.producer_epoch) if record.producer_id != NONE else None
        return self.at_coordinator(row, code, message, producer=producer, **more)

    def at_coordinator(
        self, row: Row, code: Code, message: str, *, producer: tuple[int, int] | None = None, **more: Any
    ) -> Placed:
        """Return a finding about a row that knows its ``coordinator``, ``segment``, ``position`` and ``offset``.

        Args:
            row: an instance, an id or a use.
            code: kind of the finding.
            message: a sentence with the figures in it.
            producer: producer id and epoch it is about.
            more: other attributes of a finding.
        """
        history = self.coordinators.histories[row["coordinator"]]
        at: dict[str, Any] = {
            "path": history.paths[row["segment"]],
            "position": row["position"],
            "first_offset": row["offset"],
            "last_offset": row["offset"],
        }
        return Placed(history.place, _finding(code, message, producer, **at, **more))

    def at_partition(  # noqa: PLR0913  # what a finding has
        self,
        partition: int,
        code: Code,
        message: str,
        *,
        offsets: tuple[int, int] | None = None,
        producer: tuple[int, int] | None = None,
        at: tuple[int, int] | None = None,
        **more: Any,
    ) -> Placed:
        """Return a finding in a data partition that was supplied.

        Args:
            partition: its number.
            code: kind of the finding.
            message: a sentence with the figures in it.
            offsets: first and last offset it is about.
            producer: producer id and epoch it is about.
            at: number of the segment and position of the evidence.
            more: other attributes of a finding.
        """
        markers = self.joined.markers[partition]
        first, last = offsets or (None, None)
        segment, position = at or (NONE, None)
        where: dict[str, Any] = {
            "path": markers.path(segment),
            "position": position,
            "first_offset": first,
            "last_offset": last,
        }
        return Placed(markers.place, _finding(code, message, producer, **where, **more))

    def at_mark(self, row: Row, code: Code, message: str, **more: Any) -> Placed:
        """Return a finding about a marker.

        Args:
            row: of MARK.
            code: kind of the finding.
            message: a sentence with the figures in it.
            more: other attributes of a finding.
        """
        return self.at_partition(
            row["partition"],
            code,
            message,
            offsets=(row["marker_offset"], row["marker_offset"]),
            producer=(row["producer_id"], row["marker_epoch"]),
            at=(row["segment"], row["position"]),
            **more,
        )

    def at_commit(
        self,
        commits: Commits,
        at: tuple[int, int, int],
        code: Code,
        message: str,
        *,
        producer: tuple[int, int] | None = None,
        **more: Any,
    ) -> Placed:
        """Return a finding about a record of a group.

        Args:
            commits: of its partition.
            at: number of the segment, position of the batch and offset of the record.
            code: kind of the finding.
            message: a sentence with the figures in it.
            producer: producer id and epoch it is about.
            more: other attributes of a finding.
        """
        segment, position, offset = at
        where: dict[str, Any] = {
            "path": commits.paths[segment],
            "position": position,
            "first_offset": offset,
            "last_offset": offset,
        }
        return Placed(commits.place, _finding(code, message, producer, **where, **more))

    def id_name(self, row: Row) -> str:
        """Return the transactional id of a row that knows its number."""
        return self.coordinators.names[row["id"]]

    def name(self, partition: int) -> str:
        """Return a partition by its number, as Kafka's tools write it."""
        return written(self.joined.partitions[partition])


def written(partition: TopicPartition) -> str:
    """Return a partition as Kafka's tools write it.

    >>> written(("payments", 3))
    'payments-3'
    """
    return f"{partition[0]}-{partition[1]}"


def _finding(  # noqa: PLR0913  # what a finding has
    code: Code,
    message: str,
    producer: tuple[int, int] | None,
    *,
    severity: Severity | None = None,
    evidence: dict[str, object] | None = None,
    exactness: Exactness = Exactness.EXACT,
    benign: tuple[str, ...] = (),
    **more: Any,
) -> Finding:
    producer_id, producer_epoch = producer or (None, None)
    return Finding(
        code=code,
        message=message,
        severity=code.severity if severity is None else severity,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        evidence=evidence or {},
        exactness=exactness,
        benign=benign,
        **more,
    )


def mark_row(mark: Records) -> dict[str, int]:
    """Return a MARK record as Python values by name."""
    return {name: int(mark[name]) for name in mark.dtype.names or ()}


def rows_of(records: Records, **more: Records) -> Iterator[dict[str, Any]]:
    """Yield records as Python values by name.

    Args:
        records: the records.
        more: further columns, with a value for each record.
    """
    names = (*(records.dtype.names or ()), *more)
    columns = [
        *(records[name].tolist() for name in records.dtype.names or ()),
        *(one.tolist() for one in more.values()),
    ]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def each_placed(records: Records, tell: Callable[[Row], Placed], **more: Records) -> Iterator[Placed]:
    """Yield a finding for each of the first records; the evidence of the last one says how many are ``left_out``.

    Args:
        records: in the order in which they are to be told.
        tell: makes a finding of a record as Python values by name.
        more: further columns, with a value for each record.
    """
    left_out = len(records) - MOST
    some = rows_of(records[:MOST], **{name: column[:MOST] for name, column in more.items()})
    for count, row in enumerate(some, 1):
        place, finding = tell(row)
        if left_out > 0 and count == MOST:
            finding = replace(finding, evidence={**finding.evidence, "left_out": left_out})
        yield Placed(place, finding)
