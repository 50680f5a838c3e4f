"""Checks for COMMIT and ABORT markers that end no data, contradict one another, or have unexpected epochs.

Rule: ``ProducerAppendInfo.appendEndTxnMarker`` decides which markers a leader accepts; a follower and a log replay
accept all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_duration
from kforensics.forensics.core.record_types import (
    Anomaly,
    AnomalyArray,
    EmptyMarkerArray,
    TransactionArray,
    TransactionOutcome,
)
from kforensics.forensics.core.reporting import Row, RowPart, expiry, first_n, first_n_of_parts, place
from kforensics.forensics.partition.damaged_markers import damaged_markers, is_damaged
from kforensics.forensics.partition.marker_times import with_marker_times
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import anomalies_of, is_expired, markers_before
from kforensics.forensics.sidecar.aborted_entries import index_records
from kforensics.parsers.format.array_types import BoolArray, IntArray

CODES = by_name(
    Code(
        "marker-empty",
        Severity.INFO,
        meaning="A marker ends no data in this partition.",
        remedy=(
            "No action. If more than a tenth of all markers are empty, producers add partitions to transactions "
            "without writing to them."
        ),
        why=(
            "A coordinator writes a marker to every partition of a transaction, with or without data. An empty "
            "marker has no effect."
        ),
        benign=(
            "Nearly always: the producer failed before it wrote, the data has since been cleaned or deleted, or "
            "the marker was resent after a failover."
        ),
    ),
    Code(
        "marker-duplicate",
        Severity.INFO,
        meaning="A transaction has the same marker twice.",
        why=(
            "The coordinator got no response, or moved to another broker, and sent the marker again. The second "
            "marker ends nothing."
        ),
        benign=(
            "Nearly always. Before transaction version 2 it may also belong to an empty transaction of the same epoch."
        ),
    ),
    Code(
        "marker-conflict",
        Severity.CRITICAL,
        meaning="The same transaction has a COMMIT and an ABORT in this partition.",
        remedy="Consumers follow the first marker. Check the coordinator log for the intended outcome.",
        why=(
            "Consumers follow the first marker, whatever the second one is. If both belong to one transaction, "
            "its coordinator decided twice, and other partitions may have received the other marker first."
        ),
        benign=(
            "Before transaction version 2 the second marker may belong to an empty transaction that directly "
            "followed the first, as after the restart of a coordinator: then it is a warning, and if the "
            "coordinator's log shows both transactions, only marker-empty is reported. An operator ran "
            "kafka-transactions.sh abort on a transaction that had just been committed."
        ),
    ),
    Code(
        "marker-epoch-regressed",
        Severity.ERROR,
        meaning="A marker has a lower epoch than its producer.",
        remedy=(
            "From here an old instance of the producer is no longer fenced: check the data after the marker for "
            "lower epochs."
        ),
        why=(
            "Brokers reject a marker with a lower epoch, unless they do not know the producer. A log replay "
            "accepts it and takes over the lower epoch, so an instance that had been fenced can write again."
        ),
        benign="The leader had lost the producer's state, or the idle producer had expired.",
    ),
    Code(
        "marker-epoch-jump",
        Severity.WARNING,
        meaning="A marker has an epoch more than 2 above that of the data it ends.",
        remedy="Check whether the data and the marker belong to the same transaction.",
        why=(
            "A coordinator bumps the epoch by one to fence a producer, and by one per transaction with "
            "transaction version 2. A larger step means that markers of other transactions are missing, or that "
            "this marker ended data that an older transaction had left hanging."
        ),
        benign=(
            "WriteTxnMarkers up to version 1 accepts any epoch that is not lower. Before KAFKA-9666 a "
            "coordinator that kept retrying bumped the epoch each time."
        ),
    ),
    Code(
        "marker-coordinator-epoch-regressed",
        Severity.WARNING,
        meaning="A marker has a lower coordinator epoch than a marker before it.",
        remedy=(
            "Compare with the leader epochs of the coordinator's partition: a coordinator that had been "
            "replaced may have written it."
        ),
        why=(
            "The coordinator epoch is the leader epoch of a partition of __transaction_state and only rises. A "
            "lower one comes from a coordinator that had been replaced without knowing it."
        ),
        benign=(
            "An operator's abort has coordinator epoch 0 unless one was given. The producer had expired "
            "(KAFKA-9144). The topic __transaction_state was recreated."
        ),
    ),
    Code(
        "marker-admin-abort",
        Severity.INFO,
        meaning="An operator probably aborted this transaction.",
        remedy="Keep a record of it: the coordinator does not know about the abort.",
        why=(
            "kafka-transactions.sh abort writes the marker directly to the partition, with the epoch of the "
            "data and without the coordinator."
        ),
        benign=(
            "Before transaction version 2 an abort by the producer itself looks the same; only the coordinator's "
            "log shows which one it was."
        ),
    ),
)

# A coordinator that fences a producer bumps the epoch by one, with transaction version 2 up to 4.0.0 by two.
LARGEST_EPOCH_BUMP = 2


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield unusual markers; one in a damaged batch is not unusual but damaged."""
    conflicts, is_certain = _conflicts(state)
    yield from first_n(conflicts, partial(_conflict, state), is_certain=is_certain)
    yield from _empty(state, conflicts["first_offset"][is_certain])
    yield from first_n(_duplicates(state), partial(_duplicate, state))
    regressed = _sound(state, anomalies_of(state, Anomaly.MARKER_EPOCH_REGRESSED))
    yield from first_n(regressed, partial(_regressed, state), expired=is_expired(state, regressed))
    yield from first_n_of_parts(_jumps(state), partial(_jump, state))
    yield from _older_coordinators(state)
    yield from first_n_of_parts(_admin_aborts(state), partial(_admin_abort, state), by="marker_offset")


