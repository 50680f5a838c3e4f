"""Checks that transaction index entries are readable, in order, and have the last stable offset a broker would write.

Rule: ``TransactionIndex`` and ``AbortedTxn``. The check ``read_committed`` compares the entries with the aborted
transactions of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.reporting import Row, RowPart, first_n_of_parts
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.timeline import expected_aborted_entries
from kforensics.forensics.sidecar.aborted_entries import (
    AbortedEntries,
    AbortedEntryArray,
    aborted_entries,
    first_available_offset,
    matching_rows,
    may_be_merged,
    with_entry,
    with_index_location,
)
from kforensics.forensics.sidecar.file_times import may_be_live
from kforensics.parsers.files.source import forbidden
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.rows import Damage

REBUILD_INDEX = (
    "stop the broker, copy the files, delete the .index of that segment, and start the broker: it reads the segment "
    "again and rewrites its indexes, provided that the snapshots before it are right"
)
CODES = by_name(
    Code(
        "txnindex-corrupt",
        Severity.ERROR,
        meaning="A transaction index contains data that no broker writes.",
        remedy=f"Rebuild the replica of {{topic}}-{{partition}} from an intact one, or {REBUILD_INDEX}.",
        why=(
            "The broker reads from this file which aborted transactions consumers must hide. If it cannot be "
            "read, a read_committed fetch fails or hides the wrong records."
        ),
        benign="The files of a running broker were copied, if only the end of the file is torn.",
    ),
    Code(
        "txnindex-lso-mismatch",
        Severity.INFO,
        meaning="The last stable offset in an entry is neither what a leader writes nor what a follower may write.",
        remedy=(
            "If the value is too small, lookups only take longer. If it is too large, brokers may skip later "
            f"entries; then {REBUILD_INDEX}."
        ),
        why=(
            "A broker stops searching for aborted transactions at the first entry whose last stable offset is "
            "beyond the requested range. A value that is too large therefore hides later entries; one that is "
            "too small only costs time."
        ),
        benign=(
            "A follower computes the value when it has appended what it fetched, a leader when it writes the marker; "
            "both values are accepted, and that of a follower of an old release (0.11 to 2.0), which may be the start "
            "of the next transaction of the same producer. If the start of the log is missing, the expected value is "
            "uncertain."
        ),
    ),
)

NOTHING = -1
# Fields of an expected entry: the values that are accepted, each with its writer.
ACCEPTED = {
    "last_stable_offset": "a leader writes",
    "follower_last_stable_offset": "a follower may write",
    "old_follower_last_stable_offset": "a follower of 0.11 to 2.0 may write",
}
# Fields of an entry that mark a fault, each with a phrase for it.
FAULTS = (
    ("out_of_order", "does not end after the previous entry"),
    ("ends_before_start", "ends before it starts"),
    ("outside_segment", "ends outside its segment"),
)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield the contents of the transaction indexes that no broker writes."""
    index = aborted_entries(state)
    yield from _corrupt(state, index)
    yield from first_n_of_parts(_wrong_stable_offsets(state, index), partial(_stable_offset_mismatch, state))


def _corrupt(state: PartitionState, index: AbortedEntries) -> Iterator[Finding]:
    for segment, why in index.unreadable.items():
        file = state.partition.transaction_indexes[state.partition.segments[segment].base_offset or 0]
        if forbidden(file.path):
            yield state.forbidden(CODES["txnindex-corrupt"], file.path, why)
            continue
        finding = state.finding(
            CODES["txnindex-corrupt"], f"The transaction index cannot be read: {why}.", exactness=Exactness.UNVERIFIABLE
        )
        yield with_index_location(state, segment, None, finding)
    for (segment, _), rows in groupby(index.damage, lambda row: (row[0], row[1].reason)):
        yield _damaged(state, segment, [damage for _, damage in rows])
    for field, phrase in FAULTS:
        parts = (RowPart(entries[entries[field]]) for entries in index.faulty)
        yield from first_n_of_parts(parts, partial(_faulty_entry, state, phrase))


def _damaged(state: PartitionState, segment: int, damage: list[Damage]) -> Finding:
    first, size = damage[0], sum(row.end - row.start for row in damage)
    is_torn = first.reason == "ragged" and may_be_live(state, segment)
    others = f"; {format_count(len(damage) - 1, 'more range')} like this" if len(damage) > 1 else ""
    finding = state.finding(
        CODES["txnindex-corrupt"],
        f"Bytes {first.start} to {first.end} of the transaction index are not a valid entry: {first.detail}{others}.",
        severity=Severity.INFO if is_torn else None,
        evidence={"reason": first.reason, "ranges": len(damage), "bytes": size},
        benign=(f"copied while the broker was writing to it: {'possible' if is_torn else 'no'}",),
    )
    return with_index_location(state, segment, first.start, finding)


