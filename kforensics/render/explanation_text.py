"""Formats what happened to an offset, a producer or a transactional id: the result first, then the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from kforensics.forensics.coordinators.coordinator_records import NO_TIMEOUT, NONE, format_timeout
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.election import unclean_phrase
from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.formatting import (
    format_count,
    format_duration,
    format_offsets,
    format_size,
    format_time,
)
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.explain.offset_story import OffsetRun, OffsetStory, RecordStatus, StoredBatch
from kforensics.forensics.explain.producer_story import ProducerStory
from kforensics.forensics.explain.transactional_id_story import (
    MARKER_VERDICTS,
    PartitionOfTransaction,
    TransactionalIdStory,
    TransactionOfId,
)
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.rows import Record
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.next_steps import next_step_lines
from kforensics.render.partition_names import partition_label
from kforensics.render.partition_text import lagging_lines, missing_log_lines
from kforensics.render.screen import Line

# Characters shown of a key or value.
MAX_PAYLOAD_CHARACTERS = 60
# Transactions listed for a transactional id, and partitions named for each of their states.
LAST_TRANSACTIONS, NAMED_PARTITIONS = 3, 5
# What the leader may have of an offset if this replica lags.
LACKING = {
    RecordStatus.UNDECIDED: "the marker",
    RecordStatus.HELD_BACK: "the marker",
    RecordStatus.BEYOND_END: "this offset",
}
NO_NAMES: Mapping[int, str] = MappingProxyType({})
NO_BEGINS: Mapping[int, int] = MappingProxyType({})


def offset_lines(story: OffsetStory) -> Iterator[str]:
    """Yield the status of an offset, which consumers receive it and why, and the evidence."""
    shown = partial(
        _transaction,
        paths=story.paths,
        names=story.names,
        begins=story.begins,
        two_phase_producers=story.two_phase_producers,
    )
    exactness = "" if story.exactness is Exactness.EXACT else f" ({story.exactness})"
    yield f"{partition_label(story.place, story.folder)}, offset {story.offset}: {story.status}{exactness}"
    yield f"  {_delivery(story)}: {printable(story.why)}"
    if story.record is not None:
        yield f"  record: {_record(story.record, story.control)}"
    if story.batch is not None:
        yield f"  batch: {_batch(story.batch)}"
        yield f"         {_location(story.batch)}"
    if story.transaction is not None:
        yield f"  transaction: {shown(story.transaction)}"
    yield from _index(story)
    if story.status is RecordStatus.HELD_BACK and story.bounds.blocking_transaction is not None:
        yield f"  blocked by: {shown(story.bounds.blocking_transaction)}"
    yield from _other_logs(story)
    for transaction in story.overlapping_aborted:
        yield f"  aborted data may have been here: {shown(transaction)}"
    if story.snapshot is not None and story.batch is not None:
        yield f"  snapshot: {_snapshot(story.snapshot, story.batch.producer_id)}"
    for batch in story.same_sequence:
        yield f"  same sequences: {_batch(batch)}"
        yield f"                  {_location(batch)}"
    if story.missing:
        yield from missing_log_lines(story.missing)
    else:
        yield f"  log: {_bounds(story)}"
    yield from next_step_lines(story)


def _other_logs(story: OffsetStory) -> Iterator[str]:
    """Yield what other replicas may have here, or had."""
    if story.status in LACKING:
        yield from lagging_lines(story.bounds.lagging_since, LACKING[story.status])
    if story.unclean is not None:
        lost = "records that an earlier leader had from there on, if any, are lost"
        election = unclean_phrase(story.unclean.election)
        yield Line(f"  unclean election: {election} and continued at offset {story.unclean.offset}; {lost}", hang=4)


def run_lines(run: OffsetRun) -> Iterator[str]:
    """Yield a run of offsets as one line, in front of the first run the partition and the limits of its log."""
    story = run.story
    if run.is_first:
        yield f"{partition_label(story.place, story.folder)}:"
        if story.missing:
            yield from missing_log_lines(story.missing)
        else:
            yield f"  log: {_bounds(story)}"
            yield from lagging_lines(story.bounds.lagging_since, "more")
    more = "" if run.last_offset == run.first_offset else f" to {run.last_offset}"
    exactness = "" if story.exactness is Exactness.EXACT else f" ({story.exactness})"
    yield Line(f"  {run.first_offset}{more}: {story.status}{exactness}, {_run_story(run)}", hang=4)


def _run_story(run: OffsetRun) -> str:
    """Return what all offsets of a run have in common."""
    story = run.story
    name = "" if run.transactional_id is None else f" {printable(repr(run.transactional_id))}"
    if story.transaction is None or story.status not in (RecordStatus.VISIBLE, RecordStatus.ABORTED):
        return f"{printable(story.why)}{name and f'; its transactional id is{name}'}"
    data = "committed data" if story.status is RecordStatus.VISIBLE else "data"
    wrong = ""
    if story.is_hidden_by_index:
        wrong = "; read_committed consumers do not receive it, because the transaction index lists it as aborted"
    elif story.is_shown_by_index:
        wrong = "; read_committed consumers receive it, because the transaction index does not list it"
    marker, time = story.transaction["marker_offset"], format_time(int(story.transaction["marker_timestamp"]))
    producer = f"producer {story.transaction['producer_id']}"
    of = f"transaction{name} ({producer})" if name else f"the transaction of {producer}"
    return f"{data} of {of}, marker at offset {marker}, {time}{wrong}"


def _delivery(story: OffsetStory) -> str:
    if story.status is RecordStatus.CONTROL:
        return "not delivered to applications"
    if story.status is RecordStatus.NOT_ON_HAND:
        return "delivery unknown"
    if story.read_committed:
        return "delivered to all consumers"
    return "delivered to read_uncommitted consumers only" if story.read_uncommitted else "not delivered"


def _record(record: Record, control: tuple[str | None, int | None]) -> str:
    control_type, coordinator_epoch = control
    time = "no timestamp" if record.timestamp < 0 else format_time(record.timestamp)
    if control_type is not None:
        epoch = "" if coordinator_epoch is None else f", coordinator epoch {coordinator_epoch}"
        return f"{control_type}, {time}{epoch}"
    sequence = "" if record.sequence < 0 else f", sequence {record.sequence}"
    headers = f", {format_count(len(record.headers), 'header')}" if record.headers else ""
    key, value = _payload(record.key, record.key_size), _payload(record.value, record.value_size)
    return f"{time}{sequence}, key {key}, value {value}{headers}"


def _payload(data: bytes | None, size: int) -> str:
    """Return a key or value as text, with its stored size: it may be redacted."""
    if data is None:
        return "null"
    text = printable(data[:MAX_PAYLOAD_CHARACTERS].decode("utf-8", "backslashreplace"))
    more = "…" if len(data) > MAX_PAYLOAD_CHARACTERS else ""
    return f"'{text}{more}' ({format_count(size, 'byte')})"


def _batch(batch: StoredBatch) -> str:
    header = batch.header
    count = "" if header.count is None else f", {format_count(header.count, 'record')}"
    properties = [f"format {header.magic}"] if header.is_legacy else []
    properties += ["transactional"] if header.is_transactional else []
    properties += ["control"] if header.is_control else []
    properties += [header.compression_type or f"codec {header.codec}"] if header.codec else []
    horizon = header.delete_horizon_ms
    properties += [] if horizon is None else [f"delete horizon {format_time(horizon)}"]
    newest = "no timestamp" if header.max_timestamp < 0 else f"newest {format_time(header.max_timestamp)}"
    parts = [f"{_offsets(batch.base_offset, header.last_offset)}{count}", _producer(batch), *properties, newest]
    return ", ".join(parts)


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _producer(batch: StoredBatch) -> str:
    header = batch.header
    if batch.producer_id < 0:
        return "no producer id"
    producer = f"producer {batch.producer_id}, epoch {header.producer_epoch}"
    if (header.base_sequence or 0) < 0:
        return producer
    if header.base_sequence == header.last_sequence:
        return f"{producer}, sequence {header.base_sequence}"
    return f"{producer}, sequences {header.base_sequence} to {header.last_sequence}"


def _location(batch: StoredBatch) -> str:
    header = batch.header
    crc = "" if header.crc_valid else ", CRC does not match"
    epoch = "" if header.partition_leader_epoch is None else f", leader epoch {header.partition_leader_epoch}"
    return f"{format_size(header.size)} at byte {header.position:#x} of {printable(batch.path)}{epoch}{crc}"


def _transaction(
    transaction: Any,
    paths: Sequence[str],
    names: Mapping[int, str] = NO_NAMES,
    begins: Mapping[int, int] = NO_BEGINS,
    two_phase_producers: frozenset[int] = frozenset(),
) -> str:
    name = names.get(int(transaction["producer_id"]))
    first, last = int(transaction["first_offset"]), int(transaction["last_offset"])
    start = int(transaction["first_timestamp"])
    facts = ", ".join(
        [
            f"producer {transaction['producer_id']}{'' if name is None else f' ({printable(repr(name))})'}",
            _offsets(first, last) if transaction["first_offset_exact"] else f"offsets <={first} to {last}",
            format_count(int(transaction["batches"]), "batch", "batches"),
            format_count(int(transaction["records"]), "record"),
            *([] if start == NO_TIME else [f"started {format_time(start)}"]),
        ]
    )
    if transaction["outcome"] == TransactionOutcome.FORGOTTEN:
        written = format_time(int(transaction["last_timestamp"]))
        return f"{facts}, last write {written}, open, and forgotten by the broker: all consumers receive it"
    if transaction["outcome"] == TransactionOutcome.OPEN:
        began = begins.get(first)
        by_coordinator = "" if began is None else f"; begun {format_time(began)} by its coordinator"
        if int(transaction["producer_id"]) in two_phase_producers:
            by_coordinator += f"; timeout {format_timeout(NO_TIMEOUT)}"
        return f"{facts}, last write {format_time(int(transaction['last_timestamp']))}, open{by_coordinator}"
    return f"{facts}; {_marker(transaction, paths, start)}"


def _marker(transaction: Any, paths: Sequence[str], start: int) -> str:
    marker_type = "COMMIT" if transaction["outcome"] == TransactionOutcome.COMMITTED else "ABORT"
    time = int(transaction["marker_timestamp"])
    duration = "" if start == NO_TIME else f" ({format_duration(time - start)} after the start)"
    segment = printable(file_name(paths[transaction["marker_segment"]]))
    return (
        f"{marker_type} marker at offset {transaction['marker_offset']}, {format_time(time)}{duration},"
        f" epoch {transaction['marker_epoch']}, coordinator epoch {transaction['coordinator_epoch']},"
        f" byte {int(transaction['marker_position']):#x} of {segment}"
    )


def _index(story: OffsetStory) -> Iterator[str]:
    entry = story.entry
    if entry is not None:
        wrong = "; wrong, it hides committed data" if story.is_hidden_by_index else ""
        offsets = _offsets(entry.first_offset, entry.last_offset)
        yield f"  transaction index: {offsets} aborted, byte {entry.position:#x} of {printable(entry.path)}{wrong}"
    elif story.transaction is not None and story.transaction["outcome"] == TransactionOutcome.ABORTED:
        missing = "no entry, so read_committed consumers receive the aborted data"
        yield f"  transaction index: {'missing or unreadable' if story.indexed is None else missing}"


def _snapshot(snapshot: tuple[str, Any], producer_id: int) -> str:
    path, state = snapshot
    name = printable(path)
    if state is None:
        return f"{name} has no entry for producer {producer_id}"
    first = int(state["current_txn_first_offset"])
    transaction = f"open transaction from offset {first}" if first >= 0 else "no open transaction"
    sequence = "" if state["last_sequence"] < 0 else f", last sequence {state['last_sequence']}"
    return f"{name} has producer {producer_id}, epoch {state['producer_epoch']}{sequence}, {transaction}"


def _bounds(story: OffsetStory) -> str:
    bounds = story.bounds
    lso = f"LSO {'' if bounds.exact else 'at most '}{bounds.last_stable_offset}"
    either = bounds.earlier_start.either if bounds.earlier_start is not None else None
    start = bounds.log_start_offset if either is None else f"{either} (its checkpoint may be a minute old)"
    text = f"log start {start}, {lso}, log end {bounds.log_end_offset}"
    if bounds.high_watermark != bounds.log_end_offset:
        text = f"{text}, high watermark {bounds.high_watermark} (given by --at)"
    checkpoint = bounds.checkpointed_high_watermark
    if checkpoint is None or not checkpoint <= story.offset < bounds.log_end_offset:
        return text
    return f"{text}; checkpointed high watermark {checkpoint}, some seconds older: not delivered at that time"


def producer_story_lines(story: ProducerStory) -> Iterator[str]:
    """Yield the transactions of a producer in a partition, and the producer state at the end of the log."""
    of_id = "" if story.transactional_id is None else f", transactional id {printable(story.transactional_id)}"
    name = partition_label(story.place, story.folder)
    yield f"{name}, producer {story.producer_id}{of_id}: {_producer_status(story)}"
    yield f"  {_transaction_counts(story)}"
    if story.state is not None:
        yield f"  at the end of the log: {_producer_state(story.state, is_exact=story.is_exact)}"
    if story.holds_last_stable_offset:
        bounds = story.bounds
        hidden = format_count(bounds.log_end_offset - bounds.last_stable_offset, "offset")
        yield f"  blocks the LSO at {bounds.last_stable_offset}: {hidden} hidden from read_committed consumers"
    if story.counts["open"]:
        yield from lagging_lines(story.bounds.lagging_since)
    for transaction in story.last:
        yield f"  transaction: {_transaction(transaction, story.paths)}"
    if story.anomalies:
        anomalies = ", ".join(f"{name} ({count})" for name, count in story.anomalies.items())
        yield f"  anomalies: {anomalies}; kforensics audit evaluates them"
    if story.snapshot is not None:
        yield f"  snapshot: {_snapshot(story.snapshot, story.producer_id)}"


def _producer_status(story: ProducerStory) -> str:
    if story.counts["open"]:
        return format_count(story.counts["open"], "open transaction")
    if story.state is None:
        return "not in the broker's producer state any more"
    return "no open transaction, expired on the broker" if story.is_expired else "no open transaction"


def _transaction_counts(story: ProducerStory) -> str:
    total = sum(story.counts.values())
    if not total and not story.empty_markers:
        return "no transactions"
    counts = ", ".join(f"{count} {outcome}" for outcome, count in story.counts.items() if count)
    epochs = ""
    if story.epochs is not None:
        low, high = story.epochs
        epochs = f", epoch {low}" if low == high else f", epochs {low} to {high}"
    empty = f"; {format_count(story.empty_markers, 'marker')} without a transaction" if story.empty_markers else ""
    transactions = f"{format_count(total, 'transaction')}{f' ({counts})' if counts else ''}"
    return f"{transactions}, {format_count(story.records, 'record')}{epochs}{empty}"


def _producer_state(state: Any, *, is_exact: bool) -> str:
    sequence = f"last sequence {state['last_sequence']} at offset {state['last_offset']}"
    if state["last_sequence"] < 0:
        sequence = "no batch with this epoch"
    coordinator = "" if state["coordinator_epoch"] < 0 else f", coordinator epoch {state['coordinator_epoch']}"
    last_write = format_time(int(state["last_timestamp"]))
    doubt = "" if is_exact else "; not exact, because the beginning of the log is missing"
    return f"epoch {state['producer_epoch']}, {sequence}{coordinator}, last write {last_write}{doubt}"


def transactional_id_lines(story: TransactionalIdStory) -> Iterator[str]:
    """Yield the coordinator's state of a transactional id, and its last transactions with their partitions."""
    facts = story.facts
    state = story.state or ("removed" if facts["is_removed"] else "unreadable")
    yield f"transactional id {printable(story.transactional_id)}: {state}"
    coordinator = partition_label(story.place, "unknown partition")
    last_record = f"last record at offset {facts['offset']}, {_time(facts['last_time'])}"
    yield f"  coordinator: {coordinator}, {last_record}, {printable(story.path)} byte {facts['position']:#x}"
    ids = ", ".join(map(str, story.producer_ids))
    yield f"  producer ids: {ids or 'none found'}; current {facts['producer_id']}, epoch {facts['producer_epoch']}"
    outcomes = f"{facts['committed']} committed, {facts['aborted']} aborted"
    incomplete = "" if facts["history_complete"] else " (history incomplete)"
    yield f"  {format_count(facts['transactions'], 'transaction')}: {outcomes}{incomplete}"
    for transaction in story.transactions[-LAST_TRANSACTIONS:]:
        yield from _transaction_of_id(transaction)
    for orphan in story.orphaned:
        partition = printable(f"{orphan.partition[0]}-{orphan.partition[1]}")
        data = f"producer {orphan.producer_id}, from offset {orphan.first_offset}"
        why = "but the coordinator has no ongoing transaction"
        if orphan.follows_copy:
            why = "and the copy of the coordinator's log may end before that"
        yield f"  open in {partition}, {why}: {data}"


