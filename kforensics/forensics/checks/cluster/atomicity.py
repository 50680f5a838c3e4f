"""Transactions that did not end the same everywhere.

Rule: ``TransactionCoordinator.endTransaction``: a Complete record is written once every partition has its marker, on
all replicas in sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed, mark_row
from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.transactions.marker_roles import Role
from kforensics.forensics.coordinators.transactions.transaction_partitions import Verdict, is_by_operator, numbered
from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.record_types import NO_TIME, Ending, Records
from kforensics.forensics.core.reporting import Row, moment
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS

__all__ = ["CODES", "findings"]

CODES = codes("""
atomicity-split-outcome critical
A transaction was committed in one partition and aborted in another, or against the decision of its coordinator.
The application has to repair it: compare the offsets of both sides.
why: A transaction is all or nothing over its partitions. Here consumers get one part of it and not the other one, and \
no broker will change that.
innocent: An operator aborted it in one partition. Below transaction version 2 the marker may be of another \
transaction of the same epoch; then it is no more than a warning.

atomicity-marker-missing critical
A transaction is complete to its coordinator, and a partition of it has no marker.
If its data is open there it hangs, and no tool can end it but by an abort: kafka-transactions.sh --bootstrap-server \
<host:port> abort --topic {topic} --partition {partition} --start-offset <first offset of the open data>.
why: The coordinator calls a transaction complete once all its partitions have acknowledged the marker. If one of them \
does not have it, it was lost again, and the data there stays open for ever.
innocent: The topic was deleted and created again. The log was cut after an unclean election. This replica was copied \
before the marker came, or is behind.

eos-offset-outcome-mismatch critical
The offsets of a transaction were committed and its output aborted, or the other way round.
Input was skipped or is processed twice: look at the group's offsets in this transaction.
why: Reading, processing and writing is exactly-once because the group's offsets and the output are in one \
transaction. Here only one of the two took effect.
innocent: An operator aborted one of the two.
""")


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of ends that do not go together."""
    parts, instances = cluster.joined.parts, cluster.coordinators.instances
    split, missing = (parts[parts["verdict"] == verdict] for verdict in (Verdict.SPLIT, Verdict.MISSING))
    yield from each_placed(split, partial(_split, cluster), **_of_instances(instances, split))
    yield from each_placed(missing, partial(_missing, cluster), **_of_instances(instances, missing))
    yield from _mismatches(cluster, split)
    yield from _of_unknown_producers(cluster)


MORE = ("id", "producer_id", "marker_epoch", "status", "is_superseded", "decided", "completed")


def _of_instances(instances: Records, parts: Records) -> dict[str, Records]:
    return {name: instances[name][parts["instance"]] for name in MORE}


def _split(cluster: Cluster, row: Row) -> Placed:
    mark = cluster.joined.marks[row["mark"]]
    ending = Ending(int(mark["ending"]))
    first = int(mark["first_offset"])
    return cluster.at_mark(
        mark_row(mark),
        CODES["atomicity-split-outcome"],
        f"The {_marker(ending)} at offset {int(mark['marker_offset'])} goes against the coordinator, which decided "
        f"{_decision(row)} for the transaction of {cluster.id_name(row)!r} at {moment(row['decided'])} (producer "
        f"{row['producer_id']}, epoch {row['marker_epoch']}).",
        severity=None if row["is_exact"] else Severity.WARNING,
        evidence={
            "transactional_id": cluster.id_name(row),
            "decided": str(State(row["status"])),
            "first_offset": None if first == NONE else first,
        },
        exactness=Exactness.EXACT if row["is_exact"] else Exactness.APPROXIMATE,
        benign=(
            f"abort by an operator: {'possible' if ending is Ending.ABORTED else 'no, it is a COMMIT'}",
            f"another transaction of the same epoch: {'no' if row['is_exact'] else 'possible'}",
        ),
    )


def _marker(ending: Ending) -> str:
    return "ABORT" if ending is Ending.ABORTED else "COMMIT"


def _decision(row: Row) -> str:
    if row["is_superseded"]:
        return f"{State(row['status'])} first and then the contrary"
    return str(State(row["status"]))


