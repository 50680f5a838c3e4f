"""What a read_committed consumer receives: by the markers, by the indexes, and where the two part."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.forensics.core.record_types import TRANSACTION, Ending, Records
from kforensics.forensics.partition.transaction_store import ledger_of
from kforensics.forensics.replay.fold import Replay, fold
from kforensics.forensics.replay.replay_types import BatchSummary, Outcome, batch_summary
from kforensics.forensics.sidecar.isolation import PartitionTransactions, partition_of, transactions_of
from kforensics.forensics.sidecar.visibility import (
    Batches,
    Difference,
    Verdict,
    Visibility,
    visibility_differences,
    visible_by_index,
    visible_by_log,
)
from kforensics.parsers.columns.batch_columns import BatchColumns, columns_dtype
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from kforensics.parsers.state.transaction_index import TransactionIndexEntry, read_transaction_index
from lab.places import SAMPLES
from tests.forensics.events import events, records_of_replay

NEVER = int(np.iinfo("i8").max)
INTERLEAVED = """D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"""
NESTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3"
NESTED_COMMITTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 C 1 @2; M 1 0 A 1 @3"
# Partitions, batches, entries and transactions that the samples hold at least, and ranges that entries hide.
LEAST, LEAST_SHOWN = (274, 3855, 130, 324), 144
SHOWN, HIDDEN = (Verdict.ABORTED, Verdict.VISIBLE), (Verdict.VISIBLE, Verdict.ABORTED)


def columns(log: list[BatchSummary]) -> Batches:
    """Return batches as arrays."""
    return Batches(
        np.array([one.producer_id for one in log], "i8"),
        np.array([one.base_offset for one in log], "i8"),
        np.array([one.last_offset for one in log], "i8"),
        np.array([one.is_transactional for one in log], "?"),
        np.array([one.is_control for one in log], "?"),
    )


def entries(*rows: tuple[int, int, int, int]) -> list[TransactionIndexEntry]:
    """Return index entries, each given as producer id, first, last and last stable offset."""
    return [TransactionIndexEntry(0, 0, *row) for row in rows]


def _judged(replay: Replay) -> PartitionTransactions:
    transactions, empty_markers = records_of_replay(replay)
    stable = replay.last_stable_offset().last_stable_offset
    return PartitionTransactions(ledger_of(transactions), empty_markers, replay.log_start_offset, stable)


def by_log(log: list[BatchSummary]) -> Visibility:
    """Return what the markers decide."""
    return whole(_judged(fold(log)))


def whole(found: PartitionTransactions) -> Visibility:
    """Return what the markers decide, of all batches there may be."""
    return found.visibility.around(0, NEVER)


def markers(found: PartitionTransactions) -> list[Records]:
    """Return all markers."""
    return [*found.ledger.closed, found.empty_markers]


def by_index(log: list[BatchSummary], index: list[TransactionIndexEntry]) -> Visibility:
    """Return what an index decides."""
    found = _judged(fold(log))
    return visible_by_index(index, markers(found), found.log_start_offset, found.last_stable_offset)


def visible(seen: Visibility, log: list[BatchSummary]) -> list[int]:
    """Return the first offsets of visible batches, as both forms agree."""
    many = [Verdict(one) for one in seen.verdicts(columns(log))]
    assert many == [verdict(seen, one) for one in log]
    return [one.base_offset for one, said in zip(log, many, strict=True) if said is Verdict.VISIBLE]


def verdict(seen: Visibility, batch: BatchSummary) -> Verdict:
    """Return the verdict on one batch."""
    return seen.verdict(
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
        ("shell 3 @0; plain @1-1", [], [1]),
    ],
    ids=["empty", "plain", "committed", "example-4", "example-5", "example-18", "v2", "hanging", "not-transactional",
         "example-39", "empty-abort-until-2.7", "control-shell"],
)  # fmt: skip
def test_examples(text: str, index: list[tuple[int, int, int, int]], expected: list[int]) -> None:
    log = events(text)
    right, found = by_log(log), by_index(log, entries(*index))
    assert visible(right, log) == visible(found, log) == expected
    assert visibility_differences(right, found, columns(log)) == []


def test_verdicts_say_why() -> None:
    log = events(
        "plain @0-3; D 1 0 0-0 @4-4 T; M 1 0 A 1 @5; D 2 0 0-0 @6-6 T; D 3 0 0-0 @7-7 T; M 3 0 A 1 @8; plain @9"
    )
    found = _judged(fold(log, log_start_offset=4))
    assert (found.log_start_offset, found.last_stable_offset) == (4, 6)
    said = [Verdict(one) for one in whole(found).verdicts(columns(log))]
    assert said == [
        Verdict.DELETED,
        Verdict.ABORTED,
        Verdict.CONTROL,
        Verdict.UNDECIDED,
        Verdict.ABORTED,
        Verdict.CONTROL,
        Verdict.HELD_BACK,
    ]
    assert said == [verdict(whole(found), one) for one in log]


def test_nothing_is_served_between_a_log_start_and_a_last_stable_offset_inside_one_batch() -> None:
    """DeleteRecords may move the log start into a transaction, and its own batch then holds both offsets."""
    log = events("D 1 0 0-1 @0-1 T; plain @2-4; plain @5-6")
    found = _judged(fold(log, log_start_offset=3))
    assert (found.log_start_offset, found.last_stable_offset) == (3, 3)
    for seen in (whole(found), visible_by_index([], markers(found), 3, 3)):
        assert visible(seen, log) == []


def test_data_of_a_transaction_that_is_not_on_hand_is_undecided() -> None:
    seen = by_log(events("D 1 0 0-0 @0-0 T; M 1 0 C 1 @1; plain @2-9"))
    for producer_id, offset in ((1, 5), (2, 0), (0, 0)):
        assert seen.verdict(producer_id, offset, offset, is_transactional=True, is_control=False) is Verdict.UNDECIDED


def test_a_missing_entry_shows_what_was_aborted() -> None:
    """Example 18 of the specification."""
    log = events(NESTED)
    found = by_index(log, entries((1, 0, 3, 4)))
    assert visible(found, log) == [1]
    (difference,) = visibility_differences(by_log(log), found, columns(log))
    assert difference == Difference(2, 1, 1, *SHOWN)
    assert difference.is_shown


def test_an_extra_entry_hides_what_was_committed() -> None:
    """Example 18, the other way round."""
    log = events(NESTED_COMMITTED)
    found = by_index(log, entries((2, 1, 2, 0), (1, 0, 3, 4)))
    assert visible(found, log) == []
    (difference,) = visibility_differences(by_log(log), found, columns(log))
    assert difference == Difference(2, 1, 1, *HIDDEN)
    assert not difference.is_shown


def test_an_extra_entry_hides_up_to_the_next_abort_of_its_producer() -> None:
    log = events(
        "D 1 0 0-0 @0-0 T; M 1 0 C 1 @1; D 1 0 1-2 @2-3 T; D 1 0 3-3 @4-4 T; D 2 0 0-0 @5-5 T; M 2 0 A 1 @6;"
        "M 1 0 C 1 @7; D 1 0 4-4 @8-8 T; M 1 0 A 1 @9; D 1 0 5-5 @10-10 T; M 1 0 C 1 @11"
    )
    found = by_index(log, entries((1, 0, 1, 2), (2, 5, 6, 2), (1, 8, 9, 10)))
    assert visibility_differences(by_log(log), found, columns(log)) == [
        Difference(1, 0, 0, *HIDDEN),
        Difference(1, 2, 4, *HIDDEN),
    ]


def test_an_entry_hides_the_batch_in_which_it_begins_and_none_before() -> None:
    log = events("D 1 0 0-1 @0-1 T; D 1 0 2-4 @2-4 T; D 1 0 5-6 @5-6 T; M 1 0 C 1 @7")
    for first in (2, 3, 4):
        assert visible(by_index(log, entries((1, first, 7, 8))), log) == [0], first


def test_entries_that_end_together_hide_from_the_first_of_them_on() -> None:
    log = events("D 1 0 0-1 @0-1 T; D 1 0 2-4 @2-4 T; M 1 0 A 1 @5")
    index = entries((1, 3, 5, 6), (1, 1, 5, 6), (1, 4, 5, 6))
    for order in (index, index[::-1], index[1:]):
        assert visibility_differences(by_log(log), by_index(log, order), columns(log)) == []


def test_nothing_differs_at_and_behind_the_last_stable_offset() -> None:
    log = events("D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; D 3 0 0-0 @3-3 T; M 3 0 C 1 @4")
    assert visibility_differences(by_log(log), by_index(log, entries((3, 3, 4, 0))), columns(log)) == []


@st.composite
def logs(draw: st.DrawFn) -> list[BatchSummary]:
    """Return a log of a few producers, with holes."""
    offset, log = 0, []
    for kind, producer_id, size, hole in draw(
        st.lists(
            st.tuples(st.sampled_from("TTTNCAS"), st.integers(0, 3), st.integers(1, 3), st.integers(0, 1)), max_size=30
        )
    ):
        offset += hole
        last = offset if kind in "CAS" else offset + size - 1
        texts = {
            "C": f"M {producer_id} 0 C 1 @{offset}",
            "A": f"M {producer_id} 0 A 1 @{offset}",
            "S": f"shell {producer_id} @{offset}",
        }
        log += events(texts.get(kind, f"D {producer_id} 0 0-{last - offset} @{offset}-{last} {kind}"))
        offset = last + 1
    return log


rows = st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 60), st.just(0))


@given(logs(), st.lists(rows, max_size=6))
def test_the_index_hides_what_a_client_step_by_step_passes_over(
    log: list[BatchSummary], index: list[tuple[int, int, int, int]]
) -> None:
    found = _judged(fold(log))
    expected = _received(log, entries(*index), found.last_stable_offset)
    assert visible(by_index(log, entries(*index)), log) == expected


def _received(log: list[BatchSummary], index: list[TransactionIndexEntry], last_stable_offset: int) -> list[int]:
    """Return what Kafka's client takes of one fetch: ``CompletedFetch.nextFetchedRecord``, line by line."""
    waiting = sorted(index, key=lambda entry: entry.first_offset)
    aborted: set[int] = set()
    received = []
    for batch in log:
        if batch.base_offset >= last_stable_offset:
            break
        if batch.producer_id >= 0:
            while waiting and waiting[0].first_offset <= batch.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if batch.marker and batch.marker.outcome is Outcome.ABORTED:
                aborted.discard(batch.producer_id)
            elif batch.is_transactional and batch.producer_id in aborted:
                continue
        if not batch.is_control:
            received.append(batch.base_offset)
    return received


