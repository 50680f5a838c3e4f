"""What the lab provoked on real brokers is found with the right code, immediately and a day later."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache

import pytest

from kforensics.forensics.audit.partition_result import with_records
from kforensics.forensics.checks.check import collectors_of, findings_of
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from tests.forensics.partition_states import SAMPLES, partitions_under

DAY = 86_400_000
STUCK = {"txn-late", "lso-stuck"}
FORGOT = {"snapshot-open-txn-mismatch", "snapshot-missing-producer"}
# Warnings and worse, evaluated at once.
AT_ONCE = {
    # Retention or DeleteRecords removed the data, and the log or a snapshot still has the open transaction.
    "ghosts/broker-1/running-open-0": {"txn-head-deleted"},
    "ghosts/broker-1/running-open-in-part-0": {"txn-head-deleted"},
    "ghosts/broker-1/restarted-open-0": {"txn-head-deleted"},
    "ghosts-3.9/broker-1/running-open-0": {"txn-head-deleted"},
    # Without idempotence a lost response causes a retry that is written twice; with it, nothing is.
    "duplicates/broker-1/retried-0": {"content-duplicate-retry"},
    "duplicates/broker-1/retried-append-time-0": {"content-duplicate-retry"},
    "duplicates/broker-1/retried-idempotent-0": set(),
    # A broker that had expired a producer accepted its retry, and its next batch after a gap.
    "duplicates/broker-1/expired-0": {"seq-duplicate-batch", "seq-gap"},
    # Fencing works while the broker has its state; after a loss of state a zombie of an old epoch is accepted.
    "transactions-v0/broker-1/fenced-0": set(),
    "transactions-v2/broker-1/fenced-0": set(),
    "state-lost-after-stop/broker-1/zombie-0": {
        *("epoch-regressed", "txn-write-after-marker", "snapshot-missing-producer"),
    },
    # Killed and without snapshots, a broker rebuilds its open transactions; after a clean shutdown it does not.
    "state-lost-after-crash/broker-1/open-0": set(),
    "state-lost-after-stop/broker-1/open-0": FORGOT,
    # A kill leaves a torn last batch.
    "crash-before-recovery/broker-1/torn-0": {"batch-truncated"},
}
# In addition, for transactions that were never ended.
A_DAY_LATER = {
    # A late write after the marker, with verification disabled: only the coordinator's log shows that it hangs.
    "transactions-v0/broker-1/hanging-0": STUCK,
    "transactions-v1/broker-1/hanging-0": STUCK,
    "transactions-v2/broker-1/hanging-0": STUCK,
    "transactions-v0/broker-1/hanging-resolved-0": set(),
    "ghosts/broker-1/running-open-0": {"txn-head-deleted", *STUCK},
    "state-lost-after-crash/broker-1/open-0": STUCK,
}


@cache
def _state(name: str) -> PartitionState:
    (partition,) = partitions_under(SAMPLES / name)
    taken = json.loads((SAMPLES / name.split("/", maxsplit=1)[0] / "truth.json").read_text("utf-8"))["taken"]
    as_of_ms = int(datetime.fromisoformat(taken).timestamp() * 1000) + 60_000
    return with_records(
        examine(partition, Rules(as_of_ms), collectors_of(PARTITION_CHECKS), watches_indexes=True), workers=0
    )


def _codes(state: PartitionState) -> set[str]:
    findings = findings_of(state, PARTITION_CHECKS)
    return {finding.code.name for finding in findings if finding.severity >= Severity.WARNING}


@pytest.mark.parametrize("name", AT_ONCE)
def test_found_at_once(name: str) -> None:
    assert _codes(_state(name)) == AT_ONCE[name]


@pytest.mark.parametrize("name", A_DAY_LATER)
def test_found_a_day_later(name: str) -> None:
    (partition,) = partitions_under(SAMPLES / name)
    state = examine(
        partition, Rules(_state(name).rules.as_of_ms + DAY), collectors_of(PARTITION_CHECKS), watches_indexes=True
    )
    assert _codes(state) == A_DAY_LATER[name]
