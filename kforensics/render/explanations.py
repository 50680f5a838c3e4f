"""Stories as a few lines for people: the verdict first, then the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.record_types import NO_TIME, Ending
from kforensics.forensics.explain.offset_story import Fate, OffsetStory, StoredBatch
from kforensics.forensics.explain.producer_story import ProducerStory
from kforensics.forensics.explain.transactional_id_story import Part, TransactionalIdStory, TransactionOfId
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.printable import printable
from kforensics.parsers.format.rows import Record
from kforensics.render.formatting import amount, duration, moment, size_text
from kforensics.render.stories import partition_name

__all__ = ["offset_lines", "producer_story_lines", "transactional_id_lines"]

# Signs of a payload that are shown.
SHOWN = 60
# Transactions of an id of which more is told than how many there are, and partitions of each that are named.
LAST, NAMED = 3, 5
NOBODY = "given to nobody"


def offset_lines(story: OffsetStory) -> Iterator[str]:
    """Yield what became of an offset, who gets it and why, and where that can be seen."""
    exactness = "" if story.exactness is Exactness.EXACT else f" ({story.exactness})"
    yield f"{partition_name(story.place, story.folder)}, offset {story.offset}: {story.fate}{exactness}"
    yield f"  {_who(story)}: {printable(story.why)}"
    if story.record is not None:
        yield f"  record: {_record(story.record, story.control)}"
    if story.batch is not None:
        yield f"  batch: {_batch(story.batch)}"
        yield f"         {_where(story.batch)}"
    if story.transaction is not None:
        yield f"  transaction: {_transaction(story.transaction, story.paths)}"
    yield from _index(story)
    if story.fate is Fate.HELD_BACK and story.bounds.holder is not None:
        yield f"  held back by: {_transaction(story.bounds.holder, story.paths)}"
    for found in story.around:
        yield f"  aborted data may have stood there: {_transaction(found, story.paths)}"
    if story.snapshot is not None and story.batch is not None:
        yield f"  snapshot: {_snapshot(story.snapshot, story.batch.producer_id)}"
    for other in story.same_sequence:
        yield f"  same sequences: {_batch(other)}"
        yield f"                  {_where(other)}"
    yield f"  log: {_bounds(story)}"


def _who(story: OffsetStory) -> str:
    if story.fate is Fate.CONTROL:
        return "given to no application"
    if story.fate is Fate.NOT_ON_HAND:
        return "who is given it cannot be told here"
    if story.read_committed:
        return "given to every consumer"
    return "given to read_uncommitted consumers only" if story.read_uncommitted else NOBODY


def _record(record: Record, control: tuple[str | None, int | None]) -> str:
    kind, coordinator_epoch = control
    when = "no timestamp" if record.timestamp < 0 else f"{moment(record.timestamp)} UTC"
    if kind is not None:
        by = "" if coordinator_epoch is None else f", written by the coordinator of epoch {coordinator_epoch}"
        return f"{kind}, {when}{by}"
    sequence = "" if record.sequence < 0 else f", sequence {record.sequence}"
    headers = f", {amount(len(record.headers), 'header')}" if record.headers else ""
    return f"{when}{sequence}, key {_payload(record.key)}, value {_payload(record.value)}{headers}"


def _payload(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = printable(data[:SHOWN].decode("utf-8", "backslashreplace"))
    more = "…" if len(data) > SHOWN else ""
    return f"'{text}{more}' ({amount(len(data), 'byte')})"


def _batch(batch: StoredBatch) -> str:
    header = batch.header
    count = "" if header.count is None else f", {amount(header.count, 'record')}"
    kinds = [f"format {header.magic}"] if header.is_legacy else []
    kinds += ["transactional"] if header.is_transactional else []
    kinds += ["control"] if header.is_control else []
    kinds += [header.compression_type or f"codec {header.codec}"] if header.codec else []
    horizon = header.delete_horizon_ms
    kinds += [] if horizon is None else [f"delete horizon {moment(horizon)} UTC"]
    what = f", {', '.join(kinds)}" if kinds else ""
    offsets = _offsets(batch.base_offset, header.last_offset)
    return f"{offsets}{count}{_producer(batch)}{what}, {_time(header.max_timestamp)}"


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _producer(batch: StoredBatch) -> str:
    header = batch.header
    if batch.producer_id < 0:
        return ", no producer id"
    who = f", producer {batch.producer_id}, epoch {header.producer_epoch}"
    if (header.base_sequence or 0) < 0:
        return who
    if header.base_sequence == header.last_sequence:
        return f"{who}, sequence {header.base_sequence}"
    return f"{who}, sequences {header.base_sequence} to {header.last_sequence}"


def _time(timestamp: int) -> str:
    return "no timestamp" if timestamp < 0 else f"newest {moment(timestamp)} UTC"


def _where(batch: StoredBatch) -> str:
    crc = "" if batch.header.crc_valid else ", its checksum does not hold"
    at = f"{size_text(batch.header.size)} at byte {batch.header.position:#x} of {printable(batch.path)}"
    epoch = batch.header.partition_leader_epoch
    return f"{at}{'' if epoch is None else f', leader epoch {epoch}'}{crc}"


def _transaction(found: Any, paths: Sequence[str]) -> str:
    first, last = int(found["first_offset"]), int(found["last_offset"])
    offsets = _offsets(first, last) if found["first_offset_exact"] else f"offsets <={first} to {last}"
    size = f"{int(found['batches']):,} {'batch' if found['batches'] == 1 else 'batches'}"
    begun = "" if found["first_timestamp"] == NO_TIME else f", begun {moment(int(found['first_timestamp']))} UTC"
    facts = f"producer {found['producer_id']}, {offsets}, {size}, {amount(int(found['records']), 'record')}{begun}"
    if found["ending"] == Ending.OPEN:
        return f"{facts}, last write {moment(int(found['last_timestamp']))} UTC, open"
    marker = f"{_kind(found)} marker at offset {found['marker_offset']}, {moment(int(found['marker_timestamp']))} UTC"
    took = "" if not begun else f", {duration(int(found['marker_timestamp'] - found['first_timestamp']))} later"
    epochs = f"epoch {found['marker_epoch']}, coordinator epoch {found['coordinator_epoch']}"
    where = f"byte {int(found['marker_position']):#x} of {printable(file_name(paths[found['marker_segment']]))}"
    return f"{facts}; {marker}{took}, {epochs}, {where}"


def _kind(found: Any) -> str:
    return "COMMIT" if found["ending"] == Ending.COMMITTED else "ABORT"


def _index(story: OffsetStory) -> Iterator[str]:
    if story.entry is not None:
        entry = story.entry
        offsets = _offsets(entry.first_offset, entry.last_offset)
        where = f"byte {entry.position:#x} of {printable(entry.path)}"
        wrong = ", wrongly: it hides what was committed" if story.is_hidden_by_index else ""
        yield f"  transaction index: names {offsets} as aborted, at {where}{wrong}"
    elif story.transaction is not None and story.transaction["ending"] == Ending.ABORTED:
        wrong = "has no entry for it, so that read_committed consumers are given what was aborted"
        yield f"  transaction index: {'is not on hand, or cannot be read' if story.indexed is None else wrong}"


def _snapshot(snapshot: tuple[str, Any], producer_id: int) -> str:
    path, state = snapshot
    name = printable(path)
    if state is None:
        return f"{name} does not know producer {producer_id}"
    first = int(state["current_txn_first_offset"])
    opened = f"its transaction from offset {first} on is open" if first >= 0 else "no transaction of it is open"
    at = "" if state["last_sequence"] < 0 else f", last sequence {state['last_sequence']}"
    return f"in {name} producer {producer_id} has epoch {state['producer_epoch']}{at}, and {opened}"


def _bounds(story: OffsetStory) -> str:
    bounds = story.bounds
    stable = f"last stable offset {'' if bounds.exact else 'at most '}{bounds.last_stable_offset}"
    ends = f"begins at {bounds.log_start_offset}, {stable}, ends at {bounds.log_end_offset}"
    if bounds.high_watermark != bounds.log_end_offset:
        ends = f"{ends}, high watermark {bounds.high_watermark} as asked"
    at = bounds.at_checkpoint
    if at is None or not at <= story.offset < bounds.log_end_offset:
        return ends
    return f"{ends}; the high watermark in its checkpoint, some seconds older, was {at}: nobody was given this then"


def producer_story_lines(story: ProducerStory) -> Iterator[str]:
    """Yield what a producer did in a partition, and what a broker knows of it at the end."""
    whose = "" if story.transactional_id is None else f", transactional id {printable(story.transactional_id)}"
    yield f"{partition_name(story.place, story.folder)}, producer {story.producer_id}{whose}: {_stands(story)}"
    yield f"  {_counts(story)}"
    if story.state is not None:
        yield f"  at the end of the log: {_state(story)}"
    if story.holds_last_stable_offset:
        yield f"  it holds the last stable offset at {story.bounds.last_stable_offset}; {_hidden(story)}"
    for found in story.last:
        yield f"  transaction: {_transaction(found, story.paths)}"
    if story.anomalies:
        said = ", ".join(f"{name} ({count})" for name, count in story.anomalies.items())
        yield f"  what a leader would not have written: {said}; kforensics audit weighs it"
    if story.snapshot is not None:
        yield f"  snapshot: {_snapshot(story.snapshot, story.producer_id)}"


def _stands(story: ProducerStory) -> str:
    if story.counts["open"]:
        return "its transaction is open" if story.counts["open"] == 1 else f"{story.counts['open']} transactions open"
    if story.state is None:
        return "a broker knows nothing of it any more"
    return "no transaction is open, and a broker would have forgotten it" if story.is_expired else "nothing is open"


def _counts(story: ProducerStory) -> str:
    total = sum(story.counts.values())
    if not total and not story.empty_markers:
        return "no transaction"
    counted = ", ".join(f"{count} {name}" for name, count in story.counts.items() if count)
    epochs = ""
    if story.epochs is not None:
        low, high = story.epochs
        epochs = f", epoch {low}" if low == high else f", epochs {low} to {high}"
    empty = f"; {amount(story.empty_markers, 'marker')} that ended nothing" if story.empty_markers else ""
    how = f" ({counted})" if counted else ""
    return f"{amount(total, 'transaction')}{how}, {amount(story.records, 'record')} in them{epochs}{empty}"


def _state(story: ProducerStory) -> str:
    state = story.state
    written = f"last sequence {state['last_sequence']} at offset {state['last_offset']}"
    last = "no batch under this epoch" if state["last_sequence"] < 0 else written
    marked = "" if state["coordinator_epoch"] < 0 else f", coordinator epoch {state['coordinator_epoch']}"
    when = f"{moment(int(state['last_timestamp']))} UTC"
    doubt = "" if story.is_exact else "; what stood before the log on hand may change this"
    return f"epoch {state['producer_epoch']}, {last}{marked}, last seen {when}{doubt}"


def _hidden(story: ProducerStory) -> str:
    behind = story.bounds.log_end_offset - story.bounds.last_stable_offset
    return f"{amount(behind, 'offset')} from there to the log end are kept from read_committed consumers"


def transactional_id_lines(story: TransactionalIdStory) -> Iterator[str]:
    """Yield what the coordinator knows of a transactional id, and its last transactions with their partitions."""
    facts = story.facts
    state = story.state or ("removed" if facts["is_removed"] else "unreadable")
    yield f"transactional id {printable(story.transactional_id)}: {state}"
    where = f"{printable(story.path)} byte {facts['position']:#x}"
    coordinator = partition_name(story.place, "its coordinator")
    last = f"last record at offset {facts['offset']}, {_stamp(facts['last_time'])}"
    yield f"  coordinator: {coordinator}, {last}, {where}"
    ids = ", ".join(map(str, story.producer_ids))
    yield f"  producer ids: {ids or 'none on hand'}; now {facts['producer_id']}, epoch {facts['producer_epoch']}"
    ended = f"{facts['committed']} committed and {facts['aborted']} aborted, in all their partitions"
    since = "" if facts["is_told"] else ", as far as records on hand go"
    yield f"  {amount(facts['transactions'], 'transaction')}: {ended}{since}"
    for one in story.transactions[-LAST:]:
        yield from _of_id(one)
    for stray in story.strays:
        where = printable(f"{stray.partition[0]}-{stray.partition[1]}")
        data = f"data of producer {stray.producer_id} from offset {stray.first_offset} on"
        yield f"  open in {where}, and no transaction that goes on is known to the coordinator: {data}"


def _of_id(one: TransactionOfId) -> Iterator[str]:
    facts = one.facts
    epoch = f"epoch {facts['data_epoch']}" if facts["data_epoch"] >= 0 else f"marker epoch {facts['marker_epoch']}"
    times = [
        f"{name} {_stamp(facts[field])}"
        for name, field in (("begun", "start"), ("decided", "decided"), ("complete", "completed"))
        if facts[field] != NO_TIME
    ]
    yield f"  {one.state}, producer {facts['producer_id']}, {epoch}, {', '.join(times)}"
    for verdict in dict.fromkeys(part.verdict for part in one.parts):
        parts = [part for part in one.parts if part.verdict == verdict]
        more = f" and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
        yield f"    {verdict}: {printable(_joined(map(_part, parts[:NAMED])))}{more}"


def _part(part: Part) -> str:
    topic, number = part.partition
    if part.marker is not None:
        return f"{topic}-{number} (offset {part.marker['marker_offset']})"
    return f"{topic}-{number}" if part.open_from is None else f"{topic}-{number} (open from offset {part.open_from})"


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)


def _stamp(timestamp: int) -> str:
    return "at no time" if timestamp == NO_TIME else f"{moment(timestamp)} UTC"
