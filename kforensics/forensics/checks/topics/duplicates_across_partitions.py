"""Whether records of a partition stand in another partition of their topic, too, as far as their contents tell.

Rule: a producer sends a retry to the partition that it has chosen, and idempotence is per partition: no broker can tell
that a record of one partition was written to another one before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kforensics.forensics.core.findings import Finding, codes
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import moment
from kforensics.forensics.duplicates.cross_partition import AcrossCase
from kforensics.forensics.duplicates.duplicate_rows import View, Why
from kforensics.forensics.duplicates.topic_pairs import OFTEN, numbers_of

__all__ = ["CODES", "findings"]

CODES = codes("""
content-duplicate-cross-partition info
Records of a partition stand in another partition of their topic, too, and both are committed.
If an application sent them again, let it name the partition or give it a transactional id, or let consumers drop what \
they have.
why: An application that sends again what it got no answer for, or what it had sent before it was started again, may \
come to another partition: records without key go wherever there is room, and keys elsewhere once a topic has grown. \
No idempotence reaches across partitions.
innocent: Events that are meant for every partition. Repeated on purpose, or events that are the same.
""")
(CODE,) = CODES.values()
# Partitions that a finding names.
NAMED = 10


def findings(case: AcrossCase) -> Iterator[Finding]:
    """Yield one finding for the partition: where no cleaner was, and where more speaks for it than one equal record.

    That is a row of different records, or the producer's own timestamp.
    """
    rows = case.runs
    told = rows["is_varied"] | (rows["why"] == Why.RETRY_SAME_TIME)
    told &= (rows["view"] == View.COMMITTED) & (rows["second_offset"] >= case.strict_from)
    if told.any():
        yield _of(case, rows[told])


def _of(case: AcrossCase, rows: Records) -> Finding:
    rows = rows[np.argsort(rows["second_offset"], kind="stable")]
    first, numbers = rows[0], numbers_of(rows["first"])
    records = {number: int(rows["records"][numbers == number].sum()) for number in np.unique(numbers).tolist()}
    total = sum(records.values())
    return Finding(
        code=CODE,
        message=f"{_many(total)} written to {_named(records)} of the topic before, in {_rows(len(rows))}: the first"
        f" at offset {first['second_offset']} ({moment(first['second_timestamp'])}), and before that in partition"
        f" {numbers[0]} at offset {first['first_offset']} ({moment(first['first_timestamp'])}).",
        severity=CODE.severity,
        first_offset=int(first["second_offset"]),
        last_offset=int(rows["second_last_offset"].max()),
        path=case.path_of(case.number, int(first["second_segment"])),
        position=int(first["second_position"]),
        evidence={
            "records": total,
            "runs": len(rows),
            "partitions": {str(number): records[number] for number in _largest(records)},
            "first_partition": int(numbers[0]),
            "first_first_offset": int(first["first_offset"]),
        },
        benign=(
            "an event that is meant for every partition: possible",
            f"heartbeats, or few values: ruled out, what a partition has more than {OFTEN} times does not count",
            "the older copy of an aborted transaction: ruled out, a read_committed consumer gets both",
        ),
    )


def _largest(records: dict[int, int]) -> list[int]:
    """Return the partitions that have the most, by number."""
    return sorted(sorted(records, key=lambda number: (-records[number], number))[:NAMED])


def _named(records: dict[int, int]) -> str:
    if len(records) == 1:
        return f"partition {next(iter(records))}"
    if len(records) > NAMED:
        return f"{len(records)} other partitions"
    *some, last = sorted(records)
    return f"partitions {', '.join(map(str, some))} and {last}"


def _many(records: int) -> str:
    return "1 record was" if records == 1 else f"{records} records were"


def _rows(runs: int) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"
