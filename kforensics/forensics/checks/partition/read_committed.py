"""Checks that read_committed consumers receive the right records: they follow transaction indexes, not markers.

Rule: ``LogSegment.updateProducerState`` and ``ProducerStateManager.completeTxn`` write an entry for each ABORT marker
that ends a transaction, and ``Cleaner.cleanInto`` keeps the entry as long as a batch of the transaction is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets
from kforensics.forensics.core.observations import Observed, batches, observations_of
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.reporting import MOST, Row, RowPart, first_n_of_parts
from kforensics.forensics.core.rules import COPY_MS
from kforensics.forensics.partition.log_gaps import Lacking
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import transactions_before
from kforensics.forensics.sidecar.aborted_entries import (
    AbortedEntries,
    AbortedEntryArray,
    aborted_entries,
    first_available_offset,
    matching_rows,
    with_entry,
    with_index_location,
)
from kforensics.forensics.sidecar.file_times import may_be_live, moved_start, time_of_copy, vanished_indexes
from kforensics.forensics.sidecar.index_visibility import (
    IndexVisibility,
    VisibilityErrors,
    index_visibility,
    visibility_errors,
)
from kforensics.parsers.format.array_types import BoolArray, IntArray

REBUILD_INDEX_OF_MARKER = (
    "stop the broker, copy the files, delete the .index of the segment with the marker, and start the broker: it reads "
    "the segment again and rewrites its indexes, provided that the snapshots before it are right"
)
CODES = by_name(
    Code(
        "txnindex-missing-entry",
        Severity.CRITICAL,
        meaning=(
            "An aborted transaction has data on disk and no entry in a transaction index: read_committed "
            "consumers receive it."
        ),
        remedy=(
            f"Move the leadership to a replica whose index is right; then {REBUILD_INDEX_OF_MARKER}. Deleting only the "
            ".txnindex does not help."
        ),
        why=(
            "Consumers hide the transactions in the index; they ignore markers. Without the entry they receive "
            "the records of an aborted transaction. A cleaner with KAFKA-13727 causes this, and so does an "
            "index that was lost or rebuilt from wrong producer state."
        ),
        benign=(
            "The marker was written after the index had been copied. The broker deleted the index with its old segment "
            "while the files were copied. The cleaner emptied the transaction, so no record is left to hide."
        ),
    ),
    Code(
        "txnindex-extra-entry",
        Severity.ERROR,
        meaning=(
            "A transaction index lists an aborted transaction that is not in the log: the records it covers are "
            "hidden from consumers."
        ),
        remedy=f"Move the leadership to a replica whose index is right; then {REBUILD_INDEX_OF_MARKER}.",
        why=(
            "Consumers hide everything that the producer wrote from the first offset of the entry to its next "
            "ABORT. If that was committed, they miss it."
        ),
        benign=(
            "Marker and data were cleaned, and the next cleaning removes the entry. Up to 2.7 brokers wrote an "
            "entry for an ABORT that ended nothing. The start of the log was deleted."
        ),
    ),
    Code(
        "visibility-mismatch",
        Severity.CRITICAL,
        meaning=(
            "Consumers with read_committed receive records of aborted transactions, or do not receive records "
            "of committed ones."
        ),
        remedy=(
            "Follow the findings about the transaction index, and find out which applications have read "
            "{topic}-{partition} since."
        ),
        why=(
            "This is the effect of the wrong entries in the transaction index: the consumer's algorithm was "
            "applied to the index, and the result compared with the markers, record by record."
        ),
        benign=(
            "It follows from the findings about the index. Without one, the index of a running broker was copied "
            "before its cleaner removed the marker of an entry, and the log after that."
        ),
    ),
)

NOTHING = -1
NEVER = int(np.iinfo("i8").max)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield where the transaction indexes give consumers the wrong records."""
    index = aborted_entries(state)
    if not len(index.starts) and not state.transaction_store.aborted:  # consumers should receive everything, and do
        return
    visibility = index_visibility(state, index)
    index_findings = [*_missing(state, index), *_extra(state, index, visibility)]
    yield from index_findings
    if not index.unknown:
        yield from _visibility(state, visibility, index_findings)


