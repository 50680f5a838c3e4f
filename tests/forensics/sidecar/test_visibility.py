"""What a read_committed consumer receives according to the markers and to the indexes, and where they differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.forensics.core.record_types import TRANSACTION, TransactionOutcome
from kforensics.forensics.partition.transaction_store import transaction_store_of
from kforensics.forensics.sidecar.isolation import PartitionTransactions, containing_partition, partition_transactions
from kforensics.forensics.sidecar.visibility import (
    Batches,
    BatchVisibility,
    ConsumerView,
    VisibilityDifference,
    view_by_index,
    view_by_markers,
    visibility_differences,
)
from kforensics.parsers.columns.batch_columns import BatchColumns, column_dtype
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.state.indexes import TransactionIndexEntry, read_transaction_index
from lab.places import SAMPLES
from tests.forensics.batch_notation import parse_batches, records_of_replay
from tests.reference.fold import Replay, fold
from tests.reference.replay_values import BatchSummary, batch_summary

NEVER = int(np.iinfo("i8").max)
INTERLEAVED = """D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"""
NESTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3"
NESTED_COMMITTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 C 1 @2; M 1 0 A 1 @3"
# Minimum numbers of partitions, batches, entries and transactions in the samples, and of ranges hidden by entries.
LEAST, LEAST_SHOWN = (274, 3855, 130, 324), 144
SHOWN, HIDDEN = (BatchVisibility.ABORTED, BatchVisibility.VISIBLE), (BatchVisibility.VISIBLE, BatchVisibility.ABORTED)


def columns(log: list[BatchSummary]) -> Batches:
    """Return batches as arrays."""
    return Batches(
        np.array([batch.producer_id for batch in log], "i8"),
        np.array([batch.base_offset for batch in log], "i8"),
        np.array([batch.last_offset for batch in log], "i8"),
        np.array([batch.is_transactional for batch in log], "?"),
        np.array([batch.is_control for batch in log], "?"),
    )


def entries(*rows: tuple[int, int, int, int]) -> list[TransactionIndexEntry]:
    """Return index entries, each given as producer id, first, last and last stable offset."""
    return [TransactionIndexEntry(0, 0, *row) for row in rows]


def _transactions(replay: Replay) -> PartitionTransactions:
    transactions, empty_markers = records_of_replay(replay)
    stable = replay.last_stable_offset().last_stable_offset
    return PartitionTransactions(transaction_store_of(transactions), empty_markers, replay.log_start_offset, stable)


def by_log(log: list[BatchSummary]) -> ConsumerView:
    """Return the view according to the markers."""
    return whole_view(_transactions(fold(log)))


def whole_view(transactions: PartitionTransactions) -> ConsumerView:
    """Return the view of all offsets according to the markers."""
    return transactions.visibility.around(0, NEVER)


def markers(transactions: PartitionTransactions) -> list[StructArray]:
    """Return all markers."""
    return [*transactions.transaction_store.closed, transactions.empty_markers]


def index_view(transactions: PartitionTransactions, index: list[TransactionIndexEntry]) -> ConsumerView:
    """Return the view according to an index."""
    start, stable = transactions.log_start_offset, transactions.last_stable_offset
    return view_by_index(index, markers(transactions), start, stable)


def by_index(log: list[BatchSummary], index: list[TransactionIndexEntry]) -> ConsumerView:
    """Return the view of a log according to an index."""
    return index_view(_transactions(fold(log)), index)


def visible(view: ConsumerView, log: list[BatchSummary]) -> list[int]:
    """Return the first offsets of visible batches; check that both methods of the view agree."""
    visibilities = [BatchVisibility(number) for number in view.visibilities(columns(log))]
    assert visibilities == [visibility_of(view, batch) for batch in log]
    pairs = zip(log, visibilities, strict=True)
    return [batch.base_offset for batch, visibility in pairs if visibility is BatchVisibility.VISIBLE]


def visibility_of(view: ConsumerView, batch: BatchSummary) -> BatchVisibility:
    """Return the visibility of one batch."""
    return view.visibility_of(
        batch.producer_id,
        batch.base_offset,
        batch.last_offset,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )


@pytest.mark.parametrize(
    ("text", "index", "expected"),
    [
        ("", [], []),
        ("plain @0-4; D 9 0 0-4 @5-9 N", [], [0, 5]),
        ("D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", [], [0]),
        (INTERLEAVED, [(1, 0, 4, 2)], [2, 5]),
        (NESTED, [(2, 1, 2, 0), (1, 0, 3, 4)], []),
        (NESTED_COMMITTED, [(1, 0, 3, 4)], [1]),
        ("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5", [(1, 4, 5, 6)], [0]),
        ("D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; plain @5-6", [(1, 0, 3, 4)], []),
        ("D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 N; M 1 0 A 3 @2", [(1, 0, 2, 3)], [1]),
        ("M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3", [], [1]),
        ("M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3", [(1, 0, 0, 1)], [1]),
        ("empty 3 @0; plain @1-1", [], [1]),
    ],
    ids=["empty", "plain", "committed", "example-4", "example-5", "example-18", "v2", "hanging", "not-transactional",
         "example-39", "empty-abort-until-2.7", "control-shell"],
)  # fmt: skip
def test_examples(text: str, index: list[tuple[int, int, int, int]], expected: list[int]) -> None:
    log = parse_batches(text)
    correct, actual = by_log(log), by_index(log, entries(*index))
    assert visible(correct, log) == visible(actual, log) == expected
    assert visibility_differences(correct, actual, columns(log)) == []


def test_visibility_shows_the_reason() -> None:
    log = parse_batches(
        "plain @0-3; D 1 0 0-0 @4-4 T; M 1 0 A 1 @5; D 2 0 0-0 @6-6 T; D 3 0 0-0 @7-7 T; M 3 0 A 1 @8; plain @9"
    )
    transactions = _transactions(fold(log, log_start_offset=4))
    assert (transactions.log_start_offset, transactions.last_stable_offset) == (4, 6)
    view = whole_view(transactions)
    visibilities = [BatchVisibility(number) for number in view.visibilities(columns(log))]
    assert visibilities == [
        BatchVisibility.DELETED,
        BatchVisibility.ABORTED,
        BatchVisibility.CONTROL,
        BatchVisibility.UNDECIDED,
        BatchVisibility.ABORTED,
        BatchVisibility.CONTROL,
        BatchVisibility.HELD_BACK,
    ]
    assert visibilities == [visibility_of(view, batch) for batch in log]


def test_nothing_is_served_between_a_log_start_and_a_last_stable_offset_inside_one_batch() -> None:
    """DeleteRecords may move the log start into a transaction, so that one batch contains both offsets."""
    log = parse_batches("D 1 0 0-1 @0-1 T; plain @2-4; plain @5-6")
    transactions = _transactions(fold(log, log_start_offset=3))
    assert (transactions.log_start_offset, transactions.last_stable_offset) == (3, 3)
    for view in (whole_view(transactions), view_by_index([], markers(transactions), 3, 3)):
        assert visible(view, log) == []


def test_data_of_an_unknown_transaction_is_undecided() -> None:
    view = by_log(parse_batches("D 1 0 0-0 @0-0 T; M 1 0 C 1 @1; plain @2-9"))
    for producer_id, offset in ((1, 5), (2, 0), (0, 0)):
        visibility = view.visibility_of(producer_id, offset, offset, is_transactional=True, is_control=False)
        assert visibility is BatchVisibility.UNDECIDED


def test_a_missing_entry_shows_aborted_data() -> None:
    """Example 18 of the specification."""
    log = parse_batches(NESTED)
    view = by_index(log, entries((1, 0, 3, 4)))
    assert visible(view, log) == [1]
    (difference,) = visibility_differences(by_log(log), view, columns(log))
    assert difference == VisibilityDifference(2, 1, 1, *SHOWN)
    assert difference.is_shown


def test_an_extra_entry_hides_committed_data() -> None:
    """Example 18, reversed."""
    log = parse_batches(NESTED_COMMITTED)
    view = by_index(log, entries((2, 1, 2, 0), (1, 0, 3, 4)))
    assert visible(view, log) == []
    (difference,) = visibility_differences(by_log(log), view, columns(log))
    assert difference == VisibilityDifference(2, 1, 1, *HIDDEN)
    assert not difference.is_shown


def test_an_extra_entry_hides_up_to_the_next_abort_of_its_producer() -> None:
    log = parse_batches(
        "D 1 0 0-0 @0-0 T; M 1 0 C 1 @1; D 1 0 1-2 @2-3 T; D 1 0 3-3 @4-4 T; D 2 0 0-0 @5-5 T; M 2 0 A 1 @6;"
        "M 1 0 C 1 @7; D 1 0 4-4 @8-8 T; M 1 0 A 1 @9; D 1 0 5-5 @10-10 T; M 1 0 C 1 @11"
    )
    view = by_index(log, entries((1, 0, 1, 2), (2, 5, 6, 2), (1, 8, 9, 10)))
    assert visibility_differences(by_log(log), view, columns(log)) == [
        VisibilityDifference(1, 0, 0, *HIDDEN),
        VisibilityDifference(1, 2, 4, *HIDDEN),
    ]


def test_an_entry_hides_the_batch_in_which_it_begins_and_none_before() -> None:
    log = parse_batches("D 1 0 0-1 @0-1 T; D 1 0 2-4 @2-4 T; D 1 0 5-6 @5-6 T; M 1 0 C 1 @7")
    for first in (2, 3, 4):
        assert visible(by_index(log, entries((1, first, 7, 8))), log) == [0], first


def test_entries_that_end_together_hide_from_the_first_of_them_on() -> None:
    log = parse_batches("D 1 0 0-1 @0-1 T; D 1 0 2-4 @2-4 T; M 1 0 A 1 @5")
    index = entries((1, 3, 5, 6), (1, 1, 5, 6), (1, 4, 5, 6))
    for order in (index, index[::-1], index[1:]):
        assert visibility_differences(by_log(log), by_index(log, order), columns(log)) == []


def test_nothing_differs_from_the_last_stable_offset_on() -> None:
    log = parse_batches("D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; D 3 0 0-0 @3-3 T; M 3 0 C 1 @4")
    assert visibility_differences(by_log(log), by_index(log, entries((3, 3, 4, 0))), columns(log)) == []


@st.composite
def logs(draw: st.DrawFn) -> list[BatchSummary]:
    """Return a log of a few producers, with offset gaps."""
    offset, log = 0, []
    for kind, producer_id, size, offset_gap in draw(
        st.lists(
            st.tuples(st.sampled_from("TTTNCAS"), st.integers(0, 3), st.integers(1, 3), st.integers(0, 1)), max_size=30
        )
    ):
        offset += offset_gap
        last = offset if kind in "CAS" else offset + size - 1
        texts = {
            "C": f"M {producer_id} 0 C 1 @{offset}",
            "A": f"M {producer_id} 0 A 1 @{offset}",
            "S": f"empty {producer_id} @{offset}",
        }
        log += parse_batches(texts.get(kind, f"D {producer_id} 0 0-{last - offset} @{offset}-{last} {kind}"))
        offset = last + 1
    return log


rows = st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 60), st.just(0))


@given(logs(), st.lists(rows, max_size=6))
def test_the_index_hides_what_the_client_skips_batch_by_batch(
    log: list[BatchSummary], index: list[tuple[int, int, int, int]]
) -> None:
    transactions = _transactions(fold(log))
    expected = _received(log, entries(*index), transactions.last_stable_offset)
    assert visible(by_index(log, entries(*index)), log) == expected


def _received(log: list[BatchSummary], index: list[TransactionIndexEntry], last_stable_offset: int) -> list[int]:
    """Return what Kafka's client accepts of one fetch: ``CompletedFetch.nextFetchedRecord``, line by line."""
    unreached = sorted(index, key=lambda entry: entry.first_offset)
    aborted: set[int] = set()
    received = []
    for batch in log:
        if batch.base_offset >= last_stable_offset:
            break
        if batch.producer_id >= 0:
            while unreached and unreached[0].first_offset <= batch.last_offset:
                aborted.add(unreached.pop(0).producer_id)
            if batch.marker and batch.marker.outcome is TransactionOutcome.ABORTED:
                aborted.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in aborted:
                continue
        if not batch.is_control:
            received.append(batch.base_offset)
    return received


