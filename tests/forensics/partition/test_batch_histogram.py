"""The histograms of data batches, compared with a count batch by batch over the table ``batches``."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

import kforensics
from kforensics.forensics.partition.batch_histogram import (
    MAX_PRODUCERS,
    batch_histogram,
    histogram_rows,
    merged_histograms,
)
from kforensics.parsers.log.log_rows import Place
from lab.places import SAMPLES
from tests.forensics.batch_notation import columns_of, parse_batches

PLACE = Place(1, "dir", "t", 0)
KEY = ("log_dir", "topic", "partition", "producer_id", "compression_type", "size_from")


@pytest.mark.parametrize("sample", ["transactions-v2", "records", "compaction", "legacy-magic-1"])
def test_the_rows_are_those_of_a_count_of_all_data_batches(sample: str) -> None:
    """Of live segments, by producer, codec and power of two."""
    expected: dict[tuple[Any, ...], Counter[str]] = {}
    batches = kforensics.open(SAMPLES / sample).batches.to_arrow()
    for row in batches.to_pylist():
        if row["is_control"] or not row["path"].endswith(".log") or row["topic"] is None:
            continue
        power = 1 << (row["size"].bit_length() - 1)
        key = (*(row[name] for name in KEY[:-3]), _producer(row), row["compression_type"], power)
        sums = expected.setdefault(key, Counter())
        # The header of a compressed message of formats 0 and 1 does not have the number of messages inside.
        is_wrapper = row["magic"] < 2 and row["compression_type"] != "none"
        sums.update(batches=1, records=1 if is_wrapper else row["count"], bytes=row["size"])
    stored = kforensics.audit(SAMPLES / sample).tables["batch_histograms"].to_pylist()
    assert expected
    assert {tuple(row[name] for name in KEY) for row in stored} == expected.keys()
    for row in stored:
        sums = expected[tuple(row[name] for name in KEY)]
        assert (row["batches"], row["records"], row["bytes"]) == (sums["batches"], sums["records"], sums["bytes"])
        assert row["uncompressed_bytes"] == (sums["bytes"] if row["compression_type"] == "none" else None)


def _producer(row: dict[str, Any]) -> int:
    return -1 if row["producer_id"] is None else int(row["producer_id"])


def test_the_sample_has_every_codec() -> None:
    """The comparison above covers them."""
    table = kforensics.audit(SAMPLES / "records").tables["batch_histograms"]
    codecs = {row["compression_type"] for row in table.to_pylist()}
    assert codecs >= {"none", "gzip", "snappy", "lz4", "zstd"}


def test_the_sums_are_those_of_the_partitions() -> None:
    """Each data batch is counted once."""
    tables = kforensics.audit(SAMPLES / "transactions-v2").tables
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for row in tables["batch_histograms"].to_pylist():
        sums.setdefault((row["log_dir"], row["topic"], row["partition"]), Counter()).update(
            batches=row["batches"], records=row["records"]
        )
    for row in tables["partitions"].to_pylist():
        own = sums.get((row["log_dir"], row["topic"], row["partition"]), Counter())
        assert (own["batches"], own["records"]) == (row["batches"] - row["control_batches"], row["records"])


def test_very_many_producers_share_rows_wherever_the_log_is_cut() -> None:
    """The producers with the highest ids, and batches without one, keep rows of their own; nothing is lost."""
    dice = random.Random(7)  # noqa: S311  # a log, not a secret
    producers = [dice.randrange(10 * MAX_PRODUCERS) for _ in range(3000)]
    batches = [f"D {producer} 0 0-1 @{2 * index}-{2 * index + 1} N" for index, producer in enumerate(producers)]
    batches[::50] = [f"plain @{100 * index}-{100 * index + 1}" for index in range(len(batches[::50]))]
    columns = columns_of(parse_batches("; ".join(batches)))
    whole = batch_histogram(columns)
    for _ in range(5):
        cuts = sorted({0, len(batches), *dice.sample(range(len(batches)), 40)})
        parts = [batch_histogram(columns[first:last]) for first, last in pairwise(cuts)]
        while len(parts) > 1:
            at = dice.randrange(len(parts) - 1)
            parts[at : at + 2] = [merged_histograms(parts[at], parts[at + 1])]
        assert parts[0].tolist() == whole.tolist()
    rows = [
        dict(zip(histogram_rows(PLACE, whole).table.names, row, strict=True)) for row in histogram_rows(PLACE, whole)
    ]
    kept = {row["producer_id"] for row in rows}
    present = sorted({int(producer) for producer in columns.producer_id.tolist()} - {-1})
    assert kept == {-1, None, *present[-MAX_PRODUCERS:]}
    assert sum(row["batches"] for row in rows) == len(batches)
    assert sum(row["records"] for row in rows) == int(columns.count.sum())
    assert len(rows) == MAX_PRODUCERS + 2
