"""Rows of the table ``records`` with the decoded keys and values of an internal topic."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kforensics.kafka_dump.decoders import Decoder, decoder
from kforensics.parsers.tables.schemas import TABLES, Column, Table

TEXT_COLUMNS = ("key", "value")


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Decodes rows of ``records``.

    Attributes:
        table: the table, with text columns for keys and values.
        decode: the decoder of the topic.
    """

    table: Table
    decode: Decoder

    def __call__(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return a row with decoded key and value; those of control records become null."""
        fields = dict(zip(self.table.names, row, strict=True))
        if fields["control_type"] is not None:
            fields["key"] = fields["value"] = None
        else:
            texts = self.decode(fields["key"], fields["value"], fields["offset"])
            fields["key"], fields["value"] = (None if text is None else _parsed(text) for text in texts)
        fields["headers"] = [
            {"key": key.decode("utf-8", "replace"), "value": value} for key, value in fields["headers"]
        ]
        return tuple(fields.values())


def topic_converter(table: str, kind: str | None) -> TopicRows | None:
    """Return a converter for the rows of a table, or None if they are not decoded.

    Args:
        table: the name of the table.
        kind: the kind of the decoder, such as ``offsets``; None for no decoder.
    """
    if kind is None or table != "records":
        return None
    undecoded = TABLES[table]
    columns = tuple(
        Column(column.name, "string", column.doc) if column.name in TEXT_COLUMNS else column
        for column in undecoded.columns
    )
    return TopicRows(Table(undecoded.name, undecoded.row, columns), decoder(kind))


def _parsed(text: str) -> Any:
    """Return the value of JSON text, which JSON formats then nest; other text is returned unchanged."""
    try:
        return json.loads(text)
    except ValueError:
        return text
