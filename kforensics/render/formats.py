"""The names of formats, apart from what writes them: a command line asks for them long before it needs a writer."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ONE_TABLE", "BytesFormat", "Format"]


class Format(StrEnum):
    """How results are written."""

    TEXT = "text"
    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


# Formats that hold rows of one table only.
ONE_TABLE = (Format.CSV, Format.PARQUET, Format.ARROW)


class BytesFormat(StrEnum):
    """How bytes are shown."""

    UTF8 = "utf8"
    HEX = "hex"
    BASE64 = "base64"
    INT = "int"
    LONG = "long"
    JSON = "json"
