"""Forged files are like those that a broker writes: checked with our readers, and with the files of real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.replay.boundary import EMPTY
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.state.indexes import (
    OffsetIndexEntry,
    TimeIndexEntry,
    TransactionIndexEntry,
    read_offset_index,
    read_time_index,
    read_transaction_index,
)
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from kforensics.parsers.state.text_checkpoint import (
    LeaderEpochEntry,
    OffsetCheckpointEntry,
    read_leader_epochs,
    read_offset_checkpoint,
)
from lab.places import SAMPLES
from tests.forensics.batch_notation import NOW, parse_batches
from tests.forensics.forge import (
    Content,
    SnapshotEntry,
    aborted_transactions,
    cut,
    drop,
    file_of,
    forge,
    log_end_offset,
    patch,
    snapshot_bytes,
    snapshot_entries,
    swap,
)
from tests.parsers.builders import CODECS
from tests.reference.fold import fold
from tests.reference.replay_values import BatchSummary, batch_summary

INTERLEAVED = "D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"
NESTED = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3"
BUMPED = "D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5"
WRAPPED = "plain @0-4; D 9 0 2147483646-2147483647 @5-6 N; D 9 0 0-2 @7-9 N; D 8 1 0-0 @10 T"
CLEANED = "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 1 @15; plain @19"
TEXTS = pytest.mark.parametrize("text", [INTERLEAVED, NESTED, BUMPED, WRAPPED, CLEANED])
ROLLED = {0: BUMPED, 6: "D 1 9 0-0 @6 T; D 2 0 0-0 @7 T; M 1 10 A 4 @8", 9: "M 2 1 A 4 @9; plain @10-11"}


def _batches(log: Path) -> list[Batch]:
    return [row for row in walk(open_source(log)) if isinstance(row, Batch)]


def _records(log: Path, batch: Batch) -> list[Record]:
    return [row for row in read_records(open_source(log), batch) if isinstance(row, Record)]


def _summary(log: Path, batch: Batch) -> BatchSummary:
    return batch_summary(batch, next(iter(_records(log, batch)), None) if batch.is_control else None)


# The fields that the notation contains: it has no position and no size.
_notation_fields = attrgetter(
    *("base_offset", "last_offset", "count", "producer_id", "producer_epoch", "base_sequence", "last_sequence"),
    *("is_transactional", "is_control", "max_timestamp", "marker"),
)


def _aborted(path: Path) -> list[tuple[int, int, int, int]]:
    rows = (row for row in read_transaction_index(open_source(path)) if isinstance(row, TransactionIndexEntry))
    return [(row.producer_id, row.first_offset, row.last_offset, row.last_stable_offset) for row in rows]


def _snapshot(path: Path) -> list[SnapshotEntry]:
    rows = (row for row in read_producer_snapshot(open_source(path)) if isinstance(row, ProducerSnapshotEntry))
    return [SnapshotEntry(**{name: getattr(row, name) for name in SnapshotEntry._fields}) for row in rows]


def _checkpoint(path: Path) -> dict[tuple[str, int], int]:
    rows = (row for row in read_offset_checkpoint(open_source(path)) if isinstance(row, OffsetCheckpointEntry))
    return {(row.topic, row.partition): row.offset for row in rows}


def _damage(folder: Path) -> list[Any]:
    return kforensics.dump(folder).damage.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types


@TEXTS
def test_log_contains_the_given_batches(tmp_path: Path, text: str) -> None:
    log = file_of(forge(tmp_path, text))
    summaries = [_summary(log, batch) for batch in _batches(log)]
    assert list(map(_notation_fields, summaries)) == list(map(_notation_fields, parse_batches(text)))
    assert all(batch.crc_valid for batch in _batches(log))


@TEXTS
def test_forged_files_are_not_damaged(tmp_path: Path, text: str) -> None:
    forge(tmp_path, text)
    assert _damage(tmp_path) == []


@TEXTS
def test_snapshot_and_transaction_index_match_the_replay(tmp_path: Path, text: str) -> None:
    """``forge`` does not use the replay, so neither can hide the other's mistakes."""
    partition = forge(tmp_path, text)
    replay = fold(parse_batches(text), EMPTY)
    assert _snapshot(file_of(partition, log_end_offset(text), "snapshot")) == [
        SnapshotEntry(
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_offset,
            producer.offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_first_offset,
        )
        for producer in replay.producers.values()
    ]
    expected = [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for aborted in replay.aborted_transactions
    ]
    index = file_of(partition, kind="txnindex")
    assert index.exists() == bool(expected)
    assert (_aborted(index) if expected else []) == expected


