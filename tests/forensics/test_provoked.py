"""What the lab provoked on real brokers is found, with the right code; judged while it was new, and a day later."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache

import pytest

from kforensics.forensics.audit.partition_result import findings_of, noters_of, with_records
from kforensics.forensics.checks.partition_checks import FAMILIES
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import Case
from tests.forensics.cases import SAMPLES, partitions_under

DAY = 86_400_000
STUCK = {"txn-late", "lso-stuck"}
FORGOT = {"snapshot-open-txn-mismatch", "snapshot-missing-producer"}
# Warnings and worse at once.
AT_ONCE = {
    # Retention or DeleteRecords took the data, and the log or a snapshot remembers the open transaction.
    "ghosts/broker-1/running-open-0": {"txn-head-deleted"},
    "ghosts/broker-1/running-open-in-part-0": {"txn-head-deleted"},
    "ghosts/broker-1/restarted-open-0": {"txn-head-deleted"},
    "ghosts-3.9/broker-1/running-open-0": {"txn-head-deleted"},
    # Without idempotence a lost answer makes a retry that is written twice; with it none is.
    "duplicates/broker-1/retried-0": {"content-duplicate-retry"},
    "duplicates/broker-1/retried-append-time-0": {"content-duplicate-retry"},
    "duplicates/broker-1/retried-idempotent-0": set(),
    # A broker that had forgotten a producer took its retry, and its next batch after a gap.
    "duplicates/broker-1/expired-0": {"seq-duplicate-batch", "seq-gap"},
    # Fencing works while the broker remembers; a zombie of an old epoch is refused or, after a loss of state, taken.
    "transactions-v0/broker-1/fenced-0": set(),
    "transactions-v2/broker-1/fenced-0": set(),
    "state-lost-after-stop/broker-1/zombie-0": {
        *("epoch-regressed", "txn-write-after-marker", "snapshot-missing-producer"),
    },
    # Killed and without snapshots a broker rebuilds what it knew of open transactions; stopped in order it does not.
    "state-lost-after-crash/broker-1/open-0": set(),
    "state-lost-after-stop/broker-1/open-0": FORGOT,
    # A torn last batch is what a kill leaves.
    "crash-before-recovery/broker-1/torn-0": {"batch-truncated"},
}
# Beside that, of transactions that nobody has ended.
A_DAY_LATER = {
    # A late write behind the marker, with verification switched off.
    "transactions-v0/broker-1/hanging-0": {"txn-hanging", *STUCK},
    "transactions-v1/broker-1/hanging-0": {"txn-hanging", *STUCK},
    # The marker raised the epoch, and the late write has the new one: the log alone cannot tell it from the next.
    "transactions-v2/broker-1/hanging-0": STUCK,
    "transactions-v0/broker-1/hanging-resolved-0": set(),
    "ghosts/broker-1/running-open-0": {"txn-head-deleted", *STUCK},
    "state-lost-after-crash/broker-1/open-0": STUCK,
}


@cache
def _case(name: str) -> Case:
    (partition,) = partitions_under(SAMPLES / name)
    taken = json.loads((SAMPLES / name.split("/", maxsplit=1)[0] / "truth.json").read_text("utf-8"))["taken"]
    as_of_ms = int(datetime.fromisoformat(taken).timestamp() * 1000) + 60_000
    return with_records(examine(partition, Rules(as_of_ms), noters_of(FAMILIES), watches_indexes=True), workers=0)


def _codes(case: Case) -> set[str]:
    return {found.code.name for found in findings_of(case, FAMILIES) if found.severity >= Severity.WARNING}


@pytest.mark.parametrize("name", AT_ONCE)
def test_found_at_once(name: str) -> None:
    assert _codes(_case(name)) == AT_ONCE[name]


@pytest.mark.parametrize("name", A_DAY_LATER)
def test_found_a_day_later(name: str) -> None:
    (partition,) = partitions_under(SAMPLES / name)
    case = examine(partition, Rules(_case(name).rules.as_of_ms + DAY), noters_of(FAMILIES), watches_indexes=True)
    assert _codes(case) == A_DAY_LATER[name]
