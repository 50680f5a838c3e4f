"""The decoders of text, numbers and bytes, and the decoder classes of each release that users choose them by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.format.integers import int32
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages.reader import RUNTIME, MessageError, MessageReader
from kforensics.parsers.messages.releases import in_releases

# Key, value and offset of a record to the texts after `key: ` and `payload: `; None for a part that is not printed.
Decoder: TypeAlias = Callable[[bytes | None, bytes | None, int], tuple[str | None, str | None]]
TextDecoder: TypeAlias = Callable[[bytes], str]

_OLD_PACKAGE: Final = "kafka.serializer"
_NEW_PACKAGE: Final = "org.apache.kafka.tools.api"
_CLASSES: Final = {
    "StringDecoder": "string",
    "LongDecoder": "long",
    "IntegerDecoder": "int",
    "DefaultDecoder": "default",
}
_CLASS_NOT_FOUND: Final = "java.lang.ClassNotFoundException"

DEFAULT_CLASSES: Final = {
    style.name: f"{_NEW_PACKAGE if in_releases(style.release, '3.8', None) else _OLD_PACKAGE}.StringDecoder"
    for style in STYLES.values()
}


def decode_long(data: bytes) -> str:
    """Return what `LongDecoder` makes of a key or a value."""
    try:
        return str(MessageReader(data).int64())
    except MessageError as error:
        raise JavaError.of(error) from error


def decode_integer(data: bytes) -> str:
    """Return what `IntegerDecoder` makes of a key or a value."""
    try:
        return str(MessageReader(data).int32())
    except MessageError as error:
        raise JavaError.of(error) from error


def decode_default(data: bytes) -> str:
    """Return what `DefaultDecoder` makes of a key or a value: an array, printed as its identity hash code.

    The identity hash code differs from run to run. Here it is the hash code of the contents, so that equal bytes look
    equal.
    """
    value = 1
    for byte in data:
        value = 31 * value + (byte - 256 if byte > 127 else byte)
    return f"[B@{int32(value) & 0xFFFFFFFF:x}"


TEXT_DECODERS: Final[dict[str, TextDecoder]] = {
    "string": java_utf8,
    "long": decode_long,
    "int": decode_integer,
    "default": decode_default,
}


def part_decoder(key_decoder: TextDecoder, value_decoder: TextDecoder) -> Decoder:
    """Return a decoder that decodes key and value separately; null is not printed."""

    def decode(key: bytes | None, value: bytes | None, _offset: int) -> tuple[str | None, str | None]:
        return None if key is None else key_decoder(key), None if value is None else value_decoder(value)

    return decode


def tolerant(decoder: TextDecoder) -> TextDecoder:
    """Return a decoder for the plain style, which returns an error text where the tool aborts."""

    def decode(data: bytes) -> str:
        try:
            return decoder(data)
        except JavaError:
            # These decoders only fail if there are too few bytes.
            return f"<{len(data)} byte(s), too few>"

    return decode


@dataclass(frozen=True, slots=True)
class ClassDecoder:
    """A loaded decoder class.

    Attributes:
        decode: Decodes a key or a value. It raises `JavaError` where the class raises an exception.
        warnings: The lines that are printed to standard output when the class is loaded.
    """

    decode: TextDecoder
    warnings: tuple[str, ...] = ()


def class_decoder(class_name: str, style: str | None = None) -> ClassDecoder:
    """Load a decoder class by its name.

    The tools load the classes for each file, after the line `Dumping` and before the line with the start offset: first
    the class for values, then the class for keys.

    Args:
        class_name: The full name of the class.
        style: The style to imitate; None for the plain style, which accepts the names of all releases.

    Raises:
        JavaError: The release does not have the class.
    """
    package, _, simple_name = class_name.rpartition(".")
    kind = _CLASSES.get(simple_name) if package in (_OLD_PACKAGE, _NEW_PACKAGE) else None
    if style is None:
        if kind is None:
            raise _not_found(class_name, STYLES["4.3"].release)
        return ClassDecoder(tolerant(TEXT_DECODERS[kind]))
    release = STYLES[style].release
    if kind is None or not _has_package(package, release):
        raise _not_found(class_name, release)
    if package == _OLD_PACKAGE and in_releases(release, "3.8", None):
        warning = f"{class_name} is deprecated. Please use {_NEW_PACKAGE}.{simple_name} instead"
        return ClassDecoder(TEXT_DECODERS[kind], (warning,))
    return ClassDecoder(TEXT_DECODERS[kind])


def _has_package(package: str, release: str) -> bool:
    if package == _OLD_PACKAGE:
        return in_releases(release, None, "3.9")
    return in_releases(release, "3.8", None)


def _not_found(class_name: str, release: str) -> JavaError:
    error = JavaError(_CLASS_NOT_FOUND, class_name)
    if in_releases(release, "4.3", None):
        return JavaError(RUNTIME, "Failed to load decoder class", error)
    return error
