"""Checks what an unclean election lost, once all replicas agree again and nothing else shows it.

Rule: ``PartitionRegistration`` in the metadata log names each leader that was not in sync; the leader epochs of the
partition show where it continued. What its predecessor had beyond that offset is lost. It had been acknowledged if a
group had committed an offset beyond, or a checkpointed high watermark is from before the election. Copies that brokers
have set aside may still have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition.checkpoints import CODES as CHECKPOINT_CODES
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding
from kforensics.forensics.coordinators.consumer_groups.commits import Commit
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.unclean_losses import (
    UncleanLoss,
    commits_of,
    lost_watermarks,
    unclean_losses,
)
from kforensics.forensics.core.commands import export_command
from kforensics.forensics.core.election import unclean_phrase
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets, format_time
from kforensics.forensics.partition.lost_watermarks import LostWatermark, Watermark
from kforensics.forensics.partition.overruled_batches import overruled_batches

CODES = by_name(
    Code(
        "unclean-election-loss",
        Severity.CRITICAL,
        meaning="An unclean election truncated acknowledged records, and the replicas agree again.",
        remedy=(
            "Ask the producing applications to send the records again, and reset the groups that are beyond them. Set "
            "unclean.leader.election.enable to false if losing records is worse than waiting for the old leader."
        ),
        why=(
            "A replica that was not in sync became leader, and the others truncated what it did not have. The replicas "
            "have since converged, so comparing them no longer shows the loss. Producers had received acknowledgements "
            "for these records, and consumers may have acted on them. Those offsets may hold different records now; a "
            "consumer already past them never receives these."
        ),
        benign=(
            "The records were never acknowledged: the leader had not replicated them, and no group had read them. "
            "Elections before the start of the available metadata log are unknown."
        ),
    ),
)
# Groups and files to name in a message.
NAMED = 3


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield the losses of each partition, in the order of the elections."""
    if cluster.elections is None:
        for replica in cluster.elected:
            yield from _without_metadata(cluster, replica)
        return
    for replica in cluster.elected:
        watermarks = lost_watermarks(cluster, replica)
        losses = unclean_losses(cluster, replica, watermarks)
        if losses:
            _add_copies(cluster, replica, losses)
        for loss in losses:
            if loss.is_shown:
                yield PlacedFinding(replica.place, _finding(loss))
            elif loss.election.leader != loss.election.predecessor:  # that one goes on with what it had acknowledged
                beyond = _watermark_beyond(cluster, replica, loss)
                yield PlacedFinding(replica.place, _unknown(loss, beyond, _indexed_beyond(cluster, replica, loss)))
        for lost in watermarks:
            yield PlacedFinding(lost.replica.place, _wrong_checkpoint(lost))


def _without_metadata(cluster: Cluster, replica: PartitionMarkers) -> Iterator[PlacedFinding]:
    """Yield offsets that a group had read in an earlier leader epoch and that a later one has written again.

    Consumers read only what is committed, so no clean election truncates it. Which election did is not known.
    """
    committed = list(commits_of(cluster, replica))
    for epoch, start in replica.epoch_starts:
        groups = {
            group: commit
            for group, commit in committed
            if commit.committed > start and 0 <= commit.leader_epoch < epoch
        }
        if groups:
            yield PlacedFinding(replica.place, _unverifiable(epoch, start, groups))
            return  # later leaders continue after it


def _unverifiable(epoch: int, start: int, groups: Mapping[str, Commit]) -> Finding:
    last_offset = max(commit.committed for commit in groups.values()) - 1
    return Finding(
        CODES["unclean-election-loss"],
        f"The leader with epoch {epoch} wrote {format_offsets(start, last_offset)}, which earlier epochs had written, "
        f"too.{_groups(groups)} An unclean election may have cut them off; without the log of the metadata it is not "
        "known.",
        Severity.INFO,
        first_offset=start,
        last_offset=last_offset,
        evidence={
            "leader_epoch": epoch,
            "groups": {group: commit.committed for group, commit in sorted(groups.items())},
            "committed_epochs": {group: commit.leader_epoch for group, commit in sorted(groups.items())},
        },
        exactness=Exactness.UNVERIFIABLE,
        benign=(
            "clean election: no, it cuts off only what no consumer has read",
            "topic deleted and created again since the commit: not ruled out",
            "leader epoch of the commit set by the application: not ruled out",
        ),
        remedy="Add the log of the cluster's metadata (__cluster_metadata-0 of a controller) to the paths.",
    )


