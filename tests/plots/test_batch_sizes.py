"""Batch sizes and compression, compared with what consumers received."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kforensics
from kforensics.plots import batch_sizes, batching, compression, stored_compression
from tests.command import SAMPLES
from tests.plots.drawn import layers

RECORDS = SAMPLES / "records"


@pytest.fixture(scope="module")
def log() -> kforensics.Opened:
    return kforensics.open(RECORDS)


def test_every_byte_of_data_is_in_a_bar(log: kforensics.Opened) -> None:
    (bars,) = layers(batch_sizes(log.batches))
    sizes = {(bar["size"], bar["compression"]) for bar in bars}
    assert len(sizes) == len(bars)
    table = log.batches.to_arrow()
    data = table.filter(pc.invert(table["is_control"]))
    assert sum(bar["bytes"] for bar in bars) == pc.sum(data["size"]).as_py()
    assert sum(bar["batches"] for bar in bars) == data.num_rows
    assert {bar["compression"] for bar in bars} == {"none", "gzip", "snappy", "lz4", "zstd"}
    for bar in bars:
        assert bar["bytes"] / bar["batches"] >= 61


def test_bars_are_sorted_by_size() -> None:
    sizes = [64, 127, 128, 5000]
    table = pa.table({"size": sizes, "compression_type": ["none", "none", None, "zstd"], "is_control": [False] * 4})
    chart = batch_sizes(table)
    (bars,) = layers(chart)
    assert [(bar["size"], bar["compression"], bar["batches"]) for bar in bars] == [
        ("64 B", "none", 2),
        ("128 B", "unknown codec", 1),
        ("4 KiB", "zstd", 1),
    ]
    encoding = chart.to_dict()["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["domain"] == ["64 B", "128 B", "256 B", "512 B", "1 KiB", "2 KiB", "4 KiB"]
    assert encoding["color"]["scale"]["domain"] == ["none", "zstd", "unknown codec"]


def _of_logs(log: kforensics.Opened) -> pa.Table:
    """Return the batches of partitions: not those of snapshots of the cluster's metadata."""
    table = log.batches.to_arrow()
    return table.filter(pc.ends_with(table["path"], ".log"))


def test_a_store_gives_the_bars_of_the_log(log: kforensics.Opened) -> None:
    """The table of histograms that an audit stores has what the chart needs."""
    stored = kforensics.audit(RECORDS).tables["batch_histograms"]

    def key(bar: dict[str, object]) -> tuple[str, str]:
        return str(bar["size"]), str(bar["compression"])

    (expected,), (bars,) = layers(batch_sizes(_of_logs(log))), layers(batch_sizes(stored))
    assert sorted(bars, key=key) == sorted(expected, key=key)


def test_ratios_of_a_store_are_those_of_the_records() -> None:
    """As far as producers use one codec each; here all do, in the topics with one codec."""
    folders = sorted(RECORDS.glob("broker-1/codec-*"))
    audit = kforensics.audit(folders, records=True)
    log = kforensics.open(folders)
    expected, _ = layers(compression(log.batches, log.records))
    bars, _ = layers(stored_compression(audit.tables["batch_histograms"], audit.tables["producer_batches"]))
    ratios = {bar["compression"]: bar["compression ratio"] for bar in bars}
    assert ratios == {bar["compression"]: pytest.approx(bar["compression ratio"], abs=0.002) for bar in expected}
    assert len(ratios) == 5


def test_without_ratios_a_store_gives_the_bytes_of_each_codec(log: kforensics.Opened) -> None:
    audit = kforensics.audit(RECORDS)
    chart = stored_compression(audit.tables["batch_histograms"], audit.tables["producer_batches"])
    (bars,) = layers(chart)
    table = _of_logs(log)
    data = table.filter(pc.invert(table["is_control"]))
    sizes = data.group_by("compression_type").aggregate([("size", "sum")]).to_pylist()
    assert {bar["compression"]: bar["bytes as stored"] for bar in bars} == {
        row["compression_type"]: row["size_sum"] for row in sizes
    }
    assert "--records" in str(chart.to_dict()["title"])


@pytest.mark.parametrize("topic", ["append-time", "nulls", "grown", "codec-zstd"])
def test_keys_and_values_have_the_size_that_consumers_received(topic: str) -> None:
    folders = sorted(RECORDS.glob(f"broker-1/{topic}-*"))
    log = kforensics.open(folders)
    bars, _ = layers(compression(log.batches, log.records))
    truth = json.loads((RECORDS / "truth.json").read_text())["topics"][topic]
    seen = [record for partition in truth.values() for record in partition["read_uncommitted"]]
    assert sum(bar["records"] for bar in bars) == len(seen)
    sizes = (len(record[name] or "") // 2 for record in seen for name in ("key", "value"))
    assert sum(bar["keys and values"] for bar in bars) == sum(sizes)
    stored = sum(path.stat().st_size for folder in folders for path in Path(folder).glob("*.log"))
    assert sum(bar["stored"] + 61 * bar["batches"] for bar in bars) == stored


def test_the_ratio_of_uncompressed_batches_is_one(log: kforensics.Opened) -> None:
    """The sizes of records, headers included, follow from the columns; brokers wrote them."""
    bars, no_gain = layers(compression(log.batches, log.records))
    ratios = {bar["compression"]: bar["compression ratio"] for bar in bars}
    assert ratios["none"] == 1
    assert all(ratio > 1 for codec, ratio in ratios.items() if codec != "none")
    assert no_gain == [{"compression ratio": 1}]


def test_no_batches_are_an_empty_chart(log: kforensics.Opened) -> None:
    none = log.batches.to_arrow().slice(0, 0)
    assert layers(batch_sizes(none)) == [[]]
    assert layers(compression(none, log.records)) == [[], []]


def test_every_batch_is_in_a_point_of_its_producer(log: kforensics.Opened) -> None:
    (points,) = layers(batching(log.batches))
    data = [batch for batch in log.batches.to_pylist() if not batch["is_control"] and batch["max_timestamp"] >= 0]
    assert sum(point["batches"] for point in points) == len(data)
    records = sum(point["batches"] * point["records per batch"] for point in points)
    assert records == pytest.approx(sum(batch["count"] for batch in data), rel=0.001)
    assert len({point["producer"] for point in points}) == 9
    assert len({point["time"] for point in points}) <= 102


def test_a_wait_is_the_time_from_the_first_to_the_last_record() -> None:
    rows = {
        "producer_id": [1, 1, 2, -1],
        "base_timestamp": [100, 200, 300, 400],
        "max_timestamp": [110, 230, 300, 900],
        "timestamp_type": ["CreateTime", "CreateTime", "LogAppendTime", "CreateTime"],
        "count": [2, 4, 1, 1],
        "is_control": [False] * 4,
    }
    (points,) = layers(batching(pa.table(rows)))
    waits = {(point["producer"], point["records per batch"]): point["wait ms"] for point in points}
    assert waits == {
        ("producer 1", 2.0): "10.0",
        ("producer 1", 4.0): "30.0",
        ("producer 2", 1.0): "",
        ("no producer id", 1.0): "500.0",
    }


def test_no_batches_have_no_points(log: kforensics.Opened) -> None:
    assert layers(batching(log.batches.to_arrow().slice(0, 0))) == [[]]
