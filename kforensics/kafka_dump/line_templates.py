"""The words of batch and record lines, once: plain Python fills them in, and kernels are given them.

Rule: ``DumpLogSegments.dumpLog`` of each release.
"""

from __future__ import annotations

from functools import cache

from kforensics.kafka_dump.styles import Style

__all__ = [
    "BATCH_TAIL",
    "ENTRY_HEAD",
    "MARKER",
    "batch_head",
    "contents_words",
    "message_metadata",
    "record_metadata",
]

BATCH_HEAD = (
    "baseOffset: {base_offset} lastOffset: {last_offset} count: {count} baseSequence: {base_sequence}"
    " lastSequence: {last_sequence} producerId: {producer_id} producerEpoch: {producer_epoch}"
    " partitionLeaderEpoch: {partition_leader_epoch} isTransactional: {is_transactional} isControl: {is_control}"
)
# Of an entry of format 0 or 1; the second half is that of all.
ENTRY_HEAD = "offset: {last_offset}"
DELETE_HORIZON = " deleteHorizonMs: {delete_horizon}"
BATCH_TAIL = (
    " position: {position} {timestamp_type}: {max_timestamp} size: {size} magic: {magic} compresscodec: {codec}"
    " crc: {crc} isvalid: {crc_valid}\n"
)
FORM_E = (
    "{timestamp_type}: {timestamp} baseOffset: {base_offset} lastOffset: {last_offset}"
    " baseSequence: {base_sequence} lastSequence: {last_sequence} producerEpoch: {producer_epoch}"
    " partitionLeaderEpoch: {partition_leader_epoch} batchSize: {size} magic: {magic} compressType: {codec}"
    " position: {position}"
)
MARKER = " endTxnMarker: {control_type} coordinatorEpoch: {coordinator_epoch}"
SEQUENCE_AND_HEADERS = " sequence: {sequence} headerKeys: [{header_keys}]"


@cache
def batch_head(style: Style) -> str:
    """Return the first half of a batch line."""
    return BATCH_HEAD + DELETE_HORIZON if style.delete_horizon else BATCH_HEAD


@cache
def record_metadata(style: Style) -> str:
    """Return a record line up to its key."""
    return _up_to_sizes(style, valid="true", crc="null") + SEQUENCE_AND_HEADERS


@cache
def message_metadata(style: Style) -> str:
    """Return the line of a message of format 0 or 1 up to its key; checksum and validity are the message's own."""
    return _up_to_sizes(style, valid="{crc_valid}", crc="{crc}") + style.legacy_tail


def _up_to_sizes(style: Style, *, valid: str, crc: str) -> str:
    sizes = f"{style.key_size}: {{key_size}} {style.value_size}: {{value_size}}"
    if style.record_form == "E":
        return f"| offset: {{offset}} isValid: {valid} crc: {crc} {sizes} {FORM_E}"
    return f"| offset: {{offset}} {{timestamp_type}}: {{timestamp}} {sizes}"


def contents_words(style: Style, *, skip_metadata: bool) -> tuple[str, str, str]:
    """Return the words before a key, before a payload behind a key, and before a payload alone."""
    bar = "| " if skip_metadata else " "
    lone = bar if style.bar_before_lone_payload else " "
    return f"{bar}key: ", " payload: ", f"{lone}payload: "
