"""Formats what a partition's log shows as lines of text: transactions, producers, duplicates and findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_count, format_duration, format_size, format_time
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.result_rows import CHUNK, Rows, RowStream
from kforensics.forensics.partition.partition_rows import remedy_text
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.log.log_rows import Place
from kforensics.render.fitted_table import FittedTable, TableColumn
from kforensics.render.partition_names import partition_label
from kforensics.render.ranked_text import RankedText
from kforensics.render.screen import BACKQUOTED, COMMAND, Line, advice_lines

TRANSACTION_COLUMNS = (
    TableColumn("outcome", is_text=True),
    TableColumn("producer"),
    TableColumn("epoch", 5),
    TableColumn("offsets"),
    TableColumn("marker", 6),
    TableColumn("records", 3),
    TableColumn("size", 4),
    TableColumn("start", 2, is_text=True),
    TableColumn("duration", 1, is_text=True),
    TableColumn("transactional id", 1, is_text=True),
)
LISTED_TRANSACTION_COLUMNS = (
    *("outcome", "producer_id", "producer_epoch", "first_offset", "last_offset", "marker_offset", "records", "bytes"),
    *("first_timestamp", "duration_ms", "first_offset_exact"),
)
PRODUCER_COLUMNS = (
    TableColumn("producer"),
    TableColumn("epoch", 3),
    TableColumn("last sequence", 4),
    TableColumn("last offset"),
    TableColumn("coordinator", 5),
    TableColumn("open from"),
    TableColumn("last write", 2, is_text=True),
    TableColumn("notes", is_text=True),
    TableColumn("transactional id", 1, is_text=True),
)
NO_IDS: Mapping[int, str] = {}
NO_BEGINS: Mapping[int, int] = {}
# Open transactions named whose coordinators have a later begin than their records.
NAMED_BEGINS = 3
# Transactions, producers and runs of duplicates of a partition that are listed.
LISTED = 20
# The views of duplicates in the order in which they are listed.
VIEWS = ("committed", "raw")
# The order of partitions: what is stuck, open or wrong is first.
FAULTY, NO_LOG, NOT_FAULTY = range(3)
# Where the text of a run of duplicates begins, after its level.
RUN_HANG = 17
# Where the details of a finding begin, after its severity.
DETAIL_INDENT = 11


def _name(state: PartitionState) -> str:
    return partition_label(state.partition.place, state.partition.folder)


def missing_log_lines(missing: MissingLog, bootstrap_server: str | None = None) -> Iterator[str]:
    """Yield that the log of a partition is missing, and what is known of it."""
    yield f"{partition_label(missing.place, missing.folder)}: {missing.unknown} unknown, the log is missing"
    yield from finding_details(missing.place, missing.findings, bootstrap_server)


def add_missing_log(text: RankedText, rank: int, missing: MissingLog, bootstrap_server: str | None = None) -> None:
    """Add that the log of a partition is missing to a text, which says it once of all these partitions.

    Args:
        text: the text.
        rank: the place of these partitions among the others.
        missing: the partition.
        bootstrap_server: addresses of brokers for the commands in remedies, None if unknown.
    """
    worst = max((finding.severity for finding in missing.findings), default=0)
    details = partial(finding_details, missing.place, missing.findings, bootstrap_server)
    what = f"{missing.unknown} unknown, the log is missing"
    text.add_alike((rank, -worst), what, missing.place, missing.folder, details, is_kept=True)


def lagging_lines(since: int | None, lacking: str = "the marker") -> Iterator[str]:
    """Yield that the leader may have what a replica lacks, if the replica lags.

    Args:
        since: since when it lags, in ms, NO_TIME if it was never seen in sync; None if it does not lag.
        lacking: what it lacks.
    """
    if since is not None:
        when = "" if since == NO_TIME else f" since {format_time(since)}"
        yield f"  this replica has been out of sync{when}: its leader may have {lacking}"


def transaction_lines(  # noqa: PLR0913  # the rows, and how they are shown
    state: PartitionState,
    rows: RowStream,
    count: int,
    transactional_ids: Mapping[int, str] = NO_IDS,
    *,
    still_open: RowStream,
    shown: RankedText,
    begins: Mapping[int, int] = NO_BEGINS,
    lagging_since: int | None = None,
) -> Iterator[str]:
    """Yield transactions, one per line: those that are open first, then the others in their order.

    Args:
        state: the partition.
        rows: its table ``transactions``.
        count: number of rows.
        transactional_ids: of the producers, as far as they are known.
        still_open: the rows of open transactions.
        shown: the text that the lines are for.
        begins: when open ones began by their coordinators, in ms by first offset, if their records are older.
        lagging_since: since when the leader may have markers that this replica lacks, in ms; None if it does not lag.
    """
    open_count = sum(1 for _ in still_open.only("outcome"))
    yield f"{_name(state)}: {format_count(count, 'transaction')}{f', {open_count:,} open' if open_count else ''}"
    if open_count:
        yield from lagging_lines(lagging_since)
    if count:
        # A partition may have millions of transactions: only the columns shown are read.
        opened, others = (each.only(*LISTED_TRANSACTION_COLUMNS) for each in (still_open, rows))
        ordered = chain(opened, (row for row in others if row[0] != "open"))
        cells = (_transaction_cells(row, transactional_ids) for row in ordered)
        yield from listed_lines(TRANSACTION_COLUMNS, cells, count, "transaction", shown)
        offsets = {offset for (offset,) in still_open.only("first_offset")} if begins else set()
        yield from _later_begins({offset: began for offset, began in begins.items() if offset in offsets}, shown)


def _later_begins(begins: Mapping[int, int], shown: RankedText) -> Iterator[str]:
    """Yield that start and duration of open transactions go by the timestamps of records, which are older than they."""
    if not begins:
        return
    limit = shown.screen.shown(NAMED_BEGINS)
    listed = [f"{format_time(began)} (from offset {offset})" for offset, began in islice(sorted(begins.items()), limit)]
    if limit is not None and len(begins) > limit:
        shown.is_cut = True
        listed.append(f"{len(begins) - limit:,} more")
    yield Line(f"  begun by their coordinator, after the timestamps of their records: {', '.join(listed)}", hang=4)


def listed_lines(
    columns: Sequence[TableColumn], rows: Iterable[Sequence[str]], count: int, noun: str, shown: RankedText
) -> Iterator[str]:
    """Yield the first rows of a list, and how many there are more."""
    limit = shown.screen.shown(LISTED)
    table = FittedTable(columns, shown.screen, shown.dropped)
    yield from table.lines(islice(rows, limit))
    if limit is not None and count > limit:
        shown.is_cut = True
        yield f"  … and {format_count(count - limit, f'more {noun}')}"


def _transaction_cells(row: Sequence[Any], transactional_ids: Mapping[int, str]) -> tuple[str, ...]:
    outcome, producer, epoch, first, last, marker, records, size, start, duration, is_exact = row
    return (
        outcome,
        str(producer),
        str(epoch),
        f"{first}-{last}" if is_exact else f"<={first}-{last}",
        "" if marker is None else str(marker),
        str(records),
        format_size(size),
        "" if start is None else format_time(start),
        _duration(duration),
        printable(transactional_ids.get(producer, "")),
    )


def _duration(milliseconds: int | None) -> str:
    """Return the duration of a transaction."""
    if milliseconds is None:
        return ""
    return "not begun" if milliseconds < 0 else format_duration(milliseconds)  # at the time of evaluation


def producer_lines(
    state: PartitionState,
    rows: Rows,
    transactional_ids: Mapping[int, str] = NO_IDS,
    *,
    shown: RankedText,
) -> Iterator[str]:
    """Yield the producer state at the end of the log, one producer per line.

    Those that differ from the snapshot are first, then those with an open transaction.

    Args:
        state: the partition.
        rows: its table ``producers``.
        transactional_ids: of the producers, as far as they are known.
        shown: the text that the lines are for.
    """
    yield f"{_name(state)}: {format_count(len(rows), 'producer')}"
    if len(rows):
        cells = (_producer_cells(producer, transactional_ids) for producer in _listed_producers(rows))
        yield from listed_lines(PRODUCER_COLUMNS, cells, len(rows), "producer", shown)


def _listed_producers(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the producers in the order in which they are listed, made part by part: there may be very many."""
    ranks = [
        2 * (in_snapshot is not False) + (first_offset < 0)
        for in_snapshot, first_offset in rows.only("in_snapshot", "current_txn_first_offset")
    ]
    order = np.argsort(np.array(ranks, "u1"), kind="stable")
    for start in range(0, len(order), CHUNK):
        for values in rows.taken(order[start : start + CHUNK]):
            yield dict(zip(rows.table.names, values, strict=True))


