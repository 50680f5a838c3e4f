"""Whether the entries of the transaction indexes are such as a broker writes.

Rule: ``TransactionIndex`` and ``AbortedTxn``. Whether they are the right ones is the business of ``visibility``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.record_arrays import picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import Part, Row, each_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.timeline import expected_index
from kforensics.forensics.sidecar.aborted_entries import (
    AbortedEntries,
    aborted_entries,
    first_on_disk,
    in_index,
    may_be_live,
    of_entry,
    paired,
)
from kforensics.parsers.format.rows import Damage

__all__ = ["CODES", "findings"]

FORCE_RECOVER = (
    "copy the files, stop the broker, delete the .index of that segment, and start the broker: it reads the segment "
    "again and writes its indexes anew, if the snapshots before it are right"
)
CODES = codes(f"""
txnindex-corrupt error
A transaction index holds what no broker writes.
Rebuild the replica of {{topic}}-{{partition}} from a peer, or {FORCE_RECOVER}.
why: Which aborted transactions to hide is sent to consumers from this file. If it cannot be read, a fetch with \
read_committed fails or hides the wrong records.
innocent: A copy of a running broker, if it is the end that is torn.

txnindex-lso-mismatch info
The last stable offset in an entry is neither the one a leader writes nor the one a follower may write.
Too small a value costs time. With too large a one brokers may pass over later entries; then {FORCE_RECOVER}.
why: A broker stops looking for aborted transactions at the first entry whose last stable offset is beyond what was \
asked for. Too large a value therefore hides later entries, too small a one costs time.
innocent: A follower computes it when it takes in a batch, a leader when it writes the marker: both values are \
accepted. What is unknown of the head of the log makes it uncertain.
""")

NOTHING = -1
DISORDERS = (
    ("disordered", "does not end behind the entry before it"),
    ("reversed", "ends before it begins"),
    ("outside", "ends outside its segment"),
)


def findings(case: Case) -> Iterator[Finding]:
    """Yield what no broker would have written into the transaction indexes of a partition."""
    index = aborted_entries(case)
    yield from _corrupt(case, index)
    yield from each_of(_stable_offsets(case, index), partial(_other_stable_offset, case))


def _corrupt(case: Case, index: AbortedEntries) -> Iterator[Finding]:
    for segment, why in index.unreadable.items():
        found = case.finding(
            CODES["txnindex-corrupt"], f"The transaction index cannot be read: {why}.", exactness=Exactness.UNVERIFIABLE
        )
        yield in_index(case, segment, None, found)
    for (segment, _), rows in groupby(index.damage, lambda row: (row[0], row[1].reason)):
        yield _damaged(case, segment, [damage for _, damage in rows])
    for name, what in DISORDERS:
        parts = (Part(entries[entries[name]]) for entries in index.odd)
        yield from each_of(parts, partial(_disordered, case, what))


def _damaged(case: Case, segment: int, damage: list[Damage]) -> Finding:
    first, size = damage[0], sum(one.end - one.start for one in damage)
    torn = first.reason == "ragged" and may_be_live(case, segment)
    others = f", and so in {len(damage) - 1} more ranges" if len(damage) > 1 else ""
    found = case.finding(
        CODES["txnindex-corrupt"],
        f"Bytes {first.start} to {first.end} of the transaction index hold no entry: {first.detail}{others}.",
        severity=Severity.WARNING if torn else None,
        evidence={"reason": first.reason, "ranges": len(damage), "bytes": size},
        benign=(f"copied while the broker wrote to it: {'possible' if torn else 'no'}",),
    )
    return in_index(case, segment, first.start, found)


def _disordered(case: Case, what: str, row: Row) -> Finding:
    ahead = row["outside"] and row["last_offset"] >= case.log_end_offset and may_be_live(case, row["segment"])
    found = case.finding(
        CODES["txnindex-corrupt"],
        f"The entry {_told(row)} {what}.",
        severity=Severity.WARNING if ahead else None,
        benign=(f"the log was copied before its index: {'possible' if ahead else 'no'}",),
    )
    return of_entry(case, row, found)


def _stable_offsets(case: Case, index: AbortedEntries) -> Iterator[Part]:
    for expected in expected_index(case.ledger, case.exact_from):
        last = int(expected["last_offset"][-1])
        entries = index.sound.at(int(expected["last_offset"][0]), last)
        at = paired(expected, "last_offset", entries["producer_id"], entries["last_offset"])
        right, stored = picked(expected, at), entries["last_stable_offset"]
        leader, follower = right["last_stable_offset"], right["follower_last_stable_offset"]
        # Transactions from there may have been open at the marker and be gone since.
        known_from = np.where(
            right["last_stable_offset_exact"], case.strict_from, max(case.strict_from, first_on_disk(case))
        )
        judged = (at != NOTHING) & (entries["last_offset"] >= case.strict_from) & (leader >= case.log_start_offset)
        wrong = judged & (stored != leader) & (stored != follower) & ((stored >= known_from) | (stored < 0))
        if wrong.any():
            hides = _earliest_behind(entries, index.earliest_behind(last)) < stored
            yield Part(entries, {"leader": leader, "follower": follower, "hides": hides}).taken(wrong)


def _earliest_behind(entries: Records, behind: int) -> Any:
    """Return for each entry the smallest first offset of those that end behind it.

    Args:
        entries: by last offset.
        behind: the smallest first offset of those that end behind all of these.
    """
    return np.minimum.accumulate(np.append(entries["first_offset"], behind)[::-1])[::-1][1:]


def _other_stable_offset(case: Case, row: Row) -> Finding:
    largest = max(row["leader"], row["follower"])
    too_large = row["last_stable_offset"] > largest
    hides = too_large and row["hides"]
    or_follower = f", a follower {row['follower']} too" if row["follower"] != row["leader"] else ""
    found = case.finding(
        CODES["txnindex-lso-mismatch"],
        f"The entry {_told(row)} has the last stable offset {row['last_stable_offset']}; a leader writes "
        f"{row['leader']}{or_follower}.",
        severity=Severity.CRITICAL if hides else Severity.WARNING if too_large else None,
        evidence={"last_stable_offset": row["last_stable_offset"], "expected": [row["leader"], row["follower"]]},
        benign=(
            "written by a follower: no, it would have another value",
            f"later entries passed over by brokers: {'yes' if hides else 'no'}",
        ),
    )
    return of_entry(case, row, found)


def _told(row: Row) -> str:
    return f"for producer {row['producer_id']} with offsets {row['first_offset']} to {row['last_offset']}"
