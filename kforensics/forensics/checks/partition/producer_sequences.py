"""Checks that the batches of each idempotent producer follow one another without gaps or duplicates.

Rule: ``ProducerAppendInfo.checkSequence``. A leader that knows its producer rejects all of this. Each finding therefore
means that a leader did not know the producer, or that the log is not what a leader wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.broker_settings import PRODUCER_EXPIRY
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets
from kforensics.forensics.core.record_types import Anomaly, AnomalyArray
from kforensics.forensics.core.reporting import Row, expiry, first_n, place
from kforensics.forensics.partition.partition_files import LOG_START
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import (
    NOTHING,
    anomalies_of,
    is_expired,
    last_before,
    markers_before,
    sound_anomalies,
)
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import BoolArray, Column, TextArray
from kforensics.parsers.log.batch_headers import HEADER, batch_header

CODES = by_name(
    Code(
        "seq-gap",
        Severity.ERROR,
        meaning="Sequence numbers are missing between two consecutive batches of a producer.",
        remedy=(
            "Acknowledged records may be lost: compare the replicas of {topic}-{partition}, and look for "
            "unclean elections."
        ),
        why=(
            "A leader that knows the producer accepts only the next sequence. So either the missing batches "
            "were appended and lost again, usually by an unclean election, and acknowledged records are lost; "
            "or the leader did not know the producer."
        ),
        benign=(
            "The producer had expired, or a replica without its state was elected. If that is certain, the "
            "finding is a warning."
        ),
    ),
    Code(
        "seq-duplicate-batch",
        Severity.CRITICAL,
        meaning="The same batch of a producer is in the log twice.",
        remedy=(
            "Consumers received both copies: deduplicate where they keep their results, and check failovers and "
            "producer.id.expiration.ms."
        ),
        why=(
            "The producer resent a batch after a lost response, and the leader did not recognize it: it had "
            "expired the producer, or was newly elected without its state. Consumers get the records twice, "
            "even with exactly-once."
        ),
        benign=(
            "Sequences wrap around after 2147483647, and an expired producer may restart at 0. Different "
            "contents are reported as seq-reuse."
        ),
    ),
    Code(
        "seq-overlap",
        Severity.ERROR,
        meaning="A batch starts inside what its producer had already written.",
        remedy="Compare the records: some of them are in the log twice.",
        why=(
            "A retry was split into different batches than the first attempt, and a leader that had lost the "
            "producer's state accepted it. Some records are in the log twice."
        ),
        benign="The producer had expired, or restarted at sequence 0.",
    ),
    Code(
        "seq-first-nonzero",
        Severity.INFO,
        meaning=(
            "The first batch of a producer does not start at sequence 0, although the log is complete from its "
            "first offset."
        ),
        why=(
            "A broker accepts any first sequence from an unknown producer. This producer wrote before, and "
            "those batches were never in this log or are gone."
        ),
        benign=(
            "The topic was deleted and recreated while the producer was running, or the producer had expired. "
            "By itself this means nothing."
        ),
    ),
    Code(
        "seq-missing",
        Severity.WARNING,
        meaning="A batch has a producer id and no sequence.",
        remedy="Find out which client wrote it: no retry of this client is detected.",
        why="Without a sequence no leader recognizes a retry, so the producer id has no effect.",
        benign="Implementations other than the Java client write such batches to __consumer_offsets.",
    ),
)

EXPIRED_REMEDY = (
    "The leader had forgotten the producer and accepted its next batch with any sequence, so nothing need be lost. If "
    "producers of {topic}-{partition} are often idle for so long, increase producer.id.expiration.ms."
)

DELETED = "producer forgotten with its deleted data, and begun again at sequence 0, up to 2.3: likely"


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the sequences in the part of the log that was never compacted."""
    if not state.checks_sequences:
        return
    yield from _gaps(state)
    yield from first_n(sound_anomalies(state, Anomaly.SEQ_DUPLICATE_BATCH), partial(_duplicate, state))
    overlaps = sound_anomalies(state, Anomaly.SEQ_OVERLAP)
    yield from first_n(overlaps, partial(_overlap, state), **_circumstances(state, overlaps))
    # In a compacted log the first available batch of a producer need not be its first one.
    if state.log.batches and state.first_uncompacted_offset <= int(state.log.first.base_offset[0]):
        yield from first_n(sound_anomalies(state, Anomaly.SEQ_FIRST_NONZERO), partial(_first, state))
    yield from first_n(sound_anomalies(state, Anomaly.SEQ_MISSING), partial(_missing, state))


