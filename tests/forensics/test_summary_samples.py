"""The replay in stretches of what real brokers wrote, against the sequential one."""

from __future__ import annotations

from random import Random

from kforensics.forensics.core.record_types import Anomaly
from kforensics.forensics.replay.fold import fold
from kforensics.forensics.replay.replay_types import UNKNOWN, BoundaryKind
from kforensics.forensics.replay.summary import finalise, joined_rows, merge, summarise
from tests.forensics.events import columns_of, rows_of, values_of
from tests.forensics.monoid import found, in_stretches
from tests.forensics.partitions import PARTITIONS, Partition, partitions

CUTS = 5
OFFSETS = "__consumer_offsets"
# Samples in which brokers had forgotten their producers on purpose.
FORGETFUL = {"duplicates"}


def _has_sequences(partition: Partition) -> bool:
    return not partition.folder.name.startswith(OFFSETS)


@partitions
def test_stretches_of_a_sample_say_what_its_replay_says(partition: Partition) -> None:
    dice = Random(partition.folder.name)  # noqa: S311  # dice for cuts, not for secrets
    sequences = _has_sequences(partition)
    log = [batch for batch in partition.log if batch.base_offset >= partition.boundary.offset]
    for boundary in (partition.boundary, UNKNOWN):
        expected = rows_of(fold(log, boundary, sequences=sequences))
        for _ in range(CUTS):
            assert found(*in_stretches(log, dice, sequences=sequences), boundary) == expected


@partitions
def test_state_of_a_sample_can_be_had_at_every_snapshot_on_the_way(partition: Partition) -> None:
    offsets = [one for one in partition.snapshots if one >= partition.boundary.offset]
    log = [batch for batch in partition.log if batch.base_offset >= partition.boundary.offset]
    summary, rows = summarise(columns_of([]))
    read = 0
    for offset in offsets:
        part = [one for one in log[read:] if one.base_offset < offset]
        read += len(part)
        behind, certain = summarise(columns_of(part))
        summary, seam = merge(summary, behind)
        rows = joined_rows([rows, certain, seam])
        expected = rows_of(fold(log[:read], partition.boundary))
        final = finalise(summary, partition.boundary)
        assert values_of(final.producers) == expected["producers"], offset
        assert values_of(final.open_transactions) == expected["open_transactions"], offset


def test_brokers_wrote_nothing_that_a_leader_would_have_refused() -> None:
    """Where a leader wrote all of a log and the cleaner was not there, only what brokers do allow may be odd."""
    allowed = {Anomaly.MARKER_DUPLICATE, Anomaly.MARKER_CONFLICT, Anomaly.SEQ_FIRST_NONZERO}
    odd = {
        (partition.folder.as_posix(), row.kind.name)
        for partition in PARTITIONS
        if not partition.is_cleaned and _has_sequences(partition) and FORGETFUL.isdisjoint(partition.folder.parts)
        for row in fold(partition.log, partition.boundary).anomalies
        if row.kind not in allowed
    }
    assert odd == set()
    assert any(partition.boundary.kind is BoundaryKind.SNAPSHOT for partition in PARTITIONS)