@given(logs())
def test_the_markers_and_the_index_a_broker_writes_agree(log: list[BatchSummary]) -> None:
    replay = fold(log)
    aborted = replay.aborted_transactions
    index = entries(*((entry.producer_id, entry.first_offset, entry.last_offset, 0) for entry in aborted))
    correct, actual = by_log(log), by_index(log, index)
    assert visible(correct, log) == visible(actual, log) == _received(log, index, correct.last_stable_offset)
    assert visibility_differences(correct, actual, columns(log)) == []


def test_records_of_the_replay_and_columns_of_batches_are_accepted() -> None:
    transactions = np.zeros(2, TRANSACTION)
    transactions["producer_id"], transactions["first_offset"] = 1, [0, 4]
    transactions["marker_offset"], transactions["outcome"] = (
        [3, -1],
        [TransactionOutcome.ABORTED, TransactionOutcome.OPEN],
    )
    rows_of = {
        "producer_id": [1, 1, 1, -1],
        "base_offset": [0, 3, 4, 9],
        "last_offset": [2, 3, 8, 9],
        "attributes": [0x10, 0x30, 0x10, 0],
        "control": [-1, 0, -1, -1],
    }
    names = BatchColumns.__dataclass_fields__
    batches = BatchColumns(*(np.array(rows_of.get(name, [0] * 4), column_dtype(name)) for name in names))
    visibilities = view_by_markers(transactions, 0, 4).visibilities(Batches.of_columns(batches))
    assert visibilities.tolist() == [
        BatchVisibility.ABORTED,
        BatchVisibility.CONTROL,
        BatchVisibility.UNDECIDED,
        BatchVisibility.HELD_BACK,
    ]


