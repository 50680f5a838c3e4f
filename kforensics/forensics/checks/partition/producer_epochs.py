"""Checks for producer epochs that decrease, are bumped at the wrong point, or are nearly exhausted.

Rule: ``ProducerAppendInfo.checkProducerEpoch`` and ``checkSequence``; for the largest epoch the coordinator's
``ProducerIdAndEpoch``, which assigns a new producer id before 32767.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_offsets
from kforensics.forensics.core.observations import ObservationArray, Observed, observations_of, observe
from kforensics.forensics.core.record_types import Anomaly, AnomalyArray
from kforensics.forensics.core.reporting import Row, expiry, first_n, place
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import (
    NOTHING,
    anomalies_of,
    epochs_bumped_by_transactions,
    is_expired,
    last_before,
    sound_anomalies,
)
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.format.array_types import TextArray
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT

CODES = by_name(
    Code(
        "epoch-regressed",
        Severity.ERROR,
        meaning="A producer wrote with a lower epoch than before: a fenced instance got through.",
        remedy=(
            "Look for interleaved output of two instances and, with transactional ids, for offsets committed by the "
            "older one."
        ),
        why=(
            "A producer's epoch rises when another instance takes over, which fences the old one. A leader that "
            "knows the new epoch rejects the old instance; this one did not, so the log may contain the output "
            "of both."
        ),
        benign=(
            "The leader had lost its producer state, or had expired an idle producer after "
            "producer.id.expiration.ms. If the start of the log is missing, the higher epoch may be an old one."
        ),
    ),
    Code(
        "epoch-bump-nonzero-seq",
        Severity.ERROR,
        meaning="The first batch of a new epoch does not start at sequence 0.",
        remedy=(
            "The first records of that epoch are missing: compare with the records that were acknowledged to "
            "the application."
        ),
        why=(
            "Sequences restart at 0 with every epoch, and a leader that knows the producer enforces this. The "
            "first batch here has a later sequence, so earlier batches are not in this log."
        ),
        benign=(
            "The leader had expired the producer. A client other than the Java client counts differently. The "
            "first batches were truncated after an unclean election."
        ),
    ),
    Code(
        "epoch-bump-without-marker",
        Severity.WARNING,
        meaning="A producer's epoch is bumped inside an open transaction.",
        remedy="Check the outcome of the transaction that mixes the two epochs.",
        why=(
            "The coordinator ends the open transaction before the new epoch starts. Here data of the new epoch "
            "was appended to the old transaction."
        ),
        benign="None with Kafka's own coordinator. A cleaner may have removed the marker.",
    ),
    Code(
        "epoch-near-exhaustion",
        Severity.WARNING,
        meaning="A producer has nearly used up its epochs.",
        remedy="Find out what keeps fencing this producer.",
        why=(
            "Every fencing uses one epoch, and so does every transaction with transaction version 2; there are "
            "32768. The coordinator assigns a new producer id in time. If it cannot, the application is stuck."
        ),
        benign="Normal with transaction version 2: the producer id changes at the end.",
    ),
    Code(
        "epoch-max-used",
        Severity.ERROR,
        meaning="A transactional producer wrote with the largest possible epoch.",
        remedy=(
            "Upgrade to 4.3 or later, whose coordinator ends such a transaction and changes the producer id. "
            "Before that, use kafka-transactions.sh abort only after the coordinator's state has been repaired "
            "(KAFKA-19367, KAFKA-20090)."
        ),
        why=(
            "The largest epoch is reserved for fencing, so that a coordinator can always abort. If data has "
            "this epoch, the abort cannot be written, and the transaction stays open."
        ),
        benign=(
            "A producer with idempotence and without transactions may reach this epoch by itself; it is not reported."
        ),
    ),
    Code(
        "pid-mixed-modes",
        Severity.WARNING,
        meaning="A producer id was used with and without transactions.",
        remedy=(
            "Find out which client library it is: a transactional producer of the Java client marks all its "
            "data as transactional."
        ),
        why=(
            "The Java client marks all data of a transactional producer as transactional. A producer that mixes "
            "both loses the guarantee for its other records, and brokers treat them differently."
        ),
        benign="None with the Java client.",
    ),
    Code(
        "pid-churn",
        Severity.INFO,
        meaning="Very many producers came and went.",
        remedy="Let applications keep their producers: each one uses broker memory until it expires.",
        why=(
            "Every producer that starts gets a new id, and every partition it writes to remembers the id for a "
            "day. Very many of them fill the broker's memory and make its snapshots large."
        ),
        benign="Producers are short-lived on purpose, as in functions and cron jobs.",
    ),
)

LAST_EPOCH = 32_767
HOUR_MS = 3_600_000


def _large_epochs(batches: BatchColumns, rules: Rules) -> Iterable[ObservationArray]:
    near = (batches.producer_epoch >= rules.near_exhaustion) & (batches.producer_id >= 0) & batches.crc_valid
    if not near.any():
        return
    yield observe(Observed.EPOCH_NEAR_EXHAUSTION, batches, near, amount=batches.producer_epoch)
    transactional = (batches.attributes & TRANSACTIONAL_BIT != 0) & (batches.control == NO_CONTROL)
    yield observe(Observed.EPOCH_MAX_USED, batches, near & transactional & (batches.producer_epoch == LAST_EPOCH))


COLLECTOR = Collector(batches=_large_epochs)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield unusual epochs of the producers in the log, and an unusual number of producers."""
    regressed = anomalies_of(state, Anomaly.EPOCH_REGRESSED)
    yield from first_n(regressed, partial(_regressed, state), expired=is_expired(state, regressed))
    if state.checks_sequences:
        yield from _bumps(state)
    yield from first_n(anomalies_of(state, Anomaly.EPOCH_BUMP_WITHOUT_MARKER), partial(_without_marker, state))
    near = observations_of(state.log.observations, Observed.EPOCH_NEAR_EXHAUSTION)
    yield from first_n(near, partial(_near, state), by_design=epochs_bumped_by_transactions(state, near["producer_id"]))
    yield from first_n(observations_of(state.log.observations, Observed.EPOCH_MAX_USED), partial(_last_epoch, state))
    if state.checks_sequences:
        yield from first_n(_mixed(state), partial(_mixed_modes, state))
    yield from _churn(state)


