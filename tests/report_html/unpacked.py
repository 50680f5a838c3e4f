"""What a report says: its page without the marks of words, and the tables and charts that it unpacks."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

__all__ = ["block", "everything"]


def block(page: str, name: str) -> str:
    """Return a block of the page that it unpacks itself."""
    (text,) = re.findall(f'<script type="application/gzip" id="{name}">(.*?)</script>', page, re.DOTALL)
    return gzip.decompress(base64.b64decode(text)).decode()


def everything(page: Path) -> str:
    """Return the page with its data. Words of commands have no marks around them."""
    text = page.read_text(encoding="utf-8")
    return f"{re.sub(r'</?span>', '', text)}\n{block(text, 'data')}"
