"""The data of the marks of a chart."""

from __future__ import annotations

from typing import Any

import altair as alt

__all__ = ["all_rows", "layers"]


def layers(chart: alt.TopLevelMixin) -> list[list[dict[str, Any]]]:
    """Return the rows of each layer, from bottom to top."""
    spec = chart.to_dict()
    shared = spec.get("data", {})
    names = [layer.get("data", shared)["name"] for layer in spec["layer"]]
    return [spec["datasets"][name] for name in names]


def all_rows(chart: alt.TopLevelMixin) -> int:
    """Return the number of marks of a chart."""
    return sum(map(len, layers(chart)))