def _regressed(state: PartitionState, row: Row) -> Finding:
    damage = state.log_gaps.damage_at(row["previous_offset"], row["first_offset"])
    return state.finding(
        CODES["epoch-regressed"],
        f"Producer {row['producer_id']} wrote {format_offsets(row['first_offset'], row['last_offset'])} with epoch "
        f"{row['producer_epoch']}, after epoch {row['producer_epoch'] + row['amount']}.",
        severity=Severity.INFO if damage else Severity.WARNING if row["expired"] else None,
        **place(row),
        evidence={"fallen_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(expiry(row), "leader lost its producer state: not visible in one replica"),
        cause=damage,
    )


def _bumps(state: PartitionState) -> Iterator[Finding]:
    bumps = sound_anomalies(state, Anomaly.EPOCH_BUMP_NONZERO_SEQ)
    # If offsets are missing too, so are the first batches of the epoch.
    bumps = bumps.compress(bumps["offset_gap"] == 0)
    more = {"expired": is_expired(state, bumps), "cause": _regression_before(state, bumps)}
    yield from first_n(bumps, partial(_bump, state), **more)


def _regression_before(state: PartitionState, bumps: AnomalyArray) -> TextArray:
    """Return for each bump the code of the epoch regression that explains it, an empty text if there is none.

    The replay takes over a regressed epoch; the instance that is still writing then seems to bump it.
    """
    if not len(bumps):
        return np.zeros(0, str)
    regressions = anomalies_of(state, Anomaly.EPOCH_REGRESSED, Anomaly.MARKER_EPOCH_REGRESSED)
    index = last_before(
        regressions["producer_id"], regressions["first_offset"], bumps["producer_id"], bumps["first_offset"]
    )
    regression = np.concatenate([regressions, np.full(1, NOTHING, regressions.dtype)])[index]
    explains = (index >= 0) & (bumps["producer_epoch"] <= regression["producer_epoch"] + regression["amount"])
    of_data = regression["kind"] == Anomaly.EPOCH_REGRESSED
    return np.where(explains, np.where(of_data, "epoch-regressed", "marker-epoch-regressed"), "")


def _bump(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["epoch-bump-nonzero-seq"],
        f"The first batch of producer {row['producer_id']} with epoch {row['producer_epoch']}, {row['amount']} above "
        f"its previous epoch, is at offset {row['first_offset']} and does not start at sequence 0.",
        severity=Severity.WARNING if row["expired"] else None,
        **place(row),
        evidence={"raised_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(expiry(row), "client other than Java, truncation after an unclean election: not visible here"),
        cause=row["cause"] or None,
    )


def _without_marker(state: PartitionState, row: Row) -> Finding:
    is_cleaned = row["previous_offset"] < state.first_uncompacted_offset
    lacking = state.log_gaps.between(row["previous_offset"], row["first_offset"])
    return state.finding(
        CODES["epoch-bump-without-marker"],
        f"Producer {row['producer_id']} bumped its epoch to {row['producer_epoch']} at offset {row['first_offset']} "
        "inside an open transaction.",
        severity=Severity.INFO if lacking.any else None,
        **place(row),
        evidence={"raised_by": row["amount"], "previous_offset": row["previous_offset"]},
        exactness=Exactness.APPROXIMATE if is_cleaned else Exactness.EXACT,
        benign=(
            f"marker removed by a cleaner: {'possible' if is_cleaned else 'no, never compacted here'}",
            lacking.benign,
        ),
        cause=lacking.cause,
    )


def _near(state: PartitionState, row: Row) -> Finding:
    by_design = row["by_design"]
    return state.finding(
        CODES["epoch-near-exhaustion"],
        f"Producer {row['producer_id']} has reached epoch {row['amount']} of {LAST_EPOCH}; its first batch with epoch "
        f"{state.rules.near_exhaustion} or more is at offset {row['first_offset']}.",
        severity=Severity.INFO if by_design else None,
        **place(row),
        evidence={"batches": row["count"], "epoch": row["amount"]},
        benign=(f"transaction version 2, one epoch per transaction: {'yes' if by_design else 'no sign of it'}",),
    )


def _last_epoch(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["epoch-max-used"],
        f"Producer {row['producer_id']} wrote transactional data with the largest epoch {LAST_EPOCH}, starting at "
        f"offset {row['first_offset']}.",
        **place(row),
        evidence={"batches": row["count"]},
        benign=("producer without transactions: no",),
    )


def _mixed(state: PartitionState) -> AnomalyArray:
    """Return where producers changed their mode, except inside a transaction, which is reported as worse."""
    mixed = anomalies_of(state, Anomaly.PID_MIXED_MODES)
    if not len(mixed):
        return mixed
    inside = anomalies_of(state, Anomaly.TXN_NONTXN_INSIDE)
    return mixed.compress(~np.isin(mixed["first_offset"], inside["first_offset"]))


def _mixed_modes(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["pid-mixed-modes"],
        f"Producer {row['producer_id']} wrote both with and without transactions; the mode changes at offset "
        f"{row['first_offset']}.",
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
    )


def _churn(state: PartitionState) -> Iterator[Finding]:
    """Yield a finding if very many producers appeared between the first batch and the newest timestamp.

    The time at which each of them appeared is not kept. Producers of a snapshot existed before.
    """
    count = len(state.producers) - len(state.boundary.producers)
    first = int(state.log.first.max_timestamp[0]) if state.log.batches else NOTHING
    duration = state.log.newest_timestamp - first
    if first < 0 or count <= state.rules.new_producers_per_hour * max(1, duration / HOUR_MS):
        return
    yield state.finding(
        CODES["pid-churn"],
        f"{count} producers wrote here within {format_duration(duration)}.",
        offsets=(int(state.log.first.base_offset[0]), state.log_end_offset - 1),
        evidence={"producers": count, "milliseconds": duration},
        exactness=Exactness.APPROXIMATE,
        benign=("short-lived producers, as in functions: possible",),
    )


CHECK = Check("producer_epochs", CODES, findings, collector=COLLECTOR)
