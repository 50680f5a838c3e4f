"""Charts of the sizes of batches and of their compression."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.core.formatting import format_size
from kforensics.plots.chart import (
    ChartRows,
    NumberArray,
    Plot,
    Tabular,
    chart_data,
    column_numbers,
    make_plot,
    to_table,
    tooltips,
)

UNKNOWN_CODEC = "unknown codec"
CODEC = "compression_type"
BATCH_KEY = ["path", "position"]
RATIO = "compression ratio"
BATCH_HEADER_SIZE = 61  # DefaultRecordBatch.RECORD_BATCH_OVERHEAD
VARINT_LIMITS = np.array([1 << bits for bits in range(7, 64, 7)], np.uint64)


def batch_sizes(batches: Tabular) -> Plot:
    """Return a histogram of the sizes of data batches by powers of two and codec.

    Args:
        batches: the table ``batches``, of any number of partitions.
    """
    table = _data_batches(to_table(batches))
    sizes = column_numbers(table, "size")
    exponents = np.floor(np.log2(np.maximum(sizes, 1))).astype(int)
    batch_table = pa.table({"power": exponents, "codec": table[CODEC].fill_null(UNKNOWN_CODEC), "bytes": sizes})
    groups = batch_table.group_by(["power", "codec"]).aggregate([("bytes", "count"), ("bytes", "sum")])
    rows: ChartRows = [
        {
            "size": f"from {format_size(1 << group['power'])}",
            "compression": group["codec"],
            "batches": group["bytes_count"],
            "bytes": group["bytes_sum"],
        }
        for group in sorted(groups.to_pylist(), key=lambda group: (group["power"], group["codec"]))
    ]
    order = list(dict.fromkeys(row["size"] for row in rows))
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("size:O", sort=order, title="batch size"),
            y=alt.Y("batches:Q", axis=alt.Axis(format="d", tickMinStep=1)),
            color="compression:N",
            tooltip=tooltips("size", "compression", "batches", "bytes"),
        )
    )
    return make_plot([bars], "Batch sizes", [f"{table.num_rows:,} data batches, {format_size(int(sizes.sum()))}"])


def compression(batches: Tabular, records: Tabular) -> Plot:
    """Return the compression ratio of each codec: bytes of records without compression per byte stored.

    Batch headers do not count, nor do batches whose records are all unreadable. Uncompressed batches have a ratio of 1.
    With LogAppendTime the ratio may be slightly low, because the timestamps of the producer are unknown.

    Args:
        batches: the table ``batches``, of any number of partitions.
        records: the table ``records`` of the same files.
    """
    rows = [*map(_codec_row, _sums_by_codec(_data_batches(to_table(batches)), to_table(records)))]
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar()
        .encode(
            x=alt.X(f"{RATIO}:Q"), y=alt.Y("compression:N", title=None), tooltip=tooltips(*(rows[0] if rows else ()))
        )
    )
    no_gain = alt.Chart(chart_data([{RATIO: 1}] if rows else [])).mark_rule(strokeDash=[4, 3]).encode(x=f"{RATIO}:Q")
    return make_plot(
        [bars, no_gain],
        "Compression",
        ["uncompressed size per byte stored; 1, the dashed line, is no gain"],
        height=160,
    )


def _codec_row(sums: dict[str, Any]) -> dict[str, Any]:
    stored, plain = sums["stored_sum"], sums["plain_sum_sum"]
    return {
        "compression": sums[CODEC] or UNKNOWN_CODEC,
        RATIO: round(plain / stored, 3),
        "keys and values": sums["payload_sum_sum"],
        "uncompressed": plain,
        "stored": stored,
        "records": sums["count_sum"],
        "batches": sums["stored_count"],
    }


def _sums_by_codec(batches: pa.Table, records: pa.Table) -> list[dict[str, Any]]:
    sizes = _record_sizes(batches, records)
    payloads = sizes.group_by(BATCH_KEY).aggregate([("payload", "sum"), ("plain", "sum")])
    # The header of a wrapper message of formats 0 and 1 is small; it counts as part of what is stored.
    headers = pc.if_else(pc.equal(batches["magic"], 2), BATCH_HEADER_SIZE, 0)
    stored = batches.select([*BATCH_KEY, CODEC, "count"]).append_column(
        "stored", pc.subtract(batches["size"].cast("int64"), headers)
    )
    with_payloads = stored.join(payloads, BATCH_KEY, join_type="inner")
    aggregates = [
        ("stored", "sum"),
        ("stored", "count"),
        ("payload_sum", "sum"),
        ("plain_sum", "sum"),
        ("count", "sum"),
    ]
    sums: list[dict[str, Any]] = with_payloads.group_by(CODEC).aggregate(aggregates).sort_by(CODEC).to_pylist()
    return sums


def _record_sizes(batches: pa.Table, records: pa.Table) -> pa.Table:
    """Return the batch of each record, the bytes of its key and value, and its size without compression.

    Layouts: ``DefaultRecord.sizeOf`` and, for message formats 0 and 1, ``LegacyRecord.recordSize`` with
    ``Records.LOG_OVERHEAD``.
    """
    own = pa.table(
        {
            "path": records["path"],
            "position": records["batch_position"],
            "offset": records["offset"],
            "timestamp": records["timestamp"].cast("int64"),
            "key": records["key_size"].cast("int64"),
            "value": records["value_size"].cast("int64"),
            "headers": _header_sizes(records["headers"].combine_chunks()),
        }
    )
    base = batches.select([*BATCH_KEY, "magic", "base_offset", "base_timestamp", "timestamp_type"])
    table = own.join(base, BATCH_KEY, join_type="inner")
    key, value, headers, offset = (column_numbers(table, name) for name in ("key", "value", "headers", "offset"))
    magic = column_numbers(table, "magic")
    has_deltas = pc.equal(table["timestamp_type"], "CreateTime").fill_null(False)  # noqa: FBT003  # Arrow's signature
    delays = column_numbers(table, "timestamp") - column_numbers(table, "base_timestamp")
    delays = np.where(has_deltas.to_numpy(zero_copy_only=False), delays, 0)
    payload = np.maximum(key, 0) + np.maximum(value, 0)
    numbers = sum(map(_varint_sizes, (delays, offset - column_numbers(table, "base_offset"), key, value)))
    body = 1 + numbers + payload + headers
    plain = np.where(magic == 2, body + _varint_sizes(body), payload + np.where(magic == 1, 34, 26))
    return table.select(BATCH_KEY).append_column("payload", pa.array(payload)).append_column("plain", pa.array(plain))


def _header_sizes(headers: pa.ListArray) -> NumberArray:
    """Return the size of the headers of each record, with their number."""
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = pc.list_flatten(headers)
    keys, values = (
        pc.binary_length(pc.struct_field(entries, name)).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("key", "value")
    )
    sizes = sum(_varint_sizes(lengths) + np.maximum(lengths, 0) for lengths in (keys, values))
    totals = np.bincount(np.repeat(np.arange(len(counts)), counts), sizes, len(counts)).astype(np.int64)
    return totals + _varint_sizes(counts)


def _varint_sizes(values: NumberArray) -> NumberArray:
    """Return the sizes of numbers as signed variable-length integers: ``ByteUtils.sizeOfVarlong``."""
    zigzag = (values.astype(np.int64) << 1) ^ (values.astype(np.int64) >> 63)
    return 1 + np.searchsorted(VARINT_LIMITS, zigzag.view(np.uint64), side="right")


def _data_batches(batches: pa.Table) -> pa.Table:
    """Return the batches that are not control batches."""
    return batches.filter(pc.invert(batches["is_control"]))
