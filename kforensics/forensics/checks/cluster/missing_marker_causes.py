"""Finds why a partition lacks the marker of a completed transaction, by the elections and deletions of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.unclean_losses import unclean_losses
from kforensics.forensics.core.election import NO_LEADER, Election, cut_off_by, unclean_phrase
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import Row
from kforensics.parsers.format.array_types import StructArray

__all__ = ["DELETED_AT", "MissingMarkerCause", "missing_marker_cause", "refused_data"]

DELETED_AT = "deleted_at"


class MissingMarkerCause(NamedTuple):
    """Why a marker is missing, as far as the metadata log shows it.

    Attributes:
        sentence: that it is missing, and why if that is known.
        evidence: the election or deletion, as fields of the finding's evidence.
        election: a benign explanation, whether an election explains it.
        deletion: whether a deletion of the topic explains it.
    """

    sentence: str
    evidence: Mapping[str, int] = {}
    election: str = "no leader then, or log truncated after an unclean election: not visible here"
    deletion: str = "not visible here"


def refused_data(markers: PartitionMarkers, row: Row) -> StructArray | None:
    """Return the data of a transaction whose marker its leader refused, as one UNENDED_DATA record; None if none."""
    epoch = row["marker_epoch"] if row["data_epoch"] == NONE else row["data_epoch"]
    data = None if markers.old_format is None else markers.old_format.data_of(row["producer_id"], epoch)
    return data[0] if data is not None and len(data) else None


def missing_marker_cause(cluster: Cluster, markers: PartitionMarkers, row: Row, *, is_open: bool) -> MissingMarkerCause:
    """Return why a marker is missing."""
    if refused_data(markers, row) is None:
        return _lost_or_unsent(cluster, markers, row, is_open=is_open)
    transaction = f"the transaction of {cluster.id_name(row)!r} (producer {row['producer_id']}"
    completed = f"epoch {row['marker_epoch']}, {State(row['status'])} at {format_time(row['completed'])})"
    return MissingMarkerCause(
        f"{cluster.name(row['partition'])} has no marker of {transaction}, {completed}: batches of message format 0 or "
        "1 follow its data, so its leader refused the marker, which the coordinator took for done."
    )


def _lost_or_unsent(cluster: Cluster, markers: PartitionMarkers, row: Row, *, is_open: bool) -> MissingMarkerCause:
    """Return why a leader that accepts markers does not have one.

    A coordinator takes a partition without a leader for deleted, and completes the transaction without it. Rule:
    ``TransactionMarkerChannelManager.addTxnMarkersToBrokerQueue``.
    """
    partition, transaction = cluster.name(row["partition"]), f"the transaction of {cluster.id_name(row)!r}"
    producer = f"producer {row['producer_id']}, epoch {row['marker_epoch']}"
    completed = f"{State(row['status'])} at {format_time(row['completed'])}"
    begun = row["decided"] if row["start"] == NO_TIME else row["start"]
    if not is_open and (deleted := cluster.deleted_since(markers, begun)) is not None:
        return MissingMarkerCause(
            f"The topic {markers.name[0]} was deleted at {format_time(deleted)}, after {transaction} had begun "
            f"({producer}, {completed}): its marker is not in the log that was created since.",
            {DELETED_AT: deleted},
            deletion=f"likely, deleted at {format_time(deleted)}",
        )
    loss = _loss_since(cluster, markers, row["decided"])
    # What is known to be lost explains more than a time without a leader before or after, if clocks differ.
    skew = 0 if loss else cluster.rules.clock_skew_ms
    leaderless = cluster.leaderless(markers, row["completed"], skew)
    is_within = cluster.leaderless(markers, row["completed"], 0) is not None
    election = cut_off_by(cluster.elections_of(markers), row["decided"])
    missing = f"{partition} has no marker of {transaction} ({producer}, {completed})"
    # An election that cut off the end of the log, or all of it, explains more than that the log was lost.
    first_epoch = markers.coverage.first_led and markers.coverage.first_led.epoch
    is_elected = loss is not None or (election is not None and election.leader_epoch == first_epoch)
    if not is_within and not is_elected and (lost := _lost_log(markers, missing, row["completed"])) is not None:
        return lost
    # An unclean election that ends a time without a leader just after the transaction explains more than that time.
    is_cut_off = leaderless is not None and not is_within and election is not None and leaderless[1] == election
    if leaderless is not None and not is_cut_off:
        return _without_leader(leaderless, partition, f"{transaction} ({producer}, {completed})", is_within=is_within)
    if loss is not None:
        return MissingMarkerCause(
            f"{partition} has no marker of {transaction} ({producer}, {completed}): {unclean_phrase(loss)}, and "
            "continued before records that a group had read, so the marker was probably lost with them.",
            {"elected_at": loss.timestamp, "leader_epoch": loss.leader_epoch},
            "records lost in an unclean election: likely",
        )
    if election is not None:
        return _cut_off(cluster, markers, election, f"the marker of {transaction} ({producer}, {completed})", row)
    return MissingMarkerCause(
        f"{partition} has no marker of {transaction} ({producer}), although the coordinator wrote {completed}."
    )


def _cut_off(
    cluster: Cluster, markers: PartitionMarkers, election: Election, marker: str, row: Row
) -> MissingMarkerCause:
    """Return an unclean election as the cause, which may be an earlier one that the metadata does not date."""
    dated = {one.leader_epoch for one in cluster.elections_of(markers)}
    is_first = all(one.timestamp > row["decided"] for one in cluster.elections_of(markers))
    earlier = [epoch for epoch, _ in markers.epoch_starts[1:] if epoch < election.leader_epoch and epoch not in dated]
    is_uncertain = is_first and bool(earlier)
    more = f" Epoch {earlier[0]} began before, the metadata does not show when or how." if is_uncertain else ""
    return MissingMarkerCause(
        f"The unclean election of broker {election.leader} at {format_time(election.timestamp)} (epoch "
        f"{election.leader_epoch}, in sync: {election.in_sync_text}) {'may have ' if is_uncertain else ''}"
        f"cut off {marker}.{more}",
        {"elected_at": election.timestamp, "leader_epoch": election.leader_epoch},
        f"log truncated after an unclean election: {'this or an earlier one, ' if is_uncertain else ''}likely",
    )


def _lost_log(markers: PartitionMarkers, missing: str, completed: int) -> MissingMarkerCause | None:
    """Return the loss of the whole log as the cause, None if nothing shows it."""
    lost = markers.coverage.lost_since(completed)
    if lost is None or markers.coverage.first_led is None:
        return None
    first = markers.coverage.first_led
    return MissingMarkerCause(
        f"{missing}: {lost}.",
        {"elected_at": first.began, "leader_epoch": first.epoch},
        f"whole log lost before leader epoch {first.epoch}: likely",
    )


def _without_leader(
    leaderless: tuple[Election, Election | None], partition: str, transaction: str, *, is_within: bool
) -> MissingMarkerCause:
    """Return the time without a leader as the cause, whether the transaction was completed in it or close to it."""
    lost, elected = leaderless
    since = format_time(lost.timestamp)
    period = f"since {since}" if elected is None else f"from {since} to {format_time(elected.timestamp)}"
    return MissingMarkerCause(
        f"{partition} had no leader {period}, so it got no marker of {transaction}."
        if is_within
        else f"{partition} has no marker of {transaction}. It had no leader {period}, which may have been at that time "
        "if clocks differ.",
        {"leaderless_from": lost.timestamp},
        f"no leader when the transaction was completed: {'likely' if is_within else 'possible'}, {period}",
    )


def _loss_since(cluster: Cluster, markers: PartitionMarkers, time: int) -> Election | None:
    """Return the first unclean election since a time, in ms, that is known to have lost records that groups had read.

    One after another broker cuts off what its predecessor had. One after no other broker, as with a single replica, may
    follow the loss of its disk or the restore of an older state of it.
    """
    elections = cluster.elections_of(markers)
    if not any(each.is_unclean and each.timestamp >= time for each in elections):
        return None
    losses = (loss.election for loss in unclean_losses(cluster, markers) if loss.groups)
    own = (each for each in losses if each.predecessor in {each.leader, NO_LEADER})
    return next((each for each in own if each.timestamp >= time), None)
