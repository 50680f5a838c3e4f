"""Charts of the sizes of batches and of their compression."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.core.formatting import format_size
from kforensics.plots.chart import ChartRows, Plot, Tabular, chart_data, column_numbers, make_plot, to_table, tooltips

UNKNOWN_CODEC = "unknown codec"
CODEC = "compression_type"
BATCH_KEY = ["path", "position"]
RATIO = "bytes of keys and values per byte stored"


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
    """Return the compression of each codec: bytes of keys and values per byte stored.

    Record headers do not count, nor do batches whose records are all unreadable.

    Args:
        batches: the table ``batches``, of any number of partitions.
        records: the table ``records`` of the same files.
    """
    rows = [*map(_codec_row, _sums_by_codec(_data_batches(to_table(batches)), to_table(records)))]
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar()
        .encode(
            x=alt.X(f"{RATIO}:Q", title=RATIO),
            y=alt.Y("compression:N"),
            tooltip=tooltips(*(rows[0] if rows else ())),
        )
    )
    return make_plot([bars], "Compression", ["below 1 the overhead of batches and records exceeds the gain"])


def _codec_row(sums: dict[str, Any]) -> dict[str, Any]:
    stored, payload = sums["size_sum"], sums["payload_sum_sum"]
    return {
        "compression": sums[CODEC] or UNKNOWN_CODEC,
        RATIO: round(payload / stored, 3),
        "keys and values": payload,
        "stored": stored,
        "records": sums["count_sum"],
        "batches": sums["size_count"],
    }


def _sums_by_codec(batches: pa.Table, records: pa.Table) -> list[dict[str, Any]]:
    key, value = (pc.max_element_wise(records[name], 0).cast("int64") for name in ("key_size", "value_size"))
    sizes = pa.table({"path": records["path"], "position": records["batch_position"], "payload": pc.add(key, value)})
    payloads = sizes.group_by(BATCH_KEY).aggregate([("payload", "sum")])
    with_payloads = batches.select([*BATCH_KEY, CODEC, "size", "count"]).join(payloads, BATCH_KEY, join_type="inner")
    aggregates = [("size", "sum"), ("size", "count"), ("payload_sum", "sum"), ("count", "sum")]
    sums: list[dict[str, Any]] = with_payloads.group_by(CODEC).aggregate(aggregates).sort_by(CODEC).to_pylist()
    return sums


def _data_batches(batches: pa.Table) -> pa.Table:
    """Return the batches that are not control batches."""
    return batches.filter(pc.invert(batches["is_control"]))
