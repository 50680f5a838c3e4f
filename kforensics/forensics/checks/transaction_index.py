"""Whether the entries of the transaction indexes are such as a broker writes.

Rule: ``TransactionIndex`` and ``AbortedTxn``. Whether they are the right ones is the business of ``visibility``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from kforensics.forensics.beside.aborted_entries import (
    AbortedEntries,
    ByOffset,
    aborted_entries,
    first_on_disk,
    in_index,
    may_be_live,
    of_entry,
    paired,
)
from kforensics.forensics.case import Case
from kforensics.forensics.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.replay.record_arrays import picked, placed
from kforensics.forensics.replay.results import Records
from kforensics.forensics.replay.timeline import EXPECTED_ENTRY, expected_index
from kforensics.forensics.telling import Row, each
from kforensics.parsers.rows import Damage

__all__ = ["CODES", "findings"]

FORCE_RECOVER = (
    "copy the files, stop the broker, delete the .index of that segment, and start the broker: it reads the segment "
    "again and writes its indexes anew, if the snapshots before it are right"
)
CODES = codes(f"""
txnindex-corrupt error
A transaction index holds what no broker writes.
Rebuild the replica of {{topic}}-{{partition}} from a peer, or {FORCE_RECOVER}.

txnindex-lso-mismatch info
The last stable offset in an entry is neither the one a leader writes nor the one a follower may write.
Too small a value costs time. With too large a one brokers may pass over later entries; then {FORCE_RECOVER}.
""")

NOTHING = -1
NEVER = int(np.iinfo("i8").max)
DISORDERS = (
    ("disordered", "does not end behind the entry before it"),
    ("reversed", "ends before it begins"),
    ("outside", "ends outside its segment"),
)


def findings(case: Case) -> Iterator[Finding]:
    """Yield what no broker would have written into the transaction indexes of a partition."""
    index = aborted_entries(case)
    yield from _corrupt(case, index)
    yield from _stable_offsets(case, index)


def _corrupt(case: Case, index: AbortedEntries) -> Iterator[Finding]:
    for segment, why in index.unreadable.items():
        found = case.finding(
            CODES["txnindex-corrupt"], f"The transaction index cannot be read: {why}.", exactness=Exactness.UNVERIFIABLE
        )
        yield in_index(case, segment, None, found)
    for (segment, _), rows in groupby(index.damage, lambda row: (row[0], row[1].reason)):
        yield _damaged(case, segment, [damage for _, damage in rows])
    for name, what in DISORDERS:
        yield from each(index.entries[index.entries[name]], partial(_disordered, case, what))


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


def _stable_offsets(case: Case, index: AbortedEntries) -> Iterator[Finding]:
    entries = index.sound
    right, is_expected = _expected(case, entries)
    stored = entries["last_stable_offset"]
    hides = _earliest_behind(entries) < stored
    leader, follower = right["last_stable_offset"], right["follower_last_stable_offset"]
    # Transactions from there may have been open at the marker and be gone since.
    known_from = np.where(
        right["last_stable_offset_exact"], case.strict_from, max(case.strict_from, first_on_disk(case))
    )
    judged = is_expected & (entries["last_offset"] >= case.strict_from) & (leader >= case.log_start_offset)
    wrong = judged & (stored != leader) & (stored != follower) & ((stored >= known_from) | (stored < 0))
    yield from each(
        entries[wrong],
        partial(_other_stable_offset, case),
        leader=leader[wrong],
        follower=follower[wrong],
        hides=hides[wrong],
    )


def _expected(case: Case, entries: Records) -> tuple[Records, Records]:
    """Return for each entry the one that should be there, as EXPECTED_ENTRY records, and whether one should."""
    right, is_expected = np.zeros(len(entries), EXPECTED_ENTRY), np.zeros(len(entries), bool)
    some = ByOffset(entries, "last_offset")
    for expected in expected_index(case.ledger, case.exact_from) if len(entries) else ():
        near = some.between(int(expected["last_offset"][0]), int(expected["last_offset"][-1]))
        at = paired(expected, "last_offset", entries["producer_id"][near], entries["last_offset"][near])
        placed(right, near[at != NOTHING], picked(expected, at[at != NOTHING]))
        is_expected[near[at != NOTHING]] = True
    return right, is_expected


def _earliest_behind(entries: Records) -> Any:
    """Return for each entry the smallest first offset of those that end behind it."""
    order = np.argsort(entries["last_offset"], kind="stable")
    firsts = entries["first_offset"][order]
    smallest = np.minimum.accumulate(np.append(firsts, NEVER)[::-1])[::-1][1:]
    found = np.empty(len(entries), "i8")
    found[order] = smallest
    return found


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
