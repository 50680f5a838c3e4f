"""`--key-decoder-class` and `--value-decoder-class`: the classes each release finds, and what it says of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kforensics.kafka_dump.decoders.decoder_styles import RUNTIME, STYLE_RELEASES
from kforensics.kafka_dump.decoders.plain import PARTS, Part, tolerant
from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.messages.releases import in_releases

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
    style: f"{_NEW_PACKAGE if in_releases(release, '3.8', None) else _OLD_PACKAGE}.StringDecoder"
    for style, release in STYLE_RELEASES.items()
}


@dataclass(frozen=True, slots=True)
class ClassDecoder:
    """A decoder class, loaded.

    Attributes:
        decode: Turns a key or a value into text; raises `JavaError` where the class does.
        warnings: Lines that loading it prints to stdout.
    """

    decode: Part
    warnings: tuple[str, ...] = ()


def class_decoder(class_name: str, style: str | None = None) -> ClassDecoder:
    """Load a decoder class by its name.

    The tools load the class of the values first, then that of the keys, for each file anew: after its line `Dumping`,
    before the line with the starting offset.

    Args:
        class_name: The full name of the class.
        style: The style to imitate, None for the forensic reading, which takes the names of every release.

    Raises:
        JavaError: The release has no such class.
    """
    package, _, simple = class_name.rpartition(".")
    kind = _CLASSES.get(simple) if package in (_OLD_PACKAGE, _NEW_PACKAGE) else None
    if style is None:
        if kind is None:
            raise _not_found(class_name, STYLE_RELEASES["4.3"])
        return ClassDecoder(tolerant(PARTS[kind]))
    release = STYLE_RELEASES[style]
    if kind is None or not _has_package(package, release):
        raise _not_found(class_name, release)
    if package == _OLD_PACKAGE and in_releases(release, "3.8", None):
        return ClassDecoder(PARTS[kind], (f"{class_name} is deprecated. Please use {_NEW_PACKAGE}.{simple} instead",))
    return ClassDecoder(PARTS[kind])


def _has_package(package: str, release: str) -> bool:
    if package == _OLD_PACKAGE:
        return in_releases(release, None, "3.9")
    return in_releases(release, "3.8", None)


def _not_found(class_name: str, release: str) -> JavaError:
    cause = JavaError(_CLASS_NOT_FOUND, class_name)
    if in_releases(release, "4.3", None):
        return JavaError(RUNTIME, "Failed to load decoder class", cause)
    return cause
