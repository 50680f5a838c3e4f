"""Copies of running brokers that were taken before the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kforensics.forensics.core.reporting import moment, span
from kforensics.forensics.core.rules import Rules

__all__ = ["as_of_sentences"]

# So many are named.
NAMED = 10


def as_of_sentences(taken: Iterable[tuple[str | None, int | None]], rules: Rules) -> Iterator[str]:
    """Yield as of when is judged, where that is what the newest file tells, and what is judged as of before.

    Args:
        taken: of each partition its log directory, and when it was copied; None for what is not known.
        rules: limits and the time of evaluation.
    """
    if not rules.is_assumed:
        return
    yield (
        f"judged as of {moment(rules.as_of_ms)}, when the newest of these files was written; --as-of sets another time"
    )
    newest: dict[str, int] = {}
    for log_dir, time in taken:
        if log_dir is not None and time is not None:
            newest[log_dir] = max(time, newest.get(log_dir, time))
    old = [(time, log_dir) for log_dir, time in newest.items() if rules.as_of_ms - time > rules.max_txn_timeout_ms]
    for time, log_dir in sorted(old)[:NAMED]:
        yield (
            f"{log_dir} is from {span(rules.as_of_ms - time)} before, of a broker that was running or crashed: "
            f"what is open there is judged as of {moment(time)}"
        )
    if len(old) > NAMED:
        yield f"… and {len(old) - NAMED:,} more of such log directories"
