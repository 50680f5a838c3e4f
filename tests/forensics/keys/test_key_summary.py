"""Key summaries compared with what live consumers received, serialized, and joined in shares."""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.data import write_transactions
from kforensics.forensics.audit.topic_result import best_copies, evaluate_keys, has_keys, topic_key_result
from kforensics.forensics.keys import producer_batches, topic_keys
from kforensics.forensics.keys.key_summary import KeySummary, key_summary
from kforensics.forensics.keys.topic_keys import assemble_topic_keys, join_topic_keys, locate_share, topic_fit
from kforensics.parsers.log.log_rows import Place
from tests.forensics.forge import forge
from tests.forensics.keys.topics import GROWTH, KEYS, RULES, at_home, joined, sent_to, summaries_in, truth
from tests.forensics.partition_states import SAMPLES, partitions_under, state_of

TOPICS = ("keyed", "grown-twice", "compacted", "transactional", "late-writer", "by-hand", "round-robin", "no-keys")


def _known(summary: KeySummary) -> list[tuple[Any, ...]]:
    return sorted(summary.share(0, 1).tolist())


@pytest.mark.parametrize("name", TOPICS)
def test_record_counts_are_those_of_live_consumers(name: str) -> None:
    for summary in summaries_in(GROWTH, name):
        expected = truth()["topics"][name][str(summary.number)]
        sent = [row for row in truth()["sent"][name] if row["partition"] == summary.number]
        hidden = len(expected["read_uncommitted"]) - len(expected["read_committed"])
        assert (summary.counts.records, summary.counts.hidden) == (len(expected["read_committed"]), hidden)
        assert summary.counts.keyless == sum(row["key"] is None for row in sent)
        assert summary.counts.unread == 0
        assert summary.producers["records"].sum() == len(sent)


@pytest.mark.parametrize("name", ["keyed", "compacted", "late-writer"])
def test_each_key_has_the_offsets_and_timestamps_of_the_producers(name: str) -> None:
    for summary in summaries_in(GROWTH, name):
        mine = [row for row in truth()["sent"][name] if row["partition"] == summary.number and row["key"] is not None]
        expected = {
            (row["key"], row["producer"]): [
                one for one in mine if (one["key"], one["producer"]) == (row["key"], row["producer"])
            ]
            for row in mine
        }
        known = Counter((row[3], row[4], row[6] >> 1, row[7], row[8]) for row in _known(summary))
        assert known == Counter(
            (
                len(rows),
                min(row["offset"] for row in rows),
                max(row["offset"] for row in rows),
                min(row["timestamp"] for row in rows),
                max(row["timestamp"] for row in rows),
            )
            for rows in expected.values()
        )


