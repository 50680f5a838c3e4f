"""Evidence from records, compared with record-by-record reading, for any splits, and bounded in size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.record_evidence import (
    MAX_BATCHES,
    RECORD_OFFSETS,
    BatchLocation,
    BrokenBatch,
    FirstN,
    KeylessSummary,
    MistimedBatch,
    RecordEvidence,
    record_evidence,
    split_evidence,
)
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import LOG_APPEND_TIME, Batch, Damage, Record
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES, partitions_under, state_under
from tests.parsers.builders import CODECS, NOW, batch, batch_of, compressed, message, record, wrapper

CONTROL, APPEND_TIME, HORIZON = 0x20, 0x08, 0x40
LARGEST = (1 << 63) - 1


def compiled_kernels(_size: int) -> Any:
    """Return the kernels for data of any size."""
    return load_kernels()


both_decoders = pytest.mark.parametrize("kernels", [no_kernels, compiled_kernels])


def saved(folder: Path, data: bytes) -> Partition:
    """Return a partition whose log consists of the given bytes."""
    (folder / "t-0").mkdir(parents=True)
    (folder / "t-0" / f"{0:020}.log").write_bytes(data)
    (partition,) = partitions_under(folder)
    return partition


def evidence(partition: Partition, kernels: KernelPolicy = no_kernels, workers: int = 0) -> RecordEvidence:
    """Return the evidence of a partition."""
    parts = [
        split_evidence(partition, SegmentSplit(number), kernels, workers) for number in range(len(partition.segments))
    ]
    return reduce(RecordEvidence.merged, parts, RecordEvidence())


def _batch_by_batch(source: Source, segment: int) -> Iterator[RecordEvidence]:
    """Yield the evidence of each batch."""
    for row in walk(source):
        if isinstance(row, Batch) and row.crc_valid and not row.is_control:
            rows = list(read_records(source, row))
            records = [record_row for record_row in rows if isinstance(record_row, Record)]
            damage = [damage_row for damage_row in rows if isinstance(damage_row, Damage)]
            yield _of_batch(row, _location(row, records, segment, is_broken=bool(damage)), records, damage)


def _location(header: Batch, records: list[Record], segment: int, *, is_broken: bool) -> BatchLocation:
    first = header.base_offset
    if first is None:
        first = header.last_offset if is_broken else records[0].offset
    producer = [-1 if number is None else number for number in (header.producer_id, header.producer_epoch)]
    return BatchLocation(segment, header.position, first, header.last_offset, *producer)


def _of_batch(header: Batch, location: BatchLocation, records: list[Record], damage: list[Damage]) -> RecordEvidence:
    broken = [BrokenBatch(location, row.reason, row.detail) for row in damage]
    offsets = [row.offset for row in records]
    if header.magic >= 2 and offsets:
        if any(after <= before for before, after in pairwise(offsets)):
            broken.append(BrokenBatch(location, RECORD_OFFSETS, "the offsets of its records do not ascend"))
        elif offsets[0] < location.first_offset or offsets[-1] > location.last_offset:
            span = f"{location.first_offset} to {location.last_offset}"
            broken.append(BrokenBatch(location, RECORD_OFFSETS, f"its records have offsets that are not from {span}"))
    latest = max((row.timestamp for row in records), default=header.max_timestamp)
    is_known = header.magic >= 2 or (header.magic == 1 and latest != -1)
    is_create_time = header.timestamp_type != LOG_APPEND_TIME
    differs = is_known and not damage and is_create_time and latest != header.max_timestamp
    keyless = [row.offset for row in records if row.key is None]
    first_keyless = _location(header, records, location.segment, is_broken=False) if records else location
    return RecordEvidence(
        len(records),
        FirstN(tuple(broken), len(broken)),
        FirstN((MistimedBatch(location, header.max_timestamp, latest),), 1) if differs else FirstN(),
        KeylessSummary(len(keyless), first_keyless, keyless[0], keyless[-1]) if keyless else KeylessSummary(),
    )


def expected_evidence(partition: Partition) -> RecordEvidence:
    """Return the evidence of a partition, computed batch by batch."""
    merged = RecordEvidence()
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            merged = reduce(RecordEvidence.merged, _batch_by_batch(source, number), merged)
    return merged


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_evidence_is_the_same_if_batches_are_spread_over_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    forged = [
        saved(tmp_path / str(seed), b"".join(_random_batch(random, 10 * n) for n in range(20)))
        for seed, random in enumerate([Random(1), Random(2), Random(3)])  # noqa: S311  # reproducible tests
    ]
    compared = [*partitions_under(SAMPLES), *forged]
    expected = [evidence(partition) for partition in compared]
    monkeypatch.setattr("kforensics.parsers.columns.hash_columns.PYTHON_CHUNK_ROWS", rows)
    for partition, whole in zip(compared, expected, strict=True):
        assert evidence(partition) == whole, partition.folder


def _random_batch(random: Random, base_offset: int) -> bytes:
    """Return a batch of a few records; offsets and timestamps may be wrong."""
    deltas = [random.choice((0, 1, 2, 3, 4, 9, -1)) for _ in range(random.randint(1, 6))]
    deltas = deltas if random.random() < 0.3 else sorted(set(deltas))
    rows = [record(delta, random.choice((None, b"k")), b"v", timestamp_delta=random.randint(0, 3)) for delta in deltas]
    changed = {"last_offset_delta": random.choice((deltas[-1], 4)), "max_timestamp": NOW + random.randint(2, 3)}
    return batch(*rows, base_offset=base_offset, codec=random.choice((0, CODECS["gzip"])), **changed)


@both_decoders
def test_the_evidence_of_samples_matches_their_records_one_by_one(kernels: KernelPolicy) -> None:
    total = RecordEvidence()
    for partition in partitions_under(SAMPLES):
        expected = expected_evidence(partition)
        assert evidence(partition, kernels) == expected, partition.folder
        total = total.merged(expected)
    assert total.records > 12_000
    assert total.broken.count > 50
    assert total.mistimed.count > 5
    assert total.keyless.count > 100
    assert {"record-size", "record-count", "decompression", RECORD_OFFSETS} <= {
        broken.reason for broken in total.broken.items
    }


def _random_faulty_log(dice: Random) -> list[bytes]:
    """Return batches with every possible fault, in random order."""
    built, offset = [], 0
    for _ in range(80):
        codec = dice.choice(list(CODECS.values()))
        fields: dict[str, int] = {"base_offset": offset, "codec": codec}
        pair = [record(0, dice.choice([None, b"k"])), record(1, dice.choice([None, b""]))]
        built.append(
            dice.choice(
                [
                    batch(*pair, **fields),
                    batch(*pair, **fields, max_timestamp=NOW + 1),
                    batch(*pair, **fields, max_timestamp=NOW + 1, attributes=codec | APPEND_TIME),
                    batch(*pair[::-1], **fields),
                    batch(*pair, **fields, last_offset_delta=0),
                    batch(*pair, **fields, count=3),
                    batch(*pair, **fields, crc=1),
                    batch(record(0, length=2), **fields, last_offset_delta=1),
                    batch(record(0, None), **fields, last_offset_delta=1, attributes=codec | CONTROL),
                ]
            )
        )
        offset += 2
    return built


@both_decoders
@pytest.mark.parametrize("seed", range(8))
def test_the_evidence_of_random_logs_matches_their_records_one_by_one(
    tmp_path: Path, seed: int, kernels: KernelPolicy
) -> None:
    partition = saved(tmp_path, b"".join(_random_faulty_log(Random(seed))))  # noqa: S311  # dice for a test
    expected = expected_evidence(partition)
    assert evidence(partition, kernels) == evidence(partition, kernels, workers=2) == expected
    assert expected.broken.count > 0
    assert expected.mistimed.count > 0
    assert expected.keyless.count > 0


@pytest.mark.parametrize("seed", range(8))
def test_the_evidence_of_splits_merges_to_that_of_the_log(tmp_path: Path, seed: int) -> None:
    """Split before any batch, merged in any grouping."""
    dice = Random(seed)  # noqa: S311  # dice for a test
    batches = _random_faulty_log(dice)
    partition = saved(tmp_path, b"".join(batches))
    ends = [sum(map(len, batches[: n + 1])) for n in range(len(batches))]
    cuts = sorted(dice.sample(ends[:-1], 6))
    splits = [SegmentSplit(0, *span) for span in zip([0, *cuts], [*cuts, None], strict=True)]
    parts = [split_evidence(partition, split, no_kernels, 0) for split in splits]
    while len(parts) > 1:
        left = dice.randrange(len(parts) - 1)
        parts[left : left + 2] = [parts[left].merged(parts[left + 1])]
    assert parts[0] == evidence(partition)


def test_only_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    """In one pass or in several parts."""
    bad = [
        *(batch(record(length=2), base_offset=n) for n in range(MAX_BATCHES + 2)),
        *(batch(record(), base_offset=n, max_timestamp=NOW + 9) for n in range(MAX_BATCHES + 2, 2 * MAX_BATCHES + 5)),
    ]
    partition = saved(tmp_path, b"".join(bad))
    cut = len(bad[0]) * 7
    whole = evidence(partition)
    halves = [
        split_evidence(partition, split, no_kernels, 0) for split in (SegmentSplit(0, 0, cut), SegmentSplit(0, cut))
    ]
    for result in (whole, halves[0].merged(halves[1]), evidence(partition, compiled_kernels)):
        assert (len(result.broken.items), result.broken.count) == (MAX_BATCHES, MAX_BATCHES + 2)
        assert (len(result.mistimed.items), result.mistimed.count) == (MAX_BATCHES, MAX_BATCHES + 3)
        assert [broken.place.first_offset for broken in result.broken.items] == list(range(MAX_BATCHES))
        assert result.mistimed.items[-1].place.first_offset == 2 * MAX_BATCHES + 1


@both_decoders
def test_an_undecodable_batch_is_reported_with_its_producer(tmp_path: Path, kernels: KernelPolicy) -> None:
    producer = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0}
    data = batch(record()) + batch(record(length=3), base_offset=1, last_offset_delta=4, **producer)
    result = evidence(saved(tmp_path, data), kernels)
    (broken,) = result.broken.items
    assert broken.place == BatchLocation(0, len(batch(record())), 1, 5, 7, 2)
    assert (broken.reason, result.records) == ("record-size", 1)


@both_decoders
@pytest.mark.parametrize(
    ("built", "detail"),
    [
        (batch(record(0), record(0), record(2)), "the offsets of its records do not ascend"),
        (batch(record(1), record(0)), "the offsets of its records do not ascend"),
        (batch(record(0), record(2), base_offset=5), "its records have offsets that are not from 5 to 6"),
        (batch(record(-1), record(0), base_offset=5), "its records have offsets that are not from 5 to 6"),
    ],
)
def test_offsets_of_records_ascend_within_their_batch(
    tmp_path: Path, built: bytes, detail: str, kernels: KernelPolicy
) -> None:
    good = batch(record(), base_offset=900)
    result = evidence(saved(tmp_path, good + built + good), kernels)
    assert [(broken.place.position, broken.reason, broken.detail) for broken in result.broken.items] == [
        (len(good), RECORD_OFFSETS, detail)
    ]
    assert result.mistimed.count == 0


@both_decoders
def test_compacted_batches_and_the_largest_offset_are_accepted(tmp_path: Path, kernels: KernelPolicy) -> None:
    cleaned = batch(record(2), record(7), last_offset_delta=9)
    last = batch(record(0), record(1), base_offset=LARGEST)  # overflows
    empty = batch(base_offset=20, last_offset_delta=3, max_timestamp=NOW + 9)
    result = evidence(saved(tmp_path, cleaned + empty + last), kernels)
    assert (result.records, result.broken, result.mistimed) == (4, FirstN(), FirstN())


@both_decoders
@pytest.mark.parametrize(
    ("built", "pair"),
    [
        (batch(record(0), record(1, timestamp_delta=5), max_timestamp=NOW + 4), (NOW + 4, NOW + 5)),
        (batch(record(0), max_timestamp=-1), (-1, NOW)),
        (batch(record(0), attributes=HORIZON, max_timestamp=NOW + 1), (NOW + 1, NOW)),
        (batch(record(0), max_timestamp=NOW + 1, codec=CODECS["gzip"]), (NOW + 1, NOW)),
        (wrapper(message(0), message(1, timestamp=NOW + 7), offset=1), (NOW, NOW + 7)),
    ],
)
def test_headers_with_another_largest_timestamp_are_reported(
    tmp_path: Path, built: bytes, pair: tuple[int, int], kernels: KernelPolicy
) -> None:
    good = batch(record())
    result = evidence(saved(tmp_path, good + built), kernels)
    assert [(row.place.position, row.max_timestamp, row.latest) for row in result.mistimed.items] == [
        (len(good), *pair)
    ]


@both_decoders
@pytest.mark.parametrize(
    "built",
    [
        pytest.param(batch(record(0), attributes=APPEND_TIME, max_timestamp=NOW + 9), id="log append time"),
        pytest.param(batch(record(0, timestamp_delta=-3), max_timestamp=NOW - 3, attributes=HORIZON), id="horizon"),
        pytest.param(batch(last_offset_delta=3, max_timestamp=NOW + 9), id="emptied"),
        pytest.param(batch(record(2, timestamp_delta=4), last_offset_delta=3, max_timestamp=NOW + 4), id="cleaned"),
        pytest.param(batch(record(), max_timestamp=NOW + 9, crc=1), id="checksum"),
        pytest.param(batch(record(0, b"x"), max_timestamp=NOW + 9, attributes=CONTROL), id="control"),
        pytest.param(wrapper(message(0), timestamp=NOW + 9, attributes=0x09), id="wrapper with log append time"),
        pytest.param(wrapper(message(0, magic=0), timestamp=NOW), id="format 0 in a wrapper of format 1"),
        pytest.param(wrapper(message(0, magic=0), magic=0), id="format 0"),
        pytest.param(message(0), id="format 1"),
        pytest.param(
            batch(record(0), record(1, timestamp_delta=5), record(2, length=3), max_timestamp=NOW + 9), id="broken"
        ),
    ],
)
def test_headers_whose_timestamp_may_differ_are_accepted(tmp_path: Path, built: bytes, kernels: KernelPolicy) -> None:
    result = evidence(saved(tmp_path, batch(record()) + built), kernels)
    assert result.mistimed == FirstN()


@both_decoders
def test_keyless_records_are_those_with_a_null_key(tmp_path: Path, kernels: KernelPolicy) -> None:
    data = (
        batch(record(0), record(1, b""))
        + batch(record(0), record(1, None, b"v"), record(2, None, None), base_offset=2)
        + batch(record(0, None), base_offset=5, attributes=CONTROL)
        + batch(record(0, None), record(1), base_offset=6)
        + batch(record(0, None), base_offset=8, crc=1)
    )
    keyless = evidence(saved(tmp_path, data), kernels).keyless
    location = BatchLocation(0, len(batch(record(0), record(1, b""))), 2, 4, -1, -1)
    assert keyless == KeylessSummary(3, location, 3, 6)


def test_damage_of_headers_is_not_damage_of_records(tmp_path: Path) -> None:
    unknown_magic = bytearray(batch(record()))
    unknown_magic[16] = 3
    data = (
        bytes(unknown_magic)
        + batch(record(), crc=1)
        + b"\xff" * 70
        + batch(record(), base_offset=3)
        + batch(record())[:30]
    )
    result = evidence(saved(tmp_path, data))
    assert (result.broken, result.records) == (FirstN(), 2)


@both_decoders
def test_undecompressable_batches_are_reported(tmp_path: Path, kernels: KernelPolicy) -> None:
    payload = compressed(CODECS["gzip"], record())[:-9]
    result = evidence(saved(tmp_path, batch_of(payload, attributes=CODECS["gzip"], count=1)), kernels)
    assert [broken.reason for broken in result.broken.items] == ["decompression"]


def test_all_segments_of_a_partition_are_read(tmp_path: Path) -> None:
    contents = {3: [(None, b"v"), (b"k", b"w")]}
    forge(tmp_path, {0: "plain @0-2", 3: "plain @3-4; D 7 1 0-0 @5 T; M 7 1 C 0 @6"}, records=contents)
    result = record_evidence(state_under(tmp_path).partition, no_kernels, 0)
    assert result == RecordEvidence(6, keyless=KeylessSummary(1, BatchLocation(1, 0, 3, 4, -1, -1), 3, 3))
    assert record_evidence(state_under(tmp_path).partition, compiled_kernels) == result