def test_each_segment_has_its_files(tmp_path: Path) -> None:
    partition = forge(tmp_path, ROLLED)
    assert sorted(path.name[18:] for path in partition.iterdir() if path.name.startswith("0")) == [
        "00.index",
        "00.log",
        "00.timeindex",
        "00.txnindex",
        "06.index",
        "06.log",
        "06.snapshot",
        "06.timeindex",
        "06.txnindex",
        "09.index",
        "09.log",
        "09.snapshot",
        "09.timeindex",
        "09.txnindex",
        "12.snapshot",
    ]
    assert [_aborted(file_of(partition, base, "txnindex")) for base in ROLLED] == [
        [(1, 4, 5, 6)],
        [(1, 6, 8, 7)],
        [(2, 7, 9, 10)],
    ]
    assert _snapshot(file_of(partition, 9, "snapshot")) == [
        SnapshotEntry(1, 10, timestamp=NOW + 8, coordinator_epoch=4),
        SnapshotEntry(2, 0, 0, 7, timestamp=NOW + 7, current_txn_first_offset=7),
    ]
    assert _damage(tmp_path) == []


def test_index_entries_name_batches(tmp_path: Path) -> None:
    partition = forge(tmp_path, {0: "plain @0-4", 5: "plain @5-6; plain @7-9 ts 1; plain @10"})
    log = _batches(file_of(partition, 5))
    rows = list(read_offset_index(open_source(file_of(partition, 5, "index")), 5))
    entries = [(row.offset, row.log_position) for row in rows if isinstance(row, OffsetIndexEntry)]
    assert entries == [(batch.last_offset, batch.position) for batch in log[1:]]
    times = list(read_time_index(open_source(file_of(partition, 5, "timeindex")), 5))
    assert [(row.timestamp, row.offset) for row in times if isinstance(row, TimeIndexEntry)] == [
        (NOW + 5, 6),
        (NOW + 10, 10),
    ]


@pytest.mark.parametrize("sample", ["transactions-v0", "transactions-v1", "transactions-v2"])
def test_forged_files_match_those_of_a_real_broker(tmp_path: Path, sample: str) -> None:
    """All indexes byte by byte, snapshots by value, and logs by size; record timestamps differ."""
    real = SAMPLES / sample / "broker-1" / "segments-0"
    logs = {int(path.stem): path for path in sorted(real.glob("*.log"))}
    segments = {base: "; ".join(_notations(log)) for base, log in logs.items()}
    contents = {key: value for log in logs.values() for key, value in _contents(log).items()}
    forged = forge(tmp_path, segments, topic="segments", records=contents, index_interval_bytes=128)
    kinds = ("*.index", "*.timeindex", "*.txnindex", "leader-epoch-checkpoint")
    files = sorted(path for kind in kinds for path in real.glob(kind))
    assert len(files) > 20
    assert {path.name: (forged / path.name).read_bytes() for path in files} == {
        path.name: path.read_bytes() for path in files
    }
    snapshots = {path.name: sorted(_snapshot(path)) for path in real.glob("*.snapshot")}
    assert {path.name: sorted(_snapshot(path)) for path in forged.glob("*.snapshot")} == snapshots
    sizes = {path.name: path.stat().st_size for path in forged.glob("*.log")}
    assert sizes == {path.name: path.stat().st_size for path in logs.values()}


def _notations(log: Path) -> Iterator[str]:
    for batch in _batches(log):
        summary = _summary(log, batch)
        producer = f"{batch.producer_id} {batch.producer_epoch}"
        offsets = f"@{batch.base_offset}-{batch.last_offset}"
        if summary.marker is not None:
            letter = summary.marker.outcome.name[0]
            yield f"M {producer} {letter} {summary.marker.coordinator_epoch} {offsets} ts {batch.max_timestamp}"
        else:
            letter = "T" if batch.is_transactional else "N"
            sequences = f"{batch.base_sequence}-{batch.last_sequence}"
            yield f"D {producer} {sequences} {offsets} {letter} ts {batch.max_timestamp}"


