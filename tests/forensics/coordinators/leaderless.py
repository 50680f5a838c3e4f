"""Log directories with transactions whose coordinator skipped a partition, which had no leader."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kforensics.parsers.messages import metadata as schemas
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import forge, keep_times
from tests.forensics.metadata.random_metadata import metadata_record, write_log

__all__ = ["forge_elections", "forge_skipped", "topic_id_of"]

# The broker of the only replica.
BROKER = 3


def topic_id_of(partition: Path) -> str:
    """Return the topic id of a forged partition."""
    return (partition / "partition.metadata").read_text(encoding="utf-8").split()[-1]


def forge_elections(folder: Path, topic_id: str, partition: int, leaders: Mapping[int, int]) -> Path:
    """Write a metadata log with the elections of a partition with one replica; return its folder.

    Args:
        folder: the log directory.
        topic_id: id of the topic ``p``.
        partition: number of the partition.
        leaders: who was elected, by the time in ms after ``NOW``; -2 for a record without an election.
    """
    replica = {"replicas": [BROKER], "isr": [BROKER], "directories": ["A" * 22]}
    created = [
        metadata_record(schemas.TOPIC_RECORD, name="p", topicId=topic_id),
        metadata_record(
            schemas.PARTITION_RECORD, topicId=topic_id, partitionId=partition, leader=BROKER, leaderEpoch=0, **replica
        ),
    ]
    of_partition = {"topicId": topic_id, "partitionId": partition, "version": 0}
    changes = [
        [metadata_record(schemas.PARTITION_CHANGE_RECORD, leader=leader, **of_partition)] for leader in leaders.values()
    ]
    return write_log(folder, [created, *changes], times=[NOW, *(NOW + time for time in leaders)])


def forge_skipped(folder: Path, *, lost: int = 50_000, epochs: Mapping[int, int] | None = None) -> None:
    """Write transactions of many producers whose coordinator skipped ``p-1``, and some that it may not have skipped.

    Broker 3 was killed and returned 200 s after ``NOW``. Its batches are older than all decisions.

    Args:
        folder: where the log directories of both brokers are.
        lost: when ``p-1`` lost its leader, in ms after ``NOW``.
        epochs: the leader epochs of ``p-1`` by the offset that they begin at, by default those from before.
    """
    records, data, markers = list[str](), list[str](), list[str]()
    for producer in range(1, 13):
        name, listed = f"x{producer} {{}} {producer} 0", "{p-0,p-1}"
        # The last three were complete when a leader that has the time of another clock may have written the marker.
        begun, decided = 40_000 + producer, (198_000 if producer > 9 else 60_000) + producer
        outcome = "Abort" if producer % 4 == 0 else "Commit"
        records += [
            f"{name.format('Empty')} t 0",
            f"{name.format('Ongoing')} {listed} t {begun}",
            f"{name.format(f'Prepare{outcome}')} {listed} t {decided}",
            f"{name.format(f'Complete{outcome}')} t {decided + 20}",
        ]
        markers.append(f"M {producer} 0 {outcome[0]} 0 @{producer - 1} {at(decided + 10)}")
        if producer % 3:  # the others wrote only elsewhere, as far as this copy shows
            data.append(f"D {producer} 0 0-0 @{len(data)}-{len(data)} T {at(begun)}")
    records.sort(key=lambda text: int(text.rpartition(" ")[2]))
    markers.sort(key=lambda text: int(text.rpartition(" ")[2]))
    forge_coordinator(folder / "broker-1", "; ".join(records), clean_shutdown=False)
    forge(folder / "broker-1", "; ".join(markers), topic="p", partition=0, clean_shutdown=False)
    log_dir = folder / f"broker-{BROKER}"
    killed = forge(
        log_dir, "; ".join(data), topic="p", partition=1, node_id=BROKER, leader_epochs=epochs, clean_shutdown=False
    )
    keep_times(log_dir, NOW + 50_000, NOW + 50_000)
    forge_elections(folder / "broker-1", topic_id_of(killed), 1, {lost: -1, 200_000: BROKER, 400_000: -2})