def _sound(state: PartitionState, anomalies: AnomalyArray) -> AnomalyArray:
    """Return the anomalies between two undamaged markers."""
    return anomalies.compress(~is_damaged(damaged_markers(state), anomalies, "first_offset", "previous_offset"))


def _conflicts(state: PartitionState) -> tuple[AnomalyArray, BoolArray]:
    """Return contradicting markers that probably belong to one transaction, and whether the epochs prove it.

    If the epoch of the first marker is above that of its data, the next transaction has the next epoch, so the second
    marker cannot belong to the next transaction. Otherwise the second marker may end an empty transaction of the same
    epoch. Then the markers count as one transaction only if the coordinator changed and at most a few seconds passed.
    If offsets are missing between them, data of the next transaction may have been there.
    """
    anomalies = _sound(state, anomalies_of(state, Anomaly.MARKER_CONFLICT))
    ids = anomalies["producer_id"]
    first, second = (markers_before(state, ids, anomalies["first_offset"] + shift) for shift in (0, 1))
    is_certain = (first["data_epoch"] >= 0) & (first["data_epoch"] < anomalies["producer_epoch"])
    is_close = np.abs(anomalies["timestamp"] - anomalies["previous_timestamp"]) <= state.rules.clock_skew_ms
    has_moved = second["coordinator_epoch"] > first["coordinator_epoch"]
    is_probable = (anomalies["offset_gap"] == 0) & (is_certain | (is_close & has_moved))
    return anomalies[is_probable], is_certain[is_probable]


def _ending_marker(row: Row) -> dict[str, Any]:
    """Return the location of a transaction's marker, as arguments of ``PartitionState.finding``."""
    return {
        "offsets": (row["marker_offset"], row["marker_offset"]),
        "producer": (row["producer_id"], row["marker_epoch"]),
        "at": (row["marker_segment"], row["marker_position"]),
    }


def _conflict(state: PartitionState, row: Row) -> Finding:
    is_certain = row["is_certain"]
    return state.finding(
        CODES["marker-conflict"],
        f"The marker of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        f"contradicts the one at offset {row['previous_offset']}, with no data between them.",
        severity=None if is_certain else Severity.WARNING,
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
        exactness=Exactness.EXACT if is_certain else Exactness.APPROXIMATE,
        benign=(
            "empty transaction of the same epoch directly after the first: "
            + ("no, each bumps the epoch" if is_certain else "possible, the coordinator log was not consulted"),
        ),
    )


