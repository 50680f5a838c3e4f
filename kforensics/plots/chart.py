"""Shared parts of the charts: the chart class, the shown partition, axes, safe text and access to table columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.errors import UsageError
from kforensics.parsers.format.text_encoding import escaped, printable
from kforensics.plots.html_page import frame

# Marks of a chart, whatever the size of the log: the eye cannot distinguish more.
MAX_MARKS = 1200
WIDTH, MIN_HEIGHT = 720, 60
# Characters of a text in a chart, cut at the end or at the start.
MAX_TEXT_CHARACTERS, MAX_TAIL_CHARACTERS = 100, 60

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1000, 60_000, 3_600_000, 86_400_000
MIN_TICKS = 4
# Of a shorter range of integers, Vega would label halves too, as the integers next to them.
MIN_INTEGER_RANGE = 3
# A transaction has the color of its outcome in every chart. Distinguishable with red-green color blindness.
OUTCOME_COLORS = {"committed": "#009e73", "aborted": "#e69f00", "open": "#cc79a7", "forgotten": "#0072b2"}
# Those of transactions without a marker.
UNENDED = ("open", "forgotten")
# Round distances of ticks in ms: parts of a second, a minute, an hour and a day, then days.
TICK_STEPS = (
    *(part * power for power in (1, 10, 100) for part in (1, 2, 5)),
    *(part * unit for unit in (SECOND_MS, MINUTE_MS) for part in (1, 2, 5, 10, 15, 30)),
    *(part * HOUR_MS for part in (1, 2, 3, 6, 12)),
    *(part * power * DAY_MS for power in (1, 10, 100, 1000) for part in (1, 2, 5)),
)

# Anything with the Arrow PyCapsule interface: tables of pyarrow and of kforensics.open.
Tabular = Any
ChartRows = list[dict[str, Any]]
NumberArray = np.ndarray[Any, np.dtype[Any]]


class Plot(alt.LayerChart):
    """An Altair chart that a notebook shows without a network, unless another Altair renderer is enabled.

    Charts that Altair composes from several are not of this class; for these see :func:`kforensics.plots.offline`.
    """

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **options)
        spec = self.to_dict()
        title = spec.get("title", "")
        text = title if isinstance(title, str) else title.get("text", "")
        return {"text/html": frame(spec), "text/plain": f"chart: {text}"}


def make_plot(layers: Sequence[alt.Chart], title: str, subtitle: Iterable[str] = (), *, height: int = 300) -> Plot:
    """Return layers as one chart.

    Args:
        layers: the layers, from bottom to top.
        title: title of the chart.
        subtitle: lines below the title; empty ones are omitted.
        height: height of the plot area in pixels.
    """
    lines = [safe_text(line) for line in subtitle if line]
    heading = alt.TitleParams(safe_text(title), subtitle=lines or alt.Undefined, anchor="start")
    return Plot(layer=list(layers), title=heading, width=WIDTH, height=height)


def safe_text(text: str) -> str:
    r"""Return text that neither a terminal nor an HTML page interprets, cut at the end.

    Altair writes data unescaped into a script, which a closing tag in the data would end.

    >>> safe_text("</script>")
    '\\x3c/script\\x3e'
    """
    text = _escape(text[: MAX_TEXT_CHARACTERS + 1])
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}…"


def safe_tail(text: str) -> str:
    """Return the end of a text, safe as :func:`safe_text`, for names that differ at the end."""
    text = _escape(text[-MAX_TAIL_CHARACTERS - 1 :])
    return text if len(text) <= MAX_TAIL_CHARACTERS else f"…{text[-MAX_TAIL_CHARACTERS:]}"


def _escape(text: str) -> str:
    return "".join(escaped(character) if character in "<>&" else character for character in printable(text))


def chart_data(rows: Iterable[Mapping[str, Any]]) -> alt.InlineData:
    """Return rows as the data of a chart: safe texts, and Python numbers instead of numpy's."""
    return alt.InlineData([{name: _chart_value(value) for name, value in row.items()} for row in rows])


def _chart_value(value: Any) -> Any:
    if isinstance(value, str):
        return safe_text(value)
    return value.item() if isinstance(value, np.generic) else value


def tooltips(*names: str) -> list[alt.Tooltip]:
    """Return tooltips of fields; as nominal fields, so that ids and offsets are not rounded."""
    return [alt.Tooltip(f"{name}:N") for name in names]


def integer_axis(values: Iterable[int], number_format: str = "d") -> alt.Axis:
    """Return an axis whose ticks are integers.

    Args:
        values: the values on the axis.
        number_format: format of the labels, as of d3.
    """
    known = [int(value) for value in values]
    low, high = min(known, default=0), max(known, default=MIN_INTEGER_RANGE)
    ticks = [*range(low, high + 1)] if high - low < MIN_INTEGER_RANGE else alt.Undefined
    return alt.Axis(format=number_format, tickMinStep=1, values=ticks)


def offset_axis(title: str, offsets: Iterable[int], **scale: Any) -> dict[str, Any]:
    """Return the options of an axis of offsets or of sequences.

    Args:
        title: what they are.
        offsets: those of the chart.
        scale: options of the scale.
    """
    return {"title": title, "axis": integer_axis(offsets), "scale": alt.Scale(zero=False, **scale)}


