"""The elections that a cluster's metadata tells of, against what the brokers noted of them beside their logs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kforensics.forensics.metadata.elections import elections_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.replicas.replica import all_copies_of, replicas_of
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.replicas.replicas import GROUPS, REPLICATION, RULES

METADATA = "__cluster_metadata"


def _case(partition: Partition) -> Case:
    return examine(partition, RULES)


@pytest.mark.parametrize("name", [name for name in GROUPS if not name.startswith(METADATA)])
def test_every_epoch_that_a_broker_noted_began_with_an_election(name: str) -> None:
    """An epoch begins with the topic, the others with an election; the broker that was elected notes its own."""
    elections = elections_in(partitions_under(REPLICATION))
    for partition in GROUPS[name]:
        epochs = {epoch for epoch, _ in replicas_of([_case(partition)])[0].epoch_starts}
        known = {one.leader_epoch for one in elections[partition.topic_id or "", partition.place.partition or 0]}
        assert epochs - known <= {0}


def test_one_election_of_the_lab_was_unclean() -> None:
    found = elections_in(partitions_under(REPLICATION))
    unclean = [(key, one) for key, elections in found.items() for one in elections if one.is_unclean]
    ((topic_id, number), election), *more = unclean
    assert more == []
    assert (topic_id, number) == (GROUPS["unclean-0"][0].topic_id, 0)
    assert (election.leader_epoch, election.leader, election.in_sync) == (3, 3, (2,))


def test_of_several_copies_the_longest_one_counts() -> None:
    (one, other, third) = GROUPS[f"{METADATA}-0"]
    assert elections_in([other, one]) == elections_in([one]) == elections_in([third, other])
    assert elections_in([other]) != elections_in([one])


def test_without_metadata_there_is_nothing_to_tell() -> None:
    assert elections_in(partitions_under(SAMPLES / "duplicates" / "broker-1" / "expired-0")) == {}


def test_where_the_head_is_gone_a_snapshot_stands_for_it() -> None:
    """Cut behind its oldest snapshot, the metadata tells of all elections since."""
    folder = SAMPLES / "cluster-metadata-3.9" / "broker-1" / f"{METADATA}-0"
    (whole,) = all_copies_of(one for one in discover([str(folder)]) if isinstance(one, FoundFile))
    # The name of a segment tells its first offset; what is below the snapshot is passed over.
    (log,) = whole.segments
    headless = replace(whole, segments=(replace(log, base_offset=20),))
    found = elections_in([whole])
    assert found
    assert elections_in([headless]) == found
    assert elections_in([replace(headless, others=())]) == {}
