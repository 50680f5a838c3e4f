"""The decoders of the dump: the texts behind `key:` and `payload:`, and behind the headers of control records.

Each style prints what the tool of one release prints, failures included; without a style the newest forms are
printed for records of any release, and nothing raises.
"""

from __future__ import annotations

from typing import Final

from kforensics.errors import UsageError
from kforensics.kafka_dump.decoders import plain
from kforensics.kafka_dump.decoders.classes import DEFAULT_CLASSES, ClassDecoder, class_decoder
from kforensics.kafka_dump.decoders.decoder_styles import STYLE_RELEASES, Decoder
from kforensics.parsers.messages.releases import in_releases

__all__ = [
    "DEFAULT_CLASSES",
    "KINDS",
    "STYLE_RELEASES",
    "ClassDecoder",
    "Decoder",
    "class_decoder",
    "control_suffix",
    "decoder",
    "kinds_of",
]


# The kinds for internal topics, and the first release with each.
_INTERNAL: Final = {
    "offsets": "0.9",
    "transaction": "0.11",
    "cluster-metadata": "2.8",
    "remote-log-metadata": "3.9",
    "share-group-state": "4.0",
}
_PLAIN: Final = ("string", "long", "int", "default")

KINDS: Final = (*_PLAIN, *_INTERNAL)


def kinds_of(style: str | None) -> tuple[str, ...]:
    """The kinds of decoders a style has; all of them without a style."""
    if style is None:
        return KINDS
    release = STYLE_RELEASES[style]
    return (*_PLAIN, *(kind for kind, since in _INTERNAL.items() if in_releases(release, since, None)))


def decoder(kind: str = "string", style: str | None = None) -> Decoder:
    """A decoder of keys and values.

    Args:
        kind: One of `KINDS`.
        style: The style to imitate, None for the forensic reading.

    Returns:
        A function of key, value and offset that returns the texts behind `key: ` and `payload: `, None for a part that
        is not printed. With a style it raises `JavaError` where the tool of that release aborts.

    Raises:
        UsageError: The release has no such decoder.
    """
    if kind not in kinds_of(style):
        raise UsageError(f"no decoder {kind!r} in style {style}; there are {', '.join(kinds_of(style))}")
    if kind in _PLAIN:
        part = plain.PARTS[kind] if style else plain.tolerant(plain.PARTS[kind])
        return plain.pair(part, part)
    from kforensics.kafka_dump.decoders.internal import forensic, imitation  # text and numbers do without all messages

    return forensic(kind) if style is None else imitation(kind, STYLE_RELEASES[style])


def control_suffix(key: bytes | None, value: bytes | None, style: str | None = None) -> str:
    """What a record line says of a control record; see `control.control_suffix`."""
    from kforensics.kafka_dump.decoders import control  # most logs hold no control records

    return control.control_suffix(key, value, style)
