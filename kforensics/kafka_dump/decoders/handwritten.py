"""The records of coordinators as 2.7 reads them: with hand-written schemas, whose errors contain the path to the field.

The bytes are those of the generated messages, so the schemas of 2.8 are used; field names and errors differ. Those of
MirrorMaker are hand-written in all releases.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages.reader import MessageError, MessageReader
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version, layout

__all__ = ["SCHEMA_EXCEPTION", "read_struct"]

SCHEMA_EXCEPTION: Final = "org.apache.kafka.common.protocol.types.SchemaException"
# Field names that are not the names of the generated messages in snake case.
_NAMES: Final = {
    "transactionTimeoutMs": "transaction_timeout",
    "transactionLastUpdateTimestampMs": "transaction_entry_timestamp",
    "transactionStartTimestampMs": "transaction_start_timestamp",
    # Of MirrorMaker.
    **{name: name for name in ("upstreamOffset", "sourceClusterAlias", "targetClusterAlias")},
}
_RELEASE_OF_SCHEMAS: Final = "2.8"


def _name(field: Field, message: MessageSchema, version: int) -> str:
    if field.name == "commitTimestamp" and message.name == "OffsetCommitValue" and version == 0:
        return "timestamp"
    return _NAMES.get(field.name) or re.sub("([A-Z])", r"_\1", field.name).lower()


def read_struct(message: MessageSchema, version: int, data: bytes, start: int) -> dict[str, Any]:
    """Read a message as `org.apache.kafka.common.protocol.types.Schema` does.

    Args:
        message: The schema of the message.
        version: The version of the message.
        data: The bytes.
        start: The index of the first byte of the message.

    Raises:
        JavaError: A SchemaException with the path to the field that cannot be read.
    """
    reader = MessageReader(data, position=start)
    try:
        return _struct(layout(message, _RELEASE_OF_SCHEMAS).fields, message, version, reader)
    except MessageError as error:
        raise JavaError.of(error) from error


def _struct(fields: tuple[Field, ...], message: MessageSchema, version: int, reader: MessageReader) -> dict[str, Any]:
    value = {}
    for field in fields:
        if not has_version(field.versions, version):
            continue
        try:
            value[field.name] = _field(field, message, version, reader)
        except MessageError as error:
            cause = error.java_message or error.java_class
            text = f"Error reading field '{_name(field, message, version)}': {cause}"
            raise MessageError(SCHEMA_EXCEPTION, text) from error
    return value


def _field(field: Field, message: MessageSchema, version: int, reader: MessageReader) -> Any:
    if not field.is_array:
        return _primitive(field, has_version(field.nullable, version), reader)
    count = reader.int32()
    if count < 0:
        if field.nullable:
            return None
        raise MessageError(SCHEMA_EXCEPTION, f"Array size {count} cannot be negative")
    _check(count, "array", reader)
    if field.fields:
        return [_struct(field.fields, message, version, reader) for _ in range(count)]
    return [reader.int32() for _ in range(count)]


def _primitive(field: Field, nullable: bool, reader: MessageReader) -> Any:
    if field.type == "string":
        length = reader.int16()
        if length < 0:
            return _null("String length", length, nullable)
        return java_utf8(_sized(length, "string", reader))
    if field.type == "bytes":
        length = reader.int32()
        return _null("Bytes size", length, nullable) if length < 0 else _sized(length, "bytes", reader)
    return {"int8": reader.int8, "int16": reader.int16, "int32": reader.int32, "int64": reader.int64}[field.type]()


def _null(label: str, length: int, nullable: bool) -> None:
    if not nullable:
        raise MessageError(SCHEMA_EXCEPTION, f"{label} {length} cannot be negative")


def _check(size: int, kind: str, reader: MessageReader) -> None:
    if size > reader.remaining:
        unit = "length" if kind == "string" else "size"
        text = f"Error reading {kind} of {unit} {size}, only {reader.remaining} bytes available"
        raise MessageError(SCHEMA_EXCEPTION, text)


def _sized(size: int, kind: str, reader: MessageReader) -> bytes:
    _check(size, kind, reader)
    return reader.raw(size)
