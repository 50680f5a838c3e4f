"""Checks whether records of a partition were also written to another partition of their topic, by their contents.

Rule: a producer sends a retry to the partition it has chosen, and idempotence is per partition. No broker can detect
that a record was written to another partition before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.forensics.duplicates.content_pairs import DuplicateRunArray
from kforensics.forensics.duplicates.cross_partition_pairs import MAX_OCCURRENCES, partition_numbers
from kforensics.forensics.duplicates.duplicate_rows import DuplicateReason, DuplicateView
from kforensics.forensics.duplicates.topic_search import CrossPartitionState

CODES = by_name(
    Code(
        "content-duplicate-cross-partition",
        Severity.INFO,
        meaning=(
            "A partition has records that were also written to another partition of the topic, and both copies are "
            "committed."
        ),
        remedy=(
            "If an application resent them, let it choose the partition explicitly or give it a transactional "
            "id, or deduplicate in the consumers."
        ),
        why=(
            "An application that resends records after a timeout or a restart may send them to another "
            "partition: records without a key go to any partition, and keys to another one if partitions were "
            "added. Idempotence does not work across partitions."
        ),
        benign="Events sent to every partition on purpose, records repeated on purpose, or equal events.",
    ),
)
(CODE,) = CODES.values()
# Partitions to name in a finding.
NAMED = 10


def findings(state: CrossPartitionState) -> Iterator[Finding]:
    """Yield one finding for the partition, about the part of its log that was never compacted.

    A single equal record is not enough: it takes a run of different records, or the same producer timestamp.
    """
    rows = state.runs
    is_reported = rows["is_varied"] | (rows["why"] == DuplicateReason.RETRY_SAME_TIME)
    is_reported &= (rows["view"] == DuplicateView.COMMITTED) & (rows["second_offset"] >= state.first_uncompacted_offset)
    if is_reported.any():
        yield _finding(state, rows[is_reported])


def _finding(state: CrossPartitionState, rows: DuplicateRunArray) -> Finding:
    rows = rows[np.argsort(rows["second_offset"], kind="stable")]
    first, numbers = rows[0], partition_numbers(rows["first"])
    records = {number: int(rows["records"][numbers == number].sum()) for number in np.unique(numbers).tolist()}
    total = sum(records.values())
    return Finding(
        code=CODE,
        message=f"{_records_were(total)} previously written to {_partitions(records)} of the topic, in "
        f"{format_count(len(rows), 'run')}: the first at offset {first['second_offset']} "
        f"({format_time(first['second_timestamp'])}), previously in partition {numbers[0]} at offset "
        f"{first['first_offset']} ({format_time(first['first_timestamp'])}).",
        severity=CODE.severity,
        first_offset=int(first["second_offset"]),
        last_offset=int(rows["second_last_offset"].max()),
        path=state.path_of(state.number, int(first["second_segment"])),
        position=int(first["second_position"]),
        evidence={
            "records": total,
            "runs": len(rows),
            "partitions": {str(number): records[number] for number in _largest(records)},
            "first_partition": int(numbers[0]),
            "first_first_offset": int(first["first_offset"]),
        },
        benign=(
            "event sent to every partition on purpose: possible",
            f"heartbeats, or few values: ruled out, not counted above {MAX_OCCURRENCES} occurrences in a partition",
            "older copy in an aborted transaction: ruled out, a read_committed consumer gets both",
        ),
    )


def _largest(records: dict[int, int]) -> list[int]:
    """Return the partitions with the most records, by number."""
    return sorted(sorted(records, key=lambda number: (-records[number], number))[:NAMED])


def _partitions(records: dict[int, int]) -> str:
    if len(records) == 1:
        return f"partition {next(iter(records))}"
    if len(records) > NAMED:
        return f"{len(records)} other partitions"
    *numbers, last = sorted(records)
    return f"partitions {', '.join(map(str, numbers))} and {last}"


def _records_were(records: int) -> str:
    return "1 record was" if records == 1 else f"{records} records were"


CHECK = Check("duplicates_across_partitions", CODES, findings)
