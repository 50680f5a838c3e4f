"""When partitions had no leader, as metadata logs show it to every task of an audit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.setting_evidence import rules_by_evidence, setting_evidence
from kforensics.forensics.core.election import Leaderless
from kforensics.forensics.core.rules import Rules
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.leaderless import forge_elections, topic_id_of
from tests.forensics.forge import forge
from tests.forensics.partition_states import partitions_under


@pytest.mark.parametrize(
    ("leaders", "times"),
    [
        ({10_000: -1, 20_000: 3}, [(10_000, 20_000, 2)]),
        ({10_000: -1, 14_999: 3}, []),
        ({10_000: -1, 12_000: -1, 20_000: 3}, [(10_000, 20_000, 3)]),
        ({10_000: -1, 20_000: 3, 30_000: -1, 40_000: -2}, [(10_000, 20_000, 2), (30_000, 40_000, None)]),
        ({10_000: -1, 14_000: -2}, []),
        ({10_000: 3}, []),
    ],
    ids=["elected", "soon", "lost twice", "until the end of the metadata log", "just before its end", "never"],
)
def test_what_a_metadata_log_shows(
    leaders: dict[int, int], times: list[tuple[int, int, int | None]], tmp_path: Path
) -> None:
    """A loss just before the end of the metadata log shows nothing: a leader may have been elected since."""
    key = topic_id_of(forge(tmp_path, "plain @0-0", topic="p", partition=1)), 1
    forge_elections(tmp_path, *key, leaders)
    expected = tuple(Leaderless(NOW + since, NOW + until, epoch) for since, until, epoch in times)
    assert _known(tmp_path).leaderless_times(*key) == expected


def test_another_copy_of_a_cluster_does_not_hide_what_one_shows(tmp_path: Path) -> None:
    for name, leaders in (("early", {10_000: -1, 20_000: -2}), ("late", {10_000: -1, 90_000: 3})):
        key = topic_id_of(forge(tmp_path / name / "broker-1", "plain @0-0", topic="p", partition=1)), 1
        forge_elections(tmp_path / name / "broker-1", *key, leaders)
    known = _known(tmp_path).leaderless_times(*key)
    assert Leaderless(NOW + 10_000, NOW + 90_000, 2) in known


def _known(folder: Path) -> Rules:
    partitions = partitions_under(folder)
    evidence = [one for partition in partitions if (one := setting_evidence(partition, NOW))]
    members = map(PartitionMembership.of, partitions)
    return rules_by_evidence(Rules(NOW), (), evidence, members, Clusters.of(partitions))
