"""Records of a coordinator that stand where they should not, cannot be read, or ask for too much.

Rule: ``TransactionStateManager.partitionFor`` for the partition of an id, ``TransactionLog.readTxnRecordValue`` for
what a broker can load.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.cluster.record_issue_findings import remarked
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed
from kforensics.forensics.coordinators.deadlines import NO_TIMEOUT
from kforensics.forensics.coordinators.partition_of import java_hashes, likely_count
from kforensics.forensics.coordinators.transactions.record_issues import Remark, Said
from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.reporting import Row, span

__all__ = ["CODES", "findings"]

CODES = codes("""
txnlog-wrong-partition critical
A transactional id has records in a partition that its name does not lead to.
See whether the number of partitions of the topic was changed: then the state of every id is split.
why: A coordinator finds an id by the hash of its name and the number of partitions. If that number was changed, the \
old records are with another coordinator than the new ones, and two of them decide on the same id.
innocent: Another number of partitions than was assumed; it can be given.

txnlog-unparsable error
A record of a coordinator cannot be read.
Up to 4.2 a broker that meets it stops loading the partition; since 4.3 it goes on with an older record of the id. \
Keep the segment.
why: What the coordinator does not understand it does not know: an id may be missing, or an older state of it holds.
innocent: A release later than this tool. Keys of a type that brokers pass over.

txnlog-timeout-too-large info
A transactional id has a longer timeout than brokers allow.
why: Brokers refuse a timeout above transaction.max.timeout.ms when the producer starts. With a longer one a \
transaction may stay open longer than anybody expects.
innocent: The limit was lowered later. A producer of a two-phase commit has no limit.
""")


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of single records."""
    yield from _misplaced(cluster)
    yield from remarked(cluster, Said.UNPARSABLE, partial(_unparsable, cluster))
    ids = cluster.coordinators.ids
    longer = np.flatnonzero(ids["timeout_ms"] > cluster.rules.max_txn_timeout_ms)
    yield from each_placed(ids[longer], partial(_too_large, cluster), id=longer)


def _misplaced(cluster: Cluster) -> Iterator[Placed]:
    ids, told = cluster.coordinators.ids, cluster.partition_count
    hashes = java_hashes(cluster.coordinators.names)
    places = np.array([history.place.partition or 0 for history in cluster.coordinators.histories], "i8")
    found = places[ids["coordinator"]] if len(ids) else np.empty(0, "i8")
    captured = places.tolist()
    count = likely_count(captured, hashes, found) if told is None else told
    if count is None:
        return
    wrong = np.flatnonzero(hashes % count != found)
    more = {"id": wrong, "wanted": hashes[wrong] % count, "found": found[wrong]}
    yield from each_placed(ids[wrong], partial(_wrong, cluster, count), **more)


def _wrong(cluster: Cluster, count: int, row: Row) -> Placed:
    told = cluster.partition_count is not None
    return cluster.at_coordinator(
        row,
        CODES["txnlog-wrong-partition"],
        f"Transactional id {cluster.id_name(row)!r} has records in partition {row['found']}; with {count} partitions "
        f"its coordinator is that of partition {row['wanted']}.",
        evidence={"partitions": count, "wanted_partition": row["wanted"]},
        exactness=Exactness.EXACT if told else Exactness.APPROXIMATE,
        benign=(
            f"another number of partitions: {'no, it was given' if told else 'possible, most ids go with this one'}",
        ),
    )


def _unparsable(cluster: Cluster, coordinator: int, remark: Remark) -> Placed:
    record = remark.record
    passed_over = record.transactional_id is None and (record.error or "").startswith("unknown record type")
    whose = "" if record.transactional_id is None else f" of transactional id {record.transactional_id!r}"
    return cluster.at_record(
        coordinator,
        record,
        CODES["txnlog-unparsable"],
        f"The record{whose} at offset {record.offset} cannot be read: {record.error}.",
        severity=Severity.WARNING if passed_over else None,
        evidence={"error": record.error},
        benign=(
            f"key of another type, which every broker passes over: {'yes' if passed_over else 'no'}",
            "version of a later release: not known up to 4.4",
        ),
    )


def _too_large(cluster: Cluster, row: Row) -> Placed:
    limit = span(cluster.rules.max_txn_timeout_ms)
    two_phase = row["timeout_ms"] == NO_TIMEOUT
    length = "no timeout" if two_phase else f"a timeout of {span(row['timeout_ms'])}"
    return cluster.at_coordinator(
        row,
        CODES["txnlog-timeout-too-large"],
        f"Transactional id {cluster.id_name(row)!r} has {length}; at most {limit} are allowed.",
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={"timeout_ms": row["timeout_ms"], "allowed_ms": cluster.rules.max_txn_timeout_ms},
        benign=(
            f"producer of a two-phase commit: {'yes' if two_phase else 'no'}",
            "limit lowered since: possible",
        ),
    )
