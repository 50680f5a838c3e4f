"""Whether consumers with read_committed receive what they should: they go by the transaction indexes, not by markers.

Rule: ``LogSegment.updateProducerState`` and ``ProducerStateManager.completeTxn`` write an entry for each ABORT marker
that ends a transaction, and ``Cleaner.cleanInto`` keeps it as long as it meets a batch of the transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.observations import Noticed, of_kind
from kforensics.forensics.core.record_types import Ending, Records
from kforensics.forensics.core.reporting import MOST, Part, Row, each_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import transactions_before
from kforensics.forensics.sidecar.aborted_entries import (
    AbortedEntries,
    aborted_entries,
    first_on_disk,
    in_index,
    may_be_live,
    of_entry,
    paired,
)
from kforensics.forensics.sidecar.index_visibility import IndexVisibility, Misjudged, index_visibility, misjudged

__all__ = ["CODES", "findings"]

FORCE_RECOVER = (
    "copy the files, stop the broker, delete the .index of the segment with the marker, and start the broker: it reads "
    "the segment again and writes its indexes anew, if the snapshots before it are right"
)
CODES = codes(f"""
txnindex-missing-entry critical
An aborted transaction has data on disk and no entry in a transaction index: consumers with read_committed receive it.
Move the leadership to a replica whose index is right; then {FORCE_RECOVER}. Deleting the .txnindex alone does not help.
why: Consumers hide what the index names, not what markers say. Without the entry they receive the records of a \
transaction that was aborted. It is what a cleaner with KAFKA-13727 leaves, or a file that was lost or rebuilt from \
the wrong state.
innocent: The marker was written after the index had been copied. The cleaner has emptied the transaction, and no \
record is left to hide.

txnindex-extra-entry error
A transaction index names an aborted transaction that the log does not have: what it covers is hidden from consumers.
Move the leadership to a replica whose index is right; then {FORCE_RECOVER}.
why: Consumers hide all that the producer wrote from the first offset of the entry up to its next ABORT. If that was \
committed, they miss it.
innocent: Marker and data were cleaned away, and the entry goes with the next pass. Up to 2.7 brokers wrote an entry \
for an ABORT that ended nothing. The head of the log was deleted.

