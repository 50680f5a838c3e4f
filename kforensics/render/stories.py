"""Verdicts as lines for people: what a partition's log says, the worst first, in whole words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.partition.partition_rows import remedy
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.stable_offset import StableOffset
from kforensics.parsers.format.printable import printable
from kforensics.parsers.log.log_rows import Place
from kforensics.render.formatting import amount, duration, moment, size_text

__all__ = [
    "duplicate_across_lines",
    "duplicate_lines",
    "finding_lines",
    "history_lines",
    "lso_lines",
    "partition_name",
    "producer_lines",
    "transaction_lines",
]

TRANSACTIONS = ("outcome", "producer", "epoch", "offsets", "marker", "records", "bytes", "begun", "lasted")
TRANSACTION = "  {:<9}  {:>12}  {:>6}  {:>25}  {:>12}  {:>9}  {:>12}  {:<19}  {}"
SHOWN = (
    *("outcome", "producer_id", "producer_epoch", "first_offset", "last_offset", "marker_offset", "records", "bytes"),
    *("first_timestamp", "duration_ms", "first_offset_exact"),
)
PRODUCERS = ("producer", "epoch", "last sequence", "last offset", "coordinator", "open from", "last write")
PRODUCER = "  {:>12}  {:>6}  {:>13}  {:>12}  {:>11}  {:>12}  {}"
STEP = "  {:>12}  {:>12}  {:>12}  {}"


def partition_name(place: Place, folder: str) -> str:
    """Return how people name a partition, with its broker where that is known."""
    name = folder if place.topic is None else f"{place.topic}-{place.partition}"
    broker = "" if place.broker_id is None else f" on broker {place.broker_id}"
    return printable(f"{name}{broker}")


def _name(case: Case) -> str:
    return partition_name(case.partition.place, case.partition.folder)


def lso_lines(case: Case, stable: StableOffset, findings: Sequence[Finding] = ()) -> Iterator[str]:
    """Yield where the last stable offset is, who holds it, since when, what is hidden, and what is bad about it."""
    yield f"{_name(case)}: {_where(case, stable)}"
    if stable.holder is not None:
        yield f"  {_holder(case, stable)}"
    if stable.hidden_records or stable.hidden_bytes:
        hidden = f"{amount(stable.hidden_records, 'record')} ({size_text(stable.hidden_bytes)})"
        yield f"  hidden from read_committed consumers: {hidden}"
    if stable.at_checkpoint not in (None, stable.last_stable_offset):
        yield f"  at the high watermark of the checkpoint, {case.high_watermark}, it is {stable.at_checkpoint}"
    yield from _told(case.partition.place, [found for found in findings if found.severity > Severity.WARNING])


def _where(case: Case, stable: StableOffset) -> str:
    limit = "log end" if stable.high_watermark == case.log_end_offset else "high watermark"
    if not stable.exact:
        between = f"last stable offset between {stable.lowest} and {stable.last_stable_offset}"
        if case.is_broken:
            return f"{between}: batches are missing, and what they ended or began nothing here tells"
        return f"{between}: what was open before the first batch on hand, nothing here tells"
    if stable.holder is None:
        return f"last stable offset {stable.last_stable_offset}, the {limit}"
    return f"last stable offset {stable.last_stable_offset}, {limit} {stable.high_watermark}"


def _holder(case: Case, stable: StableOffset) -> str:
    holder = stable.holder
    timestamp = int(holder["last_timestamp"])
    written = f"last write {moment(timestamp)} UTC, {duration(stable.silent_ms or 0)} before the evaluation"
    others = len(case.open_transactions) - 1
    more = f"; {amount(others, 'other transaction')} open" if others > 0 else ""
    state = "is open" if holder["marker_offset"] < 0 else f"ends at offset {holder['marker_offset']}"
    who = f"held by producer {holder['producer_id']}, epoch {holder['producer_epoch']}"
    return f"{who}: its transaction from offset {holder['first_offset']} {state}, {written}{more}"


def history_lines(case: Case, rows: Rows | RowStream) -> Iterator[str]:
    """Yield the steps of the last stable offset."""
    yield f"{_name(case)}: last stable offset as the high watermark rises"
    yield STEP.format("from", "to", "last stable", "held by").rstrip()
    for row in rows:
        first, last, offset, producer_id, _ = row[-5:]
        yield STEP.format(first, last, offset, "" if producer_id is None else f"producer {producer_id}").rstrip()


def transaction_lines(case: Case, rows: RowStream, count: int) -> Iterator[str]:
    """Yield transactions, one a line; they are so many."""
    yield f"{_name(case)}: {amount(count, 'transaction')}"
    if not count:
        return
    yield TRANSACTION.format(*TRANSACTIONS)
    # There may be millions: one expression for each, and nothing looked at that is not shown.
    for outcome, producer, epoch, first, last, marker, records, size, begun, lasted, exact in rows.only(*SHOWN):
        offsets = f"{first}-{last}" if exact else f"<={first}-{last}"
        ended = "" if marker is None else marker
        yield (
            f"  {outcome:<9}  {producer:>12}  {epoch:>6}  {offsets:>25}  {ended:>12}  {records:>9}  {size:>12}  "
            f"{'' if begun is None else moment(begun):<19}  {'' if lasted is None else duration(lasted)}"
        )


def producer_lines(case: Case, rows: Rows) -> Iterator[str]:
    """Yield the state of producers, one a line."""
    yield f"{_name(case)}: {amount(len(rows), 'producer')}"
    if not len(rows):
        return
    yield PRODUCER.format(*PRODUCERS)
    for row in rows:
        found = dict(zip(rows.table.names, row, strict=True))
        yield PRODUCER.format(
            found["producer_id"],
            found["producer_epoch"],
            _number(found["last_sequence"]),
            _number(found["last_offset"]),
            _number(found["coordinator_epoch"]),
            _number(found["current_txn_first_offset"]),
            f"{moment(found['last_timestamp'])}{_remark(found)}",
        )


def _number(number: int) -> str:
    return "" if number < 0 else str(number)


def _remark(found: dict[str, Any]) -> str:
    words = (["expired"] if found["expired"] else []) + (
        ["not so in the snapshot"] if found["in_snapshot"] is False else []
    )
    return f"  ({', '.join(words)})" if words else ""


def duplicate_lines(case: Case, rows: Rows) -> Iterator[str]:
    """Yield what is there twice, a run of records a line."""
    yield f"{_name(case)}: {_records_in(rows)} written again, in {amount(len(rows), 'run')}"
    yield from _runs(rows)


def duplicate_across_lines(place: Place, folder: str, rows: Rows) -> Iterator[str]:
    """Yield what a partition has that was written to others of its topic before, a run of records a line."""
    name = partition_name(place, folder)
    yield f"{name}: {_records_in(rows)} written to other partitions before, in {amount(len(rows), 'run')}"
    yield from _runs(rows)


def _records_in(rows: Rows) -> str:
    return amount(sum(count for (count,) in rows.only("records")), "record")


def _runs(rows: Rows) -> Iterator[str]:
    for row in rows:
        found = dict(zip(rows.table.names, row, strict=True))
        yield f"  {found['level']:<13}  {_run(found, 'second')} as {_run(found, 'first')}: {found['why']}"
        if found["view"] == "raw":
            yield "                 read_committed consumers do not get both"


def _run(found: dict[str, Any], side: str) -> str:
    first, count = found[f"{side}_offset"], found["records"]
    offsets = f"offset {first}" if count == 1 else f"{count:,} records from offset {first} on"
    partition = found["first_partition"] if side == "first" else None
    where = "" if partition is None else f" of partition {partition}"
    producer = found[f"{side}_producer_id"]
    who = (
        "without a producer id" if producer < 0 else f"by producer {producer}, epoch {found[f'{side}_producer_epoch']}"
    )
    return f"{offsets}{where} {who}, {moment(found[f'{side}_timestamp'])}"


def finding_lines(place: Place, folder: str, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings, the worst first, each with what to do about it."""
    if not findings:
        return
    yield f"{partition_name(place, folder)}:"
    yield from _told(place, findings)


def _told(place: Place, findings: Sequence[Finding]) -> Iterator[str]:
    for found in findings:
        yield f"  {_label(found.severity)} {found.code.name}: {printable(found.message)}"
        if where := _evidence(found):
            yield f"           at {printable(where)}"
        if found.severity >= Severity.WARNING and (what := remedy(place, found)):
            yield f"           do: {printable(what)}"


def _label(severity: Severity) -> str:
    return f"{severity!s:<8}"


def _evidence(found: Finding) -> str | None:
    if found.path is None:
        return None
    return found.path if found.position is None else f"{found.path} byte {found.position:#x}"