def _missing(state: PartitionState, index: AbortedEntries) -> Iterator[Finding]:
    damaged = {segment for segment, _ in index.damage}
    yield from first_n_of_parts(_without_entry(state, index), partial(_missing_entry, state, damaged))


def _without_entry(state: PartitionState, index: AbortedEntries) -> Iterator[RowPart]:
    for closed in state.transaction_store.closed:
        # No consumer can fetch what is below the log start offset, and a broker that loads the log may not know it.
        matters = (closed["outcome"] == TransactionOutcome.ABORTED) & (
            closed["last_offset"] >= state.local_log_start_offset
        )
        aborted = closed[matters & (closed["batches"] > 0)]
        aborted = aborted[~np.isin(_segments(state, aborted["marker_offset"]), [*index.unknown])]
        near = index.usable.at(int(closed["marker_offset"][0]), int(closed["marker_offset"][-1]))
        match = matching_rows(near, "last_offset", aborted["producer_id"], aborted["marker_offset"])
        begins = np.append(near["first_offset"], NEVER)[match]
        is_covered = begins <= np.maximum(aborted["first_offset"], state.local_log_start_offset)
        starts_later = ~is_covered & (match != NOTHING) & (aborted["first_offset"] < state.local_log_start_offset)
        markers = aborted["marker_offset"]
        # A tool lists a folder before it copies the files: what a snapshot covers was written before all of them.
        listed = max(state.partition.snapshots, default=0)
        more = {
            "index": _segments(state, markers),
            "begins": begins,
            "newer": (markers > index.last_in_active_index) & (markers >= listed),
        }
        yield RowPart(aborted, more).taken(~(is_covered | starts_later))


def _segments(state: PartitionState, offsets: IntArray) -> IntArray:
    """Return the number of the segment that each offset belongs to."""
    bases = [segment.base_offset or 0 for segment in state.partition.segments]
    return np.maximum(np.searchsorted(bases, offsets, "right") - 1, 0)


def _missing_entry(state: PartitionState, damaged: set[int], row: Row) -> Finding:
    is_recent = time_of_copy(state) - row["marker_timestamp"] <= COPY_MS
    may_be_newer = row["begins"] == NEVER and row["newer"] and is_recent and may_be_live(state, row["index"])
    may_be_renamed = row["index"] in vanished_indexes(state)
    lacking = _lacking(state, row)
    below_start = row["last_offset"] < moved_start(state)
    is_excused = may_be_newer or may_be_renamed or lacking.any or below_start
    entry = "has no entry for it" if row["begins"] == NEVER else f"covers it only from offset {row['begins']}"
    severity = None if row["records"] else Severity.INFO
    finding = state.finding(
        CODES["txnindex-missing-entry"],
        f"The transaction of producer {row['producer_id']} with "
        f"{format_offsets(row['first_offset'], row['last_offset'])} was aborted at offset {row['marker_offset']}, "
        f"but the transaction index {entry}: "
        f"{format_count(row['records'], 'record')} of it on disk.",
        severity=Severity.INFO if is_excused else severity,
        offsets=(row["first_offset"], row["marker_offset"]),
        producer=(row["producer_id"], row["marker_epoch"]),
        at=(row["marker_segment"], row["marker_position"]),
        evidence={"batches": row["batches"], "records": row["records"], "marker_offset": row["marker_offset"]},
        exactness=Exactness.UNVERIFIABLE if is_excused else Exactness.EXACT,
        benign=(
            f"marker written after the index was copied: {'possible' if may_be_newer else 'no'}",
            f"index deleted with its segment while they were copied: {'possible' if may_be_renamed else 'no'}",
            lacking.benign,
            f"below the log start offset, which was moved since its checkpoint: {'likely' if below_start else 'no'}",
            f"no record left to hide: {'no' if row['records'] else 'yes, the cleaner emptied its batches'}",
        ),
        cause="txnindex-corrupt" if row["index"] in damaged else lacking.cause,
    )
    return with_index_location(state, row["index"], None, finding)


