"""What all charts share: a chart of Altair that shows itself without a network, of few marks and harmless text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from kforensics.parsers.format.printable import escaped, printable
from kforensics.plots.page import frame
from kforensics.render.formatting import SECOND_MS, moment

__all__ = [
    "MOST_MARKS",
    "Numbers",
    "Plot",
    "Rows",
    "Tabular",
    "array",
    "harmless",
    "harmless_rows",
    "offsets",
    "plot",
    "table_of",
    "tail",
    "times",
    "tips",
    "when",
]

# Marks in a chart at most, whatever the size of the log: more than that nobody tells apart.
MOST_MARKS = 1200
WIDTH = 720
# Signs of a text in a chart.
LONGEST, TAIL = 100, 60

Tabular = Any  # whatever has the Arrow PyCapsule interface: tables of pyarrow, and those of kforensics.open
Rows = list[dict[str, Any]]
Numbers = np.ndarray[Any, np.dtype[Any]]


class Plot(alt.LayerChart):
    """A chart of Altair; in a notebook it needs no network, unless another renderer of Altair was chosen.

    What is put together from several is Altair's own again: see :func:`kforensics.plots.offline`.
    """

    def _repr_mimebundle_(self, *args: Any, **options: Any) -> Any:
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*args, **options)
        spec = self.to_dict()
        title = spec.get("title", "")
        text = title if isinstance(title, str) else title.get("text", "")
        return {"text/html": frame(spec), "text/plain": f"chart: {text}"}


def plot(layers: Sequence[alt.Chart], title: str, subtitle: Iterable[str] = (), *, height: int = 300) -> Plot:
    """Return layers as one chart.

    Args:
        layers: the layers, the lowest first.
        title: its title.
        subtitle: lines below it, empty ones left out.
        height: of what is drawn, in pixels.
    """
    lines = [harmless(line) for line in subtitle if line]
    heading = alt.TitleParams(harmless(title), subtitle=lines or alt.Undefined, anchor="start")
    return Plot(layer=list(layers), title=heading, width=WIDTH, height=height)


def harmless(text: str) -> str:
    r"""Return text that neither a terminal nor a page acts on, wherever Altair puts it.

    Altair writes data into the script of a page as it is, so a tag that ends a script would end it.

    >>> harmless("</script>")
    '\\x3c/script\\x3e'
    """
    shown = _escaped(text[: LONGEST + 1])
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def tail(text: str) -> str:
    """Return the same of a text whose end tells it from others."""
    shown = _escaped(text[-TAIL - 1 :])
    return shown if len(shown) <= TAIL else f"…{shown[-TAIL:]}"


def _escaped(text: str) -> str:
    return "".join(escaped(sign) if sign in "<>&" else sign for sign in printable(text))


def harmless_rows(rows: Iterable[Mapping[str, Any]]) -> alt.InlineData:
    """Return rows as the data of a chart: texts harmless, numbers of numpy as Python's."""
    return alt.InlineData([{name: _value(value) for name, value in row.items()} for row in rows])


def tips(*names: str) -> list[alt.Tooltip]:
    """Return what to show beside the pointer: the values as they are, for ids and offsets are not to be rounded."""
    return [alt.Tooltip(f"{name}:N") for name in names]


def offsets(title: str, **scale: Any) -> dict[str, Any]:
    """Return what an axis of whole numbers has."""
    return {"title": title, "axis": alt.Axis(format="d", tickMinStep=1), "scale": alt.Scale(zero=False, **scale)}


def times(title: str) -> dict[str, Any]:
    """Return what an axis of times has: UTC, to the millisecond."""
    axis = alt.Axis(format="%Y-%m-%d %H:%M:%S.%L", tickCount=4)
    return {"title": f"{title} (UTC)", "axis": axis, "scale": alt.Scale(type="utc")}


def when(timestamp_ms: int) -> str:
    """Return a time in UTC, to the millisecond.

    >>> when(1_700_000_000_123)
    '2023-11-14 22:13:20.123'
    """
    second = moment(timestamp_ms)
    return second if second == str(timestamp_ms) else f"{second}.{timestamp_ms % SECOND_MS:03}"


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return harmless(value)
    return value.item() if isinstance(value, np.generic) else value


def table_of(tabular: Tabular) -> pa.Table:
    """Return anything that has Arrow's stream as a table."""
    return tabular if isinstance(tabular, pa.Table) else pa.table(tabular)


def array(table: pa.Table, name: str, null: int = -1) -> Numbers:
    """Return a column of numbers, nulls as another number."""
    column: Numbers = table[name].combine_chunks().fill_null(null).to_numpy(zero_copy_only=False)
    return column
