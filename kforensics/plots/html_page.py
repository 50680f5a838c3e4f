"""Writes charts as HTML that needs no network and that their data cannot affect."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt

from kforensics.errors import MissingExtraError
from kforensics.parsers.format.text_encoding import printable

# The page may run its own scripts and load nothing; chart expressions are interpreted rather than compiled.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
# Without the link to Vega's online editor, which would receive the data.
EMBED_SCRIPT = (
    "for (const spec of document.querySelectorAll('script[type=\"application/json\"]')) {"
    "vegaEmbed(spec.previousElementSibling, JSON.parse(spec.textContent), {mode: 'vega-lite', renderer: 'svg',"
    "ast: true, actions: {export: true, source: false, compiled: false, editor: false}});}"
)
# The version of Vega-Lite that Altair writes, as vl-convert names it.
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
STYLE = "body { font-family: sans-serif; margin: 1em } h2 { font-size: 1.1em }"
# Height in pixels of title, axes and menu around the plot area, and of a plot area without a height of its own.
FRAME_HEIGHT, DEFAULT_HEIGHT = 170, 300


def page(charts: Mapping[str, alt.TopLevelMixin], *, title: str = "kforensics") -> str:
    """Return charts as one self-contained HTML page; the libraries add about 900 KB to the data.

    Args:
        charts: charts by heading.
        title: title of the page.

    Raises:
        MissingExtraError: vl-convert-python is not installed.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1/hanging-0")
        >>> page = kforensics.plots.page({"Where consumers stop": kforensics.plots.lso(log.lso_history)})
        >>> "Where consumers stop" in page
        True
    """
    parts = (f"<h2>{_escape(heading)}</h2>{_embedded(chart.to_dict())}" for heading, chart in charts.items())
    return _document(f"<h1>{_escape(title)}</h1>{''.join(parts)}", title)


def frame(spec: Mapping[str, Any]) -> str:
    """Return a chart as a sandboxed HTML frame, for a notebook.

    Args:
        spec: the chart as Vega-Lite.

    Raises:
        MissingExtraError: vl-convert-python is not installed.
    """
    document = html.escape(_document(_embedded(spec), "chart"), quote=True)
    style = f"width: 100%; height: {_height(spec) + FRAME_HEIGHT}px; border: 0"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{document}"></iframe>'


def offline() -> None:
    """Make this notebook show all Altair charts, composed ones included, without a network.

    Raises:
        MissingExtraError: vl-convert-python is not installed.

    Examples:
        >>> kforensics.plots.offline()
    """
    libraries()
    alt.renderers.register("kforensics", lambda spec, **_: {"text/html": frame(spec), "text/plain": "chart"})
    alt.renderers.enable("kforensics")


def _height(spec: Mapping[str, Any]) -> int:
    """Return the approximate height of a chart in pixels; stacked charts add up."""
    if stacked := spec.get("vconcat"):
        return sum(_height(part) + FRAME_HEIGHT // 2 for part in stacked)
    if side_by_side := spec.get("hconcat") or spec.get("concat"):
        return max(map(_height, side_by_side), default=DEFAULT_HEIGHT)
    height = spec.get("height", DEFAULT_HEIGHT)
    return int(height) if isinstance(height, int | float) else DEFAULT_HEIGHT


def _document(body: str, title: str) -> str:
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{_escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style>'
        f"<script>{libraries()}</script></head><body>{body}<script>{EMBED_SCRIPT}</script></body></html>"
    )


def _embedded(spec: Mapping[str, Any]) -> str:
    # No character is left that could end the script element or start a comment in it.
    data = json.dumps(spec).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<div></div><script type="application/json">{data}</script>'


def converter() -> Any:
    """Return the module of vl-convert-python, which has Vega and draws pictures.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("plots", "vl_convert") from error
    return vl_convert


@cache
def libraries() -> str:
    """Return the JavaScript of Vega, Vega-Lite and Vega-Embed, which vl-convert-python contains.

    Raises:
        MissingExtraError: vl-convert-python is not installed.
    """
    bundle: str = converter().javascript_bundle(vl_version=VEGA_LITE)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _escape(text: str) -> str:
    return html.escape(printable(text), quote=True)
