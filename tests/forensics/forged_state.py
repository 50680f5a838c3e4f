"""The state that a broker keeps of a log in ``batch_notation``: its end, its producers, its aborted transactions.

Written without the package's replay, which is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.forensics.batch_notation import NOW, parse_batches
from tests.reference.replay_values import BatchSummary

GONE = "gone "

Segments = Mapping[int, str] | str
Aborted = tuple[int, int, int, int]


class SnapshotEntry(NamedTuple):
    """An entry of a ``.snapshot``, with the fields of the layout."""

    producer_id: int
    producer_epoch: int = 0
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = NOW
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1


class Event(NamedTuple):
    """A batch, and whether it is on disk."""

    batch: BatchSummary
    is_gone: bool


def by_segment(segments: Segments) -> Mapping[int, str]:
    """Return segments in order; a single one begins with its first batch on disk."""
    if isinstance(segments, str):
        on_disk = (event.batch.base_offset for event in read(segments) if not event.is_gone)
        return {next(on_disk, 0): segments}
    return dict(sorted(segments.items()))


def read(text: str) -> list[Event]:
    """Return the batches of a segment, including those that are gone."""
    parts = [part.strip() for part in text.split(";") if part.strip()]
    return [Event(parse_batches(part.removeprefix(GONE))[0], part.startswith(GONE)) for part in parts]


def every(segments: Segments) -> Iterator[Event]:
    """Yield the batches of all segments, including those that are gone."""
    return (event for text in by_segment(segments).values() for event in read(text))


def log_end_offset(segments: Segments) -> int:
    """Return the offset after the last batch of a forged log."""
    log = by_segment(segments)
    ends = [event.batch.last_offset + 1 for text in log.values() for event in read(text)]
    return max([*ends, *log])


def snapshot_entries(segments: Segments, offset: int | None = None) -> list[SnapshotEntry]:
    """Return the correct entries of the snapshot at an offset, or at the log end, of a forged log."""
    end = log_end_offset(segments) if offset is None else offset
    entries: dict[int, SnapshotEntry] = {}
    for event in every(segments):
        batch = event.batch
        if batch.last_offset < end and _changes_state(batch):
            before = entries.get(batch.producer_id, SnapshotEntry(batch.producer_id, batch.producer_epoch))
            entries[batch.producer_id] = _after(before, batch)
    return list(entries.values())


def aborted_transactions(segments: Segments) -> dict[int, list[Aborted]]:
    """Return producer id, first, last and last stable offset of aborts, by the base offset of the marker's segment.

    An entry disappears with its marker, and with the last batch of its transaction unless that was deleted with the
    log start.
    """
    bases = list(by_segment(segments))
    aborted: dict[int, list[Aborted]] = {}
    # By producer id: first offset of the open transaction, and whether the cleaner removed all of it.
    is_open: dict[int, tuple[int, bool]] = {}
    for batch, is_gone in every(segments):
        if batch.marker is not None:
            first, is_cleaned = is_open.pop(batch.producer_id, (batch.base_offset, True))
            if batch.marker.outcome.name == "ABORTED" and not is_cleaned and not is_gone:
                stable = min((start for start, _ in is_open.values()), default=batch.base_offset + 1)
                segment = max(base for base in bases if base <= batch.base_offset)
                aborted.setdefault(segment, []).append((batch.producer_id, first, batch.base_offset, stable))
        elif batch.is_transactional and not batch.is_control:
            first, is_cleaned = is_open.get(batch.producer_id, (batch.base_offset, True))
            is_open[batch.producer_id] = first, is_cleaned and is_gone and batch.last_offset >= bases[0]
    return aborted


def _changes_state(batch: BatchSummary) -> bool:
    return batch.producer_id >= 0 and (batch.marker is not None or not batch.is_control)


def _after(before: SnapshotEntry, batch: BatchSummary) -> SnapshotEntry:
    if batch.producer_epoch != before.producer_epoch:
        before = before._replace(producer_epoch=batch.producer_epoch, last_sequence=-1, last_offset=-1, offset_delta=0)
    before = before._replace(timestamp=batch.max_timestamp)
    if batch.marker is not None:
        return before._replace(coordinator_epoch=batch.marker.coordinator_epoch, current_txn_first_offset=-1)
    first = before.current_txn_first_offset
    return before._replace(
        last_sequence=batch.last_sequence,
        last_offset=batch.last_offset,
        offset_delta=batch.last_offset - batch.base_offset,
        current_txn_first_offset=batch.base_offset if batch.is_transactional and first < 0 else first,
    )