def _empty(state: PartitionState, conflicts: IntArray) -> Iterator[Finding]:
    markers = state.empty_markers
    is_reported = markers["exact"] & ~np.isin(markers["marker_offset"], conflicts) & ~_had_data(state, markers)
    markers = markers[is_reported & ~is_damaged(damaged_markers(state), markers, "marker_offset")]
    counts = {"markers": len(state.transaction_store.closed) + len(state.empty_markers), "empty": len(markers)}
    is_resent = np.isin(markers["marker_offset"], _duplicates(state)["first_offset"])
    yield from first_n(markers, partial(_empty_marker, state, counts), is_resent=is_resent)


def _had_data(state: PartitionState, markers: EmptyMarkerArray) -> BoolArray:
    """Return which markers ended a transaction whose data is gone, by their entries in the transaction index."""
    had_data: BoolArray = np.zeros(len(markers), bool)
    indexed = index_records(state.partition) if len(markers) else None
    for entries in indexed or ():
        index = np.minimum(np.searchsorted(entries["last_offset"], markers["marker_offset"]), len(entries) - 1)
        entry = entries[index]
        same = (entry["last_offset"] == markers["marker_offset"]) & (entry["producer_id"] == markers["producer_id"])
        begin = max(int(state.log.first.base_offset[0]), state.first_uncompacted_offset)
        # Up to 2.7 an empty abort has an entry too, which starts at the marker itself (KAFKA-10702).
        had_data |= same & (entry["first_offset"] < np.minimum(begin, markers["marker_offset"]))
    return had_data


