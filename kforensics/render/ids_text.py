"""Formats the answers of ``ids``, the settings in force and the costs of transactions as lines of text."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from kforensics.forensics.coordinators.cluster_rows import IdList
from kforensics.forensics.coordinators.component_names import COMPONENTS, NEXT_STEPS
from kforensics.forensics.coordinators.coordinator_records import NO_TIMEOUT, format_timeout
from kforensics.forensics.coordinators.partition_of import NamePartition
from kforensics.forensics.coordinators.transactions.id_events import IdEvent, IdEventKind, TransactionalIdHistory
from kforensics.forensics.core.broker_settings import KNOWN
from kforensics.forensics.core.formatting import (
    format_count,
    format_duration,
    format_share,
    format_size,
    format_time,
    format_time_ms,
)
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.result_rows import Rows
from kforensics.parsers.files.log_names import TRANSACTION_STATE
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.connector_text import connector_lines
from kforensics.render.fitted_table import FittedTable, TableColumn
from kforensics.render.partition_names import partition_label
from kforensics.render.partition_text import lagging_lines
from kforensics.render.screen import Line, Screen

# Values of a setting that are listed.
LISTED = 20
MINUTE_MS = 60_000
LONG_MAX = (1 << 63) - 1
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
ID_CELLS = (
    *("transactional_id", "state", "removed", "last_timestamp", "producer_id", "producer_epoch"),
    *("transaction_timeout_ms", "partition", "transactions", "committed", "aborted", "exact"),
    "component",
)
ID_COLUMNS = (
    TableColumn("transactional id", is_text=True),
    TableColumn("state", is_text=True),
    TableColumn("producer"),
    TableColumn("epoch"),
    TableColumn("timeout", 4),
    TableColumn("coordinator", 3),
    TableColumn("transactions", 1),
    TableColumn("aborted", 1),
    TableColumn("last change", 2, is_text=True),
    TableColumn("looks like", 3, is_text=True),
)


def setting_lines(rows: Rows, screen: Screen, *, topics_first: bool = False) -> Iterator[str]:
    """Yield the settings: for each its values, where they come from, and what it means.

    Args:
        rows: rows of the table of settings, those of a name together.
        screen: where they are shown.
        topics_first: whether settings that topics have come first, as the answer for a topic.
    """
    is_cut = False
    columns = ("name", "meaning", "value", "source", "entity", "log_dirs")
    settings = [(*key, [*values]) for key, values in groupby(rows.only(*columns), key=itemgetter(0, 1))]
    if topics_first:
        settings.sort(key=lambda setting: not KNOWN[setting[0]].of_topics)
    for name, meaning, values in settings:
        yield name
        listed = [row[2:] for row in values]
        has_several = sum(entity is None for _, _, entity, _ in listed) > 1
        limit = screen.shown(LISTED)
        for row in listed[:limit]:
            yield Line(f"  {_value(name, row, has_several=has_several)}", hang=4)
        if limit is not None and len(listed) > limit:
            is_cut = True
            yield f"  … and {format_count(len(listed) - limit, 'more value')}"
        yield Line(f"    {meaning}", hang=4)
    if is_cut:
        yield from screen.rest("--all")


def _value(name: str, row: Sequence[Any], *, has_several: bool) -> str:
    value, source, entity, log_dirs = row
    owner = "" if entity is None or source.endswith(entity) else f" for {entity}"
    where = f" in {log_dirs}" if has_several and entity is None and log_dirs else ""
    return printable(f"{value}{_in_units(name, value)}{owner}{where}: {source}")


def _in_units(name: str, value: str) -> str:
    """Return the value of a setting as people read it, in brackets; empty if it has no unit."""
    unit = name.rpartition(".")[2]
    if unit not in ("ms", "minutes", "bytes"):
        return ""
    number = int(value)
    if number < 0 or number == LONG_MAX:
        return " (no limit)"
    if unit == "bytes":
        return f" ({format_size(number)})"
    return f" ({format_duration(number * (MINUTE_MS if unit == 'minutes' else 1))})"


def id_answer_lines(answer: IdList | TransactionalIdHistory | NamePartition, screen: Screen) -> Iterator[str]:
    """Yield the transactional ids of a cluster, the history of one of them, or the partition of a name.

    Args:
        answer: what to show.
        screen: where it is shown.
    """
    if isinstance(answer, TransactionalIdHistory):
        return _id_history_lines(answer, screen)
    return _where_lines(answer) if isinstance(answer, NamePartition) else _id_list_lines(answer, screen)


def _id_list_lines(answer: IdList, screen: Screen) -> Iterator[str]:
    count = sum(map(len, answer.parts))
    rows = (row for part in answer.parts for row in part.only(*ID_CELLS))
    limit = screen.shown(LISTED)
    ranked = heapq.nsmallest(count if limit is None else limit, rows, key=_id_rank)
    states = Counter(state for part in answer.parts for (state,) in part.only("state"))
    removed = sum(is_removed for part in answer.parts for (is_removed,) in part.only("removed"))
    known = [f"{number:,} {state}" for state, number in states.most_common() if state is not None]
    partitions = format_count(answer.coordinators, "partition")
    counted = ", ".join([*known, f"{removed:,} expired"] if removed else known)
    total = f"{format_count(count, 'transactional id')} in {partitions} of {TRANSACTION_STATE}"
    yield Line(f"{total}: {counted}" if counted else total)
    table = FittedTable(ID_COLUMNS, screen)
    if ranked:
        yield from table.lines(map(_id_cells, ranked))
    if count > len(ranked):
        yield f"  … and {format_count(count - len(ranked), 'more id')}"
        yield from screen.rest("--all")
    if table.dropped:
        yield f"columns left out to fit the width: {', '.join(table.dropped)}"
        yield from screen.rest("--wide")


def _id_rank(row: Sequence[Any]) -> tuple[bool, float, str]:
    """Rank open transactions first, then by the last change, the newest first."""
    name, state, _, last = row[0], row[1], row[2], row[3]
    return state not in OPEN_STATES, float("inf") if last is None else -last, name


def _id_cells(row: Sequence[Any]) -> tuple[str, ...]:
    name, state, is_removed, last, producer, epoch, timeout, partition, transactions, committed, aborted, *more = row
    exact, component = more
    ended = committed + aborted
    return (
        printable(name),
        state or ("expired" if is_removed else "unreadable"),
        "" if producer is None else str(producer),
        "" if epoch is None else str(epoch),
        "" if timeout is None else format_timeout(timeout),
        "" if partition is None else str(partition),
        f"{'' if exact else '>='}{transactions}",
        format_share(aborted / ended) if ended else "",
        "" if last is None else format_time(last),
        component or "",
    )


def _id_history_lines(history: TransactionalIdHistory, screen: Screen) -> Iterator[str]:
    state = history.state or ("expired" if history.is_removed else "unreadable")
    yield f"transactional id {printable(history.transactional_id)}: {state}"
    yield f"  coordinator: {partition_label(history.place, 'unknown partition')}"
    yield from lagging_lines(history.lagging_since, "later records")
    yield from _component_lines(history)
    yield from connector_lines(history.connector, screen)
    yield from _fencing_lines(history)
    limit = screen.shown(LISTED)
    events = history.events if limit is None else history.events[-limit:]
    if len(events) < len(history.events):
        yield f"  {format_count(len(history.events) - len(events), 'earlier event')} …"
        yield from screen.rest("--all")
    for event in events:
        yield Line(f"  {_event_line(event)}", hang=4)


def _fencing_lines(history: TransactionalIdHistory) -> Iterator[Line]:
    """Yield how often a producer of the id was fenced by the next one; the files do not show whether it was alive."""
    fencing = [event for event in history.events if event.fenced]
    if fencing:
        times, last = sum(event.fenced for event in fencing), fencing[-1].last_time
        when = "" if last == NO_TIME else f", last at {format_time_ms(last)}"
        how = (
            "the id was initialized again, after a restart or an error, by another instance with the same id, or by "
            "fenceProducers"
        )
        yield Line(f"  fenced {format_count(times, 'time')}{when}: {how}", hang=4)
        yield Line(
            "  next: without a restart or error, find both in the request log of the coordinator's broker", hang=4
        )


def _component_lines(history: TransactionalIdHistory) -> Iterator[Line]:
    """Yield which component the id looks like, and what that does with the transaction that the id has open."""
    if history.naming is None:
        return
    component = COMPONENTS[history.naming.naming.component]
    yield Line(f"  looks like {component}: {printable(history.naming.part)}", hang=4)
    last = history.events[-1] if history.events else None
    if last is not None and last.kind is IdEventKind.OPEN:
        timeout = last.record.timeout_ms
        step = NEXT_STEPS[history.naming.naming]
        whose = f"producer {last.producer_id}, epoch {last.last_epoch}"
        late = f"the coordinator aborts it after its timeout of {format_duration(timeout)}, if that is earlier"
        late = "nothing else ends it: it has no timeout (two-phase commit)" if timeout == NO_TIMEOUT else late
        yield Line(f"  next, with the open transaction of {whose}: {step}; {late}", hang=4)


def _event_line(event: IdEvent) -> str:
    time = "no timestamp" if event.last_time == NO_TIME else format_time_ms(event.last_time)
    epochs = f"epoch {event.last_epoch}"
    if event.first_epoch != event.last_epoch:
        epochs = f"epochs {event.first_epoch} to {event.last_epoch}"
    parts = [] if event.producer_id < 0 else [f"producer {event.producer_id}, {epochs}"]
    if event.kind is IdEventKind.TRANSACTIONS:
        counts = ((event.committed, "committed"), (event.aborted, "aborted"))
        parts.append(", ".join(f"{count:,} {outcome}" for count, outcome in counts if count))
    elif event.kind in (IdEventKind.INITIALIZED, IdEventKind.OPEN) and event.record.timeout_ms >= 0:
        parts.append(f"timeout {format_timeout(event.record.timeout_ms)}")
    what = event.kind.replace("-", " ")
    if event.kind is IdEventKind.OPEN and event.first_time != NO_TIME:
        what = f"open since {format_time_ms(event.first_time)}"
    times = f" {event.times:,} times" if event.times > 1 and event.kind is not IdEventKind.TRANSACTIONS else ""
    parts += [event.why] if event.why else []
    missing = "" if event.is_exact or event.kind is IdEventKind.TIMED_OUT else " (earlier records may be missing)"
    return f"{time} {what}{times}: {'; '.join(filter(None, parts))}{missing}"


def _where_lines(answer: NamePartition) -> Iterator[str]:
    yield f"{answer.kind} {printable(answer.name)}: {answer.topic}-{answer.partition}"
    yield f"  hash {answer.hash} modulo {format_count(answer.count, 'partition')} ({printable(answer.source)})"
    yield f"  {'among the files' if answer.is_available else 'not among the files'}"


COST_STEPS = ("begin", "prepare", "markers", "complete", "end")
COST_COLUMNS = (
    TableColumn("partitions"),
    TableColumn("transactions", 3),
    *(TableColumn(step, drop) for step, drop in zip(COST_STEPS, (0, 2, 2, 2, 0), strict=True)),
    TableColumn("end p99", 1),
    TableColumn("fitted", 1),
)
SIZE_COLUMNS = (
    TableColumn("records", is_text=True),
    TableColumn("transactions"),
    TableColumn("records/s"),
    TableColumn("share of end"),
    TableColumn("marker bytes", 1),
    TableColumn("of all bytes", 1),
)
# How many times as many records the transactions would have that the text compares with.
LARGER = 10
# A line needs two points.
MIN_POINTS = 2


def cost_lines(rows: Rows, screen: Screen) -> Iterator[str]:
    """Yield what the transactions of a cluster cost.

    Args:
        rows: rows of the table ``transaction_costs``: all, then by partitions and by records.
        screen: where they are shown.
    """
    every = [dict(zip(rows.table.names, row, strict=True)) for row in rows]
    if not every:
        yield Line("no transaction has ended with both its Prepare and its Complete record available")
        return
    whole = every[0]
    of = "" if whole["cluster"] is None else f" of cluster {printable(whole['cluster'])}"
    yield Line(f"{format_count(whole['transactions'], 'transaction')}{of}: {_answer(whole)}", hang=2)
    table = FittedTable(COST_COLUMNS, screen)
    by_partitions = [row for row in every if row["grouped_by"] == "partitions"]
    yield "  median times in ms by number of partitions"
    yield from table.lines(map(_cost_cells, by_partitions))
    yield from _fit_lines(whole, len(by_partitions))
    sizes = FittedTable(SIZE_COLUMNS, screen)
    yield "  throughput by size"
    yield from sizes.lines(map(_size_cells, (row for row in every if row["grouped_by"] == "records")))
    yield from _overhead_lines(whole)
    if dropped := {**table.dropped, **sizes.dropped}:
        yield f"columns left out to fit the width: {', '.join(dropped)}"
        yield from screen.rest("--wide")


def _answer(whole: dict[str, Any]) -> str:
    """Return in a sentence what a transaction costs."""
    begin = "" if whole["init_ms"] is None else f"{whole['init_ms']:.0f} ms to begin and "
    end = f"{_number(whole['end_p50_ms'])} ms to end"
    if whole["marker_ms"] is not None:
        end = f"{whole['commit_ms']:.0f} ms plus {whole['marker_ms']:.0f} ms for each partition to end"
    share = format_share(whole["marker_bytes"] / max(whole["bytes"] + whole["marker_bytes"], 1))
    return f"a transaction takes {begin}{end}; {share} of the bytes are markers"


def _cost_cells(row: dict[str, Any]) -> list[str]:
    fitted = row["fitted_end_ms"]
    times = [_number(row[f"{step}_p50_ms"]) for step in COST_STEPS]
    line = "" if fitted is None else f"{fitted:.1f}"
    return [f"{row['least']:,}", f"{row['transactions']:,}", *times, _number(row["end_p99_ms"]), line]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _size_cells(row: dict[str, Any]) -> list[str]:
    rate, share = row["records_per_second"], row["end_share"]
    return [
        f"{row['least']:,}-{row['most']:,}",
        f"{row['transactions']:,}",
        "" if rate is None else f"{rate:,.0f}",
        "" if share is None else format_share(share),
        format_size(row["marker_bytes"]),
        format_share(row["marker_bytes"] / max(row["bytes"] + row["marker_bytes"], 1)),
    ]


def _fit_lines(whole: dict[str, Any], partition_counts: int) -> Iterator[str]:
    init = whole["init_ms"]
    if init is None and whole["records"]:
        yield Line(
            "  begin is not known: the first records have times of clients, which do not fit the transactions", hang=4
        )
    if whole["marker_ms"] is None:
        same = "all transactions have the same number of partitions"
        why = (
            same
            if partition_counts < MIN_POINTS
            else "the number of partitions is not what decides how long an end takes"
        )
        yield Line(f"  no line can be fitted: {why}", hang=4)
        return
    terms = [] if init is None else [f"{init:.1f} (init)"]
    terms += [f"{whole['commit_ms']:.1f} (commit)", f"partitions x {whole['marker_ms']:.2f} (marker)"]
    yield Line(f"  time in ms = {' + '.join(terms)}; residual of the fit {whole['residual_ms']:.2f}", hang=4)


def _overhead_lines(whole: dict[str, Any]) -> Iterator[str]:
    """Yield what markers take up, and what larger transactions would save of it and of the time."""
    markers, size = whole["markers"], whole["marker_bytes"]
    of_offsets = format_share(markers / max(markers + whole["records"], 1))
    of_bytes = format_share(size / max(size + whole["bytes"], 1))
    count = format_count(markers, "marker")
    yield Line(f"  {count}: {of_offsets} of the offsets, {format_size(size)} or {of_bytes} of the bytes", hang=4)
    saved = 1 - 1 / LARGER
    steps = "end" if whole["init_ms"] is None else "begin and end"
    spent = ((whole["init_ms"] or 0) + (whole["end_p50_ms"] or 0)) * whole["transactions"]
    yield Line(
        f"  with {LARGER} times the records in each: {format_count(round(markers * saved), 'marker')} and "
        f"{format_size(round(size * saved))} less, and about {format_duration(round(spent * saved))} of "
        f"{format_duration(round(spent))} less in which transactions {steps}",
        hang=4,
    )
