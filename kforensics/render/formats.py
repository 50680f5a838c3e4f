"""The output formats by name, in a module of its own: the command line needs them before it needs a writer."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """An output format."""

    TEXT = "text"
    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    CSV_SAFE = "csv-safe"
    PARQUET = "parquet"
    ARROW = "arrow"


# The version of what programs read: rows, sentences and errors as JSON.
OUTPUT_SCHEMA = "kforensics/1"
# Formats whose files hold one table.
ONE_TABLE = (Format.CSV, Format.CSV_SAFE, Format.PARQUET, Format.ARROW)


class BytesFormat(StrEnum):
    """How keys and values are shown."""

    UTF8 = "utf8"
    HEX = "hex"
    BASE64 = "base64"
    INT = "int"
    LONG = "long"
    JSON = "json"
