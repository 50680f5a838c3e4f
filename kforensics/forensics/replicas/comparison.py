"""All that checks of the replicas of one partition may look at, once they were held against each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.metadata.elections import Election
from kforensics.forensics.replicas.differences import Difference, Kind
from kforensics.forensics.replicas.key_differences import KeyDifference
from kforensics.forensics.replicas.lineage import loser_of
from kforensics.forensics.replicas.lost_records import Branch, LostRecord
from kforensics.forensics.replicas.offset_contents import RecordDifference
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.log.log_rows import Place

__all__ = ["Comparison", "UnlikeRecords"]


@dataclass(frozen=True, slots=True)
class UnlikeRecords:
    """Records that differ at the same offset.

    Attributes:
        found: the first ones.
        count: how many there are.
    """

    found: tuple[RecordDifference, ...] = ()
    count: int = 0


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Comparison:
    """The replicas of a partition, and where they differ.

    Attributes:
        replicas: all of them, by number.
        differences: pair by pair, in the order of the log.
        common: by pair how many batches are the same on both sides.
        branches: where a later leader has overruled a replica.
        lost: the first records of each of these.
        unlike_records: offsets at which records differ that cleaners have left on both sides.
        unlike_keys: keys of which cleaning has left different records.
        elections: of leaders of the partition, as far as the cluster's metadata was given.
    """

    replicas: tuple[Replica, ...]
    differences: tuple[Difference, ...] = ()
    common: Mapping[tuple[int, int], int] = field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    lost: tuple[LostRecord, ...] = ()
    unlike_records: UnlikeRecords = UnlikeRecords()
    unlike_keys: tuple[KeyDifference, ...] = ()
    elections: tuple[Election, ...] = ()

    @property
    def place(self) -> Place:
        """Topic and partition; of several brokers none is named."""
        first = self.replicas[0].partition.place
        return Place(None, None, first.topic, first.partition)

    @cached_property
    def live(self) -> tuple[Replica, ...]:
        """The replicas that brokers serve."""
        return tuple(one for one in self.replicas if one.is_live)

    def pairs(self) -> Iterator[tuple[Replica, Replica]]:
        """Yield every two replicas once."""
        yield from combinations(self.replicas, 2)

    def of_pair(self, first: Replica, second: Replica, *kinds: Kind) -> list[Difference]:
        """Return the differences of some kinds, of all if none is named, between two replicas."""
        pair = first.number, second.number
        return [one for one in self.differences if (one.first, one.second) == pair and one.kind in (kinds or Kind)]

    def agrees_to(self, first: Replica, second: Replica) -> int:
        """Return the offset up to which two replicas have one history: where they diverge, or one ends."""
        ends = [one.first_offset for one in self.of_pair(first, second, Kind.DIVERGED)]
        return min(first.end, second.end, *ends)

    def loser(self, found: Difference) -> Replica | None:
        """Return the replica that a later leader has overruled in a range, None if neither is."""
        number = loser_of(found, self.replicas)
        return None if number is None else self.replicas[number]

    def unclean_election(self, above: int, upto: int) -> Election | None:
        """Return the first unclean election that began a leader epoch above one and not above another."""
        return next((one for one in self.elections if one.is_unclean and above < one.leader_epoch <= upto), None)

    def finding(  # noqa: PLR0913  # what a finding has
        self,
        replica: Replica,
        code: Code,
        message: str,
        *,
        severity: Severity | None = None,
        at: tuple[int, int] | None = None,
        offsets: tuple[int, int] | None = None,
        producer: tuple[int, int] | None = None,
        evidence: dict[str, object] | None = None,
        exactness: Exactness = Exactness.EXACT,
        benign: tuple[str, ...] = (),
        cause: str | None = None,
    ) -> Finding:
        """Return a finding about one replica, whose folder stands in its evidence; the rest as ``Case.finding``."""
        return replica.case.finding(
            code,
            message,
            severity=severity,
            at=at,
            offsets=offsets,
            producer=producer,
            evidence={"replica": replica.partition.folder, **(evidence or {})},
            exactness=exactness,
            benign=benign,
            cause=cause,
        )
