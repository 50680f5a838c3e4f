"""Whether replicas that were cleaned at different times still say the same.

Every broker cleans when it likes, so that what one of them still has may be gone at another one. But no cleaner changes
a record, and none leaves a key with another newest record than it had, but for tombstones that are old enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.core.aggregation import first_findings
from kforensics.forensics.core.findings import Exactness, Finding, codes
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Kind
from kforensics.forensics.replicas.key_differences import KeyDifference, Lost
from kforensics.forensics.replicas.offset_contents import RecordDifference

__all__ = ["CODES", "findings"]

CODES = codes("""
replica-record-divergence critical
Where a cleaner has been, replicas have different records at the same offset.
Keep copies of all replicas of {topic}-{partition}, decide by the leader epochs which is right, and build the others.
why: A cleaner removes records and changes none. So one of the replicas was written to differently.
innocent: None: a record that is missing on one side only is not counted.

replica-key-divergence error
After cleaning, a key has another newest record on one replica than on another one.
Build the replica of {topic}-{partition} again that has lost the record, or write the right value of the key once more.
why: Cleaners go at different times but keep the newest record of each key. A key whose newest one is missing on one \
replica has lost its value there, or has been given an old one back.
innocent: A tombstone that both have dropped, where the record it was for was kept by one of them.
""")

RECORD, KEY = CODES.values()
SHOWN_BYTES = 64


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield offsets and keys at which replicas do not say the same."""
    unlike = comparison.unlike_records
    yield from first_findings((_of_record(comparison, found) for found in unlike.found), unlike.count)
    keys = comparison.unlike_keys
    yield from first_findings((_of_key(comparison, found) for found in keys), len(keys))


def _of_record(comparison: Comparison, found: RecordDifference) -> Finding:
    one, other = comparison.replicas[found.first], comparison.replicas[found.second]
    return comparison.finding(
        one,
        RECORD,
        f"{one.name} and {other.name} have different records at offset {found.offset}.",
        at=found.at,
        offsets=(found.offset, found.offset),
        evidence={
            "other": other.partition.folder,
            "other_path": other.case.path(found.other_at[0]),
            "other_position": found.other_at[1],
        },
        benign=("cleaned at different times: no, both have a record there",),
    )


def _of_key(comparison: Comparison, found: KeyDifference) -> Finding:
    lacking, having = found.lacking.name, found.having.name
    key = _shown(found.key)
    left = "no record" if found.older_offset is None else f"the one at offset {found.older_offset}"
    told = {
        Lost.VALUE: f"{lacking} has lost the record at offset {found.offset} and reads {left}, which is older",
        Lost.TOMBSTONE: f"{lacking} has lost the tombstone at offset {found.offset} and reads {left} again",
        Lost.KEY: f"{having} has its newest record at offset {found.offset}, {lacking} has none and nothing newer",
    }[found.lost]
    return comparison.finding(
        found.lacking,
        KEY,
        f"Key {key}: {told}.",
        offsets=(found.offset if found.older_offset is None else found.older_offset, found.offset),
        evidence={
            "other": found.having.partition.folder,
            "key": found.key.hex(),
            "lost": str(found.lost),
            "offset": found.offset,
            "older_offset": found.older_offset,
        },
        cause="replica-divergence" if _is_told(comparison, found) else None,
        exactness=Exactness.APPROXIMATE if found.lost is Lost.KEY else Exactness.EXACT,
        benign=_benign(found),
    )


def _is_told(comparison: Comparison, found: KeyDifference) -> bool:
    """Return whether the batch of the newer record is missing or damaged, which is a finding of its own."""
    first, second = sorted((found.lacking, found.having), key=lambda one: one.number)
    ranges = comparison.of_pair(first, second, Kind.MISSING, Kind.DAMAGED)
    return any(one.first_offset <= found.offset <= one.last_offset for one in ranges)


def _benign(found: KeyDifference) -> tuple[str, ...]:
    newer = f"a newer record of the key at {found.lacking.name}: no, none is committed up to its end"
    if found.lost is Lost.KEY:
        return newer, f"a tombstone that both have dropped, with the record kept by {found.having.name}: not ruled out"
    return newer, "a tombstone that was old enough to go: no, an older record of the key would have gone before it"


def _shown(key: bytes) -> str:
    """Return a key for a sentence: as text if it is some, else in hex, and not all of a long one."""
    text = key.decode(errors="backslashreplace") if key.isascii() else key.hex()
    return repr(text if len(text) <= SHOWN_BYTES else f"{text[:SHOWN_BYTES]}…")
