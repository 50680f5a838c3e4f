"""Formats where the last stable offset is: stuck partitions first, what blocks several of them once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_count, format_duration, format_size, format_time
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.partition.lagging_replica import lag_of, lagging_since
from kforensics.forensics.partition.partition_rows import remedy_text, worst_severity
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import DatedBy, StableOffset
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.log.log_rows import Place
from kforensics.render.partition_names import partition_label
from kforensics.render.partition_text import add_missing_log, finding_details, lagging_lines, placed_details
from kforensics.render.ranked_text import Rank, RankedText
from kforensics.render.screen import Line, Screen, advice_lines

HISTORY_FORMAT = "  {:>12}  {:>12}  {:>12}  {}"
# An operator ends a transaction that hangs in each partition on its own.
OTHERS = (
    "for the other partitions, run the same commands with their topic, their number and the offset they are stuck at"
)
# Partitions listed that one transaction blocks.
LISTED = 8
# The order of partitions: blocked, with findings, without a log, not exact.
BLOCKED, WITH_FINDINGS, NO_LOG, NOT_EXACT = range(4)


# Cluster, producer id, producer epoch and transactional id.
Blocker: TypeAlias = tuple[str, int, int, str | None]


@dataclass(frozen=True, slots=True)
class _BlockedPartition:
    """A partition whose last stable offset is blocked.

    Attributes:
        name: its name.
        place: where it is.
        offset: where its last stable offset is, as text.
        transaction: the transaction that blocks it, as text, without its producer.
        findings: the findings to show.
        expected: what the coordinator does with a transaction that is late and in order, None if neither is known.
        rank: its place among others that the same producer blocks.
        checkpoint: the last stable offset at the checkpointed high watermark, as lines.
    """

    name: str
    place: Place
    offset: str
    transaction: str
    findings: tuple[Finding, ...]
    expected: Finding | None
    rank: Rank
    checkpoint: tuple[str, ...]


@dataclass(slots=True)
class LsoText:
    """The last stable offsets of many partitions as text.

    Attributes:
        screen: where it is shown.
        bootstrap_server: addresses of brokers for the commands in remedies, None if unknown.
    """

    screen: Screen
    bootstrap_server: str | None = None
    _ranked: RankedText = field(init=False)
    _blocked: dict[Blocker, list[_BlockedPartition]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ranked = RankedText(self.screen, "no transaction blocks the LSO")

    def add(
        self,
        state: PartitionState,
        stable: StableOffset,
        findings: Sequence[Finding],
        transactional_id: str | None = None,
        cluster: str = "",
    ) -> None:
        """Add a partition.

        Args:
            state: the partition.
            stable: its last stable offset.
            findings: its findings.
            transactional_id: of the transaction that blocks it, None if unknown.
            cluster: name of its cluster, if a transaction blocks it.
        """
        severe = tuple(filter(_is_shown, findings))
        if not state.partition.has_log:
            add_missing_log(self._ranked, NO_LOG, MissingLog.of(state, "LSO"), self.bootstrap_server)
        elif stable.blocking_transaction is not None:
            transaction = stable.blocking_transaction
            producer = int(transaction["producer_id"]), int(transaction["producer_epoch"])
            blocked = _blocked_partition(state, stable, severe, _expected(findings))
            self._blocked.setdefault((cluster, *producer, transactional_id), []).append(blocked)
        elif severe or not stable.exact:
            details = finding_details(state.partition.place, severe, self.bootstrap_server)
            rank = (WITH_FINDINGS, -max(each.severity for each in severe)) if severe else (NOT_EXACT,)
            lines = [*_offset_lines(state, stable), *details]
            self._ranked.add_partition(rank, lines, state.partition.place, state.partition.folder)
        else:
            self._ranked.add_quiet(_offset_lines(state, stable))

    def parts(self) -> Iterator[bytes]:
        """Yield the text."""
        for (_, producer_id, epoch, transactional_id), partitions in self._blocked.items():
            partitions.sort(key=attrgetter("rank"))
            named = "" if transactional_id is None else f" ({printable(repr(transactional_id))})"
            producer = f"producer {producer_id}{named}, epoch {epoch}"
            lines = self._blocked_lines(producer, partitions)
            self._ranked.add((BLOCKED, *partitions[0].rank), lines, len(partitions))
        return self._ranked.parts()

    def close(self) -> None:
        """Forget the text."""
        self._ranked.close()

    def _blocked_lines(self, producer: str, partitions: Sequence[_BlockedPartition]) -> Iterator[str]:
        """Yield what a producer blocks: its transaction and its findings once, and the partitions."""
        first = partitions[0]
        if len(partitions) == 1:
            yield Line(f"{first.name}: LSO {first.offset}", hang=2)
            yield f"  blocked by {producer}: {first.transaction}"
            yield from first.checkpoint
        else:
            yield Line(f"{format_count(len(partitions), 'partition')}: LSO stuck, blocked by {producer}", hang=2)
            for partition in partitions[: self.screen.shown(LISTED)]:
                yield Line(f"  {partition.name}: {partition.offset}", hang=4)
                if partition is first:
                    yield f"    {partition.transaction}"
                yield from partition.checkpoint
            more = len(partitions) - LISTED
            if more > 0 and not self.screen.shows_all:
                self._ranked.is_cut = True
                yield f"  … and {format_count(more, 'more partition')}"
        if not any(partition.findings for partition in partitions):
            yield from self._expected_lines(partitions)
        is_one = len(partitions) == 1
        placed = [
            (partition.place, "" if is_one else partition.name, finding) for partition, finding in _once(partitions)
        ]
        yield from placed_details(placed, self.bootstrap_server)
        if len({partition.place[-2:] for partition in partitions}) > 1 and any(
            "find-hanging" in (remedy_text(place, finding) or "") for place, _, finding in placed
        ):
            yield Line(f"  {OTHERS}", hang=4)

    def _expected_lines(self, partitions: Sequence[_BlockedPartition]) -> Iterator[str]:
        """Yield what to do about a transaction that is in order although it is late."""
        for partition in partitions:
            if partition.expected is not None:
                remedy = remedy_text(partition.place, partition.expected, self.bootstrap_server) or ""
                yield from advice_lines("do", printable(remedy), 2)
                return


def _doubtful_lines(state: PartitionState, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield why no consumer may be blocked: the topic was deleted, or the leader may have the marker."""
    deleted = state.rules.deleted_topics.get(state.partition.topic_id or "")
    if deleted is None:
        yield from lagging_lines(lagging_since(state), _lacking(findings))
    else:
        yield f"  its topic was deleted at {format_time(deleted)}: no consumer reads this log"


