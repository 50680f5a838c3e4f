"""How 2.7 read records of coordinators: with hand-made schemas, whose errors name the path to the field.

The bytes are those of the generated messages, so the tables are the same; the names and the errors are not.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.format.java_utf8 import java_utf8
from kforensics.parsers.messages.reader import MessageError, Reader
from kforensics.parsers.messages.schema import Field, Message, has_version, layout

SCHEMA_EXCEPTION: Final = "org.apache.kafka.common.protocol.types.SchemaException"
# Only where the name is not the one of the table in snake case.
_NAMES: Final = {
    "transactionTimeoutMs": "transaction_timeout",
    "transactionLastUpdateTimestampMs": "transaction_entry_timestamp",
    "transactionStartTimestampMs": "transaction_start_timestamp",
}
_RELEASE_OF_TABLES: Final = "2.8"


def _name(field: Field, message: Message, version: int) -> str:
    if field.name == "commitTimestamp" and message.name == "OffsetCommitValue" and version == 0:
        return "timestamp"
    return _NAMES.get(field.name) or re.sub("([A-Z])", r"_\1", field.name).lower()


def read_struct(message: Message, version: int, data: bytes, start: int) -> dict[str, Any]:
    """Read a message as `org.apache.kafka.common.protocol.types.Schema` does.

    Args:
        message: Its table.
        version: The version of the bytes.
        data: The bytes.
        start: Where the message starts in them.

    Raises:
        JavaError: A SchemaException that names the fields on the way to the error.
    """
    reader = Reader(data, position=start)
    try:
        return _struct(layout(message, _RELEASE_OF_TABLES).fields, message, version, reader)
    except MessageError as error:
        raise JavaError.of(error) from error


def _struct(fields: tuple[Field, ...], message: Message, version: int, reader: Reader) -> dict[str, Any]:
    value = {}
    for field in fields:
        if not has_version(field.versions, version):
            continue
        try:
            value[field.name] = _field(field, message, version, reader)
        except MessageError as error:
            why = error.java_message or error.java_class
            text = f"Error reading field '{_name(field, message, version)}': {why}"
            raise MessageError(SCHEMA_EXCEPTION, text) from error
    return value


def _field(field: Field, message: Message, version: int, reader: Reader) -> Any:
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


def _primitive(field: Field, nullable: bool, reader: Reader) -> Any:
    if field.type == "string":
        length = reader.int16()
        if length < 0:
            return _null("String length", length, nullable)
        return java_utf8(_sized(length, "string", reader))
    if field.type == "bytes":
        length = reader.int32()
        return _null("Bytes size", length, nullable) if length < 0 else _sized(length, "bytes", reader)
    return {"int8": reader.int8, "int16": reader.int16, "int32": reader.int32, "int64": reader.int64}[field.type]()


def _null(what: str, length: int, nullable: bool) -> None:
    if not nullable:
        raise MessageError(SCHEMA_EXCEPTION, f"{what} {length} cannot be negative")


def _check(size: int, kind: str, reader: Reader) -> None:
    if size > reader.remaining:
        unit = "length" if kind == "string" else "size"
        text = f"Error reading {kind} of {unit} {size}, only {reader.remaining} bytes available"
        raise MessageError(SCHEMA_EXCEPTION, text)


def _sized(size: int, kind: str, reader: Reader) -> bytes:
    _check(size, kind, reader)
    return reader.raw(size)
