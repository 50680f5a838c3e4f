"""What a chart draws: the rows behind its marks."""

from __future__ import annotations

from typing import Any

import altair as alt

__all__ = ["all_rows", "layers"]


def layers(chart: alt.TopLevelMixin) -> list[list[dict[str, Any]]]:
    """Return the rows of each layer, the lowest first."""
    spec = chart.to_dict()
    shared = spec.get("data", {})
    names = [layer.get("data", shared)["name"] for layer in spec["layer"]]
    return [spec["datasets"][name] for name in names]


def all_rows(chart: alt.TopLevelMixin) -> int:
    """Return how many marks a chart has."""
    return sum(map(len, layers(chart)))
