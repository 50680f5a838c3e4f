"""The decoders of the dump: the texts behind `key:` and `payload:`, and behind the headers of control records.

Each style prints what the tool of one release prints, failures included; without a style the newest forms are
printed for records of any release, and nothing raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kforensics.dumplog.decoders import coordinator, framed, plain, remote_log, text
from kforensics.dumplog.decoders.classes import DEFAULT_CLASSES, ClassDecoder, class_decoder
from kforensics.dumplog.decoders.control import control_suffix
from kforensics.dumplog.decoders.styles import STYLE_RELEASES, Decoder
from kforensics.errors import UsageError
from kforensics.parsers.messages.registry import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kforensics.parsers.messages.schema import in_releases

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


def _offsets(release: str) -> Decoder:
    if in_releases(release, "3.8", None):
        return coordinator.decoder(CONSUMER_OFFSETS, release)
    return text.offsets_decoder(release)


def _transaction(release: str) -> Decoder:
    if in_releases(release, "4.1", None):
        return coordinator.decoder(TRANSACTION_STATE, release)
    return text.transaction_decoder(release)


# By the kind: the first release with the decoder, the imitation of a release, and the forensic reading.
_INTERNAL: Final[dict[str, tuple[str, Callable[[str], Decoder], Callable[[], Decoder]]]] = {
    "offsets": ("0.9", _offsets, lambda: coordinator.forensic_decoder(CONSUMER_OFFSETS)),
    "transaction": ("0.11", _transaction, lambda: coordinator.forensic_decoder(TRANSACTION_STATE)),
    "cluster-metadata": ("2.8", framed.decoder, framed.forensic_decoder),
    "remote-log-metadata": ("3.9", remote_log.decoder, remote_log.forensic_decoder),
    "share-group-state": (
        "4.0",
        lambda release: coordinator.decoder(SHARE_GROUP_STATE, release),
        lambda: coordinator.forensic_decoder(SHARE_GROUP_STATE),
    ),
}
_PLAIN: Final = ("string", "long", "int", "default")

KINDS: Final = (*_PLAIN, *_INTERNAL)


def kinds_of(style: str | None) -> tuple[str, ...]:
    """The kinds of decoders a style has; all of them without a style."""
    if style is None:
        return KINDS
    release = STYLE_RELEASES[style]
    return (*_PLAIN, *(kind for kind, entry in _INTERNAL.items() if in_releases(release, entry[0], None)))


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
    _, imitation, forensic = _INTERNAL[kind]
    return forensic() if style is None else imitation(STYLE_RELEASES[style])
