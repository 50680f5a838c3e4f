"""Writes a chart as a file: SVG, PNG or an HTML page, by the suffix of its name."""

from __future__ import annotations

from pathlib import PurePath

import altair as alt

from kforensics.errors import UsageError
from kforensics.plots.html_page import VEGA_LITE, converter, page

SUFFIXES = (".svg", ".png", ".html")
# Pixels per point of a PNG: sharp on displays of high density.
PNG_SCALE = 2


def check_suffix(name: PurePath) -> None:
    """Refuse a file name whose suffix is not that of a chart.

    Raises:
        UsageError: the suffix is none of SUFFIXES.
    """
    if name.suffix not in SUFFIXES:
        raise UsageError(f"a chart cannot be written to {name}; name a file that ends with {', '.join(SUFFIXES)}")


def image(chart: alt.TopLevelMixin, name: PurePath) -> bytes:
    """Return the content of a chart's file.

    Args:
        chart: the chart.
        name: name of the file; its suffix is one of SUFFIXES.

    Raises:
        UsageError: the suffix is another one.
        MissingExtraError: vl-convert-python is not installed.
    """
    check_suffix(name)
    if name.suffix == ".html":
        return page({"": chart}, title=name.stem).encode()
    spec = chart.to_dict()
    if name.suffix == ".png":
        return bytes(converter().vegalite_to_png(spec, vl_version=VEGA_LITE, scale=PNG_SCALE))
    svg: str = converter().vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return svg.encode()
