"""A leader election, as the metadata of the cluster records it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Election"]


@dataclass(frozen=True, slots=True)
class Election:
    """The election of a partition leader.

    Attributes:
        leader_epoch: the epoch that it began.
        leader: id of the elected broker.
        timestamp: when the controller wrote it, in ms.
        in_sync: in-sync replicas before the election.
        is_unclean: whether the leader was not in sync.
    """

    leader_epoch: int
    leader: int
    timestamp: int
    in_sync: tuple[int, ...]
    is_unclean: bool
