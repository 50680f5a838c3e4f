"""Limits that checks use, Kafka's defaults where Kafka has one, and the time of evaluation."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rules"]

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits and the time of evaluation; all times in ms.

    Attributes:
        as_of_ms: time of evaluation, when the files were copied: given by the user, or the newest modification time;
            never the current time.
        is_assumed: whether it is the newest modification time. Then an older copy of a running broker is evaluated as
            of its own time wherever later events could matter.
        max_txn_timeout_ms: ``transaction.max.timeout.ms``.
        late_buffer_ms: how much longer a broker waits before it considers a transaction late.
        pid_expiry_ms: ``producer.id.expiration.ms``.
        abort_scan_ms: ``transaction.abort.timed.out.transaction.cleanup.interval.ms``.
        clock_skew_ms: maximum difference between the clocks of brokers.
        copied_ms: when the files of the partition were copied at the earliest, by their modification times; None if
            they say nothing.
        ancient_ms: maximum age of a batch relative to its neighbours.
        many_open_transactions: number of simultaneously open transactions that is reported.
        many_segments: number of segments spanned by one transaction that is reported.
        near_exhaustion: producer epoch from which exhaustion is reported.
        aborted_share: share of aborted transactions that is reported.
        aborted_least: minimum number of transactions for that share.
        new_producers_per_hour: number of new producers in a partition per hour that is reported.
    """

    as_of_ms: int
    max_txn_timeout_ms: int = 900_000
    late_buffer_ms: int = 300_000
    pid_expiry_ms: int = DAY_MS
    abort_scan_ms: int = 10_000
    clock_skew_ms: int = 5_000
    copied_ms: int | None = None
    ancient_ms: int = 30 * DAY_MS
    many_open_transactions: int = 1_000
    many_segments: int = 10
    near_exhaustion: int = 32_000
    aborted_share: float = 0.2
    aborted_least: int = 100
    new_producers_per_hour: int = 1_000
    is_assumed: bool = False

    @property
    def late_ms(self) -> int:
        """Time without a batch after which Kafka considers an open transaction late."""
        return self.max_txn_timeout_ms + self.late_buffer_ms
