"""What records say of their batches: against the plainest way to ask them, in any splits, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kforensics.forensics.partition.log_chunk import Split
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.record_evidence import (
    MOST,
    OFFSETS,
    Broken,
    First,
    Keyless,
    Mistimed,
    Place,
    RecordEvidence,
    evidence_of,
    record_evidence,
)
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import LOG_APPEND_TIME, Batch, Damage, Record
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from tests.forensics.cases import SAMPLES, case_of, partitions_under
from tests.forensics.forge import forge
from tests.parsers.builders import CODECS, NOW, batch, batch_of, compressed, message, record, wrapper

CONTROL, APPEND_TIME, HORIZON = 0x20, 0x08, 0x40
LARGEST = (1 << 63) - 1


def compiled_kernels(_size: int) -> Any:
    """Return the kernels whatever the size."""
    return kernels()


twins = pytest.mark.parametrize("choice", [no_kernels, compiled_kernels])


def saved(folder: Path, data: bytes) -> Partition:
    """Return a partition with a log of such bytes."""
    (folder / "t-0").mkdir(parents=True)
    (folder / "t-0" / f"{0:020}.log").write_bytes(data)
    (partition,) = partitions_under(folder)
    return partition


def evidence(partition: Partition, choice: Choice = no_kernels, workers: int = 0) -> RecordEvidence:
    """Return what all of a partition says."""
    parts = [evidence_of(partition, Split(number), choice, workers) for number in range(len(partition.segments))]
    return reduce(RecordEvidence.merged, parts, RecordEvidence())


def _plainly(source: Source, segment: int) -> Iterator[RecordEvidence]:
    """Yield what each batch says."""
    for one in walk(source):
        if isinstance(one, Batch) and one.crc_valid and not one.is_control:
            rows = list(records_of(source, one))
            records = [row for row in rows if isinstance(row, Record)]
            damage = [row for row in rows if isinstance(row, Damage)]
            yield _of_batch(one, _place(one, records, segment, is_broken=bool(damage)), records, damage)


def _place(one: Batch, records: list[Record], segment: int, *, is_broken: bool) -> Place:
    first = one.base_offset
    if first is None:
        first = one.last_offset if is_broken else records[0].offset
    producer = [-1 if number is None else number for number in (one.producer_id, one.producer_epoch)]
    return Place(segment, one.position, first, one.last_offset, *producer)


def _of_batch(one: Batch, place: Place, records: list[Record], damage: list[Damage]) -> RecordEvidence:
    broken = [Broken(place, row.reason, row.detail) for row in damage]
    offsets = [row.offset for row in records]
    if one.magic >= 2 and offsets:
        if any(after <= before for before, after in pairwise(offsets)):
            broken.append(Broken(place, OFFSETS, "the offsets of its records do not ascend"))
        elif offsets[0] < place.first_offset or offsets[-1] > place.last_offset:
            span = f"{place.first_offset} to {place.last_offset}"
            broken.append(Broken(place, OFFSETS, f"its records have offsets that are not from {span}"))
    latest = max((row.timestamp for row in records), default=one.max_timestamp)
    is_told = one.magic >= 2 or (one.magic == 1 and latest != -1)
    differs = is_told and not damage and one.timestamp_type != LOG_APPEND_TIME and latest != one.max_timestamp
    lone = [row.offset for row in records if row.key is None]
    keyless_place = _place(one, records, place.segment, is_broken=False) if records else place
    return RecordEvidence(
        len(records),
        First(tuple(broken), len(broken)),
        First((Mistimed(place, one.max_timestamp, latest),), 1) if differs else First(),
        Keyless(len(lone), keyless_place, lone[0], lone[-1]) if lone else Keyless(),
    )


def plainly(partition: Partition) -> RecordEvidence:
    """Return what all of a partition says, asked batch by batch."""
    found = RecordEvidence()
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            found = reduce(RecordEvidence.merged, _plainly(source, number), found)
    return found


@twins
def test_every_sample_says_what_its_records_say_one_by_one(choice: Choice) -> None:
    total = RecordEvidence()
    for partition in partitions_under(SAMPLES):
        expected = plainly(partition)
        assert evidence(partition, choice) == expected, partition.folder
        total = total.merged(expected)
    assert total.records > 12_000
    assert total.broken.count > 50
    assert total.mistimed.count > 5
    assert total.keyless.count > 100
    assert {"record-size", "record-count", "decompression", OFFSETS} <= {one.reason for one in total.broken.items}


def _strange_log(dice: Random) -> list[bytes]:
    """Return batches with all that can be wrong with them, in any order."""
    built, offset = [], 0
    for _ in range(80):
        codec = dice.choice(list(CODECS.values()))
        where: dict[str, int] = {"base_offset": offset, "codec": codec}
        pair = [record(0, dice.choice([None, b"k"])), record(1, dice.choice([None, b""]))]
        built.append(
            dice.choice(
                [
                    batch(*pair, **where),
                    batch(*pair, **where, max_timestamp=NOW + 1),
                    batch(*pair, **where, max_timestamp=NOW + 1, attributes=codec | APPEND_TIME),
                    batch(*pair[::-1], **where),
                    batch(*pair, **where, last_offset_delta=0),
                    batch(*pair, **where, count=3),
                    batch(*pair, **where, crc=1),
                    batch(record(0, length=2), **where, last_offset_delta=1),
                    batch(record(0, None), **where, last_offset_delta=1, attributes=codec | CONTROL),
                ]
            )
        )
        offset += 2
    return built


@twins
@pytest.mark.parametrize("seed", range(8))
def test_any_log_says_what_its_records_say_one_by_one(tmp_path: Path, seed: int, choice: Choice) -> None:
    partition = saved(tmp_path, b"".join(_strange_log(Random(seed))))  # noqa: S311  # dice for a test
    expected = plainly(partition)
    assert evidence(partition, choice) == evidence(partition, choice, workers=2) == expected
    assert expected.broken.count > 0
    assert expected.mistimed.count > 0
    assert expected.keyless.count > 0


@pytest.mark.parametrize("seed", range(8))
def test_splits_say_together_what_the_log_says(tmp_path: Path, seed: int) -> None:
    """Cut before any batches, and merged in any grouping."""
    dice = Random(seed)  # noqa: S311  # dice for a test
    batches = _strange_log(dice)
    partition = saved(tmp_path, b"".join(batches))
    ends = [sum(map(len, batches[: n + 1])) for n in range(len(batches))]
    cuts = sorted(dice.sample(ends[:-1], 6))
    splits = [Split(0, *span) for span in zip([0, *cuts], [*cuts, None], strict=True)]
    parts = [evidence_of(partition, split, no_kernels, 0) for split in splits]
    while len(parts) > 1:
        at = dice.randrange(len(parts) - 1)
        parts[at : at + 2] = [parts[at].merged(parts[at + 1])]
    assert parts[0] == evidence(partition)


def test_only_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    """Whether they are met at once or in parts."""
    bad = [
        *(batch(record(length=2), base_offset=n) for n in range(MOST + 2)),
        *(batch(record(), base_offset=n, max_timestamp=NOW + 9) for n in range(MOST + 2, 2 * MOST + 5)),
    ]
    partition = saved(tmp_path, b"".join(bad))
    cut = len(bad[0]) * 7
    whole = evidence(partition)
    halves = [evidence_of(partition, split, no_kernels, 0) for split in (Split(0, 0, cut), Split(0, cut))]
    for found in (whole, halves[0].merged(halves[1]), evidence(partition, compiled_kernels)):
        assert (len(found.broken.items), found.broken.count) == (MOST, MOST + 2)
        assert (len(found.mistimed.items), found.mistimed.count) == (MOST, MOST + 3)
        assert [one.place.first_offset for one in found.broken.items] == list(range(MOST))
        assert found.mistimed.items[-1].place.first_offset == 2 * MOST + 1


@twins
def test_a_batch_that_cannot_be_read_is_told_of_with_its_producer(tmp_path: Path, choice: Choice) -> None:
    producer = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 0}
    data = batch(record()) + batch(record(length=3), base_offset=1, last_offset_delta=4, **producer)
    found = evidence(saved(tmp_path, data), choice)
    (broken,) = found.broken.items
    assert broken.place == Place(0, len(batch(record())), 1, 5, 7, 2)
    assert (broken.reason, found.records) == ("record-size", 1)


@twins
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
    tmp_path: Path, built: bytes, detail: str, choice: Choice
) -> None:
    good = batch(record(), base_offset=900)
    found = evidence(saved(tmp_path, good + built + good), choice)
    assert [(one.place.position, one.reason, one.detail) for one in found.broken.items] == [
        (len(good), OFFSETS, detail)
    ]
    assert found.mistimed.count == 0


@twins
def test_what_the_cleaner_left_and_the_end_of_all_offsets_are_in_order(tmp_path: Path, choice: Choice) -> None:
    cleaned = batch(record(2), record(7), last_offset_delta=9)
    last = batch(record(0), record(1), base_offset=LARGEST)  # goes round
    shell = batch(base_offset=20, last_offset_delta=3, max_timestamp=NOW + 9)
    found = evidence(saved(tmp_path, cleaned + shell + last), choice)
    assert (found.records, found.broken, found.mistimed) == (4, First(), First())


@twins
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
def test_header_with_another_largest_timestamp(
    tmp_path: Path, built: bytes, pair: tuple[int, int], choice: Choice
) -> None:
    good = batch(record())
    found = evidence(saved(tmp_path, good + built), choice)
    assert [(one.place.position, one.max_timestamp, one.latest) for one in found.mistimed.items] == [(len(good), *pair)]


@twins
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
def test_header_with_a_largest_timestamp_of_its_own(tmp_path: Path, built: bytes, choice: Choice) -> None:
    found = evidence(saved(tmp_path, batch(record()) + built), choice)
    assert found.mistimed == First()


@twins
def test_keyless_records_are_those_whose_key_is_null(tmp_path: Path, choice: Choice) -> None:
    data = (
        batch(record(0), record(1, b""))
        + batch(record(0), record(1, None, b"v"), record(2, None, None), base_offset=2)
        + batch(record(0, None), base_offset=5, attributes=CONTROL)
        + batch(record(0, None), record(1), base_offset=6)
        + batch(record(0, None), base_offset=8, crc=1)
    )
    keyless = evidence(saved(tmp_path, data), choice).keyless
    place = Place(0, len(batch(record(0), record(1, b""))), 2, 4, -1, -1)
    assert keyless == Keyless(3, place, 3, 6)


def test_damage_of_headers_is_not_that_of_records(tmp_path: Path) -> None:
    odd = bytearray(batch(record()))
    odd[16] = 3  # the magic byte
    data = bytes(odd) + batch(record(), crc=1) + b"\xff" * 70 + batch(record(), base_offset=3) + batch(record())[:30]
    found = evidence(saved(tmp_path, data))
    assert (found.broken, found.records) == (First(), 2)


@twins
def test_what_cannot_be_decompressed_is_told(tmp_path: Path, choice: Choice) -> None:
    payload = compressed(CODECS["gzip"], record())[:-9]
    found = evidence(saved(tmp_path, batch_of(payload, attributes=CODECS["gzip"], count=1)), choice)
    assert [one.reason for one in found.broken.items] == ["decompression"]


def test_all_segments_of_a_case_are_read(tmp_path: Path) -> None:
    contents = {3: [(None, b"v"), (b"k", b"w")]}
    forge(tmp_path, {0: "plain @0-2", 3: "plain @3-4; D 7 1 0-0 @5 T; M 7 1 C 0 @6"}, records=contents)
    found = record_evidence(case_of(tmp_path).partition, no_kernels, 0)
    assert found == RecordEvidence(6, keyless=Keyless(1, Place(1, 0, 3, 4, -1, -1), 3, 3))
    assert record_evidence(case_of(tmp_path).partition, compiled_kernels) == found
