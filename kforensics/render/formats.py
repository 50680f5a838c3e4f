"""The output formats by name, in a module of its own: the command line needs them before it needs a writer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kforensics.parsers.tables.schemas import Table
    from kforensics.render.payloads import Redactor


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
# Formats whose rows kernels can write as text.
LINE_FORMATS = (Format.JSON, Format.NDJSON, Format.CSV)


class BytesFormat(StrEnum):
    """How keys and values are shown."""

    UTF8 = "utf8"
    HEX = "hex"
    BASE64 = "base64"
    INT = "int"
    LONG = "long"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class LineStyle:
    """How rows are written as lines of text.

    Attributes:
        output_format: one of ``LINE_FORMATS``.
        table: the table, after the conversion of payloads.
        key: format of keys.
        value: format of values and header values.
        redact: replaces keys, values and header values; None shows them.
    """

    output_format: Format
    table: Table
    key: BytesFormat
    value: BytesFormat
    redact: Redactor | None = None


# Columns with times in ms whose names do not end in ``timestamp``, and the members with the same times as text.
TIME_COLUMNS = {
    "mtime_ms": "mtime",
    "delete_horizon_ms": "delete_horizon_time",
    "since": "since_time",
    "elected_at": "elected_time",
}
MAX_TIME_MS = 253_402_300_799_999  # the end of the year 9999


def time_names(table: Table) -> dict[str, str]:
    """Return the members that a JSON document has beside the columns with times in ms, by column."""
    numbers = [column.name for column in table.columns if column.type == "int64"]
    names = [name for name in numbers if name.endswith("timestamp") or name in TIME_COLUMNS]
    return {name: TIME_COLUMNS.get(name, name.removesuffix("stamp")) for name in names}


def iso_time(milliseconds: int | None) -> str | None:
    """Return a time as ISO text, None if there is none or it is beyond the calendar."""
    if milliseconds is None or not 0 <= milliseconds <= MAX_TIME_MS:
        return None
    from datetime import UTC, datetime  # only JSON documents need it

    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03}Z"
