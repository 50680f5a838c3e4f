"""Charts of the sizes of batches, of their records over time, and of their compression."""

from __future__ import annotations

from collections import Counter
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.core.formatting import format_count, format_size
from kforensics.plots.chart import (
    MIN_HEIGHT,
    ChartRows,
    NumberArray,
    Plot,
    Tabular,
    chart_data,
    column_numbers,
    drawn_colors,
    integer_axis,
    make_plot,
    time_axis,
    to_table,
    tooltips,
)

UNKNOWN_CODEC = "unknown codec"
CODEC = "compression_type"
BATCH_KEY = ["path", "position"]
RATIO = "compression ratio"
STORED = "bytes as stored"
HISTOGRAM_COLUMNS = ("size_from", CODEC, "batches", "bytes")
PRODUCER_KEY = ("log_dir", "topic", "partition", "producer_id")
CODEC_COLORS = {
    "none": "#9aa5b1",
    "gzip": "#4c78a8",
    "snappy": "#f58518",
    "lz4": "#54a24b",
    "zstd": "#b279a2",
    UNKNOWN_CODEC: "#e45756",
}
CODEC_ORDER = [*CODEC_COLORS]
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
SIZE_TITLE = "batch size: at least this, less than twice as much"
BAR_HEIGHT = 26
# Producers and intervals of time that are drawn; further producers are one line.
MAX_PRODUCERS, MAX_INTERVALS = 8, 100
OTHERS = "other producers"
BATCH_HEADER_SIZE = 61  # DefaultRecordBatch.RECORD_BATCH_OVERHEAD
VARINT_LIMITS = np.array([1 << bits for bits in range(7, 64, 7)], np.uint64)


def batch_sizes(batches: Tabular) -> Plot:
    """Return a histogram of the sizes of data batches by powers of two and codec.

    Args:
        batches: the table ``batches`` or ``batch_histograms``, of any number of partitions.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1/hanging-0")
        >>> kforensics.plots.batch_sizes(log.batches).to_dict()["title"]["text"]
        'Batch sizes'
    """
    histogram = _histogram(to_table(batches))
    groups = histogram.group_by(["size_from", CODEC]).aggregate([("batches", "sum"), ("bytes", "sum")])
    rows: ChartRows = [
        {
            "size": _size_name(group["size_from"]),
            "compression": group[CODEC] or UNKNOWN_CODEC,
            "batches": group["batches_sum"],
            "bytes": group["bytes_sum"],
        }
        for group in groups.sort_by([("size_from", "ascending"), (CODEC, "ascending")]).to_pylist()
    ]
    heights = Counter[str]()
    for row in rows:
        heights[row["size"]] += row["batches"]
    powers = np.log2(column_numbers(histogram, "size_from")).astype(int)
    # Sizes that no batch has between others that some have: the axis has no hidden jumps.
    order = [_size_name(1 << power) for power in range(powers.min(), powers.max() + 1)] if len(powers) else []
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar()
        .encode(
            x=alt.X("size:O", scale=alt.Scale(domain=order), axis=alt.Axis(labelAngle=0), title=SIZE_TITLE),
            y=alt.Y("batches:Q", axis=integer_axis([0, *heights.values()], ",d")),
            color=_codec_color(rows),
            tooltip=tooltips("size", "compression", "batches", "bytes"),
        )
    )
    count, size = (int(column_numbers(histogram, name).sum()) for name in ("batches", "bytes"))
    return make_plot([bars], "Batch sizes", [f"{count:,} data batches, {format_size(size)}"])


