"""What a snapshot shows as open before the first batch, and a cleaner shows to have ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.check import collectors_of, findings_of
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import stable_offset
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, forge
from tests.forensics.partition_states import partitions_under

# Retention deleted the data of a transaction, the cleaner its marker: brokers of 4.0.0 and 4.4.0 left such logs. The
# snapshot at the start of the log still has the transaction as open.
HEAD = "gone D 1 53 0-0 @94-94 T; gone M 1 54 C 3 @101; plain @102-103"
SHELL = "gone D 1 53 0-0 @94-94 T; empty 1 @101; plain @102-103"
LATER = "D 1 74 0-0 @110-110 T; M 1 75 C 3 @111; plain @112-112"


def state_of(folder: Path, segments: Segments, **options: object) -> PartitionState:
    """Return the state of a forged log."""
    forge(folder, segments, **options)  # type: ignore[arg-type]  # the options of forge
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(NOW + 60_000), collectors_of(PARTITION_CHECKS))


def alarming(state: PartitionState) -> set[str]:
    """Return the codes of the findings at warning and above."""
    found = findings_of(state, PARTITION_CHECKS)
    return {finding.code.name for finding in found if finding.severity >= Severity.WARNING}


@pytest.mark.parametrize("head", [HEAD, SHELL])
def test_the_next_transaction_has_no_data_of_one_whose_marker_was_cleaned(tmp_path: Path, head: str) -> None:
    state = state_of(tmp_path, {100: head, 110: LATER}, compacted=True, clean_shutdown=False)
    assert not alarming(state)
    (transaction,) = state.transactions
    assert (transaction["first_offset"], transaction["lowest_epoch"]) == (110, 74)


def test_a_transaction_whose_marker_was_cleaned_blocks_nothing(tmp_path: Path) -> None:
    state = state_of(tmp_path, {100: HEAD, 110: "plain @110-112"}, compacted=True, clean_shutdown=False)
    assert not len(state.open_transactions)
    assert stable_offset(state).last_stable_offset == 113


@pytest.mark.parametrize("first_dirty", [None, 90])
def test_a_log_that_no_cleaner_has_passed_keeps_what_is_open(tmp_path: Path, first_dirty: int | None) -> None:
    head = "gone D 1 53 0-0 @94-94 T; plain @100-103"
    state = state_of(tmp_path, {100: head, 104: "plain @104-112"}, first_dirty=first_dirty, clean_shutdown=False)
    assert state.open_transactions["first_offset"].tolist() == [94]
    assert stable_offset(state).last_stable_offset == 100


def test_without_a_cleaner_the_data_of_two_transactions_is_mixed(tmp_path: Path) -> None:
    text = "gone D 1 53 0-0 @94-94 T; plain @100-109"
    state = state_of(tmp_path, {100: text, 110: LATER}, clean_shutdown=False)
    assert "txn-epoch-mixed" in alarming(state)
