"""Rows of what the records of coordinators amount to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.record_rows import listed
from kforensics.forensics.coordinators.transactions.transaction_partitions import Verdict
from kforensics.forensics.core.cluster_tables import DISTRIBUTED_TRANSACTIONS, TRANSACTIONAL_IDS
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.core.result_rows import Rows, Words, nullable

__all__ = ["id_rows", "transaction_rows"]

STATES = tuple(str(state) for state in State)
OUTCOMES = ("open", "committed", "aborted", "superseded")
ATOMIC = ("yes", "no", "pending", "unverifiable")


def id_rows(cluster: Cluster) -> Iterator[Rows]:
    """Yield the ids of each coordinator partition, the one that was used last first."""
    names = cluster.coordinators.names
    ids = cluster.coordinators.ids
    for number, mine in _by_coordinator(cluster, ids):
        which = mine[np.argsort(-ids["last_time"][mine], kind="stable")]
        found = ids[which]
        gone = found["status"] == NONE
        columns = {
            "transactional_id": Words(which, names),
            "state": Words(found["status"], STATES),
            "removed": found["is_removed"],
            **{name: nullable(found[name], gone) for name in ("producer_id", "producer_epoch", "transaction_version")},
            "transaction_timeout_ms": nullable(found["timeout_ms"], gone),
            "start_timestamp": nullable(found["start"], NO_TIME),
            "partitions": _sets(cluster, np.where(found["status"] == State.EMPTY, NONE, found["partitions"])),
            "first_timestamp": nullable(found["first_time"], NO_TIME),
            "last_timestamp": nullable(found["last_time"], NO_TIME),
            **{name: found[name] for name in ("inits", "transactions", "committed", "aborted")},
            "producer_ids": found["producers"],
            "exact": found["is_told"],
        }
        yield _placed(cluster, number, TRANSACTIONAL_IDS, found, columns)


def _by_coordinator(cluster: Cluster, records: Records) -> Iterator[tuple[int, Records]]:
    for number in range(len(cluster.coordinators.histories)):
        which = np.flatnonzero(records["coordinator"] == number)
        if len(which):
            yield number, which


def _sets(cluster: Cluster, numbers: Records) -> Words:
    """Return sets of partitions as text, null for none and for the empty one."""
    words = [listed(one) or "" for one in cluster.coordinators.sets]
    empty = np.array([not word for word in words] + [True], bool)
    return Words(np.where(empty[numbers], NONE, numbers), words)


def _placed(cluster: Cluster, number: int, table: Any, found: Records, columns: dict[str, Any]) -> Rows:
    history = cluster.coordinators.histories[number]
    columns |= {
        "path": Words(found["segment"], history.paths),
        "position": found["position"],
        "offset": found["offset"],
    }
    return Rows(table, len(found), {**history.place._asdict(), **columns})


def transaction_rows(cluster: Cluster) -> Iterator[Rows]:
    """Yield the transactions of each coordinator partition, in the order in which they were ended or left."""
    instances, parts = cluster.coordinators.instances, cluster.joined.parts
    names = cluster.coordinators.names
    first, last = _marker_times(cluster)
    for number, which in _by_coordinator(cluster, instances):
        found = instances[which]
        counts = _counts(parts, len(instances), which)
        lengths = np.array([len(one) for one in cluster.coordinators.sets] + [0], "i4")
        columns = {
            "transactional_id": Words(found["id"], names),
            "producer_id": found["producer_id"],
            "producer_epoch": nullable(found["data_epoch"], NONE),
            "marker_epoch": nullable(found["marker_epoch"], NONE),
            "state": Words(found["status"], STATES),
            "outcome": Words(_outcomes(found), OUTCOMES),
            "transaction_version": found["transaction_version"],
            "transaction_timeout_ms": found["timeout_ms"],
            "start_timestamp": nullable(found["start"], NO_TIME),
            "decided_timestamp": nullable(found["decided"], NO_TIME),
            "first_marker_timestamp": nullable(first[which], first[which] == NEVER),
            "last_marker_timestamp": nullable(last[which], NO_TIME),
            "completed_timestamp": nullable(found["completed"], NO_TIME),
            "partitions": _sets(cluster, found["partitions"]),
            "partition_count": nullable(lengths[found["partitions"]], found["partitions"] == NONE),
            **{name: count for name, count in counts.items() if name != "pending"},
            "atomic": Words(_atomic(found, counts), ATOMIC),
            "exact": np.bincount(parts["instance"][~parts["is_exact"]], minlength=len(instances))[which] == 0,
        }
        yield _placed(cluster, number, DISTRIBUTED_TRANSACTIONS, found, columns)


NEVER = int(np.iinfo("i8").max)
COUNTED = {
    "markers": (Verdict.GOOD, Verdict.EMPTY),
    "empty_markers": (Verdict.EMPTY,),
    "missing_markers": (Verdict.MISSING,),
    "contrary_markers": (Verdict.SPLIT,),
    "unverifiable": (Verdict.UNCLEAR, Verdict.UNCOVERED, Verdict.UNSUPPLIED),
    "pending": (Verdict.PENDING,),
}


def _counts(parts: Records, length: int, which: Records) -> dict[str, Records]:
    """Return for some transactions of how many partitions each thing is to be said."""
    return {
        name: np.bincount(parts["instance"][np.isin(parts["verdict"], verdicts)], minlength=length)[which]
        for name, verdicts in COUNTED.items()
    }


def _marker_times(cluster: Cluster) -> tuple[Records, Records]:
    """Return for each transaction the time of its first marker on hand, and that of its last one."""
    parts = cluster.joined.parts
    parts = parts[parts["mark"] != NONE]
    first = np.full(len(cluster.coordinators.instances), NEVER, "i8")
    last = np.full(len(first), NO_TIME, "i8")
    if len(parts):
        times = cluster.joined.marks["marker_timestamp"][parts["mark"]]
        np.minimum.at(first, parts["instance"], times)
        np.maximum.at(last, parts["instance"], times)
    return first, last


def _outcomes(instances: Records) -> Records:
    committed = np.isin(instances["status"], (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    aborted = np.isin(instances["status"], (State.PREPARE_ABORT, State.COMPLETE_ABORT))
    found: Records = np.select([instances["is_superseded"], committed, aborted], [3, 1, 2], 0)
    return found


def _atomic(instances: Records, counts: dict[str, Records]) -> Records:
    """Return whether each transaction ended the same everywhere; null while its end is not decided."""
    wrong = (counts["missing_markers"] > 0) | (counts["contrary_markers"] > 0)
    unknown = (counts["unverifiable"] > 0) | (instances["partitions"] == NONE)
    undecided = (instances["marker_epoch"] == NONE) | (instances["is_superseded"] & ~wrong)
    tests = [undecided, wrong, unknown, counts["pending"] > 0]
    found: Records = np.select(tests, [NONE, 1, 3, 2], 0)
    return found