@given(logs())
def test_the_markers_and_the_index_a_broker_writes_agree(log: list[BatchSummary]) -> None:
    replay = fold(log)
    index = entries(*((one.producer_id, one.first_offset, one.last_offset, 0) for one in replay.aborted_transactions))
    right, found = by_log(log), by_index(log, index)
    assert visible(right, log) == visible(found, log) == _received(log, index, right.last_stable_offset)
    assert visibility_differences(right, found, columns(log)) == []


def test_records_of_the_replay_and_columns_of_batches_are_taken() -> None:
    transactions = np.zeros(2, TRANSACTION)
    transactions["producer_id"], transactions["first_offset"] = 1, [0, 4]
    transactions["marker_offset"], transactions["ending"] = [3, -1], [Ending.ABORTED, Ending.OPEN]
    rows_of = {
        "producer_id": [1, 1, 1, -1],
        "base_offset": [0, 3, 4, 9],
        "last_offset": [2, 3, 8, 9],
        "attributes": [0x10, 0x30, 0x10, 0],
        "control": [-1, 0, -1, -1],
    }
    names = BatchColumns.__dataclass_fields__
    batches = BatchColumns(*(np.array(rows_of.get(name, [0] * 4), columns_dtype(name)) for name in names))
    said = visible_by_log(transactions, 0, 4).verdicts(Batches.of_columns(batches))
    assert said.tolist() == [Verdict.ABORTED, Verdict.CONTROL, Verdict.UNDECIDED, Verdict.HELD_BACK]