def _lacking(findings: Iterable[Finding]) -> str:
    """Return what a replica that is out of sync may lack; no coordinator sends a marker to what certainly hangs.

    Only an operator can have ended that, on the leader.
    """
    hangs = any(one.code.name == "txn-hanging" and one.severity == Severity.CRITICAL for one in findings)
    return "the marker of an abort by an operator: look there first" if hangs else "the marker"


def _is_shown(finding: Finding) -> bool:
    """Return whether a finding is shown: what is wrong, and what to do about an LSO that is likely stuck."""
    is_stuck = finding.code.name == "lso-stuck"
    return finding.severity > Severity.WARNING or (is_stuck and finding.severity is Severity.WARNING)


def _expected(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding whose remedy says how its coordinator ends a late transaction that is in order."""
    stuck = (one for one in findings if one.code.name == "lso-stuck" and one.severity is Severity.INFO)
    return next((one for one in stuck if one.remedy), None)


def _once(partitions: Sequence[_BlockedPartition]) -> Iterator[tuple[_BlockedPartition, Finding]]:
    """Yield the findings of the first partition that has their code, worst first."""
    by_code: dict[str, tuple[_BlockedPartition, list[Finding]]] = {}
    for partition in partitions:
        for finding in partition.findings:
            holder, findings = by_code.setdefault(finding.code.name, (partition, []))
            if holder is partition:
                findings.append(finding)
    firsts = [(partition, finding) for partition, findings in by_code.values() for finding in findings]
    yield from sorted(firsts, key=lambda pair: -pair[1].severity)


def _blocked_partition(
    state: PartitionState, stable: StableOffset, findings: tuple[Finding, ...], expected: Finding | None
) -> _BlockedPartition:
    transaction = stable.blocking_transaction
    rank = -(worst_severity(findings) or 0), -(stable.idle_ms or 0), int(transaction["last_timestamp"])
    return _BlockedPartition(
        _name(state),
        state.partition.place,
        _lso(state, stable).removeprefix("LSO "),
        _blocking_transaction(state, stable),
        findings,
        expected,
        rank,
        (*_checkpoint_lines(state, stable), *_doubtful_lines(state, findings)),
    )


def _offset_lines(state: PartitionState, stable: StableOffset) -> Iterator[str]:
    yield Line(f"{_name(state)}: {_lso(state, stable)}", hang=2)
    yield from _checkpoint_lines(state, stable)


def _checkpoint_lines(state: PartitionState, stable: StableOffset) -> Iterator[str]:
    if stable.at_checkpoint not in (None, stable.last_stable_offset):
        yield f"  at the checkpointed high watermark {state.high_watermark}: LSO {stable.at_checkpoint}"
    either = state.earlier_start.either if state.earlier_start is not None else None
    if either is not None:
        yield f"  log start {either}: its checkpoint may be a minute old"


def _name(state: PartitionState) -> str:
    return partition_label(state.partition.place, state.partition.folder)


def _lso(state: PartitionState, stable: StableOffset) -> str:
    limit = "log end" if stable.high_watermark == state.log_end_offset else "high watermark"
    hidden = ""
    if stable.hidden_records or stable.hidden_bytes:
        hidden = f"{format_count(stable.hidden_records, 'record')} hidden, {format_size(stable.hidden_bytes)}"
    offset = stable.last_stable_offset
    if not stable.exact:
        why = "batches are missing" if state.is_broken else "log start missing, no earlier producer snapshot"
        if stable.lowest < state.local_log_start_offset:
            why = f"brokers from 4.0 on answer {stable.lowest}, where the batch with the log start {offset} begins"
        return f"LSO between {stable.lowest} and {offset} ({why}{'; ' if hidden else ''}{hidden})"
    if stable.blocking_transaction is None:
        return f"LSO {offset}, at the {limit}{f' ({hidden})' if hidden else ''}{_last_marker(state)}"
    return f"LSO stuck at {offset} ({limit} {stable.high_watermark}{', ' if hidden else ''}{hidden})"


def _last_marker(state: PartitionState) -> str:
    """Return why a group that has read everything may lag by one: it commits the offset of the marker."""
    last = state.log.last
    if (
        not len(last)
        or int(last.control[0]) not in (ABORT, COMMIT)
        or int(last.last_offset[0]) != state.log_end_offset - 1
    ):
        return ""
    offset = int(last.last_offset[0])
    why = f"offset {offset} is a marker, which no consumer receives"
    return f"; {why}: a group at {offset} has a lag of 1 and missed nothing"


def _blocking_transaction(state: PartitionState, stable: StableOffset) -> str:
    transaction = stable.blocking_transaction
    marker = int(transaction["marker_offset"])
    outcome = "open" if marker < 0 else f"ends at offset {marker}"
    others = len(state.open_transactions) - 1
    also_open = f"; {format_count(others, 'other transaction')} open" if others > 0 else ""
    written = _last_write(stable, _until(state, stable))
    return f"transaction from offset {transaction['first_offset']}, {outcome}, {written}{also_open}"


def _until(state: PartitionState, stable: StableOffset) -> str:
    """Return until when the idle time is counted, if the cluster went on without the replica; see `elapsed_since`."""
    lag = lag_of(state)
    is_counted = lag is not None and lag.left_by_shutdown and lag.since < state.rules.as_of_ms
    return " when this replica fell out of sync" if is_counted and (stable.idle_ms or 0) > 0 else ""


def _last_write(stable: StableOffset, until: str) -> str:
    """Return when the last batch of the blocking transaction was written, and what that is known from.

    Args:
        stable: the last stable offset.
        until: until when the idle time is counted, if that is not the time of evaluation.
    """
    idle = f"{_idle(stable.idle_ms)}{until}"
    newest = format_time(int(stable.blocking_transaction["last_timestamp"]))
    if stable.written_ms is None or stable.dated_by is DatedBy.TIMESTAMP:
        return f"last write {newest}, {idle}"
    if stable.dated_by is DatedBy.CLIENT:
        return f"last write {newest} and {idle} by timestamps that its client set; nothing here confirms them"
    older = f"its records have older timestamps, up to {newest}"
    written = format_time(stable.written_ms)
    if stable.dated_by is DatedBy.COORDINATOR:
        return f"begun {written} by its coordinator, {idle} at most; {older}"
    return f"last write after the marker of {written}, {idle} at most; {older}"


def _idle(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "idle for an unknown time"
    if milliseconds < 0:
        return f"{format_duration(-milliseconds)} after the time of evaluation"
    return f"idle for {format_duration(milliseconds)}"


def history_lines(state: PartitionState, rows: Rows | RowStream) -> Iterator[str]:
    """Yield the steps of the last stable offset, one per line."""
    yield f"{_name(state)}: LSO by high watermark"
    yield HISTORY_FORMAT.format("from", "to", "LSO", "blocked by").rstrip()
    for row in rows:
        first, last, offset, producer_id, _ = row[-5:]
        blocked_by = "" if producer_id is None else f"producer {producer_id}"
        yield HISTORY_FORMAT.format(first, last, offset, blocked_by).rstrip()


def alarm_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the findings at warning or worse on the last stable offset, one per line; ``lso`` has their remedies."""
    for finding in findings:
        if finding.severity >= Severity.WARNING:
            yield f"  {finding.severity} {finding.code.name}: {finding.message}"
