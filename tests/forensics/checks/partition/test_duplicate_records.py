"""Records with duplicate contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.audit.topic_result import INTERNAL
from kforensics.forensics.checks.partition import duplicate_records, producer_sequences
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.duplicates.content_duplicates import content_duplicates
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE, DuplicateLevel, DuplicateReason, DuplicateView
from kforensics.forensics.duplicates.partition_duplicates import sequence_duplicates
from kforensics.forensics.duplicates.record_reader import RecordReader, hidden_transactions
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.kernels.policy import no_kernels
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import DAY, sample_id, sample_state
from tests.forensics.forge import Content, Segments, file_of, forge, patch
from tests.forensics.partition_states import SAMPLES, each_sample, partitions_under, state_under

FIRES = {
    "seq-reuse": "test_same_sequences_with_other_records_are_found",
    "content-duplicate-retry": "test_retry_without_a_producer_id_is_found",
    "content-duplicate-cross-producer": "test_same_records_of_two_producers_are_found",
    "content-duplicate-repeated": "test_records_that_recur_are_one_finding",
}
SILENT = dict.fromkeys(duplicate_records.CODES, "test_samples_have_only_what_was_written_twice")
RETRY, ACROSS, REPEATED = "content-duplicate-retry", "content-duplicate-cross-producer", "content-duplicate-repeated"
CONTENT_PAIR: list[Content] = [(b"a", b"1"), (b"b", b"2")]
# Duplicates written by the lab's clients. Unless noted, several transactions have the same values.
# The same values in every transaction, each of another epoch.
FORGED = ("aborted-0", "aborted-1", "backdated-0", "committed-0", "committed-1")
# Transactions of 1, 2, 4 and 8 partitions, so many of each number: every one writes the same record.
TIMED, WARM_UP = 30, 5
WIDER = (4, 3, 2, 2, 1, 1, 1, 1)
KNOWN = {
    "deletion/broker-1/delete-records-transactional-0": [ACROSS],
    **{f"forged-markers-v2/broker-1/{name}": [ACROSS] for name in FORGED},
    # A connector was configured three times, the first and the last time alike.
    "exactly-once-clients/broker-1/etl-configs-0": [ACROSS] * 6,
    # Written to have duplicates: a restored backup, retries after lost responses, an application's own retries.
    "duplicates/broker-1/restored-0": [ACROSS],
    "duplicates/broker-1/retried-0": [RETRY] * 3,
    "duplicates/broker-1/retried-append-time-0": [RETRY] * 3,
    "duplicates/broker-1/sent-again-0": [ACROSS],
    "duplicates/broker-1/sent-again-append-time-0": [ACROSS],
    # The same keys again with the same few values and timestamps, for the cleaner.
    "legacy-2.7/broker-0/compact-0": [RETRY],
    "legacy-2.7/broker-0/compact-transactional-0": [RETRY],
    "legacy-2.7/broker-0/compact-zstd-0": [RETRY],
    "legacy-2.7/broker-0/empty-aborts-0": [ACROSS],
    "legacy-magic-1/broker-0/compact-gzip-0": [RETRY],
    "legacy-magic-1/broker-0/compact-lz4-0": [RETRY],
    "legacy-magic-1/broker-0/compact-none-0": [RETRY],
    "legacy-magic-1/broker-0/compact-snappy-0": [RETRY],
    # The same records again, compressed.
    "legacy-2.7/broker-0/nulls-0": [RETRY],
    "records/broker-1/nulls-0": [ACROSS],
    # The same batch twice, from a producer without an id and from another one with an id.
    "records/broker-1/twice-0": [RETRY, ACROSS],
    "replication/broker-1/replicated-0": [ACROSS] * 3,
    "replication/broker-2/replicated-0": [ACROSS] * 3,
    "replication/broker-3/replicated-0": [ACROSS] * 3,
    **{f"transaction-costs/broker-1/timed-{n}": [ACROSS] * (TIMED * wider - 1) for n, wider in enumerate(WIDER)},
    **{f"transaction-costs/broker-1/warm-up-{n}": [ACROSS] * (WARM_UP * wider - 1) for n, wider in enumerate(WIDER)},
    "transactions-v2/broker-1/committed-0": [ACROSS] * 3,
    "transactions-v2/broker-1/fenced-0": [ACROSS],
    "transactions-v2/broker-1/interleaved-0": [ACROSS] * 4,
    "transactions-v2/broker-1/multi-0": [ACROSS],
    "transactions-v2/broker-1/multi-1": [ACROSS],
    "transactions-v2/broker-1/multi-2": [ACROSS],
    "transactions-v2/broker-1/segments-0": [ACROSS] * 7,
}


def searched(state: PartitionState) -> PartitionState:
    """Return the state with its duplicates."""
    uncommitted = state.transactions.compress(state.transactions["outcome"] != TransactionOutcome.COMMITTED)
    paths = [segment.path for segment in state.partition.segments]
    reading = RecordReader(paths, hidden_transactions(uncommitted), kernels=no_kernels, workers=0)
    by_sequence = sequence_duplicates(state.anomalies, _batches(state), reading)
    by_content = content_duplicates(reading, lambda _segment, _damage: None)
    return replace(state, duplicates=SpilledRows.of(DUPLICATE, [by_sequence, *by_content]))


def _batches(state: PartitionState) -> Callable[[], Iterator[BatchColumns]]:
    def chunks() -> Iterator[BatchColumns]:
        for number, segment in enumerate(state.partition.segments):
            with open_source(segment.path) as source:
                yield from batch_chunks(source, number, lambda _damage: None, no_kernels)

    return chunks


def forged_findings(folder: Path, segments: Segments, **options: Any) -> list[Finding]:
    """Return the findings in a forged log; the options are those of ``forge``."""
    forge(folder, segments, **options)
    return list(duplicate_records.findings(searched(state_under(folder))))


def same_contents(first: int, second: int, contents: Sequence[Content] = CONTENT_PAIR) -> dict[int, Sequence[Content]]:
    """Return the same contents for two batches."""
    return {first: contents, second: contents}


def code_names(findings: Sequence[Finding]) -> list[str]:
    """Return the codes of findings."""
    return [finding.code.name for finding in findings]


@each_sample()
def test_samples_have_only_what_was_written_twice(partition: Partition) -> None:
    state = searched(sample_state(partition))
    codes = code_names(list(duplicate_records.findings(state)))
    assert [code for code in codes if code != REPEATED] == KNOWN.get(sample_id(partition), [])
    assert codes.count(REPEATED) <= (partition.place.topic not in INTERNAL)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        # The lab's clients repeat the same few values here, without timestamps or in other batches.
        ("legacy-magic-0/broker-0/compact-none-0", [REPEATED]),
        ("legacy-magic-1/broker-0/nulls-0", [REPEATED]),
        ("records/broker-1/headers-0", []),
        ("duplicates/broker-1/retried-idempotent-0", []),
        ("duplicates/broker-1/sent-again-after-abort-0", []),
    ],
)
def test_repeats_that_consumers_receive_are_found_in_real_logs(sample: str, expected: list[str]) -> None:
    (partition,) = partitions_under(SAMPLES / sample)
    assert code_names(list(duplicate_records.findings(searched(sample_state(partition))))) == expected


@pytest.mark.parametrize("sample", ["expired-0", "import-0"])
def test_retries_that_a_broker_let_in_are_no_reuse(sample: str) -> None:
    """Their headers show them already: the same sequences and the same records."""
    (partition,) = partitions_under(SAMPLES / "duplicates" / "broker-1" / sample)
    state = searched(sample_state(partition))
    assert state.duplicates is not None
    assert DuplicateReason.SEQUENCE_AND_CONTENT in np.concatenate(list(state.duplicates))["why"]
    assert "seq-duplicate-batch" in code_names(list(producer_sequences.findings(state)))
    assert list(duplicate_records.findings(state)) == []


def test_nothing_is_said_without_a_search(tmp_path: Path) -> None:
    forge(tmp_path, "D 9 0 0-1 @0-1 N; D 9 0 0-1 @2-3 N")
    assert list(duplicate_records.findings(state_under(tmp_path))) == []


def test_same_sequences_with_other_records_are_found(tmp_path: Path) -> None:
    (reuse,) = forged_findings(
        tmp_path, f"D 9 3 0-1 @0-1 N ts {NOW}; D 9 3 0-1 @2-3 N ts {NOW + 5_000}; D 9 3 2-2 @4 N"
    )
    assert (reuse.code.name, reuse.severity, reuse.exactness) == ("seq-reuse", Severity.ERROR, Exactness.EXACT)
    assert (reuse.first_offset, reuse.last_offset) == (2, 3)
    assert (reuse.producer_id, reuse.producer_epoch) == (9, 3)
    assert reuse.evidence["why"] == "same sequence, different content"
    assert (reuse.evidence["first_offset"], reuse.evidence["first_last_offset"], reuse.evidence["records"]) == (0, 1, 2)
    assert reuse.position is not None
    assert reuse.position > 0
    assert reuse.message == (
        "Producer 9, epoch 3, used the same sequences for different records: first at offsets 0 to 1, again at "
        "offsets 2 to 3. The seq-duplicate-batch finding there is this reuse."
    )
    assert reuse.benign[1:] == (
        "sequences wrapped around: ruled out, only 2 offsets between",
        "producer expired at the leader, or restarted at sequence 0: possible, 5 s between",
    )


def test_one_other_record_is_enough_and_headers_count(tmp_path: Path) -> None:
    text = "D 9 3 0-1 @0-1 N; D 9 3 0-1 @2-3 N"
    other: list[Content] = [(b"a", b"1"), (b"b", b"2", [(b"h", b"")])]
    assert code_names(forged_findings(tmp_path, text, records={0: CONTENT_PAIR, 2: other})) == ["seq-reuse"]
    assert forged_findings(tmp_path / "same", text, records=same_contents(0, 2)) == []


def test_reuse_that_headers_do_not_show_names_no_other_finding(tmp_path: Path) -> None:
    """The first copy is not among the last five batches, so the headers only show an overlap."""
    between = "; ".join(f"D 9 0 {2 * n}-{2 * n + 1} @{2 * n}-{2 * n + 1} N" for n in range(8))
    (reuse,) = forged_findings(tmp_path, f"{between}; D 9 0 0-1 @16-17 N")
    assert reuse.code.name == "seq-reuse"
    assert "seq-duplicate-batch" not in reuse.message
    state = state_under(tmp_path)
    assert code_names(list(producer_sequences.findings(state))) == ["seq-overlap"]


def test_a_batch_of_another_producer_taken_for_a_copy_is_another_matter(tmp_path: Path) -> None:
    between = "; ".join(f"D 9 0 {n}-{n} @{n} N" for n in range(8))
    copies = "D 8 0 0-0 @8 N; D 8 0 0-0 @9 N"
    text = f"{between}; {copies}; D 9 0 0-0 @10 N"
    found_here = {
        finding.producer_id: finding
        for finding in forged_findings(tmp_path, text, records=same_contents(8, 9, CONTENT_PAIR[:1]))
    }
    assert list(found_here) == [9]
    assert "seq-duplicate-batch" not in found_here[9].message


def test_an_earlier_copy_of_the_same_producer_is_another_matter(tmp_path: Path) -> None:
    text = "; ".join(f"D 9 0 {n}-{n} @{n} N" for n in range(8))
    (reuse,) = forged_findings(
        tmp_path, f"{text}; D 9 0 7-7 @8 N; D 9 0 0-0 @9 N", records=same_contents(7, 8, CONTENT_PAIR[:1])
    )
    assert (reuse.code.name, reuse.first_offset) == ("seq-reuse", 9)
    assert "seq-duplicate-batch" not in reuse.message
    assert code_names(list(producer_sequences.findings(state_under(tmp_path)))) == [
        "seq-duplicate-batch",
        "seq-overlap",
    ]


@pytest.mark.parametrize(("later", "expected"), [(DAY, "likely, 1 d"), (DAY - 1_000, "possible, 23 h 59 min")])
def test_expired_producer_may_begin_again(tmp_path: Path, later: int, expected: str) -> None:
    (reuse,) = forged_findings(tmp_path, f"D 9 3 0-1 @0-1 N ts {NOW}; D 9 3 0-1 @2-3 N ts {NOW + later}")
    assert reuse.benign[-1] == f"producer expired at the leader, or restarted at sequence 0: {expected} between"


def test_without_timestamps_the_time_between_is_unknown(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, "D 9 3 0-1 @0-1 N; D 9 3 0-1 @2-3 N")), 0, max_timestamp=-1)
    (reuse,) = duplicate_records.findings(searched(state_under(tmp_path)))
    assert reuse.benign[-1].endswith("possible, write times unknown")


def test_partially_compacted_batches_cannot_be_compared(tmp_path: Path) -> None:
    segments = {0: "plain @0", 1: "D 9 3 0-2 @1-3 N cnt 2; D 9 3 0-2 @4-6 N"}
    forge(tmp_path, segments, compacted=True, first_dirty=0)
    state = searched(state_under(tmp_path))
    assert state.duplicates is not None
    assert np.concatenate(list(state.duplicates))["why"].tolist() == [DuplicateReason.SEQUENCE_ALONE]
    assert state.first_uncompacted_offset <= 4
    assert list(duplicate_records.findings(state)) == []


def test_retry_without_a_producer_id_is_found(tmp_path: Path) -> None:
    text = f"plain @0; plain @1-2 ts {NOW}; plain @3-4 ts {NOW}; plain @5"
    (retry,) = forged_findings(tmp_path, text, records=same_contents(1, 3))
    assert (retry.code.name, retry.severity, retry.exactness) == (RETRY, Severity.WARNING, Exactness.EXACT)
    assert (retry.first_offset, retry.last_offset, retry.producer_id) == (3, 4, None)
    assert (retry.evidence["first_offset"], retry.evidence["records"]) == (1, 2)
    assert retry.message == (
        "2 records were written twice without a producer id, as by a retry: first at offsets 1 to 2, again at offsets "
        "3 to 4."
    )


def test_one_record_is_reported_as_one(tmp_path: Path) -> None:
    (retry,) = forged_findings(
        tmp_path, f"plain @0 ts {NOW}; plain @1 ts {NOW}", records=same_contents(0, 1, CONTENT_PAIR[:1])
    )
    assert retry.message == (
        "1 record was written twice without a producer id, as by a retry: first at offset 0, again at offset 1."
    )


def test_with_log_append_time_a_retry_is_likely_only(tmp_path: Path) -> None:
    text = f"plain @0-1 ts {NOW}; plain @2-3 ts {NOW + 9}"
    (retry,) = forged_findings(tmp_path, text, records=same_contents(0, 2), log_append_time=True)
    assert (retry.code.name, retry.exactness) == (RETRY, Exactness.APPROXIMATE)


@pytest.mark.parametrize(
    ("later", "contents"),
    [
        pytest.param(9, CONTENT_PAIR, id="the same event again"),
        pytest.param(600_000, CONTENT_PAIR, id="much later"),
        pytest.param(0, [(None, None), (b"", b"")], id="heartbeats"),
    ],
)
def test_what_proves_nothing_is_no_retry(tmp_path: Path, later: int, contents: list[Content]) -> None:
    text = f"plain @0-1 ts {NOW}; plain @2-3 ts {NOW + later}"
    assert RETRY not in code_names(forged_findings(tmp_path, text, records=same_contents(0, 2, contents)))


def test_same_records_of_two_producers_are_found(tmp_path: Path) -> None:
    text = "D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 2 5 0-1 @3-4 T; M 2 5 C 1 @5"
    (across,) = forged_findings(tmp_path, text, records=same_contents(0, 3))
    assert (across.code.name, across.severity) == (ACROSS, Severity.INFO)
    assert (across.first_offset, across.last_offset) == (3, 4)
    assert (across.producer_id, across.producer_epoch, across.evidence["first_producer_id"]) == (2, 5, 1)
    assert across.message == (
        "2 records were written again by a different producer id: first at offsets 0 to 1, again at offsets 3 to 4."
    )
    assert len(across.benign) == 2


def test_a_producer_without_id_is_another_one(tmp_path: Path) -> None:
    (across,) = forged_findings(tmp_path, "plain @0-1; D 2 5 0-1 @2-3 N", records=same_contents(0, 2))
    assert (across.code.name, across.producer_id) == (ACROSS, 2)
    (across,) = forged_findings(tmp_path / "after", "D 2 5 0-1 @0-1 N; plain @2-3", records=same_contents(0, 2))
    assert (across.code.name, across.producer_id) == (ACROSS, None)


@pytest.mark.parametrize(("marker_epoch", "outcome"), [(0, "ruled out, no"), (1, "likely,")])
def test_transactions_of_version_2_raise_the_epoch_by_themselves(
    tmp_path: Path, marker_epoch: int, outcome: str
) -> None:
    text = f"D 1 0 0-1 @0-1 T; M 1 {marker_epoch} C 1 @2; D 1 1 0-1 @3-4 T; M 1 {1 + marker_epoch} C 1 @5"
    (across,) = forged_findings(tmp_path, text, records=same_contents(0, 3))
    assert "in a different epoch" in across.message
    assert f"each raising the epoch: {outcome}" in across.benign[-1]


def test_an_abort_that_fences_a_producer_is_no_transaction_of_version_2(tmp_path: Path) -> None:
    text = "D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 1 0 2-2 @3 T; M 1 1 A 1 @4; D 1 2 0-1 @5-6 T; M 1 2 C 1 @7"
    (across,) = forged_findings(tmp_path, text, records=same_contents(0, 5))
    assert "each raising the epoch: ruled out" in across.benign[-1]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("D 1 0 0-1 @0-1 T; M 1 0 A 1 @2; D 2 0 0-1 @3-4 T; M 2 0 C 1 @5", id="the older one aborted"),
        pytest.param("D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 2 0 0-1 @3-4 T; M 2 0 A 1 @5", id="the younger one aborted"),
        pytest.param("D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 2 0 0-1 @3-4 T", id="the younger one open"),
    ],
)
def test_copies_that_consumers_do_not_get(tmp_path: Path, text: str) -> None:
    assert forged_findings(tmp_path, text, records=same_contents(0, 3)) == []


def test_records_that_recur_are_one_finding(tmp_path: Path) -> None:
    """Two equal heartbeats every 15.5 s."""
    text = "; ".join(f"plain @{2 * n}-{2 * n + 1} ts {NOW + 15_500 * n}" for n in range(8))
    heartbeats: list[Content] = [(b"a", b"alive"), (b"a", b"alive")]
    records = {2 * n: heartbeats for n in range(8)}
    (repeated,) = forged_findings(tmp_path, text, records=records, log_append_time=True)
    assert (repeated.code.name, repeated.severity) == (REPEATED, Severity.INFO)
    assert (repeated.first_offset, repeated.last_offset, repeated.evidence["records"]) == (1, 15, 15)
    assert repeated.message == (
        "15 records with the content of an earlier one, in 8 runs: first at offset 0, again at offset 1 (same content "
        "without a producer id, at another time, in part of a batch or far away)."
    )


def test_records_of_one_producer_again_are_repeated(tmp_path: Path) -> None:
    text = "D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 1 0 2-3 @3-4 T; M 1 0 C 1 @5"
    assert code_names(forged_findings(tmp_path, text, records=same_contents(0, 3))) == [REPEATED]


def test_an_older_copy_that_was_committed_counts_after_an_aborted_one(tmp_path: Path) -> None:
    text = "D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 2 0 0-1 @3-4 T; M 2 0 A 1 @5; D 3 0 0-1 @6-7 T; M 3 0 C 1 @8"
    (across,) = forged_findings(tmp_path, text, records={**same_contents(0, 3), 6: CONTENT_PAIR})
    assert (across.producer_id, across.evidence["first_producer_id"], across.evidence["first_offset"]) == (3, 1, 0)


def test_where_the_cleaner_was_nothing_is_evaluated(tmp_path: Path) -> None:
    text = f"plain @0-1 ts {NOW}; plain @2-3 ts {NOW}; D 9 0 0-1 @4-5 N; D 9 0 0-1 @6-7 N; D 8 0 0-1 @8-9 N"
    again = {**same_contents(0, 2), 8: CONTENT_PAIR}
    assert forged_findings(tmp_path / "cleaned", {0: text, 10: "plain @10"}, records=again, compacted=True) == []
    assert code_names(forged_findings(tmp_path / "whole", {0: text, 10: "plain @10"}, records=again)) == [
        "seq-reuse",
        RETRY,
        ACROSS,
    ]


def test_the_group_coordinator_repeats_itself(tmp_path: Path) -> None:
    text = f"plain @0-1 ts {NOW}; plain @2-3 ts {NOW}"
    assert forged_findings(tmp_path, text, records=same_contents(0, 2), topic="__consumer_offsets") == []


def _rows(count: int, level: DuplicateLevel, why: DuplicateReason) -> StructArray:
    rows = np.zeros(count, DUPLICATE)
    rows["level"], rows["why"], rows["view"], rows["records"] = level, why, DuplicateView.COMMITTED, 1
    rows["second_offset"] = rows["second_last_offset"] = np.arange(count)[::-1] + 5
    rows["first_producer_id"] = rows["second_producer_id"] = 1
    return rows


@pytest.mark.parametrize(
    ("level", "why", "code"),
    [
        (DuplicateLevel.SEQUENCE, DuplicateReason.SEQUENCE_NOT_CONTENT, "seq-reuse"),
        (DuplicateLevel.CONTENT_RETRY, DuplicateReason.RETRY_SAME_TIME, RETRY),
        (DuplicateLevel.CONTENT, DuplicateReason.OTHER_PRODUCER, ACROSS),
    ],
)
def test_of_very_many_the_first_are_reported(
    tmp_path: Path, level: DuplicateLevel, why: DuplicateReason, code: str
) -> None:
    """With the number of the others."""
    forge(tmp_path, "plain @0")
    state = replace(
        state_under(tmp_path), duplicates=SpilledRows.of(DUPLICATE, np.array_split(_rows(MOST + 7, level, why), 9))
    )
    findings = list(duplicate_records.findings(state))
    assert code_names(findings) == [code] * MOST
    assert [finding.first_offset for finding in findings] == list(range(5, 5 + MOST))
    assert findings[-1].evidence["left_out"] == 7


@pytest.mark.parametrize("why", list(DuplicateReason))
def test_each_reason_has_at_most_one_code(tmp_path: Path, why: DuplicateReason) -> None:
    forge(tmp_path, "plain @0")
    is_retry = why in (DuplicateReason.RETRY_SAME_TIME, DuplicateReason.RETRY_WHOLE_BATCH)
    level = (
        DuplicateLevel.SEQUENCE
        if why <= DuplicateReason.SEQUENCE_ALONE
        else DuplicateLevel.CONTENT_RETRY
        if is_retry
        else DuplicateLevel.CONTENT
    )
    state = replace(state_under(tmp_path), duplicates=SpilledRows.of(DUPLICATE, [_rows(1, level, why)]))
    expected = {
        DuplicateReason.SEQUENCE_NOT_CONTENT: ["seq-reuse"],
        DuplicateReason.OTHER_PRODUCER: [ACROSS],
        DuplicateReason.OTHER_EPOCH: [ACROSS],
        **{reason: [REPEATED] for reason in duplicate_records.REPEATED},
    }
    assert code_names(list(duplicate_records.findings(state))) == ([RETRY] if is_retry else expected.get(why, []))
