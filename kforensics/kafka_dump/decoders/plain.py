"""The decoders that know nothing of Kafka: text, numbers, and bytes as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kforensics.kafka_dump.decoders.decoder_styles import Decoder
from kforensics.kafka_dump.java import JavaError, java_text
from kforensics.parsers.format.integers import int32
from kforensics.parsers.messages.reader import MessageError, Reader

Part = Callable[[bytes], str]


def string(data: bytes) -> str:
    """What `StringDecoder` makes of a key or a value."""
    return java_text(data)


def long(data: bytes) -> str:
    """What `LongDecoder` makes of a key or a value."""
    try:
        return str(Reader(data).int64())
    except MessageError as error:
        raise JavaError.of(error) from error


def integer(data: bytes) -> str:
    """What `IntegerDecoder` makes of a key or a value."""
    try:
        return str(Reader(data).int32())
    except MessageError as error:
        raise JavaError.of(error) from error


def default(data: bytes) -> str:
    """What `DefaultDecoder` makes of a key or a value: an array, of which Java prints where it lies in memory.

    That number differs from run to run; this one is the hash code of the contents, so that equal bytes look equal.
    """
    value = 1
    for byte in data:
        value = 31 * value + (byte - 256 if byte > 127 else byte)
    return f"[B@{int32(value) & 0xFFFFFFFF:x}"


PARTS: Final[dict[str, Part]] = {"string": string, "long": long, "int": integer, "default": default}


def pair(key_part: Part, value_part: Part) -> Decoder:
    """A decoder that treats key and value each on its own; a null of either is not printed."""

    def parse(key: bytes | None, value: bytes | None, _offset: int) -> tuple[str | None, str | None]:
        return None if key is None else key_part(key), None if value is None else value_part(value)

    return parse


def tolerant(part: Part) -> Part:
    """The same part for the forensic reading: where the tool aborts, the text says why."""

    def decode(data: bytes) -> str:
        try:
            return part(data)
        except JavaError:
            # Having too few bytes is the only way in which these parts can fail.
            return f"<{len(data)} byte(s), too few>"

    return decode
