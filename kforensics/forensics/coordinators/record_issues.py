"""Issues with single records of coordinators' logs, collected while a log is read."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kforensics.forensics.core.reporting import MOST

if TYPE_CHECKING:
    from kforensics.forensics.coordinators.consumer_groups.commits import Commit, GroupPartition
    from kforensics.forensics.coordinators.consumer_groups.group_states import GroupState
    from kforensics.forensics.coordinators.coordinator_records import StateRecord
    from kforensics.forensics.coordinators.transactions.transitions import StateStep

__all__ = ["CommitIssue", "CommitIssueKind", "IssueRecorder", "StateIssue", "StateIssueKind"]

KindT = TypeVar("KindT", bound=IntEnum)
IssueT = TypeVar("IssueT")


class StateIssueKind(IntEnum):
    """What is wrong with a record of ``__transaction_state``."""

    ILLEGAL_TRANSITION = 0
    EPOCH_REGRESSED = 1
    PID_REUSED = 2
    TRANSIENT_STATE = 3
    UNPARSABLE = 4
    FENCING_LOOP = 5


class StateIssue(NamedTuple):
    """An issue with a record of ``__transaction_state``.

    Attributes:
        kind: what is wrong.
        record: the record.
        before: the previous record of the same id, None if there is none.
        step: the transition between the two.
    """

    kind: StateIssueKind
    record: StateRecord
    before: StateRecord | None
    step: StateStep


class CommitIssueKind(IntEnum):
    """What is wrong with a committed offset."""

    REGRESSED = 0
    ZOMBIE = 1
    MIXED = 2


class CommitIssue(NamedTuple):
    """An issue with a committed offset.

    Attributes:
        kind: what is wrong.
        key: group, topic and partition.
        commit: the commit.
        before: the earlier commit it conflicts with.
        group: the state of the group when the commit took effect, None if no record shows it.
    """

    kind: CommitIssueKind
    key: GroupPartition
    commit: Commit
    before: Commit
    group: GroupState | None


class IssueRecorder(Generic[KindT, IssueT]):
    """Keeps the first ``MOST`` issues of each kind and counts all of them.

    Attributes:
        kept: issues in the order of the log.
        counts: number of issues of each kind.
    """

    def __init__(self) -> None:
        self.kept: list[IssueT] = []
        self.counts: dict[KindT, int] = {}

    def count(self, kind: KindT) -> bool:
        """Count an issue; return whether to append it to ``kept``."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.counts[kind] <= MOST
