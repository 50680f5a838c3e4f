"""Checks for transactions that ended unusually, or contain data of another transaction.

Rule: ``ProducerAppendInfo`` and ``TransactionCoordinator.abortTimedOutTransactions``. The log of a partition does not
contain what the coordinator knew about a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_offsets, format_share, format_time
from kforensics.forensics.core.record_types import Anomaly, TransactionArray, TransactionOutcome
from kforensics.forensics.core.reporting import Row, RowPart, first_n, first_n_of_parts, place
from kforensics.forensics.partition.damaged_markers import damaged_markers, is_damaged, spans_damage
from kforensics.forensics.partition.marker_times import with_marker_times
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import NOTHING, anomalies_of, with_markers_before
from kforensics.parsers.format.array_types import BoolArray

CODES = by_name(
    Code(
        "txn-duration-excessive",
        Severity.WARNING,
        meaning="A transaction lasted longer than its coordinator should have allowed.",
        remedy="Check whether the transaction coordinator was available at that time.",
        why=(
            "A transaction that its producer leaves open is aborted at its timeout. If it lasted longer, the "
            "coordinator was down at the time or could not reach the partitions."
        ),
        benign=(
            "Clients set the timestamps of data, so a transaction with old data looks long; without the "
            "coordinator's log that is only information. A two-phase commit has no time limit."
        ),
    ),
    Code(
        "txn-aborted-rate-high",
        Severity.WARNING,
        meaning="A large share of the transactions was aborted.",
        remedy=(
            "Check the producers' logs for timeouts, and for two producers that share a transactional id and "
            "fence each other."
        ),
        why=(
            "The work of these transactions is wasted. Usually transactions take longer than their timeout, or "
            "two instances with the same transactional id fence each other."
        ),
        benign="Test traffic, or one burst of timeouts in an otherwise quiet period.",
    ),
    Code(
        "txn-epoch-mixed",
        Severity.ERROR,
        meaning="A transaction has data of more than one producer epoch.",
        remedy="Treat the part with the lower epoch as a hanging transaction that the next transaction absorbed.",
        why=(
            "A new epoch means that the producer was fenced or restarted, and that its old transaction should "
            "have been ended first. There is no marker between the two parts, so both have the outcome of the "
            "later transaction: data that should have been aborted may be committed, or the reverse."
        ),
        benign=(
            "A cleaner removed the marker between the two. If the start of the log is missing, the "
            "marker may have been there."
        ),
    ),
    Code(
        "txn-nontxn-inside",
        Severity.CRITICAL,
        meaning="A producer wrote a non-transactional batch inside its own open transaction.",
        remedy=(
            "Keep a replica that can be loaded and rebuild this one: no broker can load this log after an "
            "unclean shutdown."
        ),
        why=(
            "A leader rejects such a batch, and so does every broker that replays the log after an unclean "
            "shutdown: it fails to load the partition. Either the marker before the batch is lost, or the bytes "
            "of the batch have changed."
        ),
        benign=("A cleaner removed the marker. A bit flipped in the attributes of the batch; then its checksum fails."),
    ),
    Code(
        "txn-foreign-data-absorbed",
        Severity.CRITICAL,
        meaning="Data of another transaction was committed with this one.",
        remedy=(
            "Compare the records before the epoch change with the source; the application may have to repeat its work."
        ),
        why=(
            "A transaction left data that was never ended, and the producer's next transaction ended it: its "
            "COMMIT exposes data that should have been aborted, or its ABORT hides data that was committed. "
            "Consumers cannot detect this."
        ),
        benign=(
            "None with transaction version 2. Before it, clock differences and client timestamps may make a "
            "batch look too early."
        ),
    ),
    Code(
        "txn-write-after-marker",
        Severity.ERROR,
        meaning="Data arrived after the transaction it belongs to had ended.",
        remedy=(
            "If it is still open, follow txn-hanging. Otherwise it has the outcome of the transaction whose marker "
            "ended it: check with the application whether that outcome is right."
        ),
        why=(
            "A produce request was delayed in the network and arrived after the coordinator had written the "
            "marker, for example after a timeout. Brokers from 4.0, with transaction version 2, reject it. Its "
            "data opens a transaction that the coordinator does not know."
        ),
        benign=(
            "The producer had already added the partition to its next transaction; without the coordinator log "
            "this is not visible."
        ),
    ),
)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is unusual about the transactions of a log."""
    yield from _excessive(state)
    yield from _aborted_rate(state)
    yield from first_n_of_parts(_with_several_epochs(state), partial(_mixed, state))
    yield from first_n_of_parts(_with_several_epochs(state, TransactionOutcome.COMMITTED), partial(_absorbed, state))
    yield from _inside(state)
    yield from first_n_of_parts(_after_marker(state), partial(_late_write, state))


