"""The replay of a partition as a monoid: a log may be cut anywhere, its stretches replayed apart, and put together.

What the replay says is defined by ``fold``; here it is computed on columns, for stretches of which nobody knows yet
what stands before them. ``summarise`` makes the summary of a stretch, ``merge`` that of two adjacent ones,
``finalise`` adds what is known of the log before the first. Rows are written out as soon as they are certain.
"""

from __future__ import annotations

from kforensics.forensics.replay.finalising import Final, finalise
from kforensics.forensics.replay.folding import Folding
from kforensics.forensics.replay.merging import merge
from kforensics.forensics.replay.replay_rows import Rows, joined_rows
from kforensics.forensics.replay.summarising import summarise
from kforensics.forensics.replay.summary_record import PRODUCER_SUMMARY, Summary
from kforensics.forensics.replay.summary_table import summary_from_table, summary_to_table

__all__ = [
    "PRODUCER_SUMMARY",
    "Final",
    "Folding",
    "Rows",
    "Summary",
    "finalise",
    "joined_rows",
    "merge",
    "summarise",
    "summary_from_table",
    "summary_to_table",
]
