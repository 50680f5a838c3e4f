"""How applications use transactional ids."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.cluster.record_issue_findings import remarked
from kforensics.forensics.checks.partition import transactions
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed
from kforensics.forensics.coordinators.transactions.record_issues import Remark, Said
from kforensics.forensics.core.findings import codes
from kforensics.forensics.core.reporting import Row

__all__ = ["BORROWED", "CODES", "findings"]

CODES = codes("""
txnlog-fencing-loop warning
Producers with the same transactional id take it from one another, and none commits.
See which applications use the id: each instance needs one of its own.
why: Whoever starts with a transactional id fences the one before. Two instances with the same one do that by turns, \
and neither gets to commit.
innocent: One application that crashes and starts again.

txnlog-id-churn info
Many transactional ids were used once only.
why: Ids with a random part cannot fence those that went before, so that a crashed instance blocks its partitions \
until the timeout. Each id is kept for a week.
innocent: Kafka Streams with exactly_once_v1 has an id for each task, and Flink's sink has pools of them.

pid-two-ids critical
Two transactional ids have the same producer id.
See whether the files come from two clusters; if not, the controller has given out producer ids twice.
why: Blocks of producer ids are given out once per cluster. If two ids share one, their sequences, epochs and markers \
get mixed up in every partition that both write to.
innocent: The files come from two clusters.
""")

# Codes of families that judge a partition alone.
BORROWED = {"txn-aborted-rate-high": transactions.CODES["txn-aborted-rate-high"]}
# Ids with a single init, from which on they are worth a word, if most ids are such.
MANY = 100


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of transactional ids and their producer ids."""
    yield from remarked(cluster, Said.FENCING_LOOP, partial(_loop, cluster))
    yield from _churn(cluster)
    yield from _aborted_rates(cluster)
    uses = cluster.coordinators.uses
    again = np.flatnonzero(uses["producer_id"][1:] == uses["producer_id"][:-1]) + 1
    names = cluster.coordinators.names
    others = uses["id"][again - 1]
    # The same id in two partitions is another finding.
    two = np.array([names[one] != names[other] for one, other in zip(uses["id"][again], others, strict=True)], bool)
    yield from each_placed(uses[again[two]], partial(_two_ids, cluster), other=others[two])


def _loop(cluster: Cluster, coordinator: int, remark: Remark) -> Placed:
    return cluster.at_record(
        coordinator,
        remark.record,
        CODES["txnlog-fencing-loop"],
        f"Transactional id {remark.record.transactional_id!r} was initialised more than 10 times within a minute, up "
        f"to offset {remark.record.offset}, and no transaction was committed.",
        benign=("one application that crashes and starts again: possible",),
    )


def _churn(cluster: Cluster) -> Iterator[Placed]:
    ids = cluster.coordinators.ids
    once = (ids["inits"] == 1) & (ids["transactions"] <= 1)
    for coordinator, history in enumerate(cluster.coordinators.histories):
        mine = ids["coordinator"] == coordinator
        count, known = int((mine & once).sum()), len(history.ids)
        if count >= MANY and 2 * count > known:
            row = {name: int(ids[mine & once][name][-1]) for name in ("coordinator", "segment", "position", "offset")}
            yield cluster.at_coordinator(
                row,
                CODES["txnlog-id-churn"],
                f"Of {known} transactional ids {count} were initialised once and have one transaction at most.",
                evidence={"ids": known, "used_once": count},
                benign=("Kafka Streams with exactly_once_v1, pools of Flink: possible",),
            )


def _aborted_rates(cluster: Cluster) -> Iterator[Placed]:
    ids, rules = cluster.coordinators.ids, cluster.rules
    ended = ids["committed"] + ids["aborted"]
    many = np.flatnonzero((ended >= rules.aborted_least) & (ids["aborted"] > rules.aborted_share * ended))
    yield from each_placed(ids[many], partial(_aborted_rate, cluster), id=many, ended=ended[many])


def _aborted_rate(cluster: Cluster, row: Row) -> Placed:
    return cluster.at_coordinator(
        row,
        BORROWED["txn-aborted-rate-high"],
        f"Of {row['ended']} transactions of {cluster.id_name(row)!r} {row['aborted']} were aborted, "
        f"{row['aborted'] / row['ended']:.0%}.",
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={"transactions": row["ended"], "aborted": row["aborted"]},
        benign=("test traffic, one storm of timeouts: possible",),
    )


def _two_ids(cluster: Cluster, row: Row) -> Placed:
    other = cluster.coordinators.names[row["other"]]
    return cluster.at_coordinator(
        row,
        CODES["pid-two-ids"],
        f"Producer id {row['producer_id']} belongs to transactional id {cluster.id_name(row)!r} and to {other!r}.",
        producer=(row["producer_id"], -1),
        evidence={"transactional_ids": [other, cluster.id_name(row)]},
        benign=("files of two clusters together: possible",),
    )
