"""What transactions cost: the time of each step by number of partitions, a linear fit of it, and the space of markers.

The steps of a transaction, all in ms:

- begin: between its first record and the time at which its coordinator started it. With ``LogAppendTime`` the record is
  later, by the time that the coordinator needed; with ``CreateTime`` it is older, by the time that it had to wait.
  Unknown for ids whose records have the times of something else, such as of what Kafka Streams read.
- prepare: from the Prepare record to the first marker.
- markers: from the first to the last marker.
- complete: from the last marker to the Complete record.
- end: from the Prepare to the Complete record, which is the sum of the last three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.core.cluster_tables import TRANSACTION_COSTS
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray, StructArray
from kforensics.parsers.log.log_rows import Place

__all__ = ["STEPS", "CostFit", "MarkedData", "Quantiles", "cost_rows", "fit_costs"]

STEPS = ("begin", "prepare", "markers", "complete", "end")
PERCENTILES = (50, 90, 99)
# Of a computed coefficient; timestamps are whole milliseconds.
ROUNDING_MS = 0.001
SIZE_FIELDS = ("marker_offset", "records", "bytes")
# Percentiles of a step in ms; None without any transaction that has both of its times.
Quantiles: TypeAlias = "list[int | None]"


@dataclass(frozen=True, slots=True)
class MarkedData:
    """The sizes of the transactions of a partition.

    Attributes:
        rows: the fields ``SIZE_FIELDS`` of its ended transactions, by marker offset.
        marker_size: average size of its markers in bytes.
    """

    rows: StructArray
    marker_size: float

    @classmethod
    def of(cls, state: PartitionState) -> MarkedData:
        """Return the sizes of the transactions of a partition."""
        dtype = [(name, "i8") for name in SIZE_FIELDS]
        pages = [page[[*SIZE_FIELDS]].astype(dtype) for page in state.transaction_store.closed]
        log = state.log
        return cls(np.concatenate([np.zeros(0, dtype), *pages]), log.control_bytes / max(log.control_batches, 1))

    def sizes(self, marker_offsets: IntArray) -> tuple[IntArray, IntArray]:
        """Return the numbers of records and of bytes that markers ended."""
        # A row for markers without data, which no marker offset finds.
        rows = np.append(self.rows, np.array([(NEVER, 0, 0)], self.rows.dtype))
        index = np.searchsorted(self.rows["marker_offset"], marker_offsets)
        index = np.where(rows["marker_offset"][index] == marker_offsets, index, len(self.rows))
        return rows["records"][index], rows["bytes"][index]


@dataclass(frozen=True, slots=True)
class CostFit:
    """The line ``end = commit + partitions * marker`` that fits best, in ms; neither is negative.

    Attributes:
        commit_ms: what the end of any transaction takes.
        marker_ms: what each partition adds.
        residual_ms: how far the means of the partition counts are from the line: root of their mean squared distance.
    """

    commit_ms: float
    marker_ms: float
    residual_ms: float

    def at(self, partitions: int) -> float:
        """Return the time that the line gives for a number of partitions."""
        return self.commit_ms + self.marker_ms * partitions


def fit_costs(partitions: IntArray, end: IntArray) -> CostFit | None:
    """Return the line through the typical times of each number of partitions.

    None if there are not two numbers of partitions, or if the line would have a negative coefficient: then other things
    than the number of partitions decide how long an end takes.

    The typical time is the mean of the middle half, which outliers do not move and which is finer than the
    milliseconds of the timestamps. Each number of partitions weighs as much as it has transactions.

    Args:
        partitions: number of partitions of each transaction.
        end: time of its end in ms.
    """
    counts, times = np.unique(partitions, return_counts=True)
    if len(counts) < 2:  # a line needs two points
        return None
    typical = np.array([middle_mean(end[partitions == count]) for count in counts])
    weights = np.sqrt(times)
    design = np.stack([weights, weights * counts], axis=1)
    (commit, marker), *_ = np.linalg.lstsq(design, weights * typical, rcond=None)
    if min(commit, marker) < -ROUNDING_MS:
        return None
    commit, marker = max(commit, 0), max(marker, 0)
    residual = np.sqrt(np.average((commit + marker * counts - typical) ** 2, weights=times))
    return CostFit(float(commit), float(marker), float(residual))


def middle_mean(values: IntArray) -> float:
    """Return the mean of the middle half of some values.

    >>> middle_mean(np.array([1, 2, 4, 900]))
    3.0
    """
    cut = len(values) // 4
    return float(np.sort(values)[cut : len(values) - cut].mean())


@dataclass(frozen=True, slots=True)
class Costs:
    """The ended transactions of a cluster: one value per transaction in each array.

    Attributes:
        partitions: how many partitions it has.
        steps: the time of each of ``STEPS`` in ms, NO_TIME if unknown.
        duration: from its start to its Complete record in ms.
        records: its records in the available partitions; bytes and markers in the same way.
        bytes: size of its data.
        markers: number of its markers.
        marker_bytes: size of its markers.
    """

    partitions: IntArray
    steps: Mapping[str, IntArray]
    duration: IntArray
    records: IntArray
    bytes: IntArray
    markers: IntArray
    marker_bytes: Column

    @classmethod
    def of(cls, cluster: Cluster, sizes: Mapping[Place, MarkedData], selected: BoolArray) -> Costs:
        """Return the transactions of a cluster that are complete and whose partitions are known.

        Args:
            cluster: the coordinators' transactions and the markers of all partitions.
            sizes: the sizes of the transactions of each partition, by the replica whose markers are used.
            selected: which transactions to use.
        """
        transactions = cluster.coordinators.transactions
        totals = _totals(cluster, sizes)
        counts = np.array([len(partitions) for partitions in cluster.coordinators.partition_sets] + [0], "i8")
        partitions = counts[transactions["partitions"]]
        is_known = (transactions["decided"] != NO_TIME) & (transactions["completed"] != NO_TIME)
        chosen = np.flatnonzero(selected & is_known & ~transactions["is_superseded"] & (partitions > 0))
        rows = transactions[chosen]
        first, last = (totals[name][chosen] for name in ("first_marker", "last_marker"))
        first_record = np.where(_times_of_others(cluster, totals), NO_TIME, totals["first_record"])
        return cls(
            partitions=partitions[chosen],
            steps={
                "begin": _distance(rows["start"], first_record[chosen]),
                "prepare": _between(rows["decided"], first),
                "markers": _between(first, last),
                "complete": _between(last, rows["completed"]),
                "end": rows["completed"] - rows["decided"],
            },
            duration=_between(rows["start"], rows["completed"]),
            **{name: totals[name][chosen] for name in ("records", "bytes", "markers", "marker_bytes")},
        )

    def only(self, which: BoolArray) -> Costs:
        """Return some of the transactions."""
        others = {name: getattr(self, name)[which] for name in self.__slots__ if name != "steps"}
        return Costs(steps={name: times[which] for name, times in self.steps.items()}, **others)

    def row(self) -> dict[str, Any]:
        """Return sums and percentiles over the transactions as columns of ``transaction_costs``."""
        row: dict[str, Any] = {"transactions": len(self.partitions)}
        row |= {name: round(float(getattr(self, name).sum())) for name in ("records", "bytes", "markers")}
        row["marker_bytes"] = round(float(self.marker_bytes.sum()))
        for name, times in self.steps.items():
            for percentile, value in zip(PERCENTILES, _quantiles(times), strict=True):
                row[f"{name}_p{percentile}_ms"] = value
        timed = (self.duration != NO_TIME) & (self.records > 0)
        rates = self.records[timed] * 1000 / np.maximum(self.duration[timed], 1)
        row["records_per_second"] = float(np.median(rates)) if len(rates) else None
        shares = self.steps["end"][timed] / np.maximum(self.duration[timed], 1)
        row["end_share"] = float(np.median(shares)) if len(shares) else None
        return row


def _totals(cluster: Cluster, sizes: Mapping[Place, MarkedData]) -> dict[str, Any]:
    """Return what the markers of each transaction show: their times, number and size, and the data that they ended."""
    join, count = cluster.marker_join, len(cluster.coordinators.transactions)
    listed = join.transaction_partitions[join.transaction_partitions["marker"] != NONE]
    markers, owner = join.markers[listed["marker"]], listed["transaction"]
    per_marker = {name: np.zeros(len(markers)) for name in ("records", "bytes", "marker_bytes")}
    for number in np.unique(markers["partition"]).tolist():
        (here,) = np.nonzero(markers["partition"] == number)
        data = sizes.get(join.by_partition[number].place)
        if data is not None:
            per_marker["records"][here], per_marker["bytes"][here] = data.sizes(markers["marker_offset"][here])
            per_marker["marker_bytes"][here] = data.marker_size
    first_marker, first_record = np.full(count, NEVER, "i8"), np.full(count, NEVER, "i8")
    last_marker = np.full(count, NO_TIME, "i8")
    np.minimum.at(first_marker, owner, markers["marker_timestamp"])
    np.maximum.at(last_marker, owner, markers["marker_timestamp"])
    known = markers["first_timestamp"] >= 0
    is_append_time = {number: here.has_append_times for number, here in join.by_partition.items()}
    by_client = known & ~np.array([is_append_time[number] for number in markers["partition"].tolist()], bool)
    np.minimum.at(first_record, owner[known], markers["first_timestamp"][known])
    return {
        **{name: np.bincount(owner, values, minlength=count) for name, values in per_marker.items()},
        "markers": np.bincount(owner, minlength=count),
        "first_marker": np.where(first_marker == NEVER, NO_TIME, first_marker),
        "first_record": np.where(first_record == NEVER, NO_TIME, first_record),
        "last_marker": last_marker,
        "has_client_times": np.bincount(owner[by_client], minlength=count) > 0,
    }


def _times_of_others(cluster: Cluster, totals: Mapping[str, Any]) -> BoolArray:
    """Return which transactions are of ids whose clients write records with the times of something else.

    A producer sends after the response that ended its previous transaction, or that initialized it, and before the end.
    A record outside of that has the time of what the client had read, or the client's clock is wrong. So do the other
    records of the id, even if theirs are possible. Without an earlier response, no time before the start is known to be
    that of a record. Rule: ``TransactionManager.beginTransaction`` and ``EndTxnResponse``.
    """
    transactions, ids = cluster.coordinators.transactions, cluster.coordinators.ids
    first_record, skew = totals["first_record"], cluster.rules.clock_skew_ms
    is_timed = totals["has_client_times"] & (first_record != NO_TIME) & (transactions["start"] != NO_TIME)
    sent_after = _previous_responses(cluster)
    is_known = sent_after != NO_TIME
    is_early = is_timed & is_known & (first_record < np.where(is_known, sent_after, skew) - skew)
    is_late = is_timed & (transactions["decided"] != NO_TIME) & (first_record - skew > transactions["decided"])
    has_others = np.zeros(len(ids), bool)
    has_others[transactions["id"][is_early | is_late]] = True
    is_unknown = is_timed & ~is_known & (first_record < transactions["start"])
    of_others: BoolArray = has_others[transactions["id"]] | is_unknown
    return of_others


def _previous_responses(cluster: Cluster) -> IntArray:
    """Return when the coordinator last answered the client of each transaction before it began, NO_TIME if unknown."""
    transactions, ids = cluster.coordinators.transactions, cluster.coordinators.ids
    initialized = np.where(ids["history_complete"], ids["first_time"], NO_TIME)[transactions["id"]]
    order = np.lexsort((transactions["start"], transactions["id"]))
    of_id, decided = transactions["id"][order], transactions["decided"][order]
    follows = np.append(False, of_id[1:] == of_id[:-1])[: len(order)]
    previous = np.full(len(order), NO_TIME, "i8")
    previous[order] = np.where(follows, np.roll(decided, 1), NO_TIME)
    responses: IntArray = np.maximum(previous, initialized)
    return responses


def _between(first: IntArray, last: IntArray) -> IntArray:
    unknown = (first == NO_TIME) | (last == NO_TIME)
    return np.where(unknown, NO_TIME, np.where(unknown, 0, last) - np.where(unknown, 0, first))


def _distance(first: IntArray, last: IntArray) -> IntArray:
    between = _between(first, last)
    return np.where(between == NO_TIME, NO_TIME, np.abs(between))


def _quantiles(times: IntArray) -> Quantiles:
    known = times[times != NO_TIME]
    if not len(known):
        return [None] * len(PERCENTILES)
    values: list[int | None] = np.percentile(known, PERCENTILES, method="inverted_cdf").astype("i8").tolist()
    return values


def cost_rows(name: str, costs: Costs) -> Rows:
    """Return rows of ``transaction_costs``: all transactions, then those of each number of partitions and of records.

    Args:
        name: name of the cluster.
        costs: its transactions.
    """
    fit = fit_costs(costs.partitions, costs.steps["end"])
    begin = costs.steps["begin"][costs.steps["begin"] != NO_TIME]
    whole = costs.row()
    whole["init_ms"] = middle_mean(begin) if len(begin) else None
    if fit is not None:
        whole |= {"commit_ms": fit.commit_ms, "marker_ms": fit.marker_ms, "residual_ms": fit.residual_ms}
    rows = [{"grouped_by": "all", **whole}]
    for count in np.unique(costs.partitions).tolist():
        group = {"grouped_by": "partitions", "least": count, "most": count}
        fitted = None if fit is None else fit.at(count)
        rows.append({**group, **costs.only(costs.partitions == count).row(), "fitted_end_ms": fitted})
    powers = np.floor(np.log10(np.maximum(costs.records, 1))).astype("i8")
    for power in np.unique(powers[costs.records > 0]).tolist():
        group = {"grouped_by": "records", "least": 10**power, "most": 10 ** (power + 1) - 1}
        rows.append({**group, **costs.only((powers == power) & (costs.records > 0)).row()})
    return _as_rows(name, rows if len(costs.partitions) else [])


def _as_rows(name: str, rows: Sequence[Mapping[str, Any]]) -> Rows:
    place = Place(None, None, None, None)._asdict()
    columns: dict[str, Any] = {column: [row.get(column) for row in rows] for column in TRANSACTION_COSTS.names}
    return Rows(TRANSACTION_COSTS, len(rows), columns | place | {"cluster": [name] * len(rows)})
