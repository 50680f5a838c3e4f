"""What checks measure against: Kafka's defaults where there are such, and the time at which they judge."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rules"]

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits and the time of evaluation; all times in ms.

    Attributes:
        as_of_ms: when the files were copied, as the user says or the newest of them tells; never the clock on the wall.
        is_assumed: whether that is what the newest file tells. Then a copy of a running broker that was taken before is
            judged as of that moment where it matters what may have come since.
        max_txn_timeout_ms: ``transaction.max.timeout.ms``.
        late_buffer_ms: how much longer a broker waits before it calls a transaction late.
        pid_expiry_ms: ``producer.id.expiration.ms``.
        abort_scan_ms: ``transaction.abort.timed.out.transaction.cleanup.interval.ms``.
        clock_skew_ms: by how much clocks of brokers may differ.
        ancient_ms: how much older than its neighbours a batch may be.
        many_open_transactions: from how many at once it is worth a word.
        many_segments: from how many segments a transaction spans it is worth a word.
        near_exhaustion: producer epoch from which it is worth a word.
        aborted_share: share of aborted transactions that is worth a word.
        aborted_least: among at least so many.
        new_producers_per_hour: from how many in a partition it is worth a word.
    """

    as_of_ms: int
    max_txn_timeout_ms: int = 900_000
    late_buffer_ms: int = 300_000
    pid_expiry_ms: int = DAY_MS
    abort_scan_ms: int = 10_000
    clock_skew_ms: int = 5_000
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
        """After how long without a batch Kafka calls an open transaction late."""
        return self.max_txn_timeout_ms + self.late_buffer_ms
