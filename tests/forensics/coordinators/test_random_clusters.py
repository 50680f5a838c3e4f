"""Random clusters: healthy ones raise no alarm, and a single wrong marker is reported exactly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.findings import Severity
from tests.forensics.coordinators.clusters import SOON, cluster_under, found_in
from tests.forensics.coordinators.random_clusters import Sent, Story, story

LATER = SOON + 7_200_000
seeds = pytest.mark.parametrize("seed", range(6))
versions = pytest.mark.parametrize("version", [0, 2])


def dice_of(seed: int) -> Random:
    return Random(seed)  # noqa: S311  # reproducible


def alarms(folder: Path) -> list[tuple[str, str, str]]:
    found = found_in(cluster_under(folder, as_of_ms=LATER))
    return [
        (finding.code.name, str(finding.severity), f"p-{place.partition}")
        for place, finding in found
        if finding.severity >= Severity.WARNING
    ]


@seeds
@versions
def test_an_healthy_cluster(seed: int, version: int, tmp_path: Path) -> None:
    """Each marker is joined with its transaction, although many have the same epoch and are milliseconds apart."""
    story(dice_of(seed), version=version, length=40).forge(tmp_path)
    cluster = cluster_under(tmp_path, as_of_ms=LATER)
    assert [one.finding.message for one in found_in(cluster)] == []
    listed, markers = cluster.marker_join.transaction_partitions, cluster.marker_join.markers
    assert set(listed["marker_status"].tolist()) <= {MarkerStatus.MATCHED, MarkerStatus.EMPTY}
    assert listed["is_exact"].all()
    assert sorted(listed["marker"].tolist()) == list(range(len(markers)))
    decided = cluster.coordinators.transactions[listed["transaction"]]
    times = markers["marker_timestamp"][listed["marker"]]
    assert ((times > decided["decided"]) & (times < decided["completed"])).all()


@seeds
@versions
def test_an_healthy_cluster_that_sends_markers_again(seed: int, version: int, tmp_path: Path) -> None:
    story(dice_of(seed), version=version, length=40, sent_twice=0.2).forge(tmp_path)
    assert alarms(tmp_path) == []


@seeds
@versions
@pytest.mark.parametrize("sent_twice", [0.0, 0.2])
def test_an_healthy_cluster_whose_clocks_differ(seed: int, version: int, sent_twice: float, tmp_path: Path) -> None:
    """If markers of one epoch were also sent again, their times mean nothing and raise no alarm."""
    story(dice_of(seed), version=version, length=40, sent_twice=sent_twice, skew_ms=4_000).forge(tmp_path)
    limit = Severity.ERROR if sent_twice and version == 0 else Severity.WARNING
    found = found_in(cluster_under(tmp_path, as_of_ms=LATER))
    assert [finding.message for _, finding in found if finding.severity >= limit] == []


@pytest.mark.parametrize("seed", range(12))
@versions
def test_what_is_left_of_an_healthy_cluster(seed: int, version: int, tmp_path: Path) -> None:
    """In half of them the clocks differ."""
    dice, skew_ms = dice_of(seed), seed % 2 * 2_000
    story(dice, version=version, length=40, sent_twice=0.1, skew_ms=skew_ms).forge_remains(tmp_path, dice)
    found = found_in(cluster_under(tmp_path, as_of_ms=LATER))
    limit = Severity.ERROR if skew_ms and version == 0 else Severity.WARNING
    assert [finding.message for _, finding in found if finding.severity >= limit] == []


def damaged_story(seed: int, version: int) -> tuple[Story, Random, str, int]:
    dice = dice_of(seed)
    cluster = story(dice, version=version, length=30)
    name, index = dice.choice(cluster.markers())
    return cluster, dice, name, index


@seeds
@versions
def test_a_marker_is_missing(seed: int, version: int, tmp_path: Path) -> None:
    cluster, _, name, index = damaged_story(seed, version)
    del cluster.logs[name][index]
    cluster.forge(tmp_path)
    missing = [one for one in alarms(tmp_path) if one[0] == "atomicity-marker-missing"]
    if index == 0:
        # A log without its first marker looks like that of a topic which is younger than the transaction.
        assert missing == []
    elif version == 2:
        assert [(code, partition) for code, _, partition in missing] == [("atomicity-marker-missing", name)]
        assert [severity for _, severity, _ in missing] == ["critical"]
    else:
        # Times identify it, but not with certainty unless its epoch was not used again.
        assert [partition for _, _, partition in missing] == [name]


@seeds
@versions
def test_a_marker_has_the_other_outcome(seed: int, version: int, tmp_path: Path) -> None:
    cluster, _, name, index = damaged_story(seed, version)
    sent = cluster.logs[name][index]
    is_commit = " C " in sent.text
    flipped = sent.text.replace(" C ", " A ") if is_commit else sent.text.replace(" A ", " C ")
    cluster.logs[name][index] = replace(sent, text=flipped)
    cluster.forge(tmp_path)
    split = [
        (severity, partition) for code, severity, partition in alarms(tmp_path) if code == "atomicity-split-outcome"
    ]
    assert [partition for _, partition in split] == [name]
    assert version == 0 or split[0][0] == "critical"


@seeds
@versions
def test_a_marker_of_no_transaction(seed: int, version: int, tmp_path: Path) -> None:
    cluster, dice, _, _ = damaged_story(seed, version)
    name = dice.choice(list(cluster.logs))
    at = dice.randrange(len(cluster.logs[name]))
    time = cluster.logs[name][at].text.rpartition(" ")[2]
    cluster.logs[name].insert(at, Sent(f"M 1 9999 C 0 @{{offset}} ts {time}", -1, False, False))
    cluster.records.append("z Empty 99 0 t 3600000")
    cluster.forge(tmp_path)
    assert ("marker-partition-unlisted", "error", name) in alarms(tmp_path)