def batching(batches: Tabular) -> Plot:
    """Return how many records the batches of each producer have over time, and how long their first records waited.

    The first record of a batch waited at least until the last one was created. Batches with ``LogAppendTime`` do not
    show that, and have no wait.

    Args:
        batches: the table ``batches``, of any number of partitions.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1/interleaved-0")
        >>> kforensics.plots.batching(log.batches).to_dict()["title"]["text"]
        'Records per batch'
    """
    data = _data_batches(to_table(batches))
    data = data.filter(pc.greater_equal(pc.fill_null(data["max_timestamp"], -1), 0))
    times, created = column_numbers(data, "max_timestamp"), data["timestamp_type"].to_numpy() == "CreateTime"
    waits = np.where(created, np.maximum(times - column_numbers(data, "base_timestamp"), 0), -1)
    rows = _intervals(column_numbers(data, "producer_id"), times, column_numbers(data, "count"), waits)
    points = (
        alt.Chart(chart_data(rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("time:Q", **time_axis("time", [row["time"] for row in rows])),
            y=alt.Y("records per batch:Q", axis=alt.Axis(tickMinStep=1)),
            color=alt.Color("producer:N"),
            tooltip=tooltips("producer", "batches", "records per batch", "wait ms"),
        )
    )
    wait = _mean_text(waits)
    lines = [
        format_count(len(times), "data batch", "data batches"),
        f"from the first to the last record of a batch: {wait} ms on average" if wait else "",
    ]
    return make_plot([points], "Records per batch", lines)


def _intervals(producers: NumberArray, times: NumberArray, counts: NumberArray, waits: NumberArray) -> ChartRows:
    """Return the batches of each producer in each interval of time; the intervals are as few as a chart can show."""
    if not len(times):
        return []
    ids, numbers, sizes = np.unique(producers, return_inverse=True, return_counts=True)
    ranks = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
    drawn = np.minimum(ranks[numbers], MAX_PRODUCERS)
    names = dict(zip(ranks.tolist(), map(_producer_name, ids.tolist()), strict=True)) | {MAX_PRODUCERS: OTHERS}
    width = int(np.ptp(times)) // MAX_INTERVALS + 1
    keys, rows = np.stack([drawn, times // width], axis=1), ChartRows()
    groups, owner = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(owner.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(owner.ravel(), minlength=len(groups)))
    for (rank, interval), members in zip(groups.tolist(), np.split(order, ends[:-1]), strict=True):
        rows.append(
            {
                "producer": names[rank],
                "time": interval * width,
                "batches": len(members),
                "records per batch": round(float(counts[members].mean()), 2),
                "wait ms": _mean_text(waits[members]),
            }
        )
    return rows


def _producer_name(producer_id: int) -> str:
    return "no producer id" if producer_id < 0 else f"producer {producer_id}"


def _mean_text(waits: NumberArray) -> str:
    """Return the mean of the known times; empty if none is known."""
    known = waits[waits >= 0]
    return f"{known.mean():.1f}" if len(known) else ""


def _size_name(size: int) -> str:
    """Return a power of two as a number of bytes.

    >>> _size_name(512), _size_name(4096)
    ('512 B', '4 KiB')
    """
    exponent = (size.bit_length() - 1) // 10
    return f"{size >> 10 * exponent} {BINARY_UNITS[exponent]}"


def _codec_color(rows: ChartRows, **options: Any) -> alt.Color:
    """Return the colors of the codecs that are drawn; each codec has the same one in every chart."""
    scale = drawn_colors(CODEC_COLORS, (row["compression"] for row in rows))
    return alt.Color("compression:N", scale=scale, **options)


def _histogram(table: pa.Table) -> pa.Table:
    """Return batches as rows of the table ``batch_histograms``, one for each; rows of that table as they are."""
    if "size_from" in table.column_names:
        return table.select(HISTOGRAM_COLUMNS)
    data = _data_batches(table)
    sizes = column_numbers(data, "size").astype(np.int64)
    powers = np.frexp(np.maximum(sizes, 1))[1] - 1
    ones = np.ones(len(sizes), np.int64)
    return pa.table([np.left_shift(ones, powers), data[CODEC], ones, sizes], names=list(HISTOGRAM_COLUMNS))


def stored_compression(histograms: Tabular, producer_batches: Tabular) -> Plot:
    """Return the compression ratio of each codec, or the bytes of each codec if no ratio is known.

    An audit decompresses batches with ``--records`` only. Then it knows the ratio of each producer in each partition;
    those of producers that use several codecs there are left out.

    Args:
        histograms: the table ``batch_histograms``.
        producer_batches: the table ``producer_batches``, which has rows if the audit ran with ``--records``.

    Examples:
        >>> tables = kforensics.audit("sample_logs/transactions-v2/broker-1", records=True).tables
        >>> plot = kforensics.plots.stored_compression(tables["batch_histograms"], tables["producer_batches"])
        >>> plot.to_dict()["title"]["text"]
        'Compression'
    """
    batches = to_table(histograms)
    ratios = _stored_ratios(batches, to_table(producer_batches))
    if any(codec != "none" for codec in ratios):
        rows = [{"compression": codec, RATIO: round(ratio, 3)} for codec, ratio in sorted(ratios.items())]
        return _ratio_plot(rows)
    groups = batches.group_by(CODEC).aggregate([("bytes", "sum"), ("batches", "sum"), ("records", "sum")])
    bytes_rows: ChartRows = [
        {
            "compression": group[CODEC] or UNKNOWN_CODEC,
            STORED: group["bytes_sum"],
            "batches": group["batches_sum"],
            "records": group["records_sum"],
        }
        for group in groups.sort_by(CODEC).to_pylist()
    ]
    bars = alt.Chart(chart_data(bytes_rows)).mark_bar()
    bars = bars.encode(
        x=alt.X(f"{STORED}:Q", axis=alt.Axis(format=".3~s")),
        y=alt.Y("compression:N", sort=CODEC_ORDER, title=None),
        color=_codec_color(bytes_rows, legend=None),
        tooltip=tooltips("compression", STORED, "batches", "records"),
    )
    notes = ["bytes of data batches by codec; the ratio of each is known after an audit with --records"]
    return make_plot([bars], "Compression", notes, height=_bars_height(bytes_rows))


def _stored_ratios(batches: pa.Table, producers: pa.Table) -> dict[str, float]:
    """Return the uncompressed size per stored byte of each codec, as far as producers use one codec each."""
    keys = [*PRODUCER_KEY]
    by_codec = batches.group_by([*keys, CODEC]).aggregate([("bytes", "sum"), ("batches", "sum")])
    single = by_codec.group_by(keys).aggregate([(CODEC, "count")])
    single = single.filter(pc.equal(single[f"{CODEC}_count"], 1)).select(keys)
    ratios = producers.select([*keys, "compression_ratio"])
    known = by_codec.join(single, keys, join_type="inner").join(ratios, keys, join_type="inner")
    sums: dict[str, list[float]] = {}
    for row in known.to_pylist():
        if row[CODEC] is None or row["compression_ratio"] is None:
            continue
        stored = row["bytes_sum"] - BATCH_HEADER_SIZE * row["batches_sum"]
        totals = sums.setdefault(row[CODEC], [0, 0])
        totals[0] += stored * row["compression_ratio"]
        totals[1] += stored
    return {codec: plain / stored for codec, (plain, stored) in sums.items() if stored > 0}


def compression(batches: Tabular, records: Tabular) -> Plot:
    """Return the compression ratio of each codec: bytes of records without compression per byte stored.

    Batch headers do not count, nor do batches whose records are all unreadable. Uncompressed batches have a ratio of 1.
    With LogAppendTime the ratio may be slightly low, because the timestamps of the producer are unknown.

    Args:
        batches: the table ``batches``, of any number of partitions.
        records: the table ``records`` of the same files.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1/hanging-0")
        >>> kforensics.plots.compression(log.batches, log.records).to_dict()["title"]["text"]
        'Compression'
    """
    return _ratio_plot([*map(_codec_row, _sums_by_codec(_data_batches(to_table(batches)), to_table(records)))])


def _ratio_plot(rows: ChartRows) -> Plot:
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar()
        .encode(
            x=alt.X(f"{RATIO}:Q"),
            y=alt.Y("compression:N", sort=CODEC_ORDER, title=None),
            color=_codec_color(rows, legend=None),
            tooltip=tooltips(*(rows[0] if rows else ())),
        )
    )
    no_gain = alt.Chart(chart_data([{RATIO: 1}] if rows else [])).mark_rule(strokeDash=[4, 3]).encode(x=f"{RATIO}:Q")
    return make_plot(
        [bars, no_gain],
        "Compression",
        ["uncompressed size per byte stored; 1, the dashed line, is no gain"],
        height=_bars_height(rows),
    )


def _bars_height(rows: ChartRows) -> int:
    return max(BAR_HEIGHT * len(rows), MIN_HEIGHT)


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
