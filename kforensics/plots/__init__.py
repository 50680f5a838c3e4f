"""Altair charts of the tables, with few marks, that notebooks show without a network.

``import kforensics`` offers them as ``kforensics.plots``. They take tables of the library, including those of
:func:`kforensics.open`.
"""

from __future__ import annotations

from importlib.util import find_spec

from kforensics.errors import MissingExtraError

if find_spec("altair") is None:
    raise MissingExtraError("plots", "altair")

from kforensics.plots.atomicity import atomicity, transaction_costs
from kforensics.plots.batch_sizes import batch_sizes, batching, compression, stored_compression
from kforensics.plots.chart import MAX_MARKS, Plot
from kforensics.plots.damage_map import damage_map
from kforensics.plots.html_page import offline, page
from kforensics.plots.sequences import sequences
from kforensics.plots.stable_offset import lso, lso_over_time
from kforensics.plots.timeline import timeline
from kforensics.plots.transaction_lanes import transactions

__all__ = [
    "MAX_MARKS",
    "Plot",
    "atomicity",
    "batch_sizes",
    "batching",
    "compression",
    "damage_map",
    "lso",
    "lso_over_time",
    "offline",
    "page",
    "sequences",
    "stored_compression",
    "timeline",
    "transaction_costs",
    "transactions",
]
