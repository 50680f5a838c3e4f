"""Runs SQL over tables that are read while a query runs; the only import of DuckDB."""

from __future__ import annotations

from importlib.util import find_spec

from kforensics.errors import MissingExtraError

if find_spec("duckdb") is None:
    raise MissingExtraError("query", "duckdb")