def _add_copies(cluster: Cluster, replica: PartitionMarkers, losses: Sequence[UncleanLoss]) -> None:
    """Add batches to the first unclean election after them, unless an earlier leader had overruled them already."""
    for batches in overruled_batches(cluster.log_dirs, replica.name, replica.topic_id, replica.epoch_starts):
        after = (loss for loss in losses if loss.election.leader_epoch > batches.leader_epoch)
        loss = next(after, None)
        if loss is not None and loss.election.leader_epoch <= batches.overruled_by and batches.records:
            loss.copies.append(batches)


def _finding(loss: UncleanLoss) -> Finding:
    election = loss.election
    offsets = format_offsets(loss.start, loss.last_offset)
    return Finding(
        CODES["unclean-election-loss"],
        f"Records at {offsets} are lost{_left(loss)}: {unclean_phrase(election)}, and continued at offset "
        f"{loss.start}."
        f"{_watermark(loss)}{_groups(loss.groups)}{_copies(loss)}",
        Severity.CRITICAL,
        first_offset=loss.start,
        last_offset=loss.last_offset,
        path=loss.copies[0].path if loss.copies else None,
        position=loss.copies[0].position if loss.copies else None,
        evidence={
            "leader": election.leader,
            "leader_epoch": election.leader_epoch,
            "elected_at": election.timestamp,
            "in_sync": list(election.in_sync),
            "groups": {group: commit.committed for group, commit in sorted(loss.groups.items())},
            "copies": [copy.path for copy in loss.copies],
            "records_in_copies": sum(copy.records for copy in loss.copies),
            **({} if loss.watermark is None else _evidence(loss.watermark)),
        },
        exactness=Exactness.EXACT if loss.groups or loss.watermark else Exactness.APPROXIMATE,
        benign=(f"never acknowledged: {_acknowledged(loss)}", "lost records beyond these: not ruled out"),
        remedy=_remedy(loss),
    )


def _watermark_beyond(cluster: Cluster, replica: PartitionMarkers, loss: UncleanLoss) -> Watermark | None:
    """Return the highest checkpointed high watermark that no log of a partition reaches; None without one."""
    watermarks = cluster.watermarks_of(replica)
    reached = max([loss.start, *(one.log_end_offset for one in watermarks)])
    beyond = (one for one in watermarks if one.offset is not None and one.offset > reached)
    return max(beyond, key=lambda one: one.offset or 0, default=None)


def _indexed_beyond(cluster: Cluster, replica: PartitionMarkers, loss: UncleanLoss) -> Watermark | None:
    """Return the replica whose index has the highest offset from before the last leader cut it off; None without one.

    Later leaders may have cut off something, too, which does not concern this election.
    """
    if any(epoch > loss.election.leader_epoch for epoch, _ in replica.epoch_starts):
        return None
    indexed = (one for one in cluster.watermarks_of(replica) if one.indexed_to and one.indexed_to >= loss.start)
    return max(indexed, key=lambda one: one.indexed_to or 0, default=None)


def _unknown(loss: UncleanLoss, beyond: Watermark | None, indexed: Watermark | None) -> Finding:
    """Return that an election may have lost records: the replicas agree, and no group had committed a later offset."""
    election, elected = loss.election, unclean_phrase(loss.election)
    acknowledged = "whether its predecessor had acknowledged records from there on"
    unknown = f": {acknowledged}, no file and no group shows"
    if indexed is not None:
        unknown = (
            f". The index of {_of_broker(indexed)} still has offsets up to {indexed.indexed_to}, which its log "
            f"had before it was truncated; whether records there had been acknowledged, no group shows"
        )
    if beyond is not None:
        unknown = (
            f". {acknowledged[:1].upper()}{acknowledged[1:]} is not certain: the checkpoint of {_of_broker(beyond)} "
            f"has the high watermark {beyond.offset}, beyond all logs"
        )
    return Finding(
        CODES["unclean-election-loss"],
        f"{elected[:1].upper()}{elected[1:]}, and continued at offset {loss.start}{unknown}.",
        Severity.INFO,
        first_offset=loss.start,
        evidence={
            "leader": election.leader,
            "leader_epoch": election.leader_epoch,
            "elected_at": election.timestamp,
            "in_sync": list(election.in_sync),
            **({} if indexed is None else {"indexed_to": indexed.indexed_to}),
        },
        exactness=Exactness.UNVERIFIABLE,
        benign=("the new leader had all that its predecessor had acknowledged: not ruled out",),
        remedy=(
            "Ask the producing applications which records were acknowledged shortly before the election, and look "
            "for them in the log."
        ),
    )