@pytest.mark.parametrize("sample", ["partition-growth", "records", "compaction", "legacy-magic-0", "legacy-magic-1"])
def test_kernels_and_pure_python_agree(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [one for one in partitions_under(SAMPLES / sample) if has_keys(one.place)]
    results = []
    for kernels in ("never", "always"):
        monkeypatch.setenv("KFORENSICS_KERNELS", kernels)
        summaries = [key_summary(state_of(one)) for one in partitions]
        results.append(
            [(_known(one), one.counts, one.producers.tolist(), one.batch_times.tolist()) for one in summaries]
        )
    assert results[0] == results[1]


def test_batches_whose_checksum_fails_are_counted_and_left_out(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-4; plain @5-9")
    log = folder / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    (summary,) = summaries_in(tmp_path)
    assert (summary.counts.records, summary.counts.unread, len(summary.keys)) == (5, 1, 5)


@pytest.mark.parametrize("name", ["record-length-zero-0", "header-key-beyond-gzip-0"])
def test_partially_readable_batches_are_counted_too(name: str) -> None:
    (partition,) = partitions_under(SAMPLES / "damaged" / "records" / name)
    summary = key_summary(state_of(partition))
    assert (summary.counts.records, summary.counts.unread) == (13, 1)


def test_records_below_the_log_start_are_left_out(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-4; plain @5-9", log_start=7)
    (summary,) = summaries_in(tmp_path)
    assert (summary.counts.records, len(summary.keys)) == (3, 3)


def test_the_copy_that_reaches_furthest_is_taken(tmp_path: Path) -> None:
    for broker, log in ((1, "plain @0-4"), (2, "plain @0-8"), (3, "plain @0-2")):
        forge(tmp_path / str(broker), log, node_id=broker)
    (summary,) = summaries_in(tmp_path)
    assert (summary.place.broker_id, summary.log_end_offset) == (2, 9)
    assert best_copies([]) == []


def test_no_partition_is_an_error() -> None:
    with pytest.raises(ValueError, match="one partition"):
        evaluate_keys([], RULES)


@pytest.mark.parametrize(
    ("topic", "expected"),
    [("orders", True), ("__consumer_offsets", False), ("__transaction_state", False), (None, False)],
)
def test_internal_topics_are_left_out(topic: str | None, expected: bool) -> None:
    assert has_keys(Place(1, "/d", topic, 0)) is expected


def test_serialized_summaries_give_the_same_result_in_many_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [*at_home(KEYS, 2, producer=1), *at_home(KEYS, 4, at=100), *at_home(KEYS[:9], 3, at=300, producer=2)]
    summaries = summaries_in(sent_to(tmp_path, sent, 4))
    whole = evaluate_keys(summaries, RULES)
    from_wire = _copied(summaries)
    monkeypatch.setattr(topic_keys, "SHARE_BYTES", 300)
    shared = evaluate_keys(from_wire, RULES)
    assert whole.placed == shared.placed
    assert {name: sorted(map(str, rows)) for name, rows in whole.rows.items()} == {
        name: sorted(map(str, rows)) for name, rows in shared.rows.items()
    }
    assert len(whole.rows["keys_apart"]) > 20


def test_separate_tasks_give_the_result_of_one_process(tmp_path: Path) -> None:
    """Only KEY_ROWs, key locations and sampled summaries are sent."""
    sent = [*at_home(KEYS, 2, producer=1), *at_home(KEYS, 4, at=100), *at_home(KEYS[:9], 3, at=300, producer=2)]
    summaries = summaries_in(sent_to(tmp_path, sent, 4))
    whole = join_topic_keys(summaries, RULES, 4)
    sampled = [_copied(one.sampled()) for one in reversed(summaries)]
    fit = topic_fit(sampled, 4)
    shares = [
        locate_share(_copied([(one.number, one.share(share, 3)) for one in summaries]), fit, tombstones=False)
        for share in range(3)
    ]
    joined_there = _copied(shares[2]).merged(_copied(shares[0])).merged(_copied(shares[1]))
    assembled = assemble_topic_keys(sampled, RULES, fit, joined_there)
    assert topic_key_result(assembled).placed == topic_key_result(whole).placed
    assert sorted(str(one) for one in assembled.split_keys) == sorted(str(one) for one in whole.split_keys)
    assert len(whole.split_keys) > 10


def _copied(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # our own data


def test_keys_beyond_the_memory_limit_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kforensics.forensics.keys.key_rows.GATHERED", 4)
    sent_to(tmp_path, [*at_home(KEYS, 2), *at_home(KEYS, 4, at=100)], 4)
    (first, *_) = (one for one in partitions_under(tmp_path) if one.place.partition == 0)
    small, large = key_summary(state_of(first), memory_limit=500), key_summary(state_of(first))
    assert not small.keys.is_in_memory
    assert large.keys.is_in_memory
    assert _known(small) == _known(large)
    assert sorted(small.share(1, 3).tolist()) == sorted(large.share(1, 3).tolist())
    assert joined(tmp_path).locations.keys == len(KEYS)


def test_memory_grows_little_with_batches(tmp_path: Path) -> None:
    """The columns of a batch have about 200 bytes; with a row of sums for each it had about 1,000."""
    imports, *peaks = [_peak_of_summary(tmp_path / f"made-{count}", count) for count in (10, 50_000, 150_000)]
    assert (peaks[1] - peaks[0]) / 100_000 < 350, imports


def _peak_of_summary(folder: Path, transactions: int) -> int:
    write_transactions(folder, 1, transactions)
    (partition,) = partitions_under(folder)
    state = state_of(partition)
    tracemalloc.start()
    assert key_summary(state, workers=0).producers["batches"].sum() == transactions
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_totals_do_not_depend_on_how_many_batches_are_summed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def totals() -> list[Any]:
        return [(one.producers.tolist(), one.batch_times.tolist()) for one in summaries_in(GROWTH, "late-writer")]

    together = totals()
    monkeypatch.setattr(producer_batches, "PART", 1)
    assert totals() == together
