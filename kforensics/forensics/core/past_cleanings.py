"""What shows that a partition was compacted, though neither its topic's settings nor its own cleaner checkpoint do."""

from __future__ import annotations

from typing import NamedTuple

from kforensics.forensics.core.formatting import format_time

__all__ = ["OtherCleaner", "PastPolicy"]


class PastPolicy(NamedTuple):
    """A cleanup policy with compaction that a topic had for a time.

    Attributes:
        value: the policy.
        until_ms: when another one replaced it, in ms; None if that is unknown.
    """

    value: str
    until_ms: int | None = None

    @property
    def phrase(self) -> str:
        """The policy, as half a sentence."""
        until = "before" if self.until_ms is None else f"until {format_time(self.until_ms)}"
        return f"cleanup.policy was {self.value} {until} (metadata log)"

    def may_explain(self, written_ms: int | None, clock_skew_ms: int) -> bool:
        """Return whether a cleaner may have removed something by this policy: a cleaner never removes newer records.

        It keeps the last batch of what it cleans, and never cleans the active segment. So what it removes is followed
        by a batch from before the policy ended.

        Args:
            written_ms: when the batch after it, or the one with it, was written, in ms; None if that is unknown.
            clock_skew_ms: maximum difference between the clocks of brokers.
        """
        return self.until_ms is None or written_ms is None or written_ms <= self.until_ms + clock_skew_ms


class OtherCleaner(NamedTuple):
    """How far the cleaner of another broker has compacted its replica of a partition.

    Attributes:
        offset: the offset that it has reached by its checkpoint.
        broker_id: the broker, None if unknown.
    """

    offset: int
    broker_id: int | None

    @property
    def phrase(self) -> str:
        """The evidence, as half a sentence."""
        broker = "another broker" if self.broker_id is None else f"broker {self.broker_id}"
        return f"the cleaner of {broker} has compacted its replica up to offset {self.offset}"