def _excessive(state: PartitionState) -> Iterator[Finding]:
    rules = state.rules
    allowed = rules.max_txn_timeout_ms + rules.certain_abort_scan_ms + rules.clock_skew_ms
    yield from first_n_of_parts(_too_long(state, allowed), partial(_duration, state, allowed), by="marker_offset")


def _too_long(state: PartitionState, allowed: int) -> Iterator[RowPart]:
    def may_match(closed: TransactionArray) -> BoolArray:
        first = closed["first_timestamp"]
        candidates: BoolArray = (first >= 0) & (closed["marker_timestamp"] - np.maximum(first, 0) > allowed)
        return candidates

    damaged = damaged_markers(state)
    for rows, times in with_marker_times(state, "first_offset", may_match):
        begins = np.maximum(rows["first_timestamp"], times)
        durations = rows["marker_timestamp"] - begins
        is_long = (durations > allowed) & ~is_damaged(damaged, rows, "marker_offset")
        yield RowPart(rows[is_long], {"duration": durations[is_long], "begins": begins[is_long]})


def _duration(state: PartitionState, allowed: int, row: Row) -> Finding:
    has_append_times = state.log.has_append_times
    return state.finding(
        CODES["txn-duration-excessive"],
        f"The transaction of producer {row['producer_id']}, first offset {row['first_offset']}, lasted "
        f"{format_duration(row['duration'])}, from {format_time(row['begins'])} to its marker at offset "
        f"{row['marker_offset']}; the limit is {format_duration(allowed)}.",
        **place(row),
        severity=None if has_append_times else Severity.INFO,
        evidence={"lasted_ms": row["duration"], "allowed_ms": allowed},
        exactness=_exactness_of_timestamps(state),
        benign=(
            "timestamps set by the client: " + ("no, the log has append times" if has_append_times else "possible"),
            "coordinator unavailable, producer of a two-phase commit: not visible without the coordinator log",
        ),
    )


def _exactness_of_timestamps(state: PartitionState) -> Exactness:
    return Exactness.EXACT if state.log.has_append_times else Exactness.APPROXIMATE


def _aborted_rate(state: PartitionState) -> Iterator[Finding]:
    store, count = state.transaction_store, len(state.transaction_store.closed)
    if count < state.rules.aborted_least or store.aborted <= state.rules.aborted_share * count:
        return
    first = min(store.earliest_first_offset(number) for number in range(store.closed.page_count))
    yield state.finding(
        CODES["txn-aborted-rate-high"],
        f"{store.aborted} of {count} transactions were aborted ({format_share(store.aborted / count)}).",
        offsets=(first, int(store.closed.last_keys[-1])),
        evidence={"transactions": count, "aborted": store.aborted},
        benign=("test traffic, one burst of timeouts: possible",),
    )


def _with_several_epochs(state: PartitionState, outcome: TransactionOutcome | None = None) -> Iterator[RowPart]:
    for rows in state.transaction_store:
        is_mixed = (rows["lowest_epoch"] != rows["highest_epoch"]) & ~spans_damage(state, rows)
        yield RowPart(rows[is_mixed if outcome is None else is_mixed & (rows["outcome"] == outcome)])


