"""Leader elections in the metadata log of a cluster, compared with the leader epoch checkpoints of the brokers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.core.election import NO_LEADER
from kforensics.forensics.metadata.cluster_events import event_rows
from kforensics.forensics.metadata.cluster_metadata import elections_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.replicas.replica import all_copies_of, replicas_of
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.messages import metadata as schemas
from tests.forensics.metadata.random_metadata import metadata_record, uuid, write_log
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.forensics.replicas.replicas import GROUPS, REPLICATION, RULES

METADATA = "__cluster_metadata"


def _state(partition: Partition) -> PartitionState:
    return examine(partition, RULES)


@pytest.mark.parametrize("name", [name for name in GROUPS if not name.startswith(METADATA)])
def test_every_checkpointed_epoch_began_with_an_election(name: str) -> None:
    """The first epoch begins with the topic, the others with an election; the elected broker checkpoints its own."""
    elections = elections_in(partitions_under(REPLICATION))
    for partition in GROUPS[name]:
        epochs = {epoch for epoch, _ in replicas_of([_state(partition)])[0].epoch_starts}
        known = {
            election.leader_epoch for election in elections[partition.topic_id or "", partition.place.partition or 0]
        }
        assert epochs - known <= {0}


def test_one_election_of_the_lab_was_unclean() -> None:
    by_partition = elections_in(partitions_under(REPLICATION))
    unclean = [
        (key, election) for key, elections in by_partition.items() for election in elections if election.is_unclean
    ]
    ((topic_id, number), election), *more = unclean
    assert more == []
    assert (topic_id, number) == (GROUPS["unclean-0"][0].topic_id, 0)
    assert (election.leader_epoch, election.leader, election.in_sync) == (3, 3, (2,))


def test_of_several_copies_the_longest_one_is_read() -> None:
    (first, shorter, third) = GROUPS[f"{METADATA}-0"]
    assert elections_in([shorter, first]) == elections_in([first]) == elections_in([third, shorter])
    assert elections_in([shorter]) != elections_in([first])


def test_without_a_metadata_log_there_are_no_elections() -> None:
    assert elections_in(partitions_under(SAMPLES / "duplicates" / "broker-1" / "expired-0")) == {}


def test_a_snapshot_replaces_a_missing_log_start() -> None:
    """Without the part before its oldest snapshot, the metadata log contains all elections since."""
    folder = SAMPLES / "cluster-metadata-3.9" / "broker-1" / f"{METADATA}-0"
    (whole,) = all_copies_of(row for row in discover([str(folder)]) if isinstance(row, FoundFile))
    # The name of a segment is its first offset; records below the snapshot are skipped.
    (log,) = whole.segments
    without_start = replace(whole, segments=(replace(log, base_offset=20),))
    elections = elections_in([whole])
    assert elections
    assert elections_in([without_start]) == elections
    without_snapshots = elections_in([replace(without_start, others=())])
    assert {election.leader for elected in without_snapshots.values() for election in elected} <= {NO_LEADER}


# What controllers wrote of a partition, and whether that is an unclean election, None if it is none. Those up to
# the second recovery are of a cluster of 4.1.0 under load.
RECOVERED, RECOVERING = {"leaderRecoveryState": 0}, {"leaderRecoveryState": 1}
WRITTEN: tuple[tuple[dict[str, Any], bool | None], ...] = (
    ({"leader": 1, "isr": [1]}, False),
    ({"leader": 3, "isr": [3], **RECOVERING}, True),
    ({"isr": [3, 1], **RECOVERED}, None),
    ({"isr": [3]}, None),
    ({"leader": 1, "isr": [1], **RECOVERING}, True),
    # The leader before had not ended its recovery, so the state of the partition does not change.
    ({"leader": 3, "isr": [3]}, True),
    ({"leader": -1, "isr": [], "lastKnownElr": [3]}, False),
    ({"leader": 3, "isr": [3], "lastKnownElr": []}, True),
    ({"isr": [3, 1], **RECOVERED}, None),
    ({"leader": -1, "isr": [], "eligibleLeaderReplicas": [1]}, False),
    ({"leader": 1, "isr": [1], "eligibleLeaderReplicas": []}, False),
    # Completes a reassignment to a replica that this record first has in sync.
    ({"leader": 2, "isr": [2], "replicas": [2], "addingReplicas": [], "removingReplicas": []}, False),
    # An eligible leader is elected before the one of an unclean election has recovered.
    ({"leader": 3, "isr": [3], **RECOVERING}, True),
    ({"leader": -1, "isr": [], "eligibleLeaderReplicas": [3]}, False),
    ({"leader": 3, "isr": [3], "eligibleLeaderReplicas": []}, False),
)


def test_an_election_is_unclean_if_the_leader_was_neither_in_sync_nor_eligible(tmp_path: Path) -> None:
    topic = {"topicId": uuid(1), "partitionId": 0}
    records = [metadata_record(schemas.TOPIC_RECORD, name="unclean", topicId=uuid(1))]
    records += [
        metadata_record(schemas.PARTITION_RECORD, **topic, leader=3, isr=[3, 1], replicas=[3, 1]),
        *(metadata_record(schemas.PARTITION_CHANGE_RECORD, **topic, **fields) for fields, _ in WRITTEN),
    ]
    folder = write_log(tmp_path, [[record] for record in records])
    (log,) = partitions_under(folder)
    (elections,) = elections_in([log]).values()
    expected = [is_unclean for _, is_unclean in WRITTEN if is_unclean is not None]
    assert [election.is_unclean for election in elections] == expected
    kinds = [kind for (kind,) in event_rows(_state(log)).only("kind") if kind.endswith(("election", "leader"))]
    assert [kind == "unclean-election" for kind in kinds] == expected
    steps = [step["change"] for step in kforensics.cluster(folder, history="unclean-0").to_pylist()]
    elected = [step for step in steps if "elect" in step or "no leader" in step]
    assert ["unclean election" in step for step in elected] == expected