@pytest.mark.slow
def test_millions_of_transactions_take_seconds() -> None:
    """Each batch takes two binary searches, for any number of transactions and producers."""
    count = 1_000_000
    transactions = np.zeros(count, TRANSACTION)
    transactions["producer_id"] = np.arange(count) % 1000
    transactions["first_offset"] = np.arange(count) * 2
    transactions["marker_offset"] = np.arange(count) * 2 + 1
    transactions["outcome"] = np.arange(count) % 2
    view = view_by_markers(transactions, 0, 2 * count)
    data, yes, no = np.arange(count) * 2, np.ones(count, "?"), np.zeros(count, "?")
    visibilities = view.visibilities(Batches(transactions["producer_id"], data, data, yes, no))
    assert (visibilities == np.where(np.arange(count) % 2, BatchVisibility.VISIBLE, BatchVisibility.ABORTED)).all()


def _segments() -> Iterator[FoundFile]:
    """Yield a segment of each sample partition of a real broker."""
    seen = set()
    for row in discover([str(SAMPLES)]):
        if isinstance(row, FoundFile) and (row.kind, row.state) == ("log", "live") and row.topic:
            folder = Path(row.path).parent
            if folder not in seen and (set(folder.relative_to(SAMPLES).parts).isdisjoint({"damaged", "every-record"})):
                seen.add(folder)
                yield row


