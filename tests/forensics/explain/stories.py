"""Explain an offset in a log directory with one partition."""

from __future__ import annotations

from pathlib import Path

from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import OffsetStory
from tests.forensics.partition_states import state_under

__all__ = ["story"]


def story(folder: Path, offset: int, *, high_watermark: int | None = None) -> OffsetStory:
    """Return the explanation of an offset in the only partition of a log directory."""
    return OffsetExplainer(state_under(folder), high_watermark).story(offset)