def _contents(log: Path) -> dict[int, list[Content]]:
    return {
        batch.last_offset - len(records) + 1: [(record.key, record.value) for record in records]
        for batch in _batches(log)
        if (records := _records(log, batch))
    }


def test_a_deleted_log_start_is_in_snapshots_and_indexes(tmp_path: Path) -> None:
    deleted = "gone D 3 0 0-9 @90-99 T; gone D 4 2 5-5 @100 N"
    segments = {101: f"{deleted}; M 3 0 A 1 @101; plain @102"}
    partition = forge(tmp_path, segments, log_start=102)
    assert [batch.base_offset for batch in _batches(file_of(partition, 101))] == [101, 102]
    assert _aborted(file_of(partition, 101, "txnindex")) == [(3, 90, 101, 102)]
    four = SnapshotEntry(4, 2, 5, 100, timestamp=NOW + 100)
    assert _snapshot(file_of(partition, 101, "snapshot")) == [
        SnapshotEntry(3, 0, 9, 99, 9, NOW + 90, current_txn_first_offset=90),
        four,
    ]
    assert _snapshot(file_of(partition, 103, "snapshot")) == [SnapshotEntry(3, 0, 9, 99, 9, NOW + 101, 1), four]
    assert _checkpoint(tmp_path / "log-start-offset-checkpoint") == {("t", 0): 102}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain @0; gone D 1 0 0-0 @1 T; M 1 0 A 0 @2", {}),
        ("plain @0; D 1 0 0-0 @1 T; gone M 1 0 A 0 @2", {}),
        ("plain @0; gone D 1 0 0-0 @1 T; D 1 0 1-1 @2 T; M 1 0 A 0 @3", {0: [(1, 1, 3, 4)]}),
        ("M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3", {}),
        ("empty 1 0 @0; D 1 0 0-0 @1 T; empty 1 0 @2; M 1 0 A 2 @3", {0: [(1, 1, 3, 4)]}),
    ],
)
def test_index_entries_disappear_with_marker_and_data(text: str, expected: dict[int, Any]) -> None:
    assert aborted_transactions(text) == expected


def test_cleaned_batch_keeps_its_offsets_and_its_last_records(tmp_path: Path) -> None:
    text = "D 1 0 0-4 @10-14 N cnt 2; D 1 0 5-5 @15 N cnt 0"
    log = file_of(forge(tmp_path, text, compacted=True, horizons={10: NOW - 5}), 10)
    partially_compacted, empty = _batches(log)
    assert [(record.offset, record.key) for record in _records(log, partially_compacted)] == [
        (13, b"k13"),
        (14, b"k14"),
    ]
    assert {record.timestamp for record in _records(log, partially_compacted)} == {partially_compacted.max_timestamp}
    assert (
        partially_compacted.base_offset,
        partially_compacted.last_offset,
        partially_compacted.delete_horizon_ms,
    ) == (10, 14, NOW - 5)
    assert (empty.count, empty.last_offset, empty.size) == (0, 15, 61)
    assert _checkpoint(tmp_path / "cleaner-offset-checkpoint") == {("t", 0): 10}


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_compressed_and_markers_are_not(tmp_path: Path, codec: str) -> None:
    log = file_of(forge(tmp_path, "D 1 0 0-1 @0-1 T; M 1 0 C 0 @2", codec=CODECS[codec]))
    data, marker = _batches(log)
    assert (data.compression_type, marker.compression_type) == (codec, "none")
    assert [(record.key, record.value) for record in _records(log, data)] == [(b"k0", b"v0"), (b"k1", b"v1")]
    assert _damage(tmp_path) == []


def test_records_leader_epochs_and_append_time_are_as_given(tmp_path: Path) -> None:
    given: list[Content] = [(None, b"v"), (b"", None, [(b"h", b"1")])]
    partition = forge(
        tmp_path, "plain @0-1; plain @2; plain @5", records={0: given}, leader_epochs={0: 3, 2: 7}, log_append_time=True
    )
    log = file_of(partition)
    batches = _batches(log)
    assert [(r.key, r.value, list(r.headers)) for r in _records(log, batches[0])] == [
        (None, b"v", []),
        (b"", None, [(b"h", b"1")]),
    ]
    assert [(batch.partition_leader_epoch, batch.timestamp_type) for batch in batches] == [
        (3, "LogAppendTime"),
        (7, "LogAppendTime"),
        (7, "LogAppendTime"),
    ]
    rows = read_leader_epochs(open_source(partition / "leader-epoch-checkpoint"))
    assert [(row.leader_epoch, row.start_offset) for row in rows if isinstance(row, LeaderEpochEntry)] == [
        (3, 0),
        (7, 2),
    ]


