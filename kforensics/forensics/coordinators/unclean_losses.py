"""What unclean elections lost of a partition, as far as leader epochs, high watermarks and groups show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import Commit
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.election import Election
from kforensics.forensics.partition.epoch_starts import continued_at
from kforensics.forensics.partition.lost_watermarks import LostWatermark, lost_watermarks_of
from kforensics.forensics.partition.overruled_batches import OverruledBatches

__all__ = ["UncleanLoss", "commits_of", "lost_watermarks", "unclean_losses"]


@dataclass(slots=True)
class UncleanLoss:
    """What is known to be lost by an election.

    Attributes:
        election: the unclean election.
        start: first offset that the new leader wrote.
        groups: commits beyond that offset of what was read before, by group.
        copies: batches that the new leader did not have.
        watermark: a checkpointed high watermark beyond that offset from before the election.
    """

    election: Election
    start: int
    groups: dict[str, Commit] = field(default_factory=dict)
    copies: list[OverruledBatches] = field(default_factory=list)
    watermark: LostWatermark | None = None

    @property
    def is_shown(self) -> bool:
        """Whether anything shows that records are lost."""
        return bool(self.groups or self.copies or self.watermark)

    @property
    def last_offset(self) -> int:
        """The last offset that is known to be lost."""
        committed = (commit.committed - 1 for commit in self.groups.values())
        watermark = [self.watermark.offset - 1] if self.watermark else []
        return max([*committed, *(copy.last_offset for copy in self.copies), *watermark])


def commits_of(cluster: Cluster, replica: PartitionMarkers) -> Iterator[tuple[str, Commit]]:
    """Yield the groups with a committed offset of a partition."""
    for commits in cluster.commits:
        for group, commit in commits.last.of_partition(*replica.name):
            if commit.topic_id in (None, replica.topic_id):
                yield group, commit


def unclean_losses(
    cluster: Cluster, replica: PartitionMarkers, watermarks: Sequence[LostWatermark] = ()
) -> list[UncleanLoss]:
    """Return the unclean elections since which a partition was written, with what is known of what they lost.

    They have the groups that had read some of it, and the highest high watermark that shows that it was committed.

    Args:
        cluster: the evidence.
        replica: a replica that knows the newest leader epoch.
        watermarks: the high watermarks from :func:`lost_watermarks`; none if only the groups are wanted.
    """
    unclean = [election for election in cluster.elections_of(replica) if election.is_unclean]
    losses = []
    for election in sorted(unclean, key=lambda election: election.leader_epoch):
        start = continued_at(replica.epoch_starts, election)
        losses += [] if start is None else [UncleanLoss(election, start)]
    _add_groups(cluster, replica, losses)
    for loss in losses:
        of_election = (one for one in watermarks if one.election == loss.election)
        loss.watermark = max(of_election, key=lambda one: one.offset, default=None)
    return losses


def lost_watermarks(cluster: Cluster, replica: PartitionMarkers) -> list[LostWatermark]:
    """Return the high watermarks of the replicas of a partition below which an unclean election has truncated records.

    Args:
        cluster: the evidence.
        replica: any of its replicas.
    """
    return lost_watermarks_of(
        cluster.watermarks_of(replica), cluster.elections_of(replica), cluster.rules.clock_skew_ms
    )


def _add_groups(cluster: Cluster, replica: PartitionMarkers, losses: Sequence[UncleanLoss]) -> None:
    for group, commit in commits_of(cluster, replica):
        loss = next((loss for loss in losses if _had_read(commit, loss)), None)
        if loss is not None:
            loss.groups[group] = commit


def _had_read(commit: Commit, loss: UncleanLoss) -> bool:
    """Return whether a commit is beyond the start of a new leader, and of what an earlier one had written."""
    if commit.committed <= loss.start:
        return False
    if commit.leader_epoch >= 0:
        return commit.leader_epoch < loss.election.leader_epoch
    return 0 <= commit.time < loss.election.timestamp
