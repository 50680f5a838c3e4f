"""The summary of a chunk of batches, without a loop over batches or producers."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_arrays import picked, placed
from kforensics.forensics.core.record_types import RECENT_BATCHES, Records
from kforensics.forensics.replay.neighbour_anomalies import Neighbours
from kforensics.forensics.replay.open_spans import Regions
from kforensics.forensics.replay.producer_events import Events, edges, holes_before
from kforensics.forensics.replay.replay_rows import Rows, joined_rows
from kforensics.forensics.replay.row_building import closed_rows
from kforensics.forensics.replay.summary_record import PRODUCER_SUMMARY, Summary, sorted_pending
from kforensics.parsers.columns.batch_columns import BatchColumns

__all__ = ["summarise"]


def summarise(batches: BatchColumns, *, sequences: bool = True) -> tuple[Summary, Rows]:
    """Return what a stretch of a log says of its producers, and the rows that are certain whatever stands around it.

    Args:
        batches: adjacent batches of a partition, in the order of the log.
        sequences: False for ``__consumer_offsets``, where coordinators start every batch at 0.
    """
    if not len(batches):
        return Summary(sequences=sequences), Rows.of()
    holes = holes_before(batches)
    events = Events.of(batches, holes)
    regions = Regions.of(events)
    neighbours = Neighbours.of(events, regions)
    producers = np.zeros(len(neighbours.starts), PRODUCER_SUMMARY)
    producers["producer_id"] = events.producer_id[neighbours.starts]
    closed = Rows.of()
    if len(producers):
        _tell_ends(producers, neighbours)
        _tell_data(producers, neighbours)
        closed = _tell_markers(producers, neighbours)
        _tell_lead(producers, neighbours)
    anomalies, pending = neighbours.anomalies(sequences=sequences)
    summary = Summary(
        producers=producers,
        pending=sorted_pending(pending),
        first_offset=int(batches.base_offset[0]) if batches.exact[0] else None,
        last_offset=int(batches.last_offset[-1]),
        batches=len(batches),
        holes=int(holes[-1]),
        sequences=sequences,
    )
    return summary, joined_rows([closed, Rows.of(anomalies=anomalies)])


def _tell_ends(producers: Records, neighbours: Neighbours) -> None:
    """Fill in what the first and the last event of each producer say, and its last region."""
    events, run, starts, ends = neighbours.events, neighbours.epoch_run, neighbours.starts, neighbours.ends
    producers["starts_with_marker"] = events.is_marker[starts]
    producers["ends_with_marker"] = events.is_marker[ends]
    producers["end_epoch"] = events.producer_epoch[ends]
    producers["is_uniform"] = run[starts] == run[ends]
    if len(mixed := neighbours.mixed()):
        number = neighbours.regions.number
        producers["is_mixed"] = np.isin(number[ends], number[mixed]) & ~events.is_marker[ends]


def _tell_data(producers: Records, neighbours: Neighbours) -> None:
    """Fill in what the data of each producer says, transactions excepted."""
    events, data = neighbours.events, neighbours.data
    first, last = edges(events.producer_id[data])
    which = _which(producers, events.producer_id[data[first]])
    producers["has_data"][which] = True
    placed(producers["first"], which, events.batches(data[first]))
    placed(producers["last_data"], which, events.seen(data[last]))
    transactional = events.is_transactional[data].astype("i8")
    if len(data):
        count = np.add.reduceat(transactional, first)
        producers["has_transactional"][which] = count > 0
        producers["has_other"][which] = count <= last - first
    _tell_recent(producers, which, neighbours, first, last)


def _tell_recent(producers: Records, which: Records, neighbours: Neighbours, first: Records, last: Records) -> None:
    """Fill in the last batches of the last epoch, which a marker may have begun.

    ``first`` and ``last`` count in the data.
    """
    data, run = neighbours.data, neighbours.epoch_run
    back = last[:, None] - np.arange(RECENT_BATCHES)
    ends = run[neighbours.ends[which]]
    counts = (back >= first[:, None]) & (run[data[np.maximum(back, 0)]] == ends[:, None])
    count = counts.sum(axis=1)
    slots = np.arange(RECENT_BATCHES)
    at = np.minimum(last[:, None] - count[:, None] + 1 + slots, last[:, None])
    recent = neighbours.events.recent(data[np.maximum(at, 0)])
    placed(recent, slots >= count[:, None], np.zeros(1, recent.dtype))
    producers["recent_count"][which] = count
    placed(producers["recent"], which, recent)


def _tell_markers(producers: Records, neighbours: Neighbours) -> Rows:
    """Fill in the first and last marker of each producer and the regions outside them; return what is closed between.

    Of ``r0 m1 r1 m2 ... mk rk``, ``r0 m1`` and ``rk`` stay open to what stands around the chunk.
    """
    events, regions, at = neighbours.events, neighbours.regions, neighbours.markers
    ids = events.producer_id[at]
    first, last = edges(ids)
    which = _which(producers, ids[first])
    marker = events.markers(at)
    producers["has_marker"][which] = True
    placed(producers["first_marker"], which, picked(marker, first))
    placed(producers["last_marker"], which, events.seen(at[last]))
    producers["last_coordinator_epoch"][which] = marker["coordinator_epoch"][last]
    producers["last_ending"][which] = marker["ending"][last]
    producers["head"] = regions.find(regions.number[neighbours.starts])
    open_end = producers["has_marker"] & ~producers["ends_with_marker"]
    tails = regions.find(regions.number[neighbours.ends[open_end]])
    placed(producers["tail"], open_end, tails)
    later = np.ones(len(at), "?")
    later[first] = False
    return closed_rows(ids[later], regions.find(regions.number[at[later]]), picked(marker, later))


def _tell_lead(producers: Records, neighbours: Neighbours) -> None:
    """Fill in the markers before the first batch of each producer."""
    which = np.flatnonzero(producers["starts_with_marker"])
    if not len(which):
        return
    events, data, starts = neighbours.events, neighbours.data, neighbours.starts[which]
    last = neighbours.ends[which]
    has_data = producers["has_data"][which]
    last[has_data] = data[np.searchsorted(data, starts[has_data])] - 1
    placed(producers["lead"], which, events.seen(last))
    producers["lead_epoch"][which] = events.producer_epoch[last]
    producers["lead_is_uniform"][which] = neighbours.epoch_run[starts] == neighbours.epoch_run[last]


def _which(producers: Records, producer_id: Records) -> Records:
    """Return the indexes of producers by their ids."""
    return np.searchsorted(producers["producer_id"], producer_id)
