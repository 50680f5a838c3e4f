"""The logs of real brokers replayed in chunks, against the reference replay."""

from __future__ import annotations

from random import Random

from kforensics.forensics.core.record_types import Anomaly
from kforensics.forensics.replay.boundary import UNKNOWN, BoundaryKind
from kforensics.forensics.replay.finalizing import finalize
from kforensics.forensics.replay.merging import merge
from kforensics.forensics.replay.replay_rows import joined_rows
from kforensics.forensics.replay.summarizing import summarize
from tests.forensics.batch_notation import columns_of, rows_of, values_of
from tests.forensics.replay.split_replay import replay_in_chunks, replay_values
from tests.forensics.sample_partitions import PARTITIONS, Partition, partitions
from tests.reference.fold import fold

CUTS = 5
OFFSETS_TOPIC = "__consumer_offsets"
# Samples whose brokers were made to forget their producers.
FORGETFUL = {"duplicates"}


def _has_sequences(partition: Partition) -> bool:
    return not partition.folder.name.startswith(OFFSETS_TOPIC)


@partitions
def test_merged_chunks_of_a_sample_equal_its_reference_replay(partition: Partition) -> None:
    dice = Random(partition.folder.name)  # noqa: S311  # not for cryptography
    sequences = _has_sequences(partition)
    log = [batch for batch in partition.log if batch.base_offset >= partition.boundary.offset]
    for boundary in (partition.boundary, UNKNOWN):
        expected = rows_of(fold(log, boundary, sequences=sequences))
        for _ in range(CUTS):
            summary, rows = replay_in_chunks(log, dice, sequences=sequences)
            assert replay_values(summary, rows, boundary) == expected


@partitions
def test_the_state_of_a_sample_is_available_at_every_snapshot(partition: Partition) -> None:
    offsets = [offset for offset in partition.snapshots if offset >= partition.boundary.offset]
    log = [batch for batch in partition.log if batch.base_offset >= partition.boundary.offset]
    summary, rows = summarize(columns_of([]))
    read = 0
    for offset in offsets:
        part = [batch for batch in log[read:] if batch.base_offset < offset]
        read += len(part)
        next_summary, certain = summarize(columns_of(part))
        summary, boundary_rows = merge(summary, next_summary)
        rows = joined_rows([rows, certain, boundary_rows])
        expected = rows_of(fold(log[:read], partition.boundary))
        final = finalize(summary, partition.boundary)
        assert values_of(final.producers[:]) == expected["producers"], offset
        assert values_of(final.open_transactions) == expected["open_transactions"], offset


def test_brokers_wrote_nothing_that_a_leader_would_have_rejected() -> None:
    """If a leader wrote the whole log and it was not compacted, only anomalies that brokers allow may occur."""
    allowed = {Anomaly.MARKER_DUPLICATE, Anomaly.MARKER_CONFLICT, Anomaly.SEQ_FIRST_NONZERO}
    unexpected = {
        (partition.folder.as_posix(), row.kind.name)
        for partition in PARTITIONS
        if not partition.is_cleaned and _has_sequences(partition) and FORGETFUL.isdisjoint(partition.folder.parts)
        for row in fold(partition.log, partition.boundary).anomalies
        if row.kind not in allowed
    }
    assert unexpected == set()
    assert any(partition.boundary.kind is BoundaryKind.SNAPSHOT for partition in PARTITIONS)
