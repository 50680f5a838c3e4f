"""The decoders of the dump: the texts after `key:` and `payload:`, and after the headers of control records.

In each style they print what the tool of that release prints, errors included. Without a style they print the newest
forms for records of any release and never raise an exception.
"""

from __future__ import annotations

from typing import Final

from kforensics.errors import UsageError
from kforensics.kafka_dump.decoders.classes import (
    DEFAULT_CLASSES,
    TEXT_DECODERS,
    ClassDecoder,
    Decoder,
    TextDecoder,
    class_decoder,
    part_decoder,
    tolerant,
)
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.messages.releases import in_releases

__all__ = [
    "DECODER_KINDS",
    "DEFAULT_CLASSES",
    "ClassDecoder",
    "Decoder",
    "TextDecoder",
    "class_decoder",
    "control_suffix",
    "decoder",
    "decoder_kinds",
    "part_decoder",
]

# The decoders of internal topics, and the first release with each.
_TOPIC_KINDS: Final = {
    "offsets": "0.9",
    "transaction": "0.11",
    "cluster-metadata": "2.8",
    "remote-log-metadata": "3.9",
    "share-group-state": "4.0",
}

DECODER_KINDS: Final = (*TEXT_DECODERS, *_TOPIC_KINDS)


def decoder_kinds(style: str | None) -> tuple[str, ...]:
    """Return the kinds of decoders that a style has; all kinds without a style."""
    if style is None:
        return DECODER_KINDS
    release = STYLES[style].release
    return (*TEXT_DECODERS, *(kind for kind, since in _TOPIC_KINDS.items() if in_releases(release, since, None)))


def decoder(kind: str = "string", style: str | None = None) -> Decoder:
    """Return a decoder of keys and values.

    Args:
        kind: One of `DECODER_KINDS`.
        style: The style to imitate; None for the plain style.

    Returns:
        A function of the key, the value and the offset of a record. It returns the texts after `key: ` and
        `payload: `; None for a part that is not printed. With a style it raises `JavaError` where the tool aborts.

    Raises:
        UsageError: The release does not have the decoder.
    """
    if kind not in decoder_kinds(style):
        raise UsageError(f"no decoder {kind!r} in style {style}; there are {', '.join(decoder_kinds(style))}")
    if kind in TEXT_DECODERS:
        decode = TEXT_DECODERS[kind] if style else tolerant(TEXT_DECODERS[kind])
        return part_decoder(decode, decode)
    if style is None:
        return _best_effort_decoder(kind)
    return _imitated_decoder(kind, STYLES[style].release)


def _imitated_decoder(kind: str, release: str) -> Decoder:
    """Return the decoder of an internal topic in a release; it raises `JavaError` where the tool aborts."""
    from kforensics.kafka_dump.decoders import coordinator, framed, old_text  # not for text

    match kind:
        case "offsets" if in_releases(release, None, "3.7"):
            return old_text.offsets_decoder(release)
        case "transaction" if in_releases(release, None, "4.0"):
            return old_text.transaction_decoder(release)
        case "cluster-metadata":
            return framed.cluster_metadata_decoder(release)
        case "remote-log-metadata":
            return framed.remote_log_decoder(release)
        case _:
            return coordinator.coordinator_decoder(kind, release)


def _best_effort_decoder(kind: str) -> Decoder:
    """Return the decoder of an internal topic for records of any release; it never raises an exception."""
    from kforensics.kafka_dump.decoders import coordinator, framed  # not for text

    match kind:
        case "cluster-metadata":
            return framed.best_effort_metadata_decoder()
        case "remote-log-metadata":
            return framed.best_effort_remote_log_decoder()
        case _:
            return coordinator.best_effort_coordinator_decoder(kind)


def control_suffix(key: bytes | None, value: bytes | None, style: str | None = None) -> str:
    """Return what a record line has after the headers of a control record; see `control_text.control_record_text`."""
    from kforensics.kafka_dump.decoders.control_text import control_record_text  # most logs have no control records

    return control_record_text(key, value, style)
