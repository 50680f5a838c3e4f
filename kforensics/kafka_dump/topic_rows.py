"""Records of an internal topic as rows whose key and value are decoded rather than bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kforensics.kafka_dump.decoders import Decoder, decoder
from kforensics.parsers.tables.schemas import TABLES, Column, Table

__all__ = ["TopicRows", "topic_decoded"]

TEXT_COLUMNS = ("key", "value")


@dataclass(frozen=True, slots=True)
class TopicRows:
    """Decodes rows of ``records``.

    Attributes:
        table: the table, with text in place of bytes.
        decode: the decoder of the topic.
    """

    table: Table
    decode: Decoder

    def __call__(self, row: Sequence[Any]) -> Sequence[Any]:
        """Return a row with decoded key and value; control records stay as they are."""
        fields = dict(zip(self.table.names, row, strict=True))
        if fields["control_type"] is not None:
            fields["key"] = fields["value"] = None
        else:
            texts = self.decode(fields["key"], fields["value"], fields["offset"])
            fields["key"], fields["value"] = (None if text is None else _object(text) for text in texts)
        fields["headers"] = [
            {"key": key.decode("utf-8", "replace"), "value": value} for key, value in fields["headers"]
        ]
        return tuple(fields.values())


def topic_decoded(table: str, kind: str | None) -> TopicRows | None:
    """Return what decodes the rows of a table, None if there is nothing to decode.

    Args:
        table: name of the table.
        kind: kind of the decoder, such as ``offsets``; None for no decoder.
    """
    if kind is None or table != "records":
        return None
    whole = TABLES[table]
    columns = tuple(
        Column(column.name, "string", column.doc) if column.name in TEXT_COLUMNS else column for column in whole.columns
    )
    return TopicRows(Table(whole.name, whole.row, columns), decoder(kind))


def _object(text: str) -> Any:
    """Return JSON as what it stands for, so that JSON formats nest it; other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text