def _gaps(state: PartitionState) -> Iterator[Finding]:
    gaps = sound_anomalies(state, Anomaly.SEQ_GAP)
    if not len(gaps):
        return
    # If offsets are missing too, so are the batches with these sequences. A damaged batch may be the producer's.
    is_damaged = state.log_gaps.damaged.are_between(gaps["previous_offset"], gaps["first_offset"])
    gaps = gaps.compress((gaps["offset_gap"] == 0) & ~is_damaged)
    gaps = gaps.compress(~_follow_incomplete_marker(state, gaps) & ~_follow_deleted_batches(state, gaps))
    yield from first_n(gaps, partial(_gap, state), **_circumstances(state, gaps), cause=_cause(state, gaps))


def _follow_incomplete_marker(state: PartitionState, gaps: AnomalyArray) -> BoolArray:
    """Return which gaps follow a marker in the compacted section, or one whose data was compacted, deleted or damaged.

    The missing batches may have been before that marker, and no offset is missing after it. A follower that began to
    fetch a log after its data was deleted has no snapshot that knows of it, nor have those that it writes later.
    """
    markers = markers_before(state, gaps["producer_id"], gaps["first_offset"])
    offsets, uncompacted = markers["marker_offset"], state.first_uncompacted_offset
    start, lost, damaged = state.partition.first_offset, state.log_gaps.lost, state.log_gaps.damaged
    lacks_before = lost.are_between(np.zeros_like(offsets) - 1, offsets)
    lacks_before |= damaged.are_between(np.zeros_like(offsets) - 1, offsets)
    is_incomplete = (start < uncompacted or start > 0) | lacks_before
    has_no_data = (markers["data_epoch"] == NOTHING) & is_incomplete
    follows: BoolArray = (offsets == gaps["previous_offset"]) & ((offsets < uncompacted) | has_no_data)
    return follows


def _follow_deleted_batches(state: PartitionState, gaps: AnomalyArray) -> BoolArray:
    """Return which gaps may be batches that are deleted by now.

    Of batches before the first segment a snapshot knows the last one, unless a cleaner had removed it, from this log or
    from that of the leader it was fetched from. If only the marker of a transaction is left, nothing is known of them.
    """
    first, previous = state.partition.first_offset, gaps["previous_offset"]
    follows: BoolArray = (first > 0) & (previous < first) & (previous < state.first_uncompacted_offset)
    return follows


def _circumstances(state: PartitionState, anomalies: AnomalyArray) -> dict[str, Column]:
    """Return whether the producer had expired before each batch, and whether the leader had changed."""
    starts = state.log.epochs["first_offset"]
    before, here = (np.searchsorted(starts, anomalies[name], "right") for name in ("previous_offset", "first_offset"))
    return {"expired": is_expired(state, anomalies), "leader_changed": here > before}


def _cause(state: PartitionState, gaps: AnomalyArray) -> TextArray:
    """Return for each gap the code of the finding that it follows from, an empty text if there is none.

    After the second copy of a batch the replay expects what followed the first copy, but the producer continues where
    it really was.
    """
    if not len(gaps):
        return np.zeros(0, str)
    repeats = anomalies_of(state, Anomaly.SEQ_OVERLAP, Anomaly.SEQ_DUPLICATE_BATCH)
    index = last_before(repeats["producer_id"], repeats["first_offset"], gaps["producer_id"], gaps["first_offset"])
    repeat = np.concatenate([repeats, np.full(1, NOTHING, repeats.dtype)])[index]
    is_overlap = repeat["kind"] == Anomaly.SEQ_OVERLAP
    length = repeat["last_offset"] - repeat["first_offset"] + 1
    # A copy of a known batch cannot be further back than there are offsets between the two.
    between = repeat["first_offset"] - repeat["previous_offset"] - 1
    reach = np.where(is_overlap, repeat["amount"] - length, between)
    follows = (index >= 0) & (repeat["producer_epoch"] == gaps["producer_epoch"]) & (gaps["amount"] <= reach)
    return np.where(follows, np.where(is_overlap, "seq-overlap", "seq-duplicate-batch"), "")


