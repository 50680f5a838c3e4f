"""Whether the records of a coordinator explain that a producer has nearly used up its epochs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.transactions.id_tracks import INITS
from kforensics.forensics.coordinators.transactions.transitions import TV2
from kforensics.forensics.core.findings import Finding, Severity

__all__ = ["with_used_epochs"]

NEAR_EXHAUSTION = "epoch-near-exhaustion"


def with_used_epochs(cluster: Cluster, finding: Finding) -> Finding:
    """Return a finding about nearly used up epochs as information if its client goes on.

    With transaction version 2 each transaction has its own epoch, which the log of one partition shows only if a
    transaction there has ended. With any version the coordinator assigns a new producer id after the last epoch.
    Other findings are returned unchanged.
    Rule: ``TransactionMetadata.prepareAbortOrCommit``, ``prepareProducerIdRotation``.

    Args:
        cluster: the cluster.
        finding: a finding in one of its partitions.
    """
    if finding.code.name != NEAR_EXHAUSTION or finding.severity is Severity.INFO or finding.producer_id is None:
        return finding
    (number,) = cluster.coordinators.id_of(np.array([finding.producer_id])).tolist()
    if number == NONE:
        return finding
    known = cluster.coordinators.ids[number]
    if known["producer_id"] != finding.producer_id:
        benign = (f"the coordinator assigned producer id {known['producer_id']} instead: yes, by its log",)
        return replace(finding, severity=Severity.INFO, benign=benign)
    # Without commits in between, so many initializations within a minute are a loop of instances that fence each other.
    is_fenced = known["inits"] > INITS and known["inits"] >= known["transactions"]
    if known["transaction_version"] < TV2 or is_fenced:
        return finding
    benign = ("transaction version 2, one epoch per transaction: yes, by the log of its coordinator",)
    return replace(finding, severity=Severity.INFO, benign=benign)
