"""What cannot be said of transactions for want of files, and transactions that hold nothing but offsets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed
from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.transactions.transaction_partitions import Verdict
from kforensics.forensics.core.findings import Exactness, codes
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS

__all__ = ["CODES", "findings"]

CODES = codes("""
atomicity-unverifiable info
Whether transactions ended the same in a partition cannot be told from the files on hand.
why: A partition that the transaction lists, or the time in question, is not among the files.
innocent: Always: it is no fault of the cluster.

eos-commit-without-output info
Transactions of an id were committed that hold offsets of groups and no output.
why: The transaction was begun to write and only moved the group's offsets on.
innocent: Input that was filtered away is committed like this.
""")


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what the files on hand do not tell."""
    parts = cluster.joined.parts
    for verdict, tell in _REASONS.items():
        some = parts[parts["verdict"] == verdict]
        partitions, first, counts = np.unique(some["partition"], return_index=True, return_counts=True)
        instances = cluster.coordinators.instances[some["instance"][first]]
        more = {"unsaid": counts, "partition": partitions}
        yield from each_placed(instances, partial(_unverifiable, cluster, tell), **more)
    yield from _without_output(cluster)


_REASONS = {
    Verdict.UNSUPPLIED: "its files are not on hand",
    Verdict.UNCOVERED: "its log on hand does not reach back so far, was cleaned, or was copied before they ended",
    Verdict.UNCLEAR: "the number of its markers of the same epoch is wrong, and which ones they are is not clear",
}


def _unverifiable(cluster: Cluster, reason: str, row: Row) -> Placed:
    return cluster.at_coordinator(
        row,
        CODES["atomicity-unverifiable"],
        f"Of {row['unsaid']} transactions that list {cluster.name(row['partition'])} nobody can tell how they ended "
        f"there: {reason}.",
        evidence={"transactions": row["unsaid"], "partition": cluster.name(row["partition"])},
        exactness=Exactness.UNVERIFIABLE,
        benign=("always: it is no fault of the cluster",),
    )


def _without_output(cluster: Cluster) -> Iterator[Placed]:
    instances = cluster.coordinators.instances
    committed = np.isin(instances["status"], (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    some = instances[committed & _holds_offsets_only(cluster, instances)]
    _, first, counts = np.unique(some["id"], return_index=True, return_counts=True)
    yield from each_placed(some[first], partial(_offsets_only, cluster), transactions=counts)


def _holds_offsets_only(cluster: Cluster, instances: Records) -> Records:
    """Return which transactions list partitions of ``__consumer_offsets`` and no other."""
    sets = cluster.coordinators.sets
    only = [bool(one) and all(topic == CONSUMER_OFFSETS for topic, _ in one) for one in sets]
    # Behind the last set, where -1 finds it, there is none.
    found: Records = np.array([*only, False], bool)[instances["partitions"]]
    return found


def _offsets_only(cluster: Cluster, row: Row) -> Placed:
    return cluster.at_coordinator(
        row,
        CODES["eos-commit-without-output"],
        f"Of the committed transactions of {cluster.id_name(row)!r} {row['transactions']} hold offsets only.",
        producer=(row["producer_id"], row["marker_epoch"]),
        evidence={"transactions": row["transactions"]},
        benign=("input of which nothing was left to write: likely",),
    )