def test_partitions_share_a_log_directory(tmp_path: Path) -> None:
    first = forge(tmp_path, "plain @0-4", high_watermark=3)
    second = forge(tmp_path, {0: "plain @0", 1: "plain @1-6"}, topic="u", partition=2, node_id=1, clean_shutdown=False)
    forge(tmp_path, "plain @0-8", high_watermark=9)
    assert (first, second) == (tmp_path / "t-0", tmp_path / "u-2")
    assert _checkpoint(tmp_path / "replication-offset-checkpoint") == {("u", 2): 7, ("t", 0): 9}
    assert _checkpoint(tmp_path / "recovery-point-offset-checkpoint") == {("u", 2): 1, ("t", 0): 9}
    assert [path.name for path in second.glob("*.snapshot")] == [f"{1:020}.snapshot"]
    assert len(_batches(file_of(first))) == 1


def test_files_are_omitted_or_replaced(tmp_path: Path) -> None:
    entries = [entry._replace(producer_epoch=9) for entry in snapshot_entries(ROLLED, 6)]
    partition = forge(
        tmp_path,
        ROLLED,
        txnindex={0: [(7, 1, 2, 3)], 6: None, 9: b"\0"},
        snapshots={6: entries, 9: None, 12: b"", 3: [SnapshotEntry(5)]},
        replaced={"meta.properties": None, "t-0/leader-epoch-checkpoint": b"0\n0\n"},
    )
    assert _aborted(file_of(partition, 0, "txnindex")) == [(7, 1, 2, 3)]
    assert file_of(partition, 9, "txnindex").read_bytes() == b"\0"
    assert _snapshot(file_of(partition, 6, "snapshot")) == entries
    assert file_of(partition, 3, "snapshot").read_bytes() == snapshot_bytes([SnapshotEntry(5)])
    assert file_of(partition, 12, "snapshot").read_bytes() == b""
    assert (partition / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"
    gone = [file_of(partition, 6, "txnindex"), file_of(partition, 9, "snapshot"), tmp_path / "meta.properties"]
    assert not any(path.exists() for path in gone)


def test_patched_batch_has_a_valid_checksum_by_default(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, INTERLEAVED))
    patch(log, 2, producer_epoch=4, count=7)
    patch(log, 3, fix_crc=False, producer_epoch=5)
    patch(log, 5, crc=1)
    patch(log, 6, partition_leader_epoch=8, fix_crc=False)
    batches = {batch.base_offset: batch for batch in _batches(log)}
    assert (batches[2].producer_epoch, batches[2].count, batches[3].producer_epoch) == (4, 7, 5)
    assert [offset for offset, batch in batches.items() if not batch.crc_valid] == [3, 5]
    assert batches[6].partition_leader_epoch == 8


def test_batches_are_dropped_swapped_and_cut(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, INTERLEAVED))
    drop(log, 3)
    swap(log, 6, 0)
    assert [batch.base_offset for batch in _batches(log)] == [6, 2, 4, 5, 0]
    swap(log, 2, 4)
    cut(log, -1)
    assert [batch.base_offset for batch in _batches(log)] == [6, 4, 2, 5]
    with pytest.raises(ValueError, match="no batch begins at 3"):
        drop(log, 3)


@pytest.mark.parametrize("text", ["D 1 0 0-3 @0-4 N", "plain @0-1 cnt 3"])
def test_inconsistent_batches_are_rejected(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="count or sequences do not match"):
        forge(tmp_path, text)


def test_empty_log_can_be_forged(tmp_path: Path) -> None:
    partition = forge(tmp_path, {50: ""})
    assert log_end_offset({50: ""}) == 50
    assert {path.name: path.stat().st_size for path in partition.glob("0*")} == {
        f"{50:020}.index": 0,
        f"{50:020}.log": 0,
        f"{50:020}.snapshot": 10,
        f"{50:020}.timeindex": 0,
    }
    assert _damage(tmp_path) == []