def _lacking(state: PartitionState, row: Row) -> Lacking:
    """Return what the log may lack within an aborted transaction.

    A lost segment may also have had the marker between two transactions, and the index has an entry for the second.
    """
    merged = state.log_gaps.between(row["last_offset"], row["marker_offset"]).merged
    return state.log_gaps.between(row["first_offset"], row["marker_offset"])._replace(merged=merged)


def _extra(state: PartitionState, index: AbortedEntries, visibility: IndexVisibility) -> Iterator[Finding]:
    parts = (_without_abort(state, entries, visibility) for entries in index.usable)
    yield from first_n_of_parts(parts, partial(_extra_entry, state))


def _without_abort(state: PartitionState, entries: AbortedEntryArray, visibility: IndexVisibility) -> RowPart:
    """Return the entries that no ABORT in the log explains."""
    first, ended = _transactions(state, entries)
    empty = state.empty_markers
    near = empty["marker_offset"].searchsorted([entries["last_offset"][0], entries["last_offset"][-1] + 1])
    empty = empty[near[0] : near[1]]
    marker = matching_rows(empty, "marker_offset", entries["producer_id"], entries["last_offset"])
    outcome = np.where(ended != NOTHING, ended, np.append(empty["outcome"], NOTHING)[marker])
    coverage_start = max(state.first_uncompacted_offset, first_available_offset(state))
    starts_earlier = (entries["first_offset"] < first) & (entries["first_offset"] >= coverage_start)
    # Up to 2.7 an empty abort has an entry too (KAFKA-10702).
    starts_earlier &= (ended != NOTHING) | (entries["first_offset"] != entries["last_offset"])
    gone = (outcome == NOTHING) & (entries["last_offset"] < first_available_offset(state))
    unexplained = np.flatnonzero((outcome == NOTHING) & ~gone)
    gone[unexplained] = _cleaned(state, entries[unexplained])
    is_aborted = outcome == TransactionOutcome.ABORTED
    extra = (~is_aborted & ~gone) | (is_aborted & starts_earlier)
    malformed = observations_of(state.log.observations, Observed.MARKER_MALFORMED)["producer_id"]
    more = {
        "outcome": outcome,
        "begins": first,
        "hides": np.isin(entries["producer_id"], visibility.hidden),
        "unread": (outcome == NOTHING) & (bool(state.log.damage) | np.isin(entries["producer_id"], malformed)),
    }
    return RowPart(entries, more).taken(extra)


def _transactions(state: PartitionState, entries: AbortedEntryArray) -> tuple[IntArray, IntArray]:
    """Return the first offset and the outcome of the transaction of each entry, NEVER and NOTHING if there is none."""
    first, outcome = np.full(len(entries), NEVER), np.full(len(entries), NOTHING, "i1")
    offsets = entries["last_offset"]
    for closed in state.transaction_store.closed.between(int(offsets[0]), int(offsets[-1])):
        near = np.arange(*offsets.searchsorted([closed["marker_offset"][0], closed["marker_offset"][-1] + 1]))
        match = matching_rows(closed, "marker_offset", entries["producer_id"][near], offsets[near])
        near, match = near[match != NOTHING], match[match != NOTHING]
        first[near], outcome[near] = closed["first_offset"][match], closed["outcome"][match]
    return first, outcome


def _cleaned(state: PartitionState, entries: AbortedEntryArray) -> BoolArray:
    """Return whether the marker of each entry may have been cleaned together with all data before it."""
    # If the producer's last data before the marker reaches into the entry, the marker cannot have been cleaned.
    before = transactions_before(state, entries["producer_id"], entries["last_offset"])
    is_covered: BoolArray = before["last_offset"] >= entries["first_offset"]
    return (entries["last_offset"] < state.first_uncompacted_offset) & ~is_covered


