"""Random clusters: clean and unclean elections, followers that fetch a part, and what the comparison finds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import DifferenceKind
from kforensics.forensics.replicas.lineage import truncation_offset
from tests.forensics.replicas.replicas import compare, forged

BROKERS, TURNS = 3, 7
# A log as records, one per batch: the leader epoch, and a number as the value.
Log = list[tuple[int, int]]


def random_cluster(dice: Random) -> list[Log]:
    """Return the logs of all brokers after some elections."""
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
    """Return the length of the common prefix of two logs."""
    return next(
        (offset for offset, both in enumerate(zip(one, other, strict=False)) if both[0] != both[1]),
        min(len(one), len(other)),
    )


def compared_logs(folder: Path, logs: Sequence[Log]) -> Comparison:
    """Return the comparison of replicas with these logs, without any committed record."""
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
def test_where_replicas_diverge_and_which_one_is_overruled(tmp_path: Path, seed: int) -> None:
    logs = random_cluster(Random(seed))  # noqa: S311 - dice for a test
    comparison = compared_logs(tmp_path, logs)
    for one, other in combinations(range(BROKERS), 2):
        shared = common(logs[one], logs[other])
        first, second = comparison.replicas[one], comparison.replicas[other]
        differences = comparison.differences_between(first, second)
        ends = len(logs[one]), len(logs[other])
        if shared == max(ends):
            assert differences == []
            continue
        (difference,) = differences
        assert (difference.first_offset, difference.last_offset) == (shared, max(ends) - 1)
        assert tuple(side.records for side in difference.sides) == tuple(end - shared for end in ends)
        assert difference.kind is (DifferenceKind.BEHIND if shared == min(ends) else DifferenceKind.DIVERGED)
        if difference.kind is DifferenceKind.DIVERGED:
            loser = comparison.loser(difference)
            assert loser is not None
            # The branch with the newer last epoch wins, even if its first epoch is older.
            newest = [max(epoch for epoch, _ in logs[number][shared:]) for number in (one, other)]
            assert loser.number == (one if newest[0] < newest[1] else other)
            winner = first if loser is second else second
            assert truncation_offset(loser, winner) == shared


@pytest.mark.parametrize("seed", range(60))
def test_lost_records_are_those_that_the_latest_leader_does_not_have(tmp_path: Path, seed: int) -> None:
    logs = random_cluster(Random(seed))  # noqa: S311 - dice for a test
    comparison = compared_logs(tmp_path, logs)
    # The others will follow the longest log of the latest leader epoch.
    latest = max(logs, key=lambda log: (max((epoch for epoch, _ in log), default=-1), len(log)))
    missing = {record for log in logs for record in log if record not in latest}
    lost = [logs[row.branch.loser.number][row.offset] for row in comparison.lost]
    assert sorted(lost) == sorted(missing)
