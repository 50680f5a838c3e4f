from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kforensics.forensics.keys.key_columns import KeyColumns, read_key_columns, record_sizes, varint_sizes
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for, no_kernels
from kforensics.parsers.tables.file_rows import ReadOptions
from tests.forensics.keys.topics import summaries_in
from tests.forensics.partition_states import SAMPLES, partitions_under

RECORDS = SAMPLES / "records"
CODECS = ("gzip", "snappy", "lz4", "zstd")
HEADER = 61


def _totals(folder: Path, name: str) -> list[int]:
    (summary,) = summaries_in(folder, name)
    return [int(summary.producers[field].sum()) for field in ("records", "plain_bytes", "stored_bytes")]


def test_varints_take_a_byte_for_each_seven_bits() -> None:
    edges = [sign * (1 << bits) + step for bits in range(63) for sign in (1, -1) for step in (-1, 0)]
    zigzag = [2 * number if number >= 0 else -2 * number - 1 for number in edges]
    expected = [max(-(-number.bit_length() // 7), 1) for number in zigzag]
    assert varint_sizes(np.array(edges, "i8")).tolist() == expected


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_have_the_size_of_the_same_uncompressed_records(codec: str) -> None:
    """Each record contains the name of the codec twice, so the sizes differ by that."""
    records, plain, stored = _totals(RECORDS, "codec-none")
    assert plain == stored
    count, of_compressed, compressed = _totals(RECORDS, f"codec-{codec}")
    assert count == records
    assert of_compressed == plain + 2 * (len(codec) - len("none")) * records
    assert compressed < of_compressed


@pytest.mark.parametrize("kernels", ["never", "always"])
@pytest.mark.parametrize("name", ["headers-0", "nulls-0", "blocks-none-0", "idempotent-1"])
def test_sizes_are_those_of_the_bytes_on_disk(name: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORENSICS_KERNELS", kernels)
    (partition,) = partitions_under(RECORDS / "broker-1" / name)
    policy: KernelPolicy = no_kernels if kernels == "never" else kernels_for
    (segment,) = partition.segments
    with open_source(segment.path) as source:
        (batches,) = batch_chunks(source, 0, print, policy)
    sizes = np.zeros(len(batches), "i8")
    for columns in read_key_columns(segment, ReadOptions(records=True), policy, 0):
        np.add.at(sizes, np.searchsorted(batches.position, columns.position), _sizes(columns, batches))
    plain = batches.attributes & 7 == 0
    assert plain.any()
    assert sizes[plain].tolist() == (batches.size - HEADER)[plain].tolist()


@pytest.mark.parametrize("sample", ["legacy-magic-0", "legacy-magic-1"])
@pytest.mark.parametrize("name", ["codec-none-0", "codec-gzip-0", "nulls-0"])
def test_entries_of_old_formats_come_together(sample: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel reads them, so they come entry by entry; each often has a single record."""
    (partition,) = partitions_under(next((SAMPLES / sample).glob(f"*/{name}")))
    (segment, *_) = partition.segments
    columns = {}
    for kernels in ("never", "always"):
        monkeypatch.setenv("KFORENSICS_KERNELS", kernels)
        policy: KernelPolicy = no_kernels if kernels == "never" else kernels_for
        (columns[kernels],) = read_key_columns(segment, ReadOptions(records=True), policy, 0)
    without, with_kernels = columns["never"], columns["always"]
    for field in ("position", "offset", "timestamp", "key_size", "value_size", "header_size"):
        assert getattr(without, field).tolist() == getattr(with_kernels, field).tolist()
    assert without.keys.data.tolist() == with_kernels.keys.data.tolist()


def _sizes(columns: KeyColumns, batches: BatchColumns) -> IntArray:
    batch = np.searchsorted(batches.position, columns.position)
    first = np.searchsorted(columns.position, columns.position)
    return record_sizes(
        columns.key_size,
        columns.value_size,
        columns.header_size,
        columns.offset - batches.base_offset[batch],
        columns.timestamp - columns.timestamp[first],
        batches.magic[batch],
    )