def _missing(cluster: Cluster, row: Row) -> Placed:
    """Markers of others well behind the end of the transaction prove that the log on hand reaches so far.

    Of several transactions with one epoch it may be another one's that is missing; that one is missing is certain.
    """
    markers, rules = cluster.joined.markers[row["partition"]], cluster.rules
    told = row["completed"] != NO_TIME
    later = told and markers.known_to > row["completed"] + rules.clock_skew_ms
    old = told and rules.as_of_ms - row["completed"] > rules.max_txn_timeout_ms
    still_open = markers.still_open["producer_id"] == row["producer_id"]
    opened = int(markers.still_open["first_offset"][still_open][0]) if still_open.any() else None
    where = "no data of it is open here" if opened is None else f"its data from offset {opened} on is open"
    return cluster.at_partition(
        row["partition"],
        CODES["atomicity-marker-missing"],
        f"The coordinator wrote {State(row['status'])} for the transaction of {cluster.id_name(row)!r} at "
        f"{moment(row['completed'])} (producer {row['producer_id']}, epoch {row['marker_epoch']}), and "
        f"{cluster.name(row['partition'])} has no marker of it; {where}.",
        offsets=None if opened is None else (opened, opened),
        producer=(row["producer_id"], row["marker_epoch"]),
        severity=None if later or old else Severity.WARNING,
        evidence={"transactional_id": cluster.id_name(row), "completed_ms": row["completed"], "open_from": opened},
        exactness=Exactness.EXACT if row["is_exact"] and later else Exactness.APPROXIMATE,
        benign=(
            f"copied before the end of the transaction: {_copied(later=later, old=old)}",
            f"marker of another transaction of the same epoch: {'no' if row['is_exact'] else 'possible'}",
            f"lost from this copy: {'likely, it lacks offsets' if markers.holes else 'no offsets are missing'}",
            "topic deleted and created anew, log cut after an unclean election: cannot be seen here",
        ),
    )


def _copied(*, later: bool, old: bool) -> str:
    if later:
        return "no, there are later markers"
    return "hardly, it ended long before the files were copied" if old else "possible"


def _mismatches(cluster: Cluster, split: Records) -> Iterator[Placed]:
    """Of transactions that ended in two ways, those of which the offsets of a group are on the other side."""
    parts, marks = cluster.joined.parts, cluster.joined.marks
    offsets = np.array([topic == CONSUMER_OFFSETS for topic, _ in cluster.joined.partitions], bool)
    which = parts[np.isin(parts["instance"], split["instance"]) & (parts["mark"] != NONE)]
    endings = marks["ending"][which["mark"]] if len(which) else which["verdict"]
    is_offsets = offsets[which["partition"]] if len(which) else np.empty(0, bool)
    told: list[int] = []
    for at in np.flatnonzero(is_offsets).tolist():
        others = (which["instance"] == which["instance"][at]) & ~is_offsets
        if (endings[others] != endings[at]).any():
            told.append(at)
    more = _of_instances(cluster.coordinators.instances, which[told])
    yield from each_placed(which[told], partial(_mismatch, cluster), ending=endings[told], **more)


def _mismatch(cluster: Cluster, row: Row) -> Placed:
    mark = cluster.joined.marks[row["mark"]]
    fates = ("aborted", "committed") if row["ending"] == Ending.ABORTED else ("committed", "aborted")
    return cluster.at_mark(
        mark_row(mark),
        CODES["eos-offset-outcome-mismatch"],
        f"The offsets that {cluster.id_name(row)!r} wrote in its transaction of {moment(row['decided'])} were "
        f"{fates[0]}, and output of it was {fates[1]} (producer {row['producer_id']}, epoch {row['marker_epoch']}).",
        severity=None if row["is_exact"] else Severity.WARNING,
        evidence={"transactional_id": cluster.id_name(row)},
        exactness=Exactness.EXACT if row["is_exact"] else Exactness.APPROXIMATE,
        benign=("abort by an operator: possible",),
        cause="atomicity-split-outcome",
    )


def _of_unknown_producers(cluster: Cluster) -> Iterator[Placed]:
    """Yield markers of one transaction that contradict one another, where no coordinator on hand knows it.

    An epoch behind that of the data is one transaction's own, whether version 2 ends every one with it, or a fence.
    """
    marks = cluster.joined.marks[cluster.joined.roles == Role.UNKNOWN_PRODUCER]
    marks = marks[~is_by_operator(marks)]
    numbers, count = numbered([marks["producer_id"], marks["marker_epoch"]])
    filled = marks["first_offset"] != NONE
    own = np.bincount(numbers[filled & (marks["data_epoch"] == marks["marker_epoch"] - 1)], minlength=count) > 0
    own &= np.bincount(numbers[filled & (marks["data_epoch"] != marks["marker_epoch"] - 1)], minlength=count) == 0
    committed, aborted = (
        np.bincount(numbers[marks["ending"] == ending], minlength=count)
        for ending in (Ending.COMMITTED, Ending.ABORTED)
    )
    split = own & (committed > 0) & (aborted > 0)
    fewer = np.where(committed < aborted, Ending.COMMITTED, Ending.ABORTED)
    which = split[numbers] & (marks["ending"] == fewer[numbers])
    others = (committed + aborted)[numbers] - np.where(fewer == Ending.COMMITTED, committed, aborted)[numbers]
    yield from each_placed(marks[which], partial(_contradicted, cluster), others=others[which])


def _contradicted(cluster: Cluster, row: Row) -> Placed:
    ending = Ending(row["ending"])
    return cluster.at_mark(
        row,
        CODES["atomicity-split-outcome"],
        f"The {_marker(ending)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} says the contrary of {row['others']} markers of the same transaction elsewhere.",
        evidence={"others": row["others"]},
        exactness=Exactness.APPROXIMATE,
        benign=("another transaction of the same epoch: hardly, the epoch is behind that of its data",),
    )
