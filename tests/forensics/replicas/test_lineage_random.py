"""Clusters by dice: leaders elected cleanly or not, followers that fetch a part, and what can be told of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Kind
from kforensics.forensics.replicas.lineage import truncates_to
from tests.forensics.replicas.replicas import compare, forged

BROKERS, TURNS = 3, 7
# A log as its records, one to a batch: the leader epoch, and what was written.
Log = list[tuple[int, int]]


def random_cluster(dice: Random) -> list[Log]:
    """Return the logs of all brokers after some elections, each of a broker that is there."""
    logs: list[Log] = [[] for _ in range(BROKERS)]
    written = 0
    for epoch in range(TURNS):
        leader = dice.randrange(BROKERS)
        for _ in range(dice.randrange(4)):
            logs[leader].append((epoch, written))
            written += 1
        for follower in range(BROKERS):
            if follower != leader and dice.random() < 1 / 2:
                logs[follower] = logs[leader][
                    : dice.randrange(common(logs[follower], logs[leader]), len(logs[leader]) + 1)
                ]
    return logs


def common(one: Log, other: Log) -> int:
    """Return how many records two logs have in common from their beginning."""
    return next(
        (at for at, both in enumerate(zip(one, other, strict=False)) if both[0] != both[1]), min(len(one), len(other))
    )


def compared_logs(folder: Path, logs: Sequence[Log]) -> Comparison:
    """Return the comparison of replicas with these logs, of which nothing was ever committed."""
    replicas = []
    for log in logs:
        text = "; ".join(f"plain @{offset}" for offset in range(len(log)))
        epochs: dict[int, int] = {}
        for offset, (epoch, _) in enumerate(log):
            if epoch not in epochs.values():
                epochs[offset] = epoch
        records = {offset: [(b"k", b"%d" % written)] for offset, (_, written) in enumerate(log)}
        options = {"leader_epochs": epochs or {0: 0}, "records": records, "high_watermark": 0}
        replicas.append(({0: text}, options))
    forged(folder, *replicas)
    return compare(folder)


@pytest.mark.parametrize("seed", range(60))
def test_where_replicas_part_and_which_of_them_gives_way(tmp_path: Path, seed: int) -> None:
    logs = random_cluster(Random(seed))  # noqa: S311 - dice for a test
    comparison = compared_logs(tmp_path, logs)
    for one, other in combinations(range(BROKERS), 2):
        shared = common(logs[one], logs[other])
        first, second = comparison.replicas[one], comparison.replicas[other]
        found = comparison.of_pair(first, second)
        ends = len(logs[one]), len(logs[other])
        if shared == max(ends):
            assert found == []
            continue
        (difference,) = found
        assert (difference.first_offset, difference.last_offset) == (shared, max(ends) - 1)
        assert tuple(side.records for side in difference.sides) == tuple(end - shared for end in ends)
        assert difference.kind is (Kind.BEHIND if shared == min(ends) else Kind.DIVERGED)
        if difference.kind is Kind.DIVERGED:
            loser = comparison.loser(difference)
            assert loser is not None
            # The one whose branch has the newer epoch in the end wins, even if its first one is older.
            newest = [max(epoch for epoch, _ in logs[number][shared:]) for number in (one, other)]
            assert loser.number == (one if newest[0] < newest[1] else other)
            winner = first if loser is second else second
            assert truncates_to(loser, winner) == shared


@pytest.mark.parametrize("seed", range(60))
def test_what_is_lost_is_what_no_replica_of_a_later_leader_has(tmp_path: Path, seed: int) -> None:
    logs = random_cluster(Random(seed))  # noqa: S311 - dice for a test
    comparison = compared_logs(tmp_path, logs)
    # Of the latest leaders the one with the most is what the others will follow.
    latest = max(logs, key=lambda log: (max((epoch for epoch, _ in log), default=-1), len(log)))
    gone = {record for log in logs for record in log if record not in latest}
    told = [logs[row.branch.loser.number][row.offset] for row in comparison.lost]
    assert sorted(told) == sorted(gone)
