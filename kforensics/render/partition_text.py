"""Formats what a partition's log shows as lines of text: LSO, transactions, producers, duplicates and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_count, format_duration, format_size, format_time
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.partition.partition_rows import remedy_text
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import StableOffset
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.log.log_rows import Place

TRANSACTION_HEADINGS = ("outcome", "producer", "epoch", "offsets", "marker", "records", "size", "start", "duration")
TRANSACTION_FORMAT = "  {:<9}  {:>12}  {:>6}  {:>25}  {:>12}  {:>9}  {:>10}  {:<23}  {}"
LISTED_TRANSACTION_COLUMNS = (
    *("outcome", "producer_id", "producer_epoch", "first_offset", "last_offset", "marker_offset", "records", "bytes"),
    *("first_timestamp", "duration_ms", "first_offset_exact"),
)
PRODUCER_HEADINGS = ("producer", "epoch", "last sequence", "last offset", "coordinator", "open from", "last write")
PRODUCER_FORMAT = "  {:>12}  {:>6}  {:>13}  {:>12}  {:>11}  {:>12}  {}"
NO_IDS: Mapping[int, str] = {}
ID_HEADING = "      transactional id"
DURATION_WIDTH = 12
HISTORY_FORMAT = "  {:>12}  {:>12}  {:>12}  {}"


def partition_label(place: Place, folder: str) -> str:
    """Return the name of a partition, with its broker if that is known."""
    name = folder if place.topic is None else f"{place.topic}-{place.partition}"
    broker = "" if place.broker_id is None else f" on broker {place.broker_id}"
    return printable(f"{name}{broker}")


def _name(state: PartitionState) -> str:
    return partition_label(state.partition.place, state.partition.folder)


def missing_log_lines(missing: MissingLog, bootstrap_server: str | None = None) -> Iterator[str]:
    """Yield that the log of a partition is missing, and what is known of it."""
    yield f"{partition_label(missing.place, missing.folder)}: {missing.unknown} unknown, the log is missing"
    yield from _finding_details(missing.place, missing.findings, bootstrap_server)


def lso_lines(
    state: PartitionState,
    stable: StableOffset,
    findings: Sequence[Finding] = (),
    transactional_id: str | None = None,
    bootstrap_server: str | None = None,
) -> Iterator[str]:
    """Yield the last stable offset, the transaction that blocks it, and the findings above warnings.

    Args:
        state: the partition.
        stable: the last stable offset.
        findings: its findings.
        transactional_id: of the transaction that blocks it, None if unknown.
        bootstrap_server: addresses of brokers for the commands in remedies, None if unknown.
    """
    if not state.partition.has_log:
        yield from missing_log_lines(MissingLog.of(state, "LSO"), bootstrap_server)
        return
    yield f"{_name(state)}: {_lso(state, stable)}"
    if stable.blocking_transaction is not None:
        yield f"  {_blocking_transaction(state, stable, transactional_id)}"
    if stable.at_checkpoint not in (None, stable.last_stable_offset):
        yield f"  at the checkpointed high watermark {state.high_watermark}: LSO {stable.at_checkpoint}"
    severe = [finding for finding in findings if finding.severity > Severity.WARNING]
    yield from _finding_details(state.partition.place, severe, bootstrap_server)


def _lso(state: PartitionState, stable: StableOffset) -> str:
    limit = "log end" if stable.high_watermark == state.log_end_offset else "high watermark"
    hidden = ""
    if stable.hidden_records or stable.hidden_bytes:
        hidden = f"{format_count(stable.hidden_records, 'record')} hidden, {format_size(stable.hidden_bytes)}"
    offset = stable.last_stable_offset
    if not stable.exact:
        why = "batches are missing" if state.is_broken else "log start missing, no earlier producer snapshot"
        return f"LSO between {stable.lowest} and {offset} ({why}{'; ' if hidden else ''}{hidden})"
    if stable.blocking_transaction is None:
        return f"LSO {offset}, at the {limit}{f' ({hidden})' if hidden else ''}"
    return f"LSO stuck at {offset} ({limit} {stable.high_watermark}{', ' if hidden else ''}{hidden})"


def _blocking_transaction(state: PartitionState, stable: StableOffset, transactional_id: str | None) -> str:
    transaction = stable.blocking_transaction
    marker = int(transaction["marker_offset"])
    outcome = "open" if marker < 0 else f"ends at offset {marker}"
    last_write = format_time(int(transaction["last_timestamp"]))
    others = len(state.open_transactions) - 1
    also_open = f"; {format_count(others, 'other transaction')} open" if others > 0 else ""
    named = "" if transactional_id is None else f" ({printable(repr(transactional_id))})"
    return (
        f"blocked by producer {transaction['producer_id']}{named}, epoch {transaction['producer_epoch']}: transaction"
        f" from offset {transaction['first_offset']}, {outcome}, last write {last_write},"
        f" {_idle(stable.idle_ms)}{also_open}"
    )


def _idle(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "idle for an unknown time"
    if milliseconds < 0:
        return f"{format_duration(-milliseconds)} after the time of evaluation"
    return f"idle for {format_duration(milliseconds)}"


def history_lines(state: PartitionState, rows: Rows | RowStream) -> Iterator[str]:
    """Yield the steps of the last stable offset, one per line."""
    if not state.partition.has_log:
        yield from missing_log_lines(MissingLog.of(state, "LSO"))
        return
    yield f"{_name(state)}: LSO by high watermark"
    yield HISTORY_FORMAT.format("from", "to", "LSO", "blocked by").rstrip()
    for row in rows:
        first, last, offset, producer_id, _ = row[-5:]
        blocked_by = "" if producer_id is None else f"producer {producer_id}"
        yield HISTORY_FORMAT.format(first, last, offset, blocked_by).rstrip()


def transaction_lines(
    state: PartitionState,
    rows: RowStream,
    count: int,
    transactional_ids: Mapping[int, str] = NO_IDS,
) -> Iterator[str]:
    """Yield transactions, one per line.

    Args:
        state: the partition.
        rows: its table ``transactions``.
        count: number of rows.
        transactional_ids: of the producers, as far as they are known.
    """
    if not state.partition.has_log:
        yield from missing_log_lines(MissingLog.of(state, "transactions"))
        return
    yield f"{_name(state)}: {format_count(count, 'transaction')}"
    if not count:
        return
    yield f"{TRANSACTION_FORMAT.format(*TRANSACTION_HEADINGS)}{ID_HEADING if transactional_ids else ''}"
    # A partition may have millions of transactions: one expression per line, and only the columns shown are read.
    for row in rows.only(*LISTED_TRANSACTION_COLUMNS):
        outcome, producer, epoch, first, last, marker, records, size, start, duration, is_exact = row
        offsets = f"{first}-{last}" if is_exact else f"<={first}-{last}"
        yield (
            f"  {outcome:<9}  {producer:>12}  {epoch:>6}  {offsets:>25}  {'' if marker is None else marker:>12}"
            f"  {records:>9}  {format_size(size):>10}  {'' if start is None else format_time(start):<23}"
            f"  {_duration(duration, transactional_ids.get(producer))}"
        )


def _duration(milliseconds: int | None, transactional_id: str | None) -> str:
    """Return the duration of a transaction, and the transactional id of its producer if that is known."""
    if milliseconds is None:
        text = ""
    elif milliseconds < 0:
        text = "not begun"  # at the time of evaluation
    else:
        text = format_duration(milliseconds)
    return text if transactional_id is None else f"{text:<{DURATION_WIDTH}}  {printable(transactional_id)}"


def producer_lines(
    state: PartitionState,
    rows: Rows,
    transactional_ids: Mapping[int, str] = NO_IDS,
) -> Iterator[str]:
    """Yield the producer state at the end of the log, one producer per line.

    Args:
        state: the partition.
        rows: its table ``producers``.
        transactional_ids: of the producers, as far as they are known.
    """
    if not state.partition.has_log:
        yield from missing_log_lines(MissingLog.of(state, "producers"))
        return
    yield f"{_name(state)}: {format_count(len(rows), 'producer')}"
    if not len(rows):
        return
    yield PRODUCER_FORMAT.format(*PRODUCER_HEADINGS)
    for values in rows:
        producer = dict(zip(rows.table.names, values, strict=True))
        yield PRODUCER_FORMAT.format(
            producer["producer_id"],
            producer["producer_epoch"],
            *(
                "" if producer[name] < 0 else producer[name]
                for name in ("last_sequence", "last_offset", "coordinator_epoch", "current_txn_first_offset")
            ),
            f"{format_time(producer['last_timestamp'])}{_producer_notes(producer, transactional_ids)}",
        )


def _producer_notes(producer: dict[str, Any], transactional_ids: Mapping[int, str]) -> str:
    transactional_id = transactional_ids.get(producer["producer_id"])
    notes = [] if transactional_id is None else [f"transactional id {printable(transactional_id)}"]
    notes += ["expired"] if producer["expired"] else []
    notes += ["differs from the snapshot"] if producer["in_snapshot"] is False else []
    return f"  ({', '.join(notes)})" if notes else ""


def duplicate_lines(state: PartitionState, rows: Rows) -> Iterator[str]:
    """Yield the duplicates within a partition, one run of records per line."""
    if not state.partition.has_log:
        yield from missing_log_lines(MissingLog.of(state, "duplicates"))
        return
    yield f"{_name(state)}: {_duplicates_count(rows)} in {format_count(len(rows), 'run')}"
    yield from _run_lines(rows)


def cross_partition_duplicate_lines(place: Place, folder: str, rows: Rows) -> Iterator[str]:
    """Yield the duplicates of records in other partitions of the topic, one run of records per line."""
    runs = format_count(len(rows), "run")
    yield f"{partition_label(place, folder)}: {_duplicates_count(rows)} of other partitions in {runs}"
    yield from _run_lines(rows)


def _duplicates_count(rows: Rows) -> str:
    return format_count(sum(count for (count,) in rows.only("records")), "duplicate record")


def _run_lines(rows: Rows) -> Iterator[str]:
    for values in rows:
        run = dict(zip(rows.table.names, values, strict=True))
        verb = "duplicates" if run["records"] == 1 else "duplicate"
        why = f"{run['why']}{_run_distance(run)}"
        yield f"  {run['level']:<13}  {_run_side(run, 'second')} {verb} {_run_side(run, 'first')}: {why}"
        if run["view"] == "raw":
            yield "                 read_committed consumers do not receive both"


def _run_distance(run: dict[str, Any]) -> str:
    """Return how far apart the two copies are if no time shows it; offsets of two partitions say nothing."""
    if run["first_partition"] is not None or (run["first_timestamp"] >= 0 and run["second_timestamp"] >= 0):
        return ""
    return f", {format_count(run['second_offset'] - run['first_offset'], 'offset')} later"


def _run_side(run: dict[str, Any], side: str) -> str:
    first, count = run[f"{side}_offset"], run["records"]
    offsets = f"offset {first}" if count == 1 else f"{count:,} records from offset {first}"
    partition = run["first_partition"] if side == "first" else None
    of_partition = "" if partition is None else f" of partition {partition}"
    producer_id, epoch = run[f"{side}_producer_id"], run[f"{side}_producer_epoch"]
    producer = "no producer id" if producer_id < 0 else f"producer {producer_id}, epoch {epoch}"
    return f"{offsets}{of_partition} ({producer}, {format_time(run[f'{side}_timestamp'])})"


def finding_lines(
    place: Place, folder: str, findings: Sequence[Finding], bootstrap_server: str | None = None
) -> Iterator[str]:
    """Yield findings in their order, each with where it is and what to do about it.

    Args:
        place: the partition.
        folder: folder of its files.
        findings: its findings.
        bootstrap_server: addresses of brokers for the commands in remedies, None if unknown.
    """
    if not findings:
        return
    yield f"{partition_label(place, folder)}:"
    yield from _finding_details(place, findings, bootstrap_server)


def _finding_details(place: Place, findings: Sequence[Finding], bootstrap_server: str | None) -> Iterator[str]:
    for finding in findings:
        yield f"  {finding.severity!s:<8} {finding.code.name}: {printable(finding.message)}"
        if finding.path is not None:
            position = "" if finding.position is None else f" byte {finding.position:#x}"
            yield f"           at {printable(f'{finding.path}{position}')}"
        if finding.severity >= Severity.WARNING and (advice := remedy_text(place, finding, bootstrap_server)):
            yield f"           do: {printable(advice)}"
