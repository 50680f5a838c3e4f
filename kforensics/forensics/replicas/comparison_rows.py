"""From a comparison to the rows of its tables."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.core.replica_tables import REPLICA_RESULTS
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.metadata.elections import Election
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Difference, Side
from kforensics.forensics.replicas.lost_records import LostRecord
from kforensics.forensics.replicas.replica import Replica

__all__ = ["difference_rows", "lineage_rows", "lost_rows"]


def difference_rows(comparison: Comparison) -> Rows:
    """Return a row for each range in which two replicas differ."""
    return _rows("replica_differences", [_difference(comparison, found) for found in comparison.differences])


def lost_rows(comparison: Comparison) -> Rows:
    """Return a row for each record that a later leader did not have or wrote over."""
    return _rows("lost_records", [_lost(found) for found in comparison.lost])


def lineage_rows(comparison: Comparison) -> Rows:
    """Return a row for each leader epoch of each replica, with the election that began it where that is known."""
    elections = {one.leader_epoch: one for one in comparison.elections}
    rows = [
        {
            **replica.partition.place._asdict(),
            "folder": replica.partition.folder,
            "leader_epoch": epoch,
            "start_offset": start,
            "shared": all((epoch, start) in other.epoch_starts for other in comparison.replicas),
            **_batches_of(replica, epoch),
            "noted": epoch in replica.noted_epochs,
            **_election(elections.get(epoch)),
        }
        for replica in comparison.replicas
        for epoch, start in replica.epoch_starts
    ]
    return _rows("leader_epoch_lineage", rows)


def _batches_of(replica: Replica, epoch: int) -> dict[str, int | None]:
    runs = replica.case.log.epochs
    mine = runs[runs["leader_epoch"] == epoch]
    if not len(mine):
        return {"first_offset": None, "last_offset": None}
    return {"first_offset": int(mine["first_offset"].min()), "last_offset": int(mine["last_offset"].max())}


def _election(found: Election | None) -> dict[str, Any]:
    if found is None:
        return dict.fromkeys(("leader", "elected_at", "in_sync", "unclean"))
    return {
        "leader": found.leader,
        "elected_at": found.timestamp,
        "in_sync": " ".join(map(str, found.in_sync)),
        "unclean": found.is_unclean,
    }


def _rows(name: str, rows: list[dict[str, Any]]) -> Rows:
    table = REPLICA_RESULTS[name]
    return Rows(table, len(rows), {name: [row[name] for row in rows] for name in table.names})


def _lost(found: LostRecord) -> dict[str, Any]:
    loser, winner = found.branch.loser, found.branch.winner
    names = ("path", "offset", "timestamp", "producer_id", "producer_epoch", "sequence", "outcome", "key", "key_size")
    return {
        **loser.partition.place._asdict(),
        "folder": loser.partition.folder,
        "other_broker_id": winner.partition.place.broker_id,
        "other_folder": winner.partition.folder,
        "batch_position": found.position,
        **{name: getattr(found, name) for name in (*names, "value_size", "again_at")},
        "known_committed": (loser.high_watermark or 0) > found.offset,
    }


def _difference(comparison: Comparison, found: Difference) -> dict[str, Any]:
    one, other = comparison.replicas[found.first], comparison.replicas[found.second]
    loser = comparison.loser(found)
    place = other.partition.place
    return {
        **one.partition.place._asdict(),
        "folder": one.partition.folder,
        "other_broker_id": place.broker_id,
        "other_log_dir": place.log_dir,
        "other_folder": other.partition.folder,
        "kind": str(found.kind),
        "loser": None if loser is None else loser.partition.folder,
        "first_offset": found.first_offset,
        "last_offset": found.last_offset,
        "left_out": found.left_out,
        **_side(one, found.sides[0], ""),
        **_side(other, found.sides[1], "other_"),
    }


def _side(replica: Replica, side: Side, prefix: str) -> dict[str, Any]:
    segment, position = side.at or (-1, None)
    epochs, times = side.leader_epochs or (None, None), side.timestamps or (None, None)
    values = {
        "batches": side.batches,
        "records": side.records,
        "markers": side.markers,
        "bytes": side.bytes,
        "producer_ids": " ".join(map(str, side.producer_ids)),
        "lowest_leader_epoch": epochs[0],
        "highest_leader_epoch": epochs[1],
        "first_timestamp": times[0],
        "last_timestamp": times[1],
        "path": replica.case.path(segment),
        "position": position,
    }
    return {f"{prefix}{name}": value for name, value in values.items()}