def _empty_marker(state: PartitionState, counts: dict[str, int], row: Row) -> Finding:
    return state.finding(
        CODES["marker-empty"],
        f"The {_name(row)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} ends no data in this partition.",
        offsets=(row["marker_offset"], row["marker_offset"]),
        producer=(row["producer_id"], row["marker_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={"empty_markers": counts["empty"], "markers": counts["markers"]},
        benign=(
            f"resent: {'yes' if row['is_resent'] else 'no'}",
            f"data cleaned: {'possible' if row['marker_offset'] < state.first_uncompacted_offset else 'no'}",
            "partition added to the transaction, nothing written: possible",
        ),
    )


def _name(row: Row) -> str:
    return "ABORT" if row["outcome"] == TransactionOutcome.ABORTED else "COMMIT"


def _duplicates(state: PartitionState) -> AnomalyArray:
    """Return markers that repeat another one, if no offset is missing between the two."""
    anomalies = _sound(state, anomalies_of(state, Anomaly.MARKER_DUPLICATE))
    return anomalies.compress(anomalies["offset_gap"] == 0)


def _duplicate(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["marker-duplicate"],
        f"The marker of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        f"repeats the one at offset {row['previous_offset']}.",
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
        benign=("resent after a failover or a lost response, or an empty transaction of the same epoch: likely",),
    )


def _regressed(state: PartitionState, row: Row) -> Finding:
    damage = state.log_gaps.damage_at(row["previous_offset"], row["first_offset"])
    return state.finding(
        CODES["marker-epoch-regressed"],
        f"The marker of producer {row['producer_id']} at offset {row['first_offset']} has epoch "
        f"{row['producer_epoch']}, after epoch {row['producer_epoch'] + row['amount']}.",
        severity=Severity.INFO if damage else Severity.WARNING if row["expired"] else None,
        **place(row),
        evidence={"fallen_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(
            expiry(row),
            "leader lost its producer state: not visible in one replica",
        ),
        cause=damage,
    )


def _jumps(state: PartitionState) -> Iterator[RowPart]:
    damaged = damaged_markers(state)
    for closed in state.transaction_store.closed:
        bump = closed["marker_epoch"].astype("i8") - closed["highest_epoch"]
        jumps = (bump > LARGEST_EPOCH_BUMP) & ~is_damaged(damaged, closed, "marker_offset")
        yield RowPart(closed[jumps], {"bump": bump[jumps]})


def _jump(state: PartitionState, row: Row) -> Finding:
    lacking = state.log_gaps.between(row["last_offset"], row["marker_offset"])
    return state.finding(
        CODES["marker-epoch-jump"],
        f"The {_name(row)} of producer {row['producer_id']} at offset {row['marker_offset']} has epoch "
        f"{row['marker_epoch']}, {row['bump']} above that of the data it ends (first offset {row['first_offset']}).",
        **_ending_marker(row),
        severity=Severity.INFO if lacking.any else None,
        evidence={"risen_by": row["bump"], "first_offset": row["first_offset"]},
        benign=(
            lacking.benign,
            "WriteTxnMarkers up to version 1, which accepts any epoch that is not lower: possible",
            "hanging data ended by a later marker: the coordinator log was not consulted",
        ),
        cause=lacking.cause,
    )


def _older_coordinators(state: PartitionState) -> Iterator[Finding]:
    anomalies = _sound(state, anomalies_of(state, Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED))
    markers = markers_before(state, anomalies["producer_id"], anomalies["first_offset"] + 1)
    more = {"coordinator_epoch": markers["coordinator_epoch"], "outcome": markers["outcome"]}
    yield from first_n(anomalies, partial(_older_coordinator, state), **more)


def _older_coordinator(state: PartitionState, row: Row) -> Finding:
    epoch = row["coordinator_epoch"]
    by_operator = row["outcome"] == TransactionOutcome.ABORTED and epoch == 0
    return state.finding(
        CODES["marker-coordinator-epoch-regressed"],
        f"The {_name(row)} of producer {row['producer_id']} at offset {row['first_offset']} has coordinator epoch "
        f"{epoch}, but {_earlier_marker(row)} {epoch + row['amount']}.",
        **place(row),
        evidence={"fallen_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(
            f"abort by an operator, with epoch 0: {'possible' if by_operator else 'no'}",
            "__transaction_state recreated: not visible here",
        ),
    )


def _earlier_marker(row: Row) -> str:
    if row["previous_offset"] < 0:
        return "a producer snapshot shows that an earlier marker had"
    return f"the marker at offset {row['previous_offset']} has"


def _admin_aborts(state: PartitionState) -> Iterator[RowPart]:
    def may_match(closed: TransactionArray) -> BoolArray:
        late = (_idle_time(closed, closed["last_timestamp"]) > state.rules.late_ms) & (closed["last_timestamp"] > 0)
        is_aborted = closed["outcome"] == TransactionOutcome.ABORTED
        candidates: BoolArray = late & is_aborted & (closed["marker_epoch"] == closed["highest_epoch"])
        return candidates

    damaged = damaged_markers(state)
    for rows, times in with_marker_times(state, "last_offset", may_match):
        idle_time = _idle_time(rows, np.maximum(rows["last_timestamp"], times))
        late = np.flatnonzero(idle_time > state.rules.late_ms)
        late = late[_by_operators(state, rows[late]) & ~is_damaged(damaged, rows[late], "marker_offset")]
        yield RowPart(rows[late], {"idle_time": idle_time[late]})


def _idle_time(closed: TransactionArray, since: IntArray) -> IntArray:
    idle_time: IntArray = closed["marker_timestamp"] - since
    return idle_time


def _by_operators(state: PartitionState, aborted: TransactionArray) -> BoolArray:
    """Return which aborts have coordinator epoch 0, or that of the producer's previous marker."""
    epoch = aborted["coordinator_epoch"]
    before = markers_before(state, aborted["producer_id"], aborted["first_offset"])
    by_operator: BoolArray = (epoch == 0) | (epoch == before["coordinator_epoch"])
    return by_operator


def _admin_abort(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["marker-admin-abort"],
        f"The ABORT at offset {row['marker_offset']} ended the transaction of producer {row['producer_id']}, first "
        f"offset {row['first_offset']}, {format_duration(row['idle_time'])} after its last batch and without an epoch "
        "bump, as an operator's abort does.",
        **_ending_marker(row),
        evidence={"silent_ms": row["idle_time"], "first_offset": row["first_offset"]},
        exactness=Exactness.APPROXIMATE,
        benign=("abort by a producer of transaction version 0 or 1: the coordinator log was not consulted",),
    )


CHECK = Check("markers", CODES, findings)