def test_millions_of_transactions_take_seconds() -> None:
    """Each batch costs two binary searches, whatever the number of transactions and producers."""
    count = 1_000_000
    transactions = np.zeros(count, TRANSACTION)
    transactions["producer_id"] = np.arange(count) % 1000
    transactions["first_offset"] = np.arange(count) * 2
    transactions["marker_offset"] = np.arange(count) * 2 + 1
    transactions["ending"] = np.arange(count) % 2
    seen = visible_by_log(transactions, 0, 2 * count)
    data, yes, no = np.arange(count) * 2, np.ones(count, "?"), np.zeros(count, "?")
    said = seen.verdicts(Batches(transactions["producer_id"], data, data, yes, no))
    assert (said == np.where(np.arange(count) % 2, Verdict.VISIBLE, Verdict.ABORTED)).all()


def _segments() -> Iterator[FoundFile]:
    """Yield a segment of each partition that real brokers left."""
    seen = set()
    for found in discover([str(SAMPLES)]):
        if isinstance(found, FoundFile) and (found.kind, found.state) == ("log", "live") and found.topic:
            folder = Path(found.path).parent
            if folder not in seen and (set(folder.relative_to(SAMPLES).parts).isdisjoint({"damaged", "every-record"})):
                seen.add(folder)
                yield found


