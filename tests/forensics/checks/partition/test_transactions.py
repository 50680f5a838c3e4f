"""Transactions that ended unusually, or contain data of another transaction."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import transactions
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.partition.log_gaps import MERGED_IN_COPY
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import (
    DAY,
    LATER,
    SOON,
    codes_of,
    forged_findings,
    sample_id,
    sample_state,
)
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partition_states import each_sample, state_under

FIRES = {
    "txn-duration-excessive": "test_example_27_a_transaction_that_was_ended_a_day_later_lasted_too_long",
    "txn-aborted-rate-high": "test_more_than_a_fifth_aborted_is_high",
    "txn-epoch-mixed": "test_example_11_the_next_transaction_swallows_a_late_write",
    "txn-nontxn-inside": "test_example_16_a_batch_without_transaction_inside_one",
    "txn-foreign-data-absorbed": "test_example_11_the_next_transaction_swallows_a_late_write",
    "txn-write-after-marker": "test_data_below_the_epoch_of_a_marker_came_after_it",
}
SILENT = dict.fromkeys(FIRES, "test_samples_have_only_what_is_known")
# An import of data of another year, aborted immediately; a fenced producer that was accepted again.
KNOWN = {
    "duplicates/broker-1/sent-again-after-abort-0": ["txn-duration-excessive"],
    "state-lost-after-stop/broker-1/zombie-0": ["txn-write-after-marker"],
    **{f"forged-markers-v{version}/broker-1/backdated-0": ["txn-duration-excessive"] for version in (0, 1, 2)},
    # Kafka Streams wrote with the timestamps of its input, which was of the day before.
    **{
        f"exactly-once-clients/broker-1/{name}": ["txn-duration-excessive"] * times
        for name, times in (
            ("alerts-words-repartition-0", 1),
            *((f"{application}-counts-0", 2) for application in ("billing", "stock")),
            *((f"{application}-counts-changelog-{n}", 1) for application in ("billing", "stock") for n in (0, 1)),
        )
    },
}


@each_sample()
def test_samples_have_only_what_is_known(partition: Partition) -> None:
    assert codes_of(list(transactions.findings(sample_state(partition)))) == KNOWN.get(sample_id(partition), [])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; M 2 0 C 5 @5", id="4"),
        pytest.param("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5", id="7 version 2"),
        pytest.param("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T", id="9 timeout"),
        pytest.param("D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T", id="10 from the log alone"),
        pytest.param("D 1 4 0-2 @0-2 T; M 1 5 C 6 @3; M 1 5 C 6 @4; D 1 5 0-0 @5-5 T; M 1 6 C 6 @6", id="32"),
        pytest.param("D 1 4 0-0 @0-0 T; M 1 4 A 6 @1; D 1 4 1-1 @2-2 T; M 1 9 C 6 @3", id="33"),
        pytest.param(
            "D 1 0 0-1 @0-1 T; M 1 0 A 2 @2; D 1 1 0-0 @3-3 T; M 1 2 C 2 @4; D 1 2 0-0 @5-5 T; M 1 3 C 2 @6", id="34"
        ),
        pytest.param("D 1 0 0-1 @0-1 T; M 1 0 A 2 @2; D 1 0 2-2 @3-3 T; M 1 0 C 2 @4", id="35"),
    ],
)
def test_examples_without_such_findings(tmp_path: Path, text: str) -> None:
    assert not forged_findings(transactions, tmp_path, text, as_of_ms=LATER)


def test_example_11_the_next_transaction_swallows_a_late_write(tmp_path: Path) -> None:
    text = "D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; D 1 1 0-0 @5-5 T; M 1 1 C 4 @6"
    findings = forged_findings(transactions, tmp_path, text)
    assert codes_of(findings) == ["txn-epoch-mixed", "txn-foreign-data-absorbed"]
    mixed, absorbed = findings
    assert (mixed.severity, mixed.exactness) == (Severity.ERROR, Exactness.EXACT)
    assert mixed.evidence == {"lowest_epoch": 0, "highest_epoch": 1, "appended_ms": 1_700_000_000_006}
    assert (absorbed.severity, absorbed.first_offset, absorbed.cause) == (Severity.CRITICAL, 4, "txn-epoch-mixed")
    assert "The COMMIT at offset 6" in absorbed.message


@pytest.mark.parametrize("end", ["", "; M 1 1 A 4 @6"])
def test_without_a_commit_nothing_was_absorbed(tmp_path: Path, end: str) -> None:
    text = f"D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; D 1 1 0-0 @5-5 T{end}"
    assert codes_of(forged_findings(transactions, tmp_path, text)) == ["txn-epoch-mixed"]


def test_a_transaction_of_two_epochs_may_begin_the_log(tmp_path: Path) -> None:
    (mixed,) = forged_findings(transactions, tmp_path, "D 1 0 0-0 @0-0 T; D 1 1 0-0 @1-1 T")
    assert (mixed.first_offset, mixed.exactness) == (0, Exactness.EXACT)


def test_where_the_cleaner_was_a_marker_may_be_gone(tmp_path: Path) -> None:
    segments = {0: "D 1 0 0-0 @0-0 T; gone M 1 0 C 4 @1; D 1 1 0-0 @5-5 T; M 1 1 C 4 @6", 7: "plain @7"}
    findings = forged_findings(transactions, tmp_path, segments, compacted=True)
    assert codes_of(findings) == ["txn-epoch-mixed", "txn-foreign-data-absorbed"]
    assert {finding.exactness for finding in findings} == {Exactness.APPROXIMATE}
    assert {finding.benign for finding in findings} == {
        ("marker removed by a cleaner: possible", f"{MERGED_IN_COPY}: no")
    }


def test_example_16_a_batch_without_transaction_inside_one(tmp_path: Path) -> None:
    findings = forged_findings(transactions, tmp_path, "D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 N; M 1 0 C 3 @2")
    assert codes_of(findings) == ["txn-nontxn-inside"]
    assert (findings[0].severity, findings[0].first_offset) == (Severity.CRITICAL, 1)
    assert findings[0].path is not None
    assert findings[0].position
    assert "damaged attributes: no" in findings[0].benign


def test_a_batch_whose_checksum_fails_proves_nothing(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 T; M 1 0 C 3 @2")
    patch(file_of(folder), 1, fix_crc=False, attributes=0)
    (inside,) = transactions.findings(state_under(tmp_path, as_of_ms=SOON))
    assert inside.exactness is Exactness.APPROXIMATE
    assert "damaged attributes: yes, its checksum fails" in inside.benign


def test_example_27_a_transaction_that_was_ended_a_day_later_lasted_too_long(tmp_path: Path) -> None:
    text = f"D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; M 1 0 A 4 @5 ts {NOW + DAY}"
    findings = forged_findings(transactions, tmp_path, text, as_of_ms=LATER + DAY)
    assert codes_of(findings) == ["txn-duration-excessive"]
    assert (findings[0].first_offset, findings[0].exactness) == (4, Exactness.APPROXIMATE)
    assert findings[0].severity is Severity.INFO, "clients set the timestamps"
    assert findings[0].evidence == {"lasted_ms": DAY - 4, "allowed_ms": 965_000, "appended_ms": 1_700_000_000_000 + DAY}
    assert "timestamps set by the client: possible" in findings[0].benign


@pytest.mark.parametrize(("lasted", "codes"), [(965_000, []), (965_001, ["txn-duration-excessive"])])
def test_a_transaction_may_last_so_long(tmp_path: Path, lasted: int, codes: list[str]) -> None:
    text = f"D 1 0 0-0 @0-0 T; M 1 0 C 4 @1 ts {NOW + lasted}"
    assert codes_of(forged_findings(transactions, tmp_path, text, as_of_ms=LATER)) == codes


def test_append_times_are_exact(tmp_path: Path) -> None:
    text = f"D 1 0 0-0 @0-0 T; M 1 0 C 4 @1 ts {NOW + DAY}"
    findings = forged_findings(transactions, tmp_path, text, as_of_ms=LATER, log_append_time=True)
    (long,) = findings
    assert (long.severity, long.exactness) == (Severity.WARNING, Exactness.EXACT)
    assert "timestamps set by the client: no, the log has append times" in long.benign


@pytest.mark.parametrize("timestamp", [NOW - 9 * DAY, 1])
def test_timestamps_of_long_ago_do_not_make_a_transaction_long(tmp_path: Path, timestamp: int) -> None:
    text = f"D 2 0 0-0 @0-0 T; M 2 0 C 1 @1; D 1 0 0-0 @2-2 T ts {timestamp}; M 1 0 C 1 @3"
    assert not forged_findings(transactions, tmp_path, text)


@pytest.mark.parametrize(("aborts", "codes"), [(20, []), (21, ["txn-aborted-rate-high"])])
def test_more_than_a_fifth_aborted_is_high(tmp_path: Path, aborts: int, codes: list[str]) -> None:
    findings = forged_findings(transactions, tmp_path, _ended(100, aborts))
    assert codes_of(findings) == codes
    assert [finding.evidence for finding in findings] == [{"transactions": 100, "aborted": 21}] * len(codes)


def test_few_transactions_have_no_rate(tmp_path: Path) -> None:
    assert not forged_findings(transactions, tmp_path, _ended(99, 99))


def _ended(count: int, aborts: int) -> str:
    kinds = "A" * aborts + "C" * (count - aborts)
    return "; ".join(f"D 1 0 {n}-{n} @{2 * n} T; M 1 0 {kind} 4 @{2 * n + 1}" for n, kind in enumerate(kinds))


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        pytest.param("D 1 7 0-0 @0-0 T; M 1 8 C 4 @1; D 1 7 1-1 @2-2 T", "It is still open", id="open"),
        pytest.param(
            "D 1 7 0-0 @0-0 T; M 1 8 C 4 @1; D 1 7 1-1 @2-2 T; M 1 9 A 4 @3", "marker at offset 3 ended it", id="ended"
        ),
        pytest.param("D 1 0 0-0 @0-0 T; M 1 1 A 4 @1; D 1 0 1-1 @2-2 T", "It is still open", id="a fenced zombie"),
    ],
)
def test_data_below_the_epoch_of_a_marker_came_after_it(tmp_path: Path, text: str, outcome: str) -> None:
    findings = forged_findings(transactions, tmp_path, text)
    assert codes_of(findings) == ["txn-write-after-marker"]
    assert (findings[0].severity, findings[0].exactness) == (Severity.ERROR, Exactness.APPROXIMATE)
    assert outcome in findings[0].message
    assert findings[0].evidence["marker_offset"] == 1


def test_an_older_marker_still_counts_after_one_of_a_lower_epoch(tmp_path: Path) -> None:
    text = "D 1 7 0-0 @0-0 T; M 1 8 C 4 @1; D 1 7 1-1 @2-2 T; M 1 7 A 4 @3; D 1 7 2-2 @4-4 T"
    assert [finding.first_offset for finding in forged_findings(transactions, tmp_path, text)] == [2, 4]


def test_markers_of_other_producers_end_nothing(tmp_path: Path) -> None:
    assert not forged_findings(transactions, tmp_path, "D 1 7 0-0 @0-0 T; M 1 8 C 4 @1; D 2 7 0-0 @2-2 T; M 2 8 C 4 @3")


@pytest.mark.slow
def test_of_very_many_the_first_are_reported(tmp_path: Path) -> None:
    """With the number of the others."""
    start = "D 1 9 0-0 @0-0 T; M 1 10 C 4 @1; "
    late = "; ".join(f"D 1 7 0-0 @{2 * n + 2} T; M 1 8 C 4 @{2 * n + 3}" for n in range(1001))
    findings = forged_findings(transactions, tmp_path, start + late)
    assert len(findings) == 1000
    assert [finding.evidence.get("left_out") for finding in findings[-2:]] == [None, 1]