def _transaction_of_id(transaction: TransactionOfId) -> Iterator[str]:
    facts = transaction.facts
    epoch = f"epoch {facts['data_epoch']}" if facts["data_epoch"] >= 0 else f"marker epoch {facts['marker_epoch']}"
    times = [
        f"{event} {_time(facts[field])}"
        for event, field in (("started", "start"), ("decided", "decided"), ("completed", "completed"))
        if facts[field] != NO_TIME
    ]
    if facts["marker_epoch"] == NONE and facts["timeout_ms"] == NO_TIMEOUT:
        times.append(f"timeout {format_timeout(NO_TIMEOUT)}")
    yield f"  {transaction.state}, producer {facts['producer_id']}, {epoch}, {', '.join(times)}"
    for verdict in dict.fromkeys(part.verdict for part in transaction.partitions):
        parts = [part for part in transaction.partitions if part.verdict == verdict]
        more = f" and {len(parts) - NAMED_PARTITIONS} more" if len(parts) > NAMED_PARTITIONS else ""
        names = ", ".join(map(_transaction_partition, parts[:NAMED_PARTITIONS]))
        yield f"    {verdict}: {printable(names)}{more}"


def _transaction_partition(part: PartitionOfTransaction) -> str:
    topic, number = part.partition
    if part.marker is not None:
        return f"{topic}-{number} (offset {part.marker['marker_offset']}{_wrong_half(part)})"
    return f"{topic}-{number}" if part.open_from is None else f"{topic}-{number} (open from offset {part.open_from})"


def _wrong_half(part: PartitionOfTransaction) -> str:
    """Return what became of the data that a contrary marker ended."""
    if part.marker is None or part.verdict != MARKER_VERDICTS[MarkerStatus.SPLIT] or part.marker["first_offset"] < 0:
        return ""
    offsets = format_offsets(part.marker["first_offset"], part.marker["last_offset"])
    if part.marker["outcome"] == TransactionOutcome.ABORTED:
        return f": ABORT, the data at {offsets} is lost to read_committed consumers"
    return f": COMMIT, the data at {offsets} is visible although it was aborted"


def _time(timestamp: int) -> str:
    return "no timestamp" if timestamp == NO_TIME else format_time(timestamp)