def _wrong_checkpoint(lost: LostWatermark) -> Finding:
    """Return the finding on a checkpoint that replaces the one on the partition alone, which lacks the cause."""
    end = lost.replica.log_end_offset
    return Finding(
        CHECKPOINT_CODES["checkpoint-hw-beyond-end"],
        f"High watermark {lost.offset} is beyond the log end offset {end}: committed "
        f"{format_offsets(end, lost.offset - 1)} missing. They are lost: {lost.phrase}.",
        Severity.INFO,
        first_offset=end,
        last_offset=lost.offset - 1,
        evidence={"log_end_offset": end, "leader_epoch": lost.election.leader_epoch, **_evidence(lost)},
        benign=("log copied before the checkpoint: no, the log was written after the checkpoint",),
        cause="unclean-election-loss",
    )


def _evidence(lost: LostWatermark) -> dict[str, object]:
    return {"high_watermark": lost.offset, "high_watermark_of": lost.replica.place.broker_id}


def _watermark(loss: UncleanLoss) -> str:
    """Return that a checkpoint shows the records to have been committed."""
    if loss.watermark is None:
        return ""
    offset, replica = loss.watermark.offset, loss.watermark.replica
    committed = "those below it" if loss.last_offset >= offset else "they"
    return (
        f" The checkpoint of {_of_broker(replica)} has the high watermark {offset}, so {committed} were committed. Its "
        f"log was truncated after that, and ends at offset {replica.log_end_offset}."
    )


def _of_broker(replica: Watermark) -> str:
    return "a replica" if replica.place.broker_id is None else f"broker {replica.place.broker_id}"


def _groups(groups: Mapping[str, Commit]) -> str:
    if not groups:
        return ""
    by_offset = sorted(groups.items(), key=lambda item: (-item[1].committed, item[0]))
    named = ", ".join(f"{group!r} to offset {commit.committed - 1}" for group, commit in by_offset[:NAMED])
    more = f" and {len(by_offset) - NAMED} more" if len(by_offset) > NAMED else ""
    return f" {format_count(len(by_offset), 'group')} had read some of them: {named}{more}."


def _left(loss: UncleanLoss) -> str:
    """Return which of the offsets files still have, at the begin of the message: a short screen cuts its end."""
    if not loss.copies:
        return ""
    ranges = ", ".join(format_offsets(copy.first_offset, copy.last_offset) for copy in loss.copies[:NAMED])
    ranges += f" and {len(loss.copies) - NAMED} more" if len(loss.copies) > NAMED else ""
    return f" ({'a file still has' if len(loss.copies) == 1 else 'files still have'} {ranges})"


def _copies(loss: UncleanLoss) -> str:
    sentences = [
        f" {copy.path} still has {format_count(copy.records, 'record')} at "
        f"{format_offsets(copy.first_offset, copy.last_offset)}, written from {format_time(copy.first_timestamp)} to "
        f"{format_time(copy.last_timestamp)}."
        for copy in loss.copies[:NAMED]
    ]
    return "".join(sentences)


def _acknowledged(loss: UncleanLoss) -> str:
    if loss.groups:
        return "no, a group had committed them"
    if loss.watermark and loss.last_offset >= loss.watermark.offset:
        return f"no for those below the high watermark {loss.watermark.offset}, not ruled out for the others"
    if loss.watermark:
        return "no, a high watermark was beyond them"
    if len(loss.election.in_sync) == 1:
        return f"no, broker {loss.election.in_sync[0]} was alone in sync, and needed no other to acknowledge them"
    return "not ruled out for all of them"


def _remedy(loss: UncleanLoss) -> str:
    """Return what to do: save what is left first, because a broker removes it after a time."""
    commands = [export_command(copy.path, copy.first_offset, copy.last_offset) for copy in loss.copies[:NAMED]]
    save = f"Copy the records before the broker deletes them: {'; '.join(commands)}. " if commands else ""
    return save + CODES["unclean-election-loss"].remedy


CHECK = Check("unclean_elections", CODES, findings)
