"""Kafka's schema-generated messages: the bytes of internal topics, metadata and control records, and what they say.

`schema` describes the tables, which are `group`, `share_group`, `streams_group`, `transaction`, `share`, `metadata`,
`remote_log` and `control`; `codec` and `reader` decode; `render` prints JSON as Kafka does; `registry` finds the
message of a record; `records` is the forensic reading; `names` says what the numbers mean.
"""

from __future__ import annotations

from kforensics.parsers.messages.codec import UNKNOWN_TAGS, Decoded, decode, decode_exact
from kforensics.parsers.messages.reader import Limits, MessageError, limits_of
from kforensics.parsers.messages.records import (
    DecodedMessage,
    decode_consumer_protocol,
    decode_control_record,
    decode_record,
)
from kforensics.parsers.messages.registry import INTERNAL_TOPICS
from kforensics.parsers.messages.render import json_text, json_tree, to_json
from kforensics.parsers.messages.schema import Field, Message, layout

__all__ = [
    "INTERNAL_TOPICS",
    "UNKNOWN_TAGS",
    "Decoded",
    "DecodedMessage",
    "Field",
    "Limits",
    "Message",
    "MessageError",
    "decode",
    "decode_consumer_protocol",
    "decode_control_record",
    "decode_exact",
    "decode_record",
    "json_text",
    "json_tree",
    "layout",
    "limits_of",
    "to_json",
]
