"""How remarks on records become findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed
from kforensics.forensics.coordinators.transactions.record_issues import Remark, Said
from kforensics.forensics.core.reporting import MOST

__all__ = ["remarked"]


def remarked(cluster: Cluster, said: Said, tell: Callable[[int, Remark], Placed]) -> Iterator[Placed]:
    """Yield a finding for each remark of a kind; the last one of a partition says how many are ``left_out``.

    Args:
        cluster: the cluster.
        said: the kind.
        tell: makes a finding of the number of a coordinator and a remark.
    """
    for coordinator, history in enumerate(cluster.coordinators.histories):
        left_out = history.counts.get(said, 0) - MOST
        some = [remark for remark in history.remarks if remark.said is said]
        for count, remark in enumerate(some, 1):
            place, finding = tell(coordinator, remark)
            if left_out > 0 and count == len(some):
                finding = replace(finding, evidence={**finding.evidence, "left_out": left_out})
            yield Placed(place, finding)
