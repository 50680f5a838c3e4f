"""The codes of the findings that report damage."""

from __future__ import annotations

from kforensics.parsers.format.rows import Damage

__all__ = ["CHAIN_BROKEN", "code_of", "is_reported"]

# Reasons that concern a whole batch; other reasons inside a batch concern its records.
BATCH_REASONS = ("crc", "magic", "truncated")
CODE_BY_REASON = {
    "crc": "batch-crc-mismatch",
    "truncated": "batch-truncated",
    "shrunk": "batch-truncated",
    "zero-tail": "batch-truncated",
}
# The code of all other reasons: length, magic, zeros.
CHAIN_BROKEN = "batch-length-invalid"


def code_of(row: Damage) -> str:
    """Return the code for damage to batches or to the bytes between them."""
    return CODE_BY_REASON.get(row.reason, CHAIN_BROKEN)


def is_reported(row: Damage) -> bool:
    """Return whether damage is to a batch or between batches, and not to the records in one."""
    return row.inside_batch is None or row.reason in BATCH_REASONS
