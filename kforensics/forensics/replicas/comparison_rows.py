"""Builds the table rows of a comparison: differences, lost records and the leader epoch lineage."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.core.replica_tables import REPLICA_RESULTS
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.metadata.cluster_metadata import Election
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Difference, SideSummary
from kforensics.forensics.replicas.lost_records import LostRecord
from kforensics.forensics.replicas.replica import Replica

__all__ = ["difference_rows", "lineage_rows", "lost_rows"]


def difference_rows(comparison: Comparison) -> Rows:
    """Return one row for each range in which two replicas differ."""
    return _rows("replica_differences", [_difference(comparison, row) for row in comparison.differences])


def lost_rows(comparison: Comparison) -> Rows:
    """Return one row for each record that a later leader did not have or has overwritten."""
    return _rows("lost_records", [_lost(record) for record in comparison.lost])


def lineage_rows(comparison: Comparison) -> Rows:
    """Return one row for each leader epoch of each replica, with the election that began it if it is known."""
    elections = {election.leader_epoch: election for election in comparison.elections}
    rows = [
        {
            **replica.partition.place._asdict(),
            "folder": replica.partition.folder,
            "leader_epoch": epoch,
            "start_offset": start,
            "shared": all((epoch, start) in other.epoch_starts for other in comparison.replicas),
            **_batches_of(replica, epoch),
            "noted": epoch in replica.checkpointed_epochs,
            **_election(elections.get(epoch)),
        }
        for replica in comparison.replicas
        for epoch, start in replica.epoch_starts
    ]
    return _rows("leader_epoch_lineage", rows)


def _batches_of(replica: Replica, epoch: int) -> dict[str, int | None]:
    runs = replica.state.log.epochs
    runs = runs[runs["leader_epoch"] == epoch]
    if not len(runs):
        return {"first_offset": None, "last_offset": None}
    return {"first_offset": int(runs["first_offset"].min()), "last_offset": int(runs["last_offset"].max())}


def _election(election: Election | None) -> dict[str, Any]:
    if election is None:
        return dict.fromkeys(("leader", "elected_at", "in_sync", "unclean"))
    return {
        "leader": election.leader,
        "elected_at": election.timestamp,
        "in_sync": " ".join(map(str, election.in_sync)),
        "unclean": election.is_unclean,
    }


def _rows(name: str, rows: list[dict[str, Any]]) -> Rows:
    table = REPLICA_RESULTS[name]
    return Rows(table, len(rows), {name: [row[name] for row in rows] for name in table.names})


def _lost(record: LostRecord) -> dict[str, Any]:
    loser, winner = record.branch.loser, record.branch.winner
    names = ("path", "offset", "timestamp", "producer_id", "producer_epoch", "sequence", "outcome", "key", "key_size")
    return {
        **loser.partition.place._asdict(),
        "folder": loser.partition.folder,
        "other_broker_id": winner.partition.place.broker_id,
        "other_folder": winner.partition.folder,
        "batch_position": record.position,
        **{name: getattr(record, name) for name in (*names, "value_size", "again_at")},
        "known_committed": (loser.high_watermark or 0) > record.offset,
    }


def _difference(comparison: Comparison, difference: Difference) -> dict[str, Any]:
    first, second = comparison.replicas[difference.first], comparison.replicas[difference.second]
    loser = comparison.loser(difference)
    place = second.partition.place
    return {
        **first.partition.place._asdict(),
        "folder": first.partition.folder,
        "other_broker_id": place.broker_id,
        "other_log_dir": place.log_dir,
        "other_folder": second.partition.folder,
        "kind": str(difference.kind),
        "loser": None if loser is None else loser.partition.folder,
        "first_offset": difference.first_offset,
        "last_offset": difference.last_offset,
        "left_out": difference.left_out,
        **_side(first, difference.sides[0], ""),
        **_side(second, difference.sides[1], "other_"),
    }


def _side(replica: Replica, side: SideSummary, prefix: str) -> dict[str, Any]:
    segment, position = side.at or (-1, None)
    epochs, timestamps = side.leader_epochs or (None, None), side.timestamps or (None, None)
    values = {
        "batches": side.batches,
        "records": side.records,
        "markers": side.markers,
        "bytes": side.bytes,
        "producer_ids": " ".join(map(str, side.producer_ids)),
        "lowest_leader_epoch": epochs[0],
        "highest_leader_epoch": epochs[1],
        "first_timestamp": timestamps[0],
        "last_timestamp": timestamps[1],
        "path": replica.state.path(segment),
        "position": position,
    }
    return {f"{prefix}{name}": value for name, value in values.items()}
