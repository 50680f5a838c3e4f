"""The story of an offset in a log directory with one partition."""

from __future__ import annotations

from pathlib import Path

from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import OffsetStory
from tests.forensics.cases import case_of

__all__ = ["story"]


def story(folder: Path, offset: int, *, at: int | None = None) -> OffsetStory:
    """Return the story of an offset in the one partition of a log directory."""
    return OffsetExplainer(case_of(folder), at).story(offset)