def _faulty_entry(state: PartitionState, phrase: str, row: Row) -> Finding:
    is_ahead = (
        row["outside_segment"] and row["last_offset"] >= state.log_end_offset and may_be_live(state, row["segment"])
    )
    is_merged = row["outside_segment"] and may_be_merged(state, row)
    finding = state.finding(
        CODES["txnindex-corrupt"],
        f"{_entry(row)} {phrase}.",
        severity=Severity.INFO if is_ahead or is_merged else None,
        exactness=Exactness.APPROXIMATE if is_merged else Exactness.EXACT,
        benign=(
            f"log copied before its index while the broker was running: {'possible' if is_ahead else 'no'}",
            f"log copied before the cleaner merged segments, and its index after: {'possible' if is_merged else 'no'}",
        ),
    )
    return with_entry(state, row, finding)


def _wrong_stable_offsets(state: PartitionState, index: AbortedEntries) -> Iterator[RowPart]:
    store, exact_from = state.transaction_store, state.exact_from
    # What a broker has forgotten was open until then, which may be after the entry was written.
    earlier = expected_aborted_entries(store.as_in_log(), exact_from) if len(store.forgotten) else None
    for expected in expected_aborted_entries(store, exact_from):
        before = expected if earlier is None else next(earlier)
        last = int(expected["last_offset"][-1])
        entries = index.usable.at(int(expected["last_offset"][0]), last)
        match = matching_rows(expected, "last_offset", entries["producer_id"], entries["last_offset"])
        right, stored = take_rows(expected, match), entries["last_stable_offset"]
        leader = right["last_stable_offset"]
        # Transactions that start before the coverage may have been open at the marker, and be gone since.
        coverage_start = np.where(
            right["last_stable_offset_exact"],
            state.first_uncompacted_offset,
            max(state.first_uncompacted_offset, first_available_offset(state)),
        )
        is_comparable = (
            (match != NOTHING)
            & (entries["last_offset"] >= state.first_uncompacted_offset)
            & (leader >= state.local_log_start_offset)
        )
        is_wrong = is_comparable & np.logical_and.reduce([stored != right[name] for name in ACCEPTED])
        is_wrong &= np.logical_and.reduce([stored != take_rows(before, match)[name] for name in ACCEPTED])
        is_wrong &= (stored >= coverage_start) | (stored < 0)
        if is_wrong.any():
            hides_later = _earliest_start_after(entries, index.earliest_start_after(last)) < stored
            values = {who: right[name] for name, who in ACCEPTED.items()}
            yield RowPart(entries, {**values, "hides_later": hides_later}).taken(is_wrong)


def _earliest_start_after(entries: AbortedEntryArray, following: int) -> IntArray:
    """Return for each entry the smallest first offset of the entries that end after it.

    Args:
        entries: entries by last offset.
        following: the smallest first offset of the entries that end after all of these.
    """
    return np.minimum.accumulate(np.append(entries["first_offset"], following)[::-1])[::-1][1:]


def _stable_offset_mismatch(state: PartitionState, row: Row) -> Finding:
    writers: dict[int, str] = {}
    for who in ACCEPTED.values():
        writers.setdefault(row[who], who)
    # Releases that are maintained decide what is too large.
    *maintained, _ = ACCEPTED.values()
    is_too_large = row["last_stable_offset"] > max(row[who] for who in maintained)
    hides_later = is_too_large and row["hides_later"]
    # The transaction that is open at the expected offset may have ended in the segment that the copy lacks.
    lacking = state.log_gaps.between(min(*writers, row["last_stable_offset"]), row["last_offset"])
    is_excused = lacking.cause is not None or (is_too_large and lacking.merged)
    worst = Severity.CRITICAL if hides_later else Severity.WARNING if is_too_large else None
    expected = ", ".join(f"{who} {value}" for value, who in writers.items())
    finding = state.finding(
        CODES["txnindex-lso-mismatch"],
        f"{_entry(row)} has last stable offset {row['last_stable_offset']}; {expected}.",
        severity=Severity.INFO if is_excused else worst,
        evidence={"last_stable_offset": row["last_stable_offset"], "expected": [*writers]},
        exactness=Exactness.UNVERIFIABLE if is_excused else Exactness.EXACT,
        benign=(
            "written by a follower: no, it would have another value",
            lacking.benign,
            f"brokers skip later entries: {'yes' if hides_later else 'no'}",
        ),
        cause=lacking.cause,
    )
    return with_entry(state, row, finding)


def _entry(row: Row) -> str:
    offsets = format_offsets(row["first_offset"], row["last_offset"])
    return f"The transaction index entry of producer {row['producer_id']}, {offsets},"


CHECK = Check("transaction_indexes", CODES, findings)