def _extra_entry(state: PartitionState, row: Row) -> Finding:
    severity = Severity.CRITICAL if row["hides"] else Severity.WARNING if row["unread"] else None
    lacking = _lacking_within(state, row)
    finding = state.finding(
        CODES["txnindex-extra-entry"],
        f"The transaction index has an aborted transaction of producer {row['producer_id']} with offsets "
        f"{row['first_offset']} to {row['last_offset']}, but {_contradiction(row)}.",
        severity=Severity.INFO if lacking.any else severity,
        evidence={"last_stable_offset": row["last_stable_offset"]},
        exactness=Exactness.APPROXIMATE if state.log.damage or row["unread"] or lacking.any else Exactness.EXACT,
        benign=(
            "marker and data cleaned: no",
            "abort without a transaction, written up to 2.7: no",
            "data deleted with the start of the log: no",
            f"marker in bytes of the log that cannot be read: {'possible' if row['unread'] else 'no'}",
            *([lacking.benign] if lacking.any else []),
        ),
        cause=lacking.cause,
    )
    return with_entry(state, row, finding)


def _lacking_within(state: PartitionState, row: Row) -> Lacking:
    """Return what the log lacks that may explain an entry; nothing explains a COMMIT."""
    if row["outcome"] == TransactionOutcome.COMMITTED:
        return Lacking(lost=False, merged=False, damage=None)
    return state.log_gaps.between(row["first_offset"], row["last_offset"])._replace(merged=False)


def _contradiction(row: Row) -> str:
    if row["outcome"] == TransactionOutcome.COMMITTED:
        return f"the marker at offset {row['last_offset']} is a COMMIT"
    if row["outcome"] == NOTHING:
        return f"that producer has no marker at offset {row['last_offset']}"
    if row["begins"] == NEVER:
        return "the marker there ended no transaction"
    return f"the transaction that ended there started at offset {row['begins']}"


def _visibility(state: PartitionState, visibility: IndexVisibility, index_findings: list[Finding]) -> Iterator[Finding]:
    """Yield one finding for the effect of all findings about the index, with all offsets."""
    codes = {"txnindex-missing-entry", "txnindex-extra-entry"}
    causes = [finding for finding in index_findings if finding.code.name in codes]
    firsts = [finding.first_offset for finding in causes if finding.first_offset is not None]
    firsts += [] if visibility.first_offset is None else [visibility.first_offset]
    if not firsts:
        return
    errors = visibility_errors(state, visibility, min(firsts), MOST)
    if errors.ranges:
        # The marker that ends an aborted transaction may be in the segment that the copy lacks.
        lacking = state.log_gaps.between(state.local_log_start_offset, min(firsts))
        # A cleaner drops the entry with the marker. Only an index from before that has an entry without its marker.
        is_older = not causes and not errors.records_shown and state.may_be_cleaned_in_copy
        benign = (
            lacking.benign,
            f"transaction index copied before the cleaner replaced it: {'likely' if is_older else 'no'}",
        )
        yield _mismatch(state, errors, causes, benign, is_excused=is_older or (not causes and lacking.any))


def _mismatch(
    state: PartitionState,
    errors: VisibilityErrors,
    causes: list[Finding],
    benign: tuple[str, ...],
    *,
    is_excused: bool,
) -> Finding:
    first, last = errors.ranges[0].first_offset, errors.ranges[-1].last_offset
    return state.finding(
        CODES["visibility-mismatch"],
        f"Consumers with read_committed receive {format_count(errors.records_shown, 'record')} of aborted transactions "
        f"and miss {format_count(errors.records_hidden, 'record')} of committed ones: {batches(errors.batches)} "
        f"between offsets {first} and {last}.",
        severity=Severity.INFO if is_excused else max((cause.severity for cause in causes), default=None),
        offsets=(first, last),
        evidence={
            "batches": errors.batches,
            "records_shown": errors.records_shown,
            "records_hidden": errors.records_hidden,
            "ranges": [
                {
                    "first_offset": offsets.first_offset,
                    "last_offset": offsets.last_offset,
                    "producer_id": offsets.producer_id,
                    "shown": offsets.is_shown,
                }
                for offsets in errors.ranges
            ],
        },
        exactness=next(
            (cause.exactness for cause in causes if cause.exactness is not Exactness.EXACT),
            Exactness.UNVERIFIABLE if is_excused else Exactness.EXACT,
        ),
        benign=("consumers that started after a wrong entry: not affected, they receive what it hides", *benign),
        cause=next((cause.code.name for cause in causes), None),
    )


CHECK = Check("read_committed", CODES, findings)
