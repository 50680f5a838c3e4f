"""How large batches are, and what compression makes of their records."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.plots.chart import Plot, Rows, Tabular, array, harmless_rows, plot, table_of, tips
from kforensics.render.formatting import size_text

__all__ = ["batch_sizes", "compression"]

UNKNOWN = "unknown codec"
CODEC = "compression_type"
BATCH = ["path", "position"]


def batch_sizes(batches: Tabular) -> Plot:
    """Return how many data batches there are of each size, by powers of two, and how they are compressed.

    Args:
        batches: the table ``batches``, of any number of partitions.
    """
    table = _data(table_of(batches))
    sizes = array(table, "size")
    exponents = np.floor(np.log2(np.maximum(sizes, 1))).astype(int)
    counted = pa.table({"power": exponents, "codec": table[CODEC].fill_null(UNKNOWN), "bytes": sizes})
    groups = counted.group_by(["power", "codec"]).aggregate([("bytes", "count"), ("bytes", "sum")])
    rows: Rows = [
        {
            "size": f"from {size_text(1 << row['power'])}",
            "compression": row["codec"],
            "batches": row["bytes_count"],
            "bytes": row["bytes_sum"],
        }
        for row in sorted(groups.to_pylist(), key=lambda row: (row["power"], row["codec"]))
    ]
    chart = alt.Chart(harmless_rows(rows)).mark_bar()
    order = list(dict.fromkeys(row["size"] for row in rows))
    bars = chart.encode(
        x=alt.X("size:O", sort=order, title="size of the batch"),
        y=alt.Y("batches:Q", axis=alt.Axis(format="d", tickMinStep=1)),
        color="compression:N",
        tooltip=tips("size", "compression", "batches", "bytes"),
    )
    return plot([bars], "Batch sizes", [f"{table.num_rows:,} data batches, {size_text(int(sizes.sum()))}"])


def compression(batches: Tabular, records: Tabular) -> Plot:
    """Return, for each codec, bytes of keys and values beside bytes of the batches that hold them.

    Headers of records are not counted, nor are batches none of whose records can be read.

    Args:
        batches: the table ``batches``, of any number of partitions.
        records: the table ``records`` of the same files.
    """
    rows = [*map(_codec, _sums(_data(table_of(batches)), table_of(records)))]
    chart = alt.Chart(harmless_rows(rows)).mark_bar()
    bars = chart.encode(
        x=alt.X("bytes of keys and values per byte stored:Q", title="bytes of keys and values per byte stored"),
        y=alt.Y("compression:N"),
        tooltip=tips(*(rows[0] if rows else ())),
    )
    return plot(
        [bars], "Compression", ["above 1 compression gains; below it the overhead of batches and records shows"]
    )


def _codec(sums: dict[str, Any]) -> dict[str, Any]:
    stored, payload, count = sums["size_sum"], sums["payload_sum_sum"], sums["count_sum"]
    return {
        "compression": sums[CODEC] or UNKNOWN,
        "bytes of keys and values per byte stored": round(payload / stored, 3),
        "keys and values": payload,
        "stored": stored,
        "records": count,
        "batches": sums["size_count"],
    }


def _sums(batches: pa.Table, records: pa.Table) -> list[dict[str, Any]]:
    """Return sums of sizes by codec."""
    key, value = (pc.max_element_wise(records[name], 0).cast("int64") for name in ("key_size", "value_size"))
    sizes = pa.table({"path": records["path"], "position": records["batch_position"], "payload": pc.add(key, value)})
    payloads = sizes.group_by(BATCH).aggregate([("payload", "sum")])
    both = batches.select([*BATCH, CODEC, "size", "count"]).join(payloads, BATCH, join_type="inner")
    wanted = [("size", "sum"), ("size", "count"), ("payload_sum", "sum"), ("count", "sum")]
    found: list[dict[str, Any]] = both.group_by(CODEC).aggregate(wanted).sort_by(CODEC).to_pylist()
    return found


def _data(batches: pa.Table) -> pa.Table:
    """Return the batches that hold records of users."""
    return batches.filter(pc.invert(batches["is_control"]))
