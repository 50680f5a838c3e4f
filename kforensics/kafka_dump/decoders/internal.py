"""The decoders of Kafka's internal topics by their kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kforensics.kafka_dump.decoders import coordinator, framed, old_text, remote_log
from kforensics.kafka_dump.decoders.decoder_styles import Decoder
from kforensics.parsers.messages.registry import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kforensics.parsers.messages.releases import in_releases


def _offsets(release: str) -> Decoder:
    if in_releases(release, "3.8", None):
        return coordinator.decoder(CONSUMER_OFFSETS, release)
    return old_text.offsets_decoder(release)


def _transaction(release: str) -> Decoder:
    if in_releases(release, "4.1", None):
        return coordinator.decoder(TRANSACTION_STATE, release)
    return old_text.transaction_decoder(release)


_IMITATIONS: Final[dict[str, Callable[[str], Decoder]]] = {
    "offsets": _offsets,
    "transaction": _transaction,
    "cluster-metadata": framed.decoder,
    "remote-log-metadata": remote_log.decoder,
    "share-group-state": lambda release: coordinator.decoder(SHARE_GROUP_STATE, release),
}
_FORENSIC: Final[dict[str, Callable[[], Decoder]]] = {
    "offsets": lambda: coordinator.forensic_decoder(CONSUMER_OFFSETS),
    "transaction": lambda: coordinator.forensic_decoder(TRANSACTION_STATE),
    "cluster-metadata": framed.forensic_decoder,
    "remote-log-metadata": remote_log.forensic_decoder,
    "share-group-state": lambda: coordinator.forensic_decoder(SHARE_GROUP_STATE),
}


def imitation(kind: str, release: str) -> Decoder:
    """The decoder of a release; it raises `JavaError` where the tool aborts."""
    return _IMITATIONS[kind](release)


def forensic(kind: str) -> Decoder:
    """The forensic reading, which never raises."""
    return _FORENSIC[kind]()