def _explanations(row: Row) -> tuple[str, ...]:
    changed = row["leader_changed"]
    return (
        expiry(row),
        f"failover to a replica without producer state: {'possible, the leader changed' if changed else 'no'}",
    )


def _severity(state: PartitionState, row: Row) -> Severity | None:
    """Return a lower severity if the leader had forgotten the producer: then it accepts any sequence.

    By Kafka's default for the expiry that is likely; if the setting is known, it is certain.
    """
    if not row["expired"]:
        return None
    return Severity.WARNING if state.rules.is_default(PRODUCER_EXPIRY) else Severity.INFO


def _was_deleted(state: PartitionState, row: Row) -> bool:
    """Return whether a leader up to 2.3 may have forgotten the producer because its data was deleted.

    It did so when the log start offset moved beyond that, and the client began again at sequence 0. Topics of these
    releases have no id. A running broker wrote the checkpoint of that offset once a minute
    (``log.flush.start.offset.checkpoint.interval.ms``), so it may have moved before a batch that is younger.
    Rules: ``ProducerStateManager.truncateHead``, ``TransactionManager.canRetry``.
    """
    if state.partition.topic_id is not None:
        return False
    if row["previous_offset"] < state.local_log_start_offset:
        return True
    log_dir = state.partition.log_dir
    written = None if log_dir.clean_shutdown else log_dir.written.get(LOG_START)
    return written is not None and bool(row["timestamp"] > written) and _first_sequence(state, row) == 0


def _first_sequence(state: PartitionState, row: Row) -> int | None:
    """Return the first sequence of the batch of an anomaly; None if its segment cannot be read again."""
    with suppress(InputError), open_source(state.partition.segments[row["segment"]].path) as source:
        data = source.read(row["position"], HEADER.size)
        if len(data) == HEADER.size:
            return batch_header(data, row["position"], crc_of_rest=0).base_sequence
    return None


def _settings(state: PartitionState, row: Row) -> dict[str, object]:
    """Return the setting that a finding leans on, for its evidence."""
    return state.rules.evidence(PRODUCER_EXPIRY) if row["expired"] else {}


def _gap(state: PartitionState, row: Row) -> Finding:
    finding = state.finding(
        CODES["seq-gap"],
        f"{format_count(row['amount'], 'sequence')} of producer {row['producer_id']}, epoch {row['producer_epoch']}, "
        f"missing between offsets {row['previous_offset']} and {row['first_offset']}, although no offset is missing.",
        severity=_severity(state, row),
        **place(row),
        evidence={"missing": row["amount"], "previous_offset": row["previous_offset"], **_settings(state, row)},
        benign=_explanations(row),
        cause=row["cause"] or None,
    )
    return replace(finding, remedy=EXPIRED_REMEDY) if row["expired"] else finding


def _duplicate(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["seq-duplicate-batch"],
        f"{format_count(row['amount'], 'record')} of producer {row['producer_id']}, epoch {row['producer_epoch']}, "
        f"written twice: the sequences at {format_offsets(row['first_offset'], row['last_offset'])} repeat those of "
        f"the batch that ends at offset {row['previous_offset']}.",
        severity=Severity.INFO if _was_deleted(state, row) else None,
        **place(row),
        evidence={"records": row["amount"], "first_copy_ends_at": row["previous_offset"]},
        benign=(
            "sequences wrapped around: no, the first copy is among the last five batches",
            "different contents: records were not compared",
            *([DELETED] if _was_deleted(state, row) else []),
        ),
    )


def _overlap(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["seq-overlap"],
        f"The batch of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        f"starts {row['amount']} sequences before the next expected one, and matches none of the last five batches.",
        severity=Severity.INFO if _was_deleted(state, row) else _severity(state, row),
        **place(row),
        evidence={"behind": row["amount"], "previous_offset": row["previous_offset"], **_settings(state, row)},
        benign=(*_explanations(row), *([DELETED] if _was_deleted(state, row) else [])),
    )


def _first(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["seq-first-nonzero"],
        f"The first batch of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset "
        f"{row['first_offset']} does not start at sequence 0.",
        **place(row),
        benign=(
            "accepted from unknown producers by every release, except in transactions of Produce v12: yes",
            "topic recreated, or producer expired: not visible here",
        ),
    )


def _missing(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["seq-missing"],
        f"The batch of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        "has no sequence.",
        **place(row),
    )


CHECK = Check("producer_sequences", CODES, findings)