visibility-mismatch critical
Consumers with read_committed receive records of aborted transactions, or do not receive records of committed ones.
As for the findings about the transaction index. Find out who has read {{topic}}-{{partition}} meanwhile.
why: It is what the wrong entries of the transaction index come to: the algorithm of a consumer was run over the \
index, and the result held against the markers, record by record.
innocent: None of its own: it follows from the findings about the index.
""")

# A copy of a log directory is thought to take no longer than this.
COPY_MS = 3_600_000
NOTHING = -1
NEVER = int(np.iinfo("i8").max)


def findings(case: Case) -> Iterator[Finding]:
    """Yield where consumers go wrong with the transaction indexes of a partition."""
    index = aborted_entries(case)
    if not len(index.begun) and not case.ledger.aborted:  # then consumers are to receive all, and do
        return
    seen = index_visibility(case, index)
    found = [*_missing(case, index), *_extra(case, index, seen)]
    yield from found
    if not index.unknown:
        yield from _visibility(case, seen, found)


def _missing(case: Case, index: AbortedEntries) -> Iterator[Finding]:
    damaged = {segment for segment, _ in index.damage}
    yield from each_of(_without_entry(case, index), partial(_lacking, case, damaged))


def _without_entry(case: Case, index: AbortedEntries) -> Iterator[Part]:
    for closed in case.ledger.closed:
        # What lies below the log start offset nobody can fetch, and a broker that loads the log may not know it.
        of_use = (closed["ending"] == Ending.ABORTED) & (closed["last_offset"] >= case.log_start_offset)
        aborted = closed[of_use & (closed["batches"] > 0)]
        aborted = aborted[~np.isin(_segments(case, aborted["marker_offset"]), [*index.unknown])]
        near = index.sound.at(int(closed["marker_offset"][0]), int(closed["marker_offset"][-1]))
        at = paired(near, "last_offset", aborted["producer_id"], aborted["marker_offset"])
        begins = np.append(near["first_offset"], NEVER)[at]
        reaches = begins <= np.maximum(aborted["first_offset"], case.log_start_offset)
        late = ~reaches & (at != NOTHING) & (aborted["first_offset"] < case.log_start_offset)
        lacks = aborted["marker_offset"]
        more = {"index": _segments(case, lacks), "begins": begins, "newer": lacks > index.last_of_newest}
        yield Part(aborted, more).taken(~(reaches | late))


def _segments(case: Case, offsets: Any) -> Any:
    """Return the numbers of the segments that offsets belong to."""
    bases = [segment.base_offset or 0 for segment in case.partition.segments]
    return np.maximum(np.searchsorted(bases, offsets, "right") - 1, 0)


def _lacking(case: Case, damaged: set[int], row: Row) -> Finding:
    young = case.rules.as_of_ms - row["marker_timestamp"] <= COPY_MS
    behind = row["begins"] == NEVER and row["newer"] and young and may_be_live(case, row["index"])
    covered = "none" if row["begins"] == NEVER else f"one that begins only at offset {row['begins']}"
    severity = None if row["records"] else Severity.INFO
    found = case.finding(
        CODES["txnindex-missing-entry"],
        f"Producer {row['producer_id']} aborted its transaction with offsets {row['first_offset']} to "
        f"{row['last_offset']} at offset {row['marker_offset']}; of it {row['records']} records are on disk. "
        f"The transaction index has {covered} for it.",
        severity=Severity.WARNING if behind else severity,
        offsets=(row["first_offset"], row["marker_offset"]),
        producer=(row["producer_id"], row["marker_epoch"]),
        at=(row["marker_segment"], row["marker_position"]),
        evidence={"batches": row["batches"], "records": row["records"], "marker_offset": row["marker_offset"]},
        exactness=Exactness.UNVERIFIABLE if behind else Exactness.EXACT,
        benign=(
            f"marker written after the index was copied: {'possible' if behind else 'no'}",
            f"no record left to hide: {'no' if row['records'] else 'yes, the cleaner emptied its batches'}",
        ),
        cause="txnindex-corrupt" if row["index"] in damaged else None,
    )
    return in_index(case, row["index"], None, found)


def _extra(case: Case, index: AbortedEntries, seen: IndexVisibility) -> Iterator[Finding]:
    parts = (_without_abort(case, entries, seen) for entries in index.sound)
    yield from each_of(parts, partial(_surplus, case))


def _without_abort(case: Case, entries: Records, seen: IndexVisibility) -> Part:
    """Return those of the entries that no ABORT in the log stands for."""
    first, ended = _transactions(case, entries)
    empty = case.empty_markers
    near = empty["marker_offset"].searchsorted([entries["last_offset"][0], entries["last_offset"][-1] + 1])
    empty = empty[near[0] : near[1]]
    marker = paired(empty, "marker_offset", entries["producer_id"], entries["last_offset"])
    ending = np.where(ended != NOTHING, ended, np.append(empty["ending"], NOTHING)[marker])
    known_from = max(case.strict_from, first_on_disk(case))
    elsewhere = (entries["first_offset"] < first) & (entries["first_offset"] >= known_from)
    # Up to 2.7 an abort of nothing had an entry too (KAFKA-10702).
    elsewhere &= (ended != NOTHING) | (entries["first_offset"] != entries["last_offset"])
    gone = (ending == NOTHING) & (entries["last_offset"] < first_on_disk(case))
    unexplained = np.flatnonzero((ending == NOTHING) & ~gone)
    gone[unexplained] = _cleaned_away(case, entries[unexplained])
    extra = ((ending != Ending.ABORTED) & ~gone) | ((ending == Ending.ABORTED) & elsewhere)
    malformed = of_kind(case.log.notes, Noticed.MARKER_MALFORMED)["producer_id"]
    more = {
        "ending": ending,
        "begins": first,
        "hides": np.isin(entries["producer_id"], seen.hidden),
        "unread": (ending == NOTHING) & (bool(case.log.damage) | np.isin(entries["producer_id"], malformed)),
    }
    return Part(entries, more).taken(extra)


def _transactions(case: Case, entries: Records) -> tuple[Records, Records]:
    """Return the first offset and the ending of the transaction that each entry speaks of, else NEVER and NOTHING."""
    first, ending = np.full(len(entries), NEVER), np.full(len(entries), NOTHING, "i1")
    offsets = entries["last_offset"]
    for closed in case.ledger.closed.between(int(offsets[0]), int(offsets[-1])):
        near = np.arange(*offsets.searchsorted([closed["marker_offset"][0], closed["marker_offset"][-1] + 1]))
        at = paired(closed, "marker_offset", entries["producer_id"][near], offsets[near])
        near, at = near[at != NOTHING], at[at != NOTHING]
        first[near], ending[near] = closed["first_offset"][at], closed["ending"][at]
    return first, ending


def _cleaned_away(case: Case, entries: Records) -> Any:
    """Return whether the marker of an entry may have been cleaned away together with all data before it."""
    # The data of a producer that ends last before the marker: does it reach into what the entry covers?
    before = transactions_before(case, entries["producer_id"], entries["last_offset"])
    reaches = before["last_offset"] >= entries["first_offset"]
    return (entries["last_offset"] < case.strict_from) & ~reaches


def _surplus(case: Case, row: Row) -> Finding:
    severity = Severity.CRITICAL if row["hides"] else Severity.WARNING if row["unread"] else None
    found = case.finding(
        CODES["txnindex-extra-entry"],
        f"The transaction index says that producer {row['producer_id']} aborted a transaction with offsets "
        f"{row['first_offset']} to {row['last_offset']}; {_contradiction(row)}.",
        severity=severity,
        evidence={"last_stable_offset": row["last_stable_offset"]},
        exactness=Exactness.APPROXIMATE if case.log.damage or row["unread"] else Exactness.EXACT,
        benign=(
            "marker and data cleaned away: no",
            "abort without a transaction, written up to 2.7: no",
            "data deleted with the head of the log: no",
            f"marker in bytes of the log that cannot be read: {'possible' if row['unread'] else 'no'}",
        ),
    )
    return of_entry(case, row, found)


def _contradiction(row: Row) -> str:
    if row["ending"] == Ending.COMMITTED:
        return f"but the marker at offset {row['last_offset']} is a COMMIT"
    if row["ending"] == NOTHING:
        return f"but no marker of that producer is at offset {row['last_offset']}"
    if row["begins"] == NEVER:
        return "but the marker there ended no transaction"
    return f"but the transaction that ended there began at offset {row['begins']}"


def _visibility(case: Case, seen: IndexVisibility, others: list[Finding]) -> Iterator[Finding]:
    """Yield what comes of the other findings: once, with all offsets."""
    causes = [one for one in others if one.code.name in {"txnindex-missing-entry", "txnindex-extra-entry"}]
    firsts = [one.first_offset for one in causes if one.first_offset is not None]
    firsts += [] if seen.first_offset is None else [seen.first_offset]
    if not firsts:
        return
    found = misjudged(case, seen, min(firsts), MOST)
    if found.ranges:
        yield _misjudged(case, found, causes)


def _misjudged(case: Case, found: Misjudged, causes: list[Finding]) -> Finding:
    return case.finding(
        CODES["visibility-mismatch"],
        f"Consumers with read_committed receive {found.records_shown} records of aborted transactions, and do not "
        f"receive {found.records_hidden} records of committed ones: {found.batches} batches between offsets "
        f"{found.ranges[0].first_offset} and {found.ranges[-1].last_offset}.",
        severity=max((one.severity for one in causes), default=None),
        offsets=(found.ranges[0].first_offset, found.ranges[-1].last_offset),
        evidence={
            "batches": found.batches,
            "records_shown": found.records_shown,
            "records_hidden": found.records_hidden,
            "ranges": [
                {
                    "first_offset": one.first_offset,
                    "last_offset": one.last_offset,
                    "producer_id": one.producer_id,
                    "shown": one.is_shown,
                }
                for one in found.ranges
            ],
        },
        exactness=next((one.exactness for one in causes if one.exactness is not Exactness.EXACT), Exactness.EXACT),
        benign=("consumers that began behind a wrong entry: not given it, they receive what it hides",),
        cause=next((one.code.name for one in causes), None),
    )
