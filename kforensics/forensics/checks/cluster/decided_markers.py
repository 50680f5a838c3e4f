"""Markers that do not go with what their coordinator wrote.

Rule: ``TransactionMarkerChannelManager.addTxnMarkersToSend`` for when markers are sent, and to which partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.transactions.marker_roles import Role
from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.record_types import NO_TIME, Ending, Records
from kforensics.forensics.core.reporting import Row, moment

__all__ = ["CODES", "findings"]

CODES = codes("""
marker-partition-unlisted error
A partition has a marker, and no transaction of its producer lists it.
See whether two coordinators had the same transactional id.
why: A coordinator writes markers only where the transaction was enlisted. This one has a sender that knew of another \
transaction.
innocent: An operator's abort. The list was lost with a record that the cleaner took, or the record with it came after \
the copy.

marker-outside-window warning
A marker was written before its transaction was decided, or after it was complete.
See whether it ended the next transaction of the producer.
why: Markers are sent after the decision and before the completion. One that came late through the network may have \
ended the next transaction before its time; then it is worse.
innocent: Clocks of brokers differ. It was sent again after a failover of the coordinator.

marker-coordinator-epoch-mismatch warning
A marker has a coordinator epoch that its coordinator did not have while the transaction was ending.
Nothing, unless there is a marker that says the contrary too.
why: A marker bears the epoch of the coordinator that sent it. This one comes from another one than those that were in \
charge.
innocent: An operator's abort, or a marker that belongs to a neighbouring transaction of the same epoch.
""")


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of markers and the decisions behind them."""
    marks, roles = cluster.joined.marks, cluster.joined.roles
    for role in (Role.UNLISTED, Role.UNDECIDED):
        yield from each_placed(marks[roles == role], partial(_unlisted, cluster, role))
    yield from each_placed(marks[roles == Role.OUTSIDE], partial(_extra, cluster))
    again = (roles == Role.AGAIN) & (marks["first_offset"] != NONE)
    yield from each_placed(marks[again], partial(_ends_next, cluster))
    yield from _of_pairs(cluster)


def _name(row: Row) -> str:
    return "ABORT" if row["ending"] == Ending.ABORTED else "COMMIT"


def _unlisted(cluster: Cluster, role: Role, row: Row) -> Placed:
    why = (
        "the transaction of that epoch does not list this partition"
        if role is Role.UNLISTED
        else "its coordinator has no record of an end of that epoch"
    )
    (number,) = cluster.coordinators.id_of(np.array([row["producer_id"]])).tolist()
    name = cluster.coordinators.names[number]
    return cluster.at_mark(
        row,
        CODES["marker-partition-unlisted"],
        f"The {_name(row)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} was sent by nobody: {why} (transactional id {name!r}).",
        evidence={"transactional_id": name, "coordinator_epoch": row["coordinator_epoch"]},
        benign=(
            "abort by an operator: no, it has not the epoch of its data"
            if row["ending"] == Ending.ABORTED
            else "abort by an operator: no, it is a COMMIT",
            "list of partitions lost to the cleaner, decision not yet on hand: no",
        ),
    )


def _extra(cluster: Cluster, row: Row) -> Placed:
    return cluster.at_mark(
        row,
        CODES["marker-outside-window"],
        f"The {_name(row)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} is one more than there were transactions of that epoch in this partition.",
        evidence={"marker_timestamp": row["marker_timestamp"]},
        exactness=Exactness.APPROXIMATE,
        benign=("sent again after a failover: possible", "clocks of brokers differ: possible"),
    )


def _ends_next(cluster: Cluster, row: Row) -> Placed:
    return cluster.at_mark(
        row,
        CODES["marker-outside-window"],
        f"The {_name(row)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} was sent once more, and ended data from offset {row['first_offset']} on that came "
        "after the first one.",
        severity=Severity.ERROR,
        evidence={"first_offset": row["first_offset"], "lowest_epoch": row["lowest_epoch"]},
        benign=("sent again after a failover: likely, but not in vain",),
    )


def _of_pairs(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of markers of which the transaction is certain."""
    parts, marks = cluster.joined.parts, cluster.joined.marks
    parts = parts[(parts["mark"] != NONE) & parts["is_exact"]]
    mine = cluster.coordinators.instances[parts["instance"]]
    found = marks[parts["mark"]] if len(parts) else marks[:0]
    skew = cluster.rules.clock_skew_ms
    times = found["marker_timestamp"]
    early = (times < mine["decided"] - skew) & (mine["decided"] != NO_TIME)
    late = (times > mine["completed"] + skew) & (mine["completed"] != NO_TIME)
    for which, tell in ((early, _early), (late, _late)):
        more = {name: mine[name][which] for name in ("id", "decided", "completed")}
        yield from each_placed(found[which], partial(tell, cluster), **more)
    wrong = _strange_epochs(found, mine)
    more = {name: mine[name][wrong] for name in ("id", "prepare_leader_epoch", "complete_leader_epoch")}
    yield from each_placed(found[wrong], partial(_epoch, cluster), **more)


def _strange_epochs(marks: Records, mine: Records) -> Records:
    """Return which markers have an epoch that is not from that of the Prepare record to that of the Complete record."""
    epoch = marks["coordinator_epoch"]
    below = (mine["prepare_leader_epoch"] != NONE) & (epoch < mine["prepare_leader_epoch"])
    above = (mine["complete_leader_epoch"] != NONE) & (epoch > mine["complete_leader_epoch"])
    strange: Records = above | below
    return strange


def _early(cluster: Cluster, row: Row) -> Placed:
    when = f"before its transaction was decided, at {moment(row['decided'])}"
    return _outside(cluster, row, when, "decided_ms", row["decided"])


def _late(cluster: Cluster, row: Row) -> Placed:
    when = f"after its transaction was complete, at {moment(row['completed'])}"
    return _outside(cluster, row, when, "completed_ms", row["completed"])


def _outside(cluster: Cluster, row: Row, when: str, name: str, time: int) -> Placed:
    return cluster.at_mark(
        row,
        CODES["marker-outside-window"],
        f"The {_name(row)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} was written at {moment(row['marker_timestamp'])}, {when}.",
        evidence={"marker_timestamp": row["marker_timestamp"], name: time, "transactional_id": cluster.id_name(row)},
        benign=(f"clocks of brokers differ: by more than {cluster.rules.clock_skew_ms} ms they should not",),
    )


def _epoch(cluster: Cluster, row: Row) -> Placed:
    first, last = row["prepare_leader_epoch"], row["complete_leader_epoch"]
    known = f"from {first} to {last}" if last != NONE else f"{first} or more"
    return cluster.at_mark(
        row,
        CODES["marker-coordinator-epoch-mismatch"],
        f"The {_name(row)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} has coordinator epoch {row['coordinator_epoch']}; while the transaction of "
        f"{cluster.id_name(row)!r} was ending it was {known}.",
        evidence={"coordinator_epoch": row["coordinator_epoch"], "transactional_id": cluster.id_name(row)},
        benign=("abort by an operator: " + ("possible" if row["ending"] == Ending.ABORTED else "no, it is a COMMIT"),),
    )