def _log(folder: Path) -> list[BatchSummary]:
    summaries = []
    for path in sorted(folder.glob("*.log")):
        with open_source(path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch):
                    first = next(read_records(source, batch), None) if batch.is_control else None
                    summaries.append(batch_summary(batch, first if isinstance(first, Record) else None))
    return summaries


def _index(folder: Path) -> list[TransactionIndexEntry]:
    rows = [row for path in sorted(folder.glob("*.txnindex")) for row in read_transaction_index(open_source(path))]
    return [row for row in rows if isinstance(row, TransactionIndexEntry)]


@dataclass(frozen=True)
class Sample:
    """A partition of a real broker."""

    folder: Path
    transactions: PartitionTransactions
    log: list[BatchSummary]
    index: list[TransactionIndexEntry]

    def differences(self, index: list[TransactionIndexEntry]) -> list[VisibilityDifference]:
        """Return where an index would mislead consumers."""
        actual = index_view(self.transactions, index)
        return visibility_differences(whole_view(self.transactions), actual, columns(self.log))

    def hidden_by(self, entry: TransactionIndexEntry) -> list[BatchSummary]:
        """Return the batches within the offsets visible to consumers that an entry marks as aborted."""
        return [
            batch
            for batch in self.log
            if batch.producer_id == entry.producer_id
            and batch.is_transactional
            and entry.first_offset <= batch.base_offset < entry.last_offset
            and self.transactions.log_start_offset <= batch.last_offset
            and batch.base_offset < self.transactions.last_stable_offset
        ]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """Return the sample partitions of real brokers."""
    loaded = []
    for segment in _segments():
        partition, folder = containing_partition(segment), Path(segment.path).parent
        assert partition is not None
        loaded.append(Sample(folder, partition_transactions(partition), _log(folder), _index(folder)))
    return loaded


def test_indexes_of_real_brokers_agree_with_their_logs(
    samples: list[Sample], capsys: pytest.CaptureFixture[str]
) -> None:
    """Including compacted logs."""
    for sample in samples:
        assert sample.differences(sample.index) == [], sample.folder
    counts = [len(samples), sum(len(sample.log) for sample in samples), sum(len(sample.index) for sample in samples)]
    counts.append(sum(len(sample.transactions.transaction_store) for sample in samples))
    with capsys.disabled():
        sys.stdout.write(
            "by log and by index: {} partitions, {} batches, {} entries, {} transactions\n".format(*counts)
        )
    assert all(count >= least for count, least in zip(counts, LEAST, strict=True)), counts


def test_without_an_entry_consumers_receive_what_it_hides(samples: list[Sample]) -> None:
    shown = 0
    for sample in samples:
        for entry in sample.index:
            differences = sample.differences([other for other in sample.index if other is not entry])
            ranges = [(each.producer_id, each.first_offset, each.last_offset) for each in differences]
            assert all(each.is_shown for each in differences), sample.folder
            assert {batch.base_offset for batch in sample.hidden_by(entry)} == {
                batch.base_offset for batch in sample.log if _is_in(batch, ranges)
            }, sample.folder
            shown += len(ranges)
    assert shown >= LEAST_SHOWN


def _is_in(batch: BatchSummary, ranges: list[tuple[int, int, int]]) -> bool:
    return any(
        batch.producer_id == producer_id and first <= batch.base_offset <= last for producer_id, first, last in ranges
    )