def _mixed(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["txn-epoch-mixed"],
        f"The transaction of producer {row['producer_id']} at "
        f"{format_offsets(row['first_offset'], row['last_offset'])} has data of epochs {row['lowest_epoch']} to "
        f"{row['highest_epoch']}, without a marker between them.",
        **place(row),
        evidence={"lowest_epoch": row["lowest_epoch"], "highest_epoch": row["highest_epoch"]},
        **_certainty(state, row["first_offset"], row["last_offset"]),
    )


def _absorbed(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["txn-foreign-data-absorbed"],
        f"The COMMIT at offset {row['marker_offset']} ends a transaction of epoch {row['highest_epoch']}, but also "
        f"committed data of producer {row['producer_id']} with epoch {row['lowest_epoch']} from offset "
        f"{row['first_offset']}.",
        **place(row),
        evidence={"marker_offset": row["marker_offset"], "lowest_epoch": row["lowest_epoch"]},
        **(_certainty(state, row["first_offset"], row["last_offset"]) | {"cause": "txn-epoch-mixed"}),
    )


def _certainty(state: PartitionState, first: int, last: int) -> dict[str, Any]:
    """Return how certain it is that there never was a marker between two batches, as arguments of a finding."""
    is_cleaned = first < state.first_uncompacted_offset
    lacking = state.log_gaps.between(first, last)
    return {
        "severity": Severity.INFO if lacking.any else None,
        "exactness": Exactness.APPROXIMATE if is_cleaned else Exactness.EXACT,
        "benign": (
            f"marker removed by a cleaner: {'possible' if is_cleaned else 'no, never compacted here'}",
            lacking.benign,
        ),
        "cause": lacking.cause,
    }


def _inside(state: PartitionState) -> Iterator[Finding]:
    anomalies = anomalies_of(state, Anomaly.TXN_NONTXN_INSIDE)
    if len(anomalies):
        damaged = {(segment, damage.inside_batch) for segment, damage in state.log.damage}
        yield from first_n(anomalies, partial(_not_transactional, state, damaged))


def _not_transactional(state: PartitionState, damaged: set[tuple[int, int | None]], row: Row) -> Finding:
    is_damaged = (row["segment"], row["position"]) in damaged
    certainty = _certainty(state, row["previous_offset"], row["first_offset"])
    return state.finding(
        CODES["txn-nontxn-inside"],
        f"Producer {row['producer_id']} wrote {format_offsets(row['first_offset'], row['last_offset'])} without a "
        "transaction while its own transaction was open.",
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
        severity=certainty["severity"],
        exactness=Exactness.APPROXIMATE if is_damaged else certainty["exactness"],
        benign=(*certainty["benign"], f"damaged attributes: {'yes, its checksum fails' if is_damaged else 'no'}"),
        cause=certainty["cause"],
    )


def _after_marker(state: PartitionState) -> Iterator[RowPart]:
    damaged = damaged_markers(state)
    for rows, before in with_markers_before(state):
        is_after = (before["marker_offset"] != NOTHING) & (rows["lowest_epoch"] < before["highest_epoch"])
        is_after &= ~is_damaged(damaged, before, "marker_offset")
        more = {"before": before["marker_offset"], "ended_epoch": before["highest_epoch"]}
        yield RowPart(rows, more).taken(is_after)


def _late_write(state: PartitionState, row: Row) -> Finding:
    is_open = row["outcome"] == TransactionOutcome.OPEN
    damage = state.log_gaps.damage_at(row["before"], row["first_offset"])
    outcome = "It is still open" if is_open else f"The marker at offset {row['marker_offset']} ended it"
    return state.finding(
        CODES["txn-write-after-marker"],
        f"Producer {row['producer_id']} wrote with epoch {row['lowest_epoch']} from offset {row['first_offset']}, "
        f"after a marker of epoch {row['ended_epoch']} had ended that epoch (last marker before it at offset "
        f"{row['before']}). {outcome}.",
        **place(row),
        severity=Severity.INFO if damage else None,
        evidence={"marker_offset": row["before"], "marker_epoch": row["ended_epoch"]},
        exactness=Exactness.APPROXIMATE,
        benign=("partition added to the next transaction: the coordinator log was not consulted",),
        cause=damage,
    )


CHECK = Check("transactions", CODES, findings)