def drawn_colors(colors: Mapping[str, str], values: Iterable[str]) -> alt.Scale:
    """Return the colors of the values that a chart has, so that its legend lists these and no others.

    Args:
        colors: the color of every value that there can be, in the order of the legend.
        values: the values that are drawn.
    """
    drawn = {*values}
    names = [name for name in colors if name in drawn]
    return alt.Scale(domain=names, range=[colors[name] for name in names])


def time_axis(title: str, times: Iterable[int]) -> dict[str, Any]:
    """Return the options of an axis of UTC times, with at least four ticks of time and date.

    Args:
        title: what the times are.
        times: the times of the chart in ms.
    """
    known = [int(time) for time in times if time >= 0]
    low, high = (min(known), max(known)) if known else (0, 0)
    step = tick_step(high - low)
    first = low // step * step
    ticks = [*range(first, max(high, first + MIN_TICKS * step - 1) + step, step)]
    clock = "%H:%M:%S.%L" if step < SECOND_MS else "%H:%M:%S" if step < MINUTE_MS else "%H:%M"
    label = f"[utcFormat(datum.value, '{clock}'), utcFormat(datum.value, '%Y-%m-%d')]"
    # As expressions: Vega-Lite would turn numbers into calls that vl-convert takes for other times, and would do so
    # with the domain of some layers only, which it then warns of.
    axis = alt.Axis(values=alt.ExprRef(str(ticks)), labelExpr=label, labelOverlap="greedy", labelFlush=True)
    scale = alt.Scale(type="utc", domain=alt.ExprRef(f"[{ticks[0]}, {ticks[-1]}]"))
    return {"title": f"{title} (UTC)", "axis": axis, "scale": scale}


def tick_step(duration_ms: int) -> int:
    """Return the distance in ms of at least four and few more ticks in a duration.

    >>> tick_step(3_600_000)
    900000
    """
    return max((step for step in TICK_STEPS if step * (MIN_TICKS - 1) <= duration_ms), default=1)


def to_table(tabular: Tabular) -> pa.Table:
    """Return anything with an Arrow stream as a table, with timestamps, as a data frame has them, in milliseconds."""
    table = tabular if isinstance(tabular, pa.Table) else pa.table(tabular)
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table[index].cast(pa.timestamp("ms", field.type.tz)).cast(pa.int64())
            table = table.set_column(index, field.name, times)
    return table


def column_numbers(table: pa.Table, name: str, null: int = -1) -> NumberArray:
    """Return a column of numbers, with a number instead of null."""
    column: NumberArray = table[name].combine_chunks().fill_null(null).to_numpy(zero_copy_only=False)
    return column


PARTITION_NAMES = ("log_dir", "topic", "partition")
# org.apache.kafka.storage.internals.log.LogFileUtils: files of the cleaner, and files waiting for deletion.
UNSERVED_SUFFIXES = (".deleted", ".cleaned", ".swap")


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """The partition to show, as far as the caller names it.

    Attributes:
        topic: topic of the partition.
        partition: number of the partition.
        log_dir: log directory, if several brokers have the partition.
    """

    topic: str | None = None
    partition: int | None = None
    log_dir: str | None = None

    def rows(self, tabular: Tabular) -> pa.Table:
        """Return the rows of all partitions that have the given names."""
        table = to_table(tabular)
        for name in PARTITION_NAMES:
            if (value := getattr(self, name)) is not None:
                table = table.filter(pc.equal(table[name], value))
        return table

    def select(self, tabular: Tabular) -> pa.Table:
        """Return the rows of the partition; if rows have a path, only those of segments that the broker serves.

        Raises:
            UsageError: several partitions, or several copies of the partition, have rows.
        """
        table, folders = _served_segments(self.rows(tabular))
        partitions = _partitions(table)
        if len(partitions) > 1:
            names = ", ".join(f"{topic}-{partition} in {log_dir}" for log_dir, topic, partition in partitions[:3])
            raise UsageError(
                f"the chart shows one partition, but the table has {len(partitions)} ({names}, …); "
                "name topic, partition or log_dir"
            )
        if len(folders) > 1:
            raise UsageError(
                f"the table has several copies of a partition ({', '.join(folders)}); open one of these folders"
            )
        return table

    def title(self, text: str, *tables: pa.Table) -> str:
        """Return a title that names the partition of the tables."""
        partitions = [partition for table in tables for partition in _partitions(table)]
        return f"{text}: {partitions[0][1]}-{partitions[0][2]}" if partitions else f"{text}: no data"


def _served_segments(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """Return the rows of segments that the broker serves, and the folders of these segments."""
    if "path" not in table.column_names:
        return table, []
    paths = [path for path in pc.unique(table["path"]).to_pylist() if path is not None]
    served = [path for path in paths if not path.endswith(UNSERVED_SUFFIXES)]
    if len(served) < len(paths):
        table = table.filter(pc.is_in(table["path"], pa.array(served, pa.string())))
    return table, sorted({path.rpartition("/")[0] for path in served})


def _partitions(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return log directory, topic and number of the partitions of a table."""
    partitions = table.select(PARTITION_NAMES).group_by(list(PARTITION_NAMES)).aggregate([])
    return sorted((tuple(row.values()) for row in partitions.to_pylist()), key=str)
