"""What a marker is to the coordinators on hand, where it has no transaction's key in its own partition."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.transactions.histories import Coordinators
from kforensics.forensics.coordinators.transactions.history import ALWAYS
from kforensics.forensics.coordinators.transactions.transaction import UNKNOWN_SET
from kforensics.forensics.coordinators.transactions.transaction_partitions import is_by_operator
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules

__all__ = ["Role", "roles_of"]


class Role(IntEnum):
    """What a marker is to the coordinators on hand."""

    SENT = 0
    AGAIN = 1
    BY_OPERATOR = 2
    OUTSIDE = 3
    UNLISTED = 4
    UNDECIDED = 5
    UNKNOWN_PRODUCER = 6
    NOT_TOLD = 7


def roles_of(coordinators: Coordinators, marks: Records, roles: Records, rules: Rules) -> Records:
    """Return the roles of all markers.

    Args:
        coordinators: what is known of transactions.
        marks: MARK records.
        roles: of those that have the key of a transaction that lists their partition; -1 for the others.
        rules: limits and the time of evaluation.
    """
    found: Records = roles.copy()
    which = np.flatnonzero(roles == NONE)
    others = marks[which]
    ids = coordinators.id_of(others["producer_id"])
    decided, listed = _decided(coordinators, others)
    told = _is_told(coordinators, others, ids, rules.clock_skew_ms)
    tests = (
        (ids == NONE, Role.UNKNOWN_PRODUCER),
        (decided & ~listed, Role.NOT_TOLD),
        (~decided & ~told, Role.NOT_TOLD),
        (is_by_operator(others), Role.BY_OPERATOR),
        (decided, Role.UNLISTED),
    )
    found[which] = np.select([test for test, _ in tests], [int(role) for _, role in tests], Role.UNDECIDED)
    return found


def _decided(coordinators: Coordinators, marks: Records) -> tuple[Records, Records]:
    """Return which markers have the key of a transaction, and of which the partitions of all of those are known."""
    instances = coordinators.instances
    instances = instances[instances["marker_epoch"] != NONE]
    keys, marked = (one["producer_id"] * _EPOCHS + one["marker_epoch"] for one in (instances, marks))
    unknown = (instances["partitions"] == UNKNOWN_SET) | ~coordinators.ids["is_told"][instances["id"]]
    return np.isin(marked, keys), ~np.isin(marked, keys[unknown])


# More than there are epochs; producer ids are counted from 0, in blocks of 1000.
_EPOCHS = 1 << 15


def _is_told(coordinators: Coordinators, marks: Records, ids: Records, skew_ms: int) -> Records:
    """Return whether the decision behind a marker would be on hand: made before it, and stored before that."""
    known = coordinators.ids[ids] if len(coordinators.ids) else None
    if known is None:
        return np.zeros(len(marks), bool)
    times = marks["marker_timestamp"]
    begin = coordinators.known_from[known["coordinator"]]
    since = known["is_told"] | ((begin != ALWAYS) & (times >= begin + skew_ms)) | (begin == ALWAYS)
    told: Records = since & (times <= coordinators.known_to[known["coordinator"]] - skew_ms)
    return told
