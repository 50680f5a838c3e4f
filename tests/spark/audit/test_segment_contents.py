"""The three rounds in which the records of a large partition are looked into, one after the other, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.audit.partition_result import with_records
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.partition.partition_files import Partition
from kforensics.spark.audit import segment_contents
from kforensics.spark.audit.segment_contents import hashes_of, into_records, records_of, repeated_of
from kforensics.spark.audit.serialization import IN_BUCKET, IN_PARTITION, SCHEMA, Row, to_frames, values
from kforensics.spark.audit.splitting import AddressedValue, Shared, pieces_of
from tests.forensics.partition_states import SAMPLES, partitions_under, state_of

READERS = 3


def _sorted(values_sent: Iterator[AddressedValue], names: tuple[str, ...]) -> Iterator[AddressedValue]:
    """Send values from one round to the next as Spark does, to one task."""
    at = [SCHEMA.names.index(name) for name in names]

    def place(row: Row) -> tuple[Any, ...]:
        return tuple(row[index] for index in at)

    return values(sorted((row for address, value in values_sent for row in to_frames(address, value)), key=place))


def _rounds(partition: Partition) -> Iterator[Any]:
    parts = [one for one in pieces_of(5, partition, Shared(0, 0, 0, 2)) if one[0].ordinal >= 0]
    hashes = _sorted((sent for part in parts for sent in hashes_of(*part)), IN_BUCKET)
    repeated = [one for one in repeated_of(hashes, READERS) if one[0].split_slot % READERS == 0]
    for _, value in _sorted(records_of(_sorted(iter([*parts, *repeated]), IN_PARTITION)), IN_PARTITION):
        yield value


DUPLICATES = [one for one in partitions_under(SAMPLES / "duplicates") if one.size]


@pytest.mark.parametrize("partition", [pytest.param(one, id=one.name) for one in DUPLICATES])
@pytest.mark.parametrize("bucket_bytes", [64, 1 << 28])
def test_rounds_find_what_one_reading_finds(
    partition: Partition, bucket_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether hashes are in one bucket or in hundreds."""
    monkeypatch.setattr(segment_contents, "LOG_BYTES_PER_BUCKET", bucket_bytes)
    case = state_of(partition)
    expected = with_records(case, 0)
    found = into_records(case, _rounds(partition))
    assert found.records == expected.records
    assert expected.duplicates is not None
    assert found.duplicates is not None
    rows, expected_rows = ([np.empty(0, DUPLICATE), *spilled] for spilled in (found.duplicates, expected.duplicates))
    assert np.array_equal(np.concatenate(rows), np.concatenate(expected_rows))


def test_something_is_there_twice() -> None:
    found = [with_records(state_of(partition), 0).duplicates for partition in DUPLICATES]
    assert sum(len(rows) for rows in found if rows is not None) > 10
