"""Charts as pages that need no network and that nothing in their data can act on."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt

from kforensics.errors import MissingExtraError
from kforensics.parsers.format.printable import printable

__all__ = ["frame", "libraries", "offline", "page"]

# The page may run what stands in it and may load nothing; expressions of charts are interpreted, not compiled.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
# The editor that the menu else offers lies on the web, and the data would go there.
EMBED = (
    "for (const spec of document.querySelectorAll('script[type=\"application/json\"]')) {"
    "vegaEmbed(spec.previousElementSibling, JSON.parse(spec.textContent), {mode: 'vega-lite', renderer: 'svg',"
    "ast: true, actions: {export: true, source: false, compiled: false, editor: false}});}"
)
STYLE = "body { font-family: sans-serif; margin: 1em } h2 { font-size: 1.1em }"
# What stands around the drawing: title, axes, menu.
AROUND = 170
HEIGHT = 300


def page(charts: Mapping[str, alt.TopLevelMixin], *, title: str = "kforensics") -> str:
    """Return charts as one HTML page that holds all it needs, about 900 KB beside the data.

    Args:
        charts: by their headings.
        title: of the page.

    Raises:
        MissingExtraError: vl-convert-python is not installed.
    """
    parts = (f"<h2>{_text(heading)}</h2>{_embedded(chart.to_dict())}" for heading, chart in charts.items())
    return _document(f"<h1>{_text(title)}</h1>{''.join(parts)}", title)


def frame(spec: Mapping[str, Any]) -> str:
    """Return a chart as a frame of its own in a notebook: it can do nothing to the page around it.

    Args:
        spec: the chart as Vega-Lite.

    Raises:
        MissingExtraError: vl-convert-python is not installed.
    """
    document = html.escape(_document(_embedded(spec), "chart"), quote=True)
    style = f"width: 100%; height: {_height(spec) + AROUND}px; border: 0"
    return f'<iframe sandbox="allow-scripts allow-downloads" style="{style}" srcdoc="{document}"></iframe>'


def offline() -> None:
    """Let all charts of Altair in this notebook do without a network, charts put together from others too.

    Raises:
        MissingExtraError: vl-convert-python is not installed.
    """
    libraries()
    alt.renderers.register("kforensics", lambda spec, **_: {"text/html": frame(spec), "text/plain": "chart"})
    alt.renderers.enable("kforensics")


def _height(spec: Mapping[str, Any]) -> int:
    """Return how high a chart is, in pixels, about; charts below one another add up."""
    if below := spec.get("vconcat"):
        return sum(_height(each) + AROUND // 2 for each in below)
    if beside := spec.get("hconcat") or spec.get("concat"):
        return max(map(_height, beside), default=HEIGHT)
    height = spec.get("height", HEIGHT)
    return int(height) if isinstance(height, int | float) else HEIGHT


def _document(body: str, title: str) -> str:
    return (
        f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><style>{STYLE}</style>'
        f"<script>{libraries()}</script></head><body>{body}<script>{EMBED}</script></body></html>"
    )


def _embedded(spec: Mapping[str, Any]) -> str:
    # No sign that could end the script, or begin a comment in it, is left in the data.
    data = json.dumps(spec).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<div></div><script type="application/json">{data}</script>'


@cache
def libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed, which come with vl-convert-python."""
    try:
        import vl_convert
    except ImportError as error:
        raise MissingExtraError("plots", "vl_convert") from error
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    bundle: str = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # its stub lacks the default
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _text(text: str) -> str:
    return html.escape(printable(text), quote=True)