def _producer_cells(producer: dict[str, Any], transactional_ids: Mapping[int, str]) -> tuple[str, ...]:
    sequence, last, coordinator, first = (
        "" if producer[name] < 0 else str(producer[name])
        for name in ("last_sequence", "last_offset", "coordinator_epoch", "current_txn_first_offset")
    )
    notes = ["expired"] if producer["expired"] else []
    notes += ["differs from the snapshot"] if producer["in_snapshot"] is False else []
    return (
        str(producer["producer_id"]),
        str(producer["producer_epoch"]),
        sequence,
        last,
        coordinator,
        first,
        format_time(producer["last_timestamp"]),
        ", ".join(notes),
        printable(transactional_ids.get(producer["producer_id"], "")),
    )


def duplicate_lines(state: PartitionState, rows: RowStream, *, shown: RankedText) -> Iterator[str]:
    """Yield the duplicates within a partition, one run of records per line; those of read_committed consumers first."""
    count, records = _run_totals(rows)
    runs = f" in {format_count(count, 'run')}" if count else ""
    yield f"{_name(state)}: {format_count(records, 'duplicate record')}{runs}"
    yield from _run_lines(rows, count, shown)


def duplicate_advice(state: PartitionState, rows: RowStream, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the command that shows the first duplicate and its original, and what to do about duplicates."""
    for run in islice(_listed_runs(rows), 1):
        offsets = f"{run['first_offset']}:{run['second_offset'] + run['records']}"
        words = ("dump", "--format", "table", "--records", "--offset", offsets, state.partition.folder)
        yield Line(f"  check: {COMMAND}kforensics {' '.join(map(shell_word, words))}", "command")
    remedies = (remedy_text(state.partition.place, finding) for finding in findings if "duplicate" in finding.code.name)
    for remedy in dict.fromkeys(filter(None, remedies)):
        yield from advice_lines("do", printable(remedy), 2)


def cross_partition_duplicate_lines(place: Place, folder: str, rows: Rows, *, shown: RankedText) -> Iterator[str]:
    """Yield the duplicates of records in other partitions of the topic, one run of records per line."""
    count, records = _run_totals(rows)
    of_others = f"{format_count(records, 'duplicate record')} of other partitions in {format_count(count, 'run')}"
    yield f"{partition_label(place, folder)}: {of_others}"
    yield from _run_lines(rows, count, shown)


def _run_totals(rows: Rows | RowStream) -> tuple[int, int]:
    """Return how many runs there are, and how many records are in them."""
    count = records = 0
    for part in rows.parts():
        count, records = count + len(part), records + int(part.columns["records"].sum())
    return count, records


def _listed_runs(rows: Rows | RowStream) -> Iterator[dict[str, Any]]:
    """Yield all runs in the order in which they are listed; there may be very many, so they are read part by part."""
    for view in VIEWS:
        for part in rows.parts():
            views = part.columns["view"]
            for values in part.taken(np.flatnonzero(views.codes == views.words.index(view))):
                yield dict(zip(rows.table.names, values, strict=True))


def _run_lines(rows: Rows | RowStream, count: int, shown: RankedText) -> Iterator[str]:
    limit = shown.screen.shown(LISTED)
    for run in islice(_listed_runs(rows), limit):
        verb = "duplicates" if run["records"] == 1 else "duplicate"
        why = f"{run['why']}{_run_distance(run)}"
        line = f"  {run['level']:<13}  {_run_side(run, 'second')} {verb} {_run_side(run, 'first')}: {why}"
        yield Line(line, hang=RUN_HANG)
        if run["view"] == "raw":
            yield f"{' ' * RUN_HANG}read_committed consumers do not receive both"
    if limit is not None and count > limit:
        shown.is_cut = True
        yield f"  … and {format_count(count - limit, 'more run')}"


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
    yield from finding_details(place, findings, bootstrap_server)


def finding_details(
    place: Place, findings: Sequence[Finding], bootstrap_server: str | None, of: str = ""
) -> Iterator[str]:
    """Yield what was found, where it is and what to do; what is to be done for several findings is stated once.

    Args:
        place: the partition.
        findings: its findings.
        bootstrap_server: addresses of brokers for the commands in remedies, None if unknown.
        of: name of the partition, if the lines stand for several.
    """
    return placed_details([(place, of, finding) for finding in findings], bootstrap_server)


def placed_details(placed: Sequence[tuple[Place, str, Finding]], bootstrap_server: str | None) -> Iterator[str]:
    """Yield the details of findings that are shown together.

    Args:
        placed: the partition of each, its name if the lines stand for several partitions, and the finding.
        bootstrap_server: addresses of brokers for the commands in remedies, None if unknown.
    """
    remedies = [
        (remedy_text(place, finding, bootstrap_server) or "") if finding.severity >= Severity.WARNING else ""
        for place, _, finding in placed
    ]
    findings = [finding for _, _, finding in placed]
    for index, (_, of, finding) in enumerate(placed):
        code = f"{finding.code.name}{f' in {of}' if of else ''}"
        yield Line(f"  {finding.severity!s:<8} {code}: {printable(finding.message)}", finding.severity, DETAIL_INDENT)
        if finding.path is not None:
            position = "" if finding.position is None else f" byte {finding.position:#x}"
            yield f"{' ' * DETAIL_INDENT}at {printable(f'{finding.path}{position}')}"
        if (other := _stated_at(index, findings, remedies)) is not None:
            where = "above" if other < index else "below"
            yield Line(f"{' ' * DETAIL_INDENT}do: see {findings[other].code.name} {where}")
        elif remedies[index]:
            yield from advice_lines("do", printable(remedies[index]), DETAIL_INDENT)


def _stated_at(index: int, findings: Sequence[Finding], remedies: Sequence[str]) -> int | None:
    """Return the index of the finding whose remedy has all commands of another one, None if no other has them.

    Of two with the same commands it is the one that is the cause of the other, then the first.
    """
    own = {*BACKQUOTED.findall(remedies[index])}
    for other, remedy in enumerate(remedies):
        commands = {*BACKQUOTED.findall(remedy)}
        is_same = (bool(own) and own == commands) or (bool(remedy) and remedy == remedies[index])
        is_cause = findings[other].code.name == findings[index].cause
        is_first = other < index and findings[index].code.name != findings[other].cause
        if (own and own < commands) or (is_same and (is_cause or is_first)):
            return other
    return None
