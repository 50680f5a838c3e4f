"""Shared parts of the charts: the chart class, axes, safe text and access to table columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from kforensics.parsers.format.text_encoding import escaped, printable
from kforensics.plots.html_page import frame

# Marks of a chart, whatever the size of the log: the eye cannot distinguish more.
MAX_MARKS = 1200
WIDTH, MIN_HEIGHT = 720, 60
# Characters of a text in a chart, cut at the end or at the start.
MAX_TEXT_CHARACTERS, MAX_TAIL_CHARACTERS = 100, 60

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


def offset_axis(title: str, **scale: Any) -> dict[str, Any]:
    """Return the options of an axis of integers."""
    return {"title": title, "axis": alt.Axis(format="d", tickMinStep=1), "scale": alt.Scale(zero=False, **scale)}


def time_axis(title: str) -> dict[str, Any]:
    """Return the options of an axis of UTC times with milliseconds."""
    axis = alt.Axis(format="%Y-%m-%d %H:%M:%S.%L", tickCount=4)
    return {"title": f"{title} (UTC)", "axis": axis, "scale": alt.Scale(type="utc")}


def to_table(tabular: Tabular) -> pa.Table:
    """Return anything with an Arrow stream as a table."""
    return tabular if isinstance(tabular, pa.Table) else pa.table(tabular)


def column_numbers(table: pa.Table, name: str, null: int = -1) -> NumberArray:
    """Return a column of numbers, with a number instead of null."""
    column: NumberArray = table[name].combine_chunks().fill_null(null).to_numpy(zero_copy_only=False)
    return column
