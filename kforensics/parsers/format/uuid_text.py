"""Kafka's text of a uuid: its 16 bytes in URL-safe Base64 without padding. Rule: ``org.apache.kafka.common.Uuid``."""

from __future__ import annotations

import re

__all__ = ["ZERO", "is_uuid_text"]

ZERO = "A" * 22
# 22 characters hold 132 bits; Java's decoder ignores the last four, and takes padding too.
TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")


def is_uuid_text(text: str) -> bool:
    """Tell the text of a uuid from anything else."""
    return bool(TEXT.fullmatch(text))