def _log(folder: Path) -> list[BatchSummary]:
    found = []
    for path in sorted(folder.glob("*.log")):
        with open_source(path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch):
                    first = next(records_of(source, batch), None) if batch.is_control else None
                    found.append(batch_summary(batch, first if isinstance(first, Record) else None))
    return found


def _index(folder: Path) -> list[TransactionIndexEntry]:
    rows = [row for path in sorted(folder.glob("*.txnindex")) for row in read_transaction_index(open_source(path))]
    return [row for row in rows if isinstance(row, TransactionIndexEntry)]


@dataclass(frozen=True)
class Sample:
    """A partition of a real broker."""

    folder: Path
    found: PartitionTransactions
    log: list[BatchSummary]
    index: list[TransactionIndexEntry]

    def by_index(self, index: list[TransactionIndexEntry]) -> Visibility:
        """Return what consumers would receive with an index."""
        return visible_by_index(index, markers(self.found), self.found.log_start_offset, self.found.last_stable_offset)

    def differences(self, index: list[TransactionIndexEntry]) -> list[Difference]:
        """Return where an index would mislead consumers."""
        return visibility_differences(whole(self.found), self.by_index(index), columns(self.log))

    def hidden_by(self, entry: TransactionIndexEntry) -> list[BatchSummary]:
        """Return the batches between the offsets of consumers that an entry says are aborted."""
        return [
            batch
            for batch in self.log
            if batch.producer_id == entry.producer_id
            and batch.is_transactional
            and entry.first_offset <= batch.base_offset < entry.last_offset
            and self.found.log_start_offset <= batch.last_offset
            and batch.base_offset < self.found.last_stable_offset
        ]


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """Return the partitions that real brokers left."""
    found = []
    for segment in _segments():
        partition, folder = partition_of(segment), Path(segment.path).parent
        assert partition is not None
        found.append(Sample(folder, transactions_of(partition), _log(folder), _index(folder)))
    return found


def test_indexes_of_real_brokers_agree_with_their_logs(
    samples: list[Sample], capsys: pytest.CaptureFixture[str]
) -> None:
    """Cleaned logs included."""
    for one in samples:
        assert one.differences(one.index) == [], one.folder
    counts = [len(samples), sum(len(one.log) for one in samples), sum(len(one.index) for one in samples)]
    counts.append(sum(len(one.found.ledger) for one in samples))
    with capsys.disabled():
        sys.stdout.write(
            "by log and by index: {} partitions, {} batches, {} entries, {} transactions\n".format(*counts)
        )
    assert all(count >= least for count, least in zip(counts, LEAST, strict=True)), counts


def test_without_an_entry_consumers_receive_what_it_hides(samples: list[Sample]) -> None:
    shown = 0
    for one in samples:
        for entry in one.index:
            differences = one.differences([other for other in one.index if other is not entry])
            ranges = [(each.producer_id, each.first_offset, each.last_offset) for each in differences]
            assert all(each.is_shown for each in differences), one.folder
            assert {batch.base_offset for batch in one.hidden_by(entry)} == {
                batch.base_offset for batch in one.log if _is_in(batch, ranges)
            }, one.folder
            shown += len(ranges)
    assert shown >= LEAST_SHOWN


def _is_in(batch: BatchSummary, ranges: list[tuple[int, int, int]]) -> bool:
    return any(batch.producer_id == one and first <= batch.base_offset <= last for one, first, last in ranges)
