"""The verdicts that were put off, once all partitions of a cluster have added what they know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from kforensics.forensics.audit.cluster_input import Contribution
from kforensics.forensics.audit.cluster_result import ClusterJudgement, judge_cluster
from kforensics.forensics.audit.partition_result import CLEAN, Judgement, ranked
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.coordinators.overrides import is_refuted
from kforensics.forensics.coordinators.remedies import Advice
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import order_of
from kforensics.forensics.partition.partition_rows import finding_rows, worst
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.log.log_rows import Place

__all__ = ["settled"]


def settled(contributions: Iterable[Contribution], rules: Rules) -> Iterator[Judgement]:
    """Yield the verdicts that were put off, cluster by cluster, and what is to be said of each cluster.

    What coordinators prove wrong is gone from them, and what they know better stands in its place.

    Args:
        contributions: of all partitions of some clusters.
        rules: limits and the time of evaluation.
    """
    by_cluster: dict[str, list[Contribution]] = defaultdict(list)
    for one in sorted(contributions, key=_order):  # whoever brought them
        by_cluster[one.cluster].append(one)
    for some in by_cluster.values():
        yield from _settled(some, rules)


def _order(contribution: Contribution) -> tuple[str, str, int, str]:
    return order_of(contribution.judgement.place, contribution.judgement.folder)


def _settled(contributions: Sequence[Contribution], rules: Rules) -> Iterator[Judgement]:
    told = (one for one in contributions if one.partition_counts)
    newest = max(told, key=lambda one: one.judgement.log_end_offset or 0, default=None)
    counts = newest.partition_counts if newest else {}
    found = judge_cluster(
        (one.history for one in contributions if one.history),
        (one.markers for one in contributions if one.markers),
        rules,
        commits=(one.commits for one in contributions if one.commits),
        partition_count=counts.get(TRANSACTION_STATE),
        offsets_partition_count=counts.get(CONSUMER_OFFSETS),
    )
    known_better: dict[Place, list[Finding]] = defaultdict(list)
    for place, finding in found.findings:
        known_better[place].append(finding)
    advice = Advice(found.cluster)
    for one in contributions:
        judgement = one.judgement
        yield _revised(judgement, advice, known_better.get(judgement.place, ()))
    yield _of_cluster(found)


def _revised(judgement: Judgement, advice: Advice, known_better: Sequence[Finding]) -> Judgement:
    """Return the verdict on a partition with all that its cluster knows."""
    said = {(one.code.name, one.first_offset) for one in known_better}
    alone = [
        one
        for one in judgement.findings
        if (one.code.name, one.first_offset) not in said and not is_refuted(advice.cluster, judgement.place, one)
    ]
    findings = ranked(advice.given(judgement.place, one) for one in (*alone, *known_better))
    if findings == judgement.findings:
        return judgement
    return replace(
        judgement,
        findings=findings,
        rows={
            "partitions": _card(judgement.rows["partitions"], findings),
            "findings": finding_rows(judgement.place, findings),
        },
    )


def _card(rows: Rows | RowStream, findings: Sequence[Finding]) -> Rows:
    """Return the row of a partition with another verdict."""
    (card,) = rows.parts()
    bad = worst(findings)
    verdict = {"verdict": CLEAN if bad is None else str(bad), "findings": len(findings)}
    return replace(card, columns={**card.columns, **verdict})


def _of_cluster(found: ClusterJudgement) -> Judgement:
    """Return the rows that are no partition's."""
    by_table: dict[str, list[Rows]] = defaultdict(list)
    for rows in found.rows:
        by_table[rows.table.name].append(rows)
    streams = {name: RowStream(some[0].table, partial(iter, tuple(some))) for name, some in by_table.items()}
    return Judgement(Place(None, None, None, None), "", 0, streams, is_counted=False)
