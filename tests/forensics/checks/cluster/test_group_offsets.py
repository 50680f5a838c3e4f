"""Consumer group offsets that regress, have mixed commit modes, or are beyond the end of a partition."""

from __future__ import annotations

from dataclasses import replace
from os import utime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kforensics.forensics.coordinators.partition_of import java_hashes
from kforensics.forensics.partition.lagging_replica import Lag
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import (
    SOON,
    at,
    cluster_under,
    codes_in,
    commit_record,
    forge_coordinator,
    forge_offsets,
    found_in,
    group_record,
)
from tests.forensics.coordinators.consumer_groups.test_committers import consumer
from tests.forensics.forge import Content, forge

FIRES = {
    "eos-offset-regressed": "test_a_transaction_goes_back",
    "eos-zombie-commit": "test_two_producers_alternately",
    "eos-mixed-commit-modes": "test_with_transactions_and_without",
    "eos-offset-beyond-log": "test_an_offset_beyond_the_log",
    "eos-offset-beyond-lso": "test_an_offset_beyond_the_last_stable_one",
    "eos-offsets-pending": "test_a_transaction_that_blocks_offsets",
    "group-wrong-partition": "test_a_group_in_a_partition_that_is_not_its_own",
}
SILENT = {
    "eos-offset-regressed": "test_a_reset_is_no_regression",
    "eos-zombie-commit": "test_partitions_that_come_and_go",
    "eos-mixed-commit-modes": "test_one_mode_per_offset",
    "eos-offset-beyond-log": "test_offsets_up_to_the_end",
    "eos-offset-beyond-lso": "test_offsets_up_to_the_end",
    "eos-offsets-pending": "test_a_transaction_in_flight",
    "group-wrong-partition": "test_groups_where_their_names_lead",
}
HOUR = 3_600_000


def turns(*producers: int, step: int = 10, outcome: str = "C") -> str:
    """Return a transaction of one record for each producer, ended immediately."""
    parts = []
    for number, producer in enumerate(producers):
        begin = 2 * number
        parts += [
            f"D {producer} 0 0-0 @{begin}-{begin} T {at(number * step)}",
            f"M {producer} 0 {outcome} 0 @{begin + 1} {at(number * step + 1)}",
        ]
    return "; ".join(parts)


def in_group(*offsets: int, topic_ids: tuple[str | None, ...] = ()) -> dict[int, tuple[object, ...]]:
    ids = topic_ids or (None,) * len(offsets)
    return {2 * number: ("g", "in-0", offset, ids[number]) for number, offset in enumerate(offsets)}


def test_a_transaction_goes_back(tmp_path: Path) -> None:
    forge_offsets(tmp_path, turns(1, 1), in_group(7, 5))
    ((place, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity), finding.first_offset) == ("eos-offset-regressed", "warning", 2)
    assert place.topic == "__consumer_offsets"
    assert (finding.evidence["committed"], finding.evidence["before"]) == (5, 7)
    assert finding.position is not None


def test_what_was_aborted_took_no_effect(tmp_path: Path) -> None:
    forge_offsets(tmp_path, f"{turns(1)}; D 1 0 1-1 @2-2 T; M 1 0 A 0 @3", in_group(7, 5))
    assert codes_in(cluster_under(tmp_path)) == {}


def test_a_reset_is_no_regression(tmp_path: Path) -> None:
    """An operator's commit, a removal, or another topic of the same name."""
    reset = f"{turns(1)}; plain @2-2; D 1 0 1-1 @3-3 T; M 1 0 C 0 @4"
    committed = {0: ("g", "in-0", 7), 2: ("g", "in-0", 3), 3: ("g", "in-0", 5)}
    forge_offsets(tmp_path / "reset", reset, committed)
    assert codes_in(cluster_under(tmp_path / "reset")) == {
        "eos-mixed-commit-modes": "info",  # the group has no record, so it may be of a consumer
        "group-offset-reset": "info",
    }
    forge_offsets(tmp_path / "removed", reset, committed | {2: ("g", "in-0", None)})
    assert codes_in(cluster_under(tmp_path / "removed")) == {"group-offset-reset": "info"}
    ids = ("5HUBVeBMSt2jcXgFunpQdg", "DwXmP7rrRZWFe58vI7GGmg")
    forge_offsets(tmp_path / "recreated", turns(1, 1), in_group(7, 5, topic_ids=ids))
    assert codes_in(cluster_under(tmp_path / "recreated")) == {"group-offset-reset": "info"}


@pytest.mark.parametrize(("last", "more"), [(8, set()), (5, {"eos-offset-regressed"})])
def test_two_producers_alternately(last: int, more: set[str], tmp_path: Path) -> None:
    """With a lower offset the same in a group without records, and after a change of generation."""
    cases = {"same": [group_record("g", 2), Turn(1, 5), Turn(2, 8), Turn(1, last)]}
    if more:
        cases["unknown"] = [group_record("other", 2), Turn(1, 5), Turn(2, 8), Turn(1, last)]
        cases["next"] = [
            group_record("g", 2),
            Turn(1, 5),
            Turn(2, 8),
            group_record("g", 1, generation=2),
            Turn(1, last),
        ]
    for name, steps in cases.items():
        forge_turns(tmp_path / name, *steps)
        findings = {placed.finding.code.name: placed.finding for placed in found_in(cluster_under(tmp_path / name))}
        assert findings.keys() == {"eos-zombie-commit"} | more
        finding = findings["eos-zombie-commit"]
        last_offset = 2 * len(steps) - 3 - (name == "next")
        assert (str(finding.severity), finding.first_offset, finding.producer_id) == ("error", last_offset, 1)
        assert finding.evidence["producer_id_between"] == 2


class Turn(NamedTuple):
    """A transaction of a producer that commits an offset."""

    producer: int
    committed: int


def forge_turns(folder: Path, *steps: Content | Turn) -> None:
    """Write records of groups, one batch each, and transactions of a producer that commit an offset of in-0."""
    batches, records, offset = list[str](), dict[int, list[Content]](), 0
    for number, step in enumerate(steps):
        if isinstance(step, Turn):
            batches += [f"D {step.producer} 0 0-0 @{offset}-{offset} T {at(number)}"]
            batches += [f"M {step.producer} 0 C 0 @{offset + 1}"]
            records[offset] = [commit_record("g", "in-0", step.committed)]
            offset += 2
        else:
            batches.append(f"plain @{offset}-{offset} {at(number)}")
            records[offset] = [step]
            offset += 1
    forge(folder, "; ".join(batches), topic=CONSUMER_OFFSETS, records=records)


MOVES: dict[str, tuple[list[Content | Turn], dict[str, str]]] = {
    "generation": (
        [
            group_record("g", 1),
            Turn(1, 5),
            group_record("g", 2, generation=2),
            Turn(2, 5),
            group_record("g", 1, generation=3),
            Turn(1, 5),
        ],
        {},
    ),
    "assignment": (
        [
            *consumer("a", 0),
            *consumer("b"),
            Turn(1, 5),
            *consumer("a"),
            *consumer("b", 0),
            Turn(2, 5),
            Turn(2, 5),
            *consumer("b"),
            *consumer("a", 0),
            Turn(1, 5),
        ],
        {},
    ),
    "other group": ([group_record("g", 1), Turn(1, 5), Turn(2, 5), group_record("h", 1), Turn(1, 5)], {"g": "error"}),
    "before": ([Turn(1, 5), Turn(2, 5), Turn(2, 5), Turn(1, 5), group_record("g", 1, generation=2)], {"g": "info"}),
    "same record": ([group_record("g", 1), Turn(1, 5), Turn(2, 5), group_record("g", 1), Turn(1, 5)], {"g": "error"}),
    "once": (
        [group_record("g", 1), Turn(1, 5), Turn(2, 5), group_record("g", 1, generation=2), Turn(1, 5), Turn(2, 5)],
        {"g": "error"},
    ),
    "no record": ([Turn(1, 5), Turn(2, 5), Turn(1, 5)], {"g": "info"}),
    "no member": ([group_record("g", 0), Turn(1, 5), Turn(2, 5), Turn(1, 5)], {"g": "info"}),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_partition_without_new_records_moves_to_another_member_and_back(case: str, tmp_path: Path) -> None:
    """Each commits its position, the same; with no generation or assignment between, two members had it at once."""
    steps, severities = MOVES[case]
    forge_turns(tmp_path, *steps)
    found = [finding for _, finding in found_in(cluster_under(tmp_path)) if finding.code.name == "eos-zombie-commit"]
    assert {finding.evidence["group"]: str(finding.severity) for finding in found} == severities
    assert all(("possible" in finding.benign[0]) == (str(finding.severity) == "info") for finding in found)


def test_the_record_that_shows_a_move_may_be_in_a_damaged_part_of_the_log(tmp_path: Path) -> None:
    forge_turns(tmp_path, group_record("g", 1), Turn(1, 5), Turn(2, 5), Turn(1, 5))
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster) == {"eos-zombie-commit": "error"}
    damaged = tuple(replace(commits, is_whole=False) for commits in cluster.commits)
    assert codes_in(replace(cluster, commits=damaged)) == {"eos-zombie-commit": "info"}


# Logs with a commit whose record comes before that of the offset in force at its marker, and what is committed.
OPEN = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T"
OVERTAKEN = f"{OPEN}; M 2 0 C 0 @2 {at(2)}; M 1 0 C 0 @3 {at(3)}"
LATE = {
    "reset": (
        f"D 1 0 0-0 @0-0 T; plain @1-1; M 1 0 C 0 @2 {at(2)}; D 1 0 1-1 @3-3 T; M 1 0 C 0 @4 {at(4)}",
        {0: 9, 1: 2, 3: 6},
    ),
    "overtaken": (OVERTAKEN, {0: 4, 1: 11}),
    "between": (f"{OVERTAKEN}; D 2 0 1-1 @4-4 T; M 2 0 C 0 @5 {at(5)}", {0: 9, 1: 5, 4: 7}),
}


@pytest.mark.parametrize("case", LATE)
def test_a_commit_that_never_took_effect_is_compared_with_nothing(case: str, tmp_path: Path) -> None:
    """A broker keeps the commit whose record has the higher offset, whichever marker is later."""
    log, committed = LATE[case]
    forge_offsets(tmp_path, log, {at: ("g", "in-0", offset) for at, offset in committed.items()})
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster).keys() <= {"eos-mixed-commit-modes"}
    assert not [reset for commits in cluster.commits for reset in commits.resets]


def test_the_commit_of_a_transaction_is_compared_with_the_one_in_force(tmp_path: Path) -> None:
    """Not with the one that took no effect before it: here 9, not 4."""
    log = f"{OVERTAKEN}; D 2 0 1-1 @4-4 T; M 2 0 C 0 @5 {at(5)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 4), 1: ("g", "in-0", 9), 4: ("g", "in-0", 7)})
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, finding.evidence["before"]) == ("eos-offset-regressed", 9)


def test_partitions_that_come_and_go(tmp_path: Path) -> None:
    """Rising offsets, or changes more than a quarter of an hour apart, are rebalances."""
    forge_offsets(tmp_path / "up", turns(1, 2, 1), in_group(5, 8, 9))
    assert codes_in(cluster_under(tmp_path / "up")) == {}
    forge_offsets(tmp_path / "slow", turns(1, 2, 1, step=450_001), in_group(5, 8, 8))
    assert codes_in(cluster_under(tmp_path / "slow")) == {}


@pytest.mark.parametrize("plain_first", [True, False])
def test_with_transactions_and_without(plain_first: bool, tmp_path: Path) -> None:
    """It is reported once."""
    log = f"D 1 0 0-0 @2-2 T {at(2)}; M 1 0 C 0 @3 {at(3)}; plain @4-4; plain @5-5"
    log = f"plain @0-0; plain @1-1; {log}" if plain_first else log
    committed = {offset: ("g", "in-0", offset, None, 0) for offset in (0, 1, 2, 4, 5)}
    forge_offsets(tmp_path, {0 if plain_first else 2: log}, committed, snapshots={})
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity)) == ("eos-mixed-commit-modes", "warning")
    assert finding.first_offset == (2 if plain_first else 4)


@pytest.mark.parametrize(("members", "reported"), [(0, []), (1, [1])])
def test_what_a_tool_commits_is_no_mode(members: int, reported: list[int], tmp_path: Path) -> None:
    """Tools send no leader epoch and commit while the group has no members; old consumers are members."""
    records = {0: [group_record("g", members)]}
    records |= {offset: [commit_record("g", "in-0", offset)] for offset in (1, 2, 4, 5, 7)}
    log = "plain @0-0; plain @1-1; D 1 0 0-0 @2-2 T; M 1 0 C 0 @3; plain @4-4; D 1 0 1-1 @5-5 T; M 1 0 C 0 @6"
    forge(tmp_path, f"{log}; plain @7-7", topic=CONSUMER_OFFSETS, records=records)
    findings = [placed.finding for placed in found_in(cluster_under(tmp_path))]
    assert {finding.code.name for finding in findings} <= {"eos-mixed-commit-modes"}
    assert [finding.evidence["before"] for finding in findings] == reported


def test_mixed_modes_are_reported_after_a_reset_by_a_tool(tmp_path: Path) -> None:
    records = {0: [group_record("g", 0)], 1: [commit_record("g", "in-0", 1)], 2: [commit_record("g", "in-0", 2)]}
    records |= {4: [commit_record("g", "in-0", 2)], 5: [commit_record("g", "in-0", 3, None, 0)]}
    log = f"plain @0-0; plain @1-1; D 1 0 0-0 @2-2 T {at(1)}; M 1 0 C 0 @3 {at(2)}; plain @4-4; plain @5-5"
    forge(tmp_path, log, topic=CONSUMER_OFFSETS, records=records)
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, finding.first_offset) == ("eos-mixed-commit-modes", 5)
    assert "was committed without a transaction, an earlier one with one." in finding.message


@pytest.mark.parametrize("has_group", [True, False])
def test_consumers_that_assign_partitions_themselves_have_no_group_record(has_group: bool, tmp_path: Path) -> None:
    """Nor has a group whose record is not in the log: only of one that is known to be empty a tool commits."""
    records = {0: [group_record("g" if has_group else "other", 0)], 1: [commit_record("g", "in-0", 1)]}
    records |= {3: [commit_record("g", "in-0", 2)]}
    log = f"plain @0-0; D 1 0 0-0 @1-1 T {at(1)}; M 1 0 C 0 @2 {at(2)}; plain @3-3"
    forge(tmp_path, log, topic=CONSUMER_OFFSETS, records=records)
    assert codes_in(cluster_under(tmp_path)) == ({} if has_group else {"eos-mixed-commit-modes": "info"})


def test_one_mode_per_offset(tmp_path: Path) -> None:
    forge_offsets(tmp_path, f"{turns(1)}; plain @2-2", {0: ("g", "in-0", 1), 2: ("g", "in-1", 1, None, 0)})
    assert codes_in(cluster_under(tmp_path)) == {}


def beyond(folder: Path, committed: int, as_of: int = SOON + HOUR, **options: Any) -> dict[str, str]:
    forge_offsets(folder, "plain @0-0", {0: ("g", "in-0", committed)}, **options)
    forge(folder, f"plain @0-4; D 9 0 0-4 @5-9 T {at(0)}", topic="in")
    return codes_in(cluster_under(folder, as_of_ms=as_of))


@pytest.mark.parametrize(("as_of", "severity"), [(SOON + HOUR, "error"), (SOON, "warning")])
def test_an_offset_beyond_the_log(as_of: int, severity: str, tmp_path: Path) -> None:
    """A recent commit may only not have been copied."""
    assert beyond(tmp_path, 11, as_of) == {"eos-offset-beyond-log": severity}


@pytest.mark.parametrize(("taken", "severity"), [(15 * 60_000, "info"), (15 * 60_000 + 1, "error")])
def test_an_offset_that_was_committed_after_its_partition_was_copied(taken: int, severity: str, tmp_path: Path) -> None:
    """The broker was running, and the files of the group were copied an hour later."""
    beyond(tmp_path, 11)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    for file in (tmp_path / "in-0").iterdir():
        utime(file, ns=((NOW + (0 if file.suffix == ".log" else taken)) * 1_000_000,) * 2)
    assert codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR)) == {"eos-offset-beyond-log": severity}


@pytest.mark.parametrize(("taken", "outcome"), [(0, "likely"), (5_000, "likely"), (5_001, "possible")])
def test_files_that_are_younger_than_the_commit_make_a_copy_before_it_unlikely(
    taken: int, outcome: str, tmp_path: Path
) -> None:
    """A tool may have set the offset; clocks may be five seconds apart."""
    beyond(tmp_path, 11)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    for file in (tmp_path / "in-0").iterdir():
        utime(file, ns=((NOW + taken) * 1_000_000,) * 2)
    ((_, finding),) = found_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))
    assert finding.benign[0].endswith(f": {outcome}")
    assert ("or a tool set the offset" in finding.message) is (outcome == "possible")


@pytest.mark.parametrize(("deleted_ms", "severity"), [(NOW - 5_001, "error"), (NOW + HOUR, "warning")])
def test_a_topic_that_was_deleted_after_the_commit_has_lost_nothing(
    deleted_ms: int, severity: str, tmp_path: Path
) -> None:
    """It was created again, and the group's offset outlived it."""
    beyond(tmp_path, 11)
    cluster = replace(cluster_under(tmp_path, as_of_ms=SOON + HOUR), removed_topics={"in": (deleted_ms,)})
    ((_, finding),) = found_in(cluster)
    assert str(finding.severity) == severity
    said = "the topic was deleted at 2023-11-14 23:13:20 UTC, after the commit, and created again"
    assert (said in finding.message) == (deleted_ms > NOW)


def test_a_topic_with_the_id_of_the_commit_was_not_created_again(tmp_path: Path) -> None:
    """The files of the topic are older than its deletion."""
    same = "E9cxC9pbT9qjUe_QvFTLcA"
    metadata = {"in-0/partition.metadata": f"version: 0\ntopic_id: {same}".encode()}
    forge_offsets(tmp_path, "plain @0-0", {0: ("g", "in-0", 11, same)})
    forge(tmp_path, "plain @0-9", topic="in", replaced=metadata)
    cluster = replace(cluster_under(tmp_path, as_of_ms=SOON + HOUR), removed_topics={"in": (NOW + HOUR,)})
    assert codes_in(cluster) == {"eos-offset-beyond-log": "error"}


@pytest.mark.parametrize(("lags", "severity"), [("in", "info"), (CONSUMER_OFFSETS, "info"), (None, "error")])
def test_the_leader_of_a_log_out_of_sync_may_have_what_explains_an_offset(
    lags: str | None, severity: str, tmp_path: Path
) -> None:
    """It has a later commit, or the records up to the offset."""
    beyond(tmp_path, 11)
    cluster = cluster_under(tmp_path, as_of_ms=SOON + HOUR)
    lag = Lag(NOW, left_by_shutdown=False)
    logs = {
        number: replace(log, coverage=log.coverage._replace(lag=lag, end=NOW)) if log.name[0] == lags else log
        for number, log in cluster.marker_join.by_partition.items()
    }
    commits = [replace(one, lagging_since=NOW if lags == CONSUMER_OFFSETS else None) for one in cluster.commits]
    join = replace(cluster.marker_join, by_partition=logs)
    found = found_in(replace(cluster, marker_join=join, commits=tuple(commits)))
    ((_, finding),) = ((place, one) for place, one in found if one.code.name == "eos-offset-beyond-log")
    assert str(finding.severity) == severity
    assert ("out of sync" in finding.message) == (lags is not None)


@pytest.mark.parametrize(("high_watermark", "severity"), [(1, "error"), (99, "info")])
def test_a_later_commit_may_be_where_the_log_of_the_group_was_cut_off(
    high_watermark: int, severity: str, tmp_path: Path
) -> None:
    assert beyond(tmp_path, 11, high_watermark=high_watermark) == {"eos-offset-beyond-log": severity}


@pytest.mark.parametrize("committed", [6, 10])
def test_an_offset_beyond_the_last_stable_one(committed: int, tmp_path: Path) -> None:
    assert beyond(tmp_path, committed) == {"eos-offset-beyond-lso": "info"}


def test_offsets_up_to_the_end(tmp_path: Path) -> None:
    assert beyond(tmp_path, 5) == {}


def test_a_partition_that_is_not_available_proves_nothing(tmp_path: Path) -> None:
    forge_offsets(tmp_path, "plain @0-0", {0: ("g", "elsewhere-0", 99)})
    assert codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR)) == {}


def pending(folder: Path, as_of: int) -> list[object]:
    forge_offsets(folder, f"D 1 0 0-0 @0-0 T {at(0)}; D 1 0 1-1 @1-1 T {at(1)}", in_group(5) | {1: ("h", "in-0", 1)})
    forge_coordinator(folder, "a Empty 1 0 t 0; a Ongoing 1 0 timeout 2147483647 {__consumer_offsets-0} t 0")
    findings = [
        finding
        for _, finding in found_in(cluster_under(folder, as_of_ms=as_of))
        if finding.code.name == "eos-offsets-pending"
    ]
    return [(str(finding.severity), finding.first_offset, finding.evidence["groups"]) for finding in findings]


def test_a_transaction_that_blocks_offsets(tmp_path: Path) -> None:
    assert pending(tmp_path, SOON + HOUR) == [("critical", 0, ["g", "h"])]


def test_a_transaction_in_flight(tmp_path: Path) -> None:
    assert pending(tmp_path, NOW + 1_200_000) == []


def groups_by_partition(count: int) -> dict[int, list[str]]:
    findings: dict[int, list[str]] = {}
    for number in range(100):
        (place,) = (java_hashes([f"group-{number}"]) % count).tolist()
        findings.setdefault(place, []).append(f"group-{number}")
    return {place: names[:3] for place, names in findings.items()}


def write(folder: Path, groups: dict[int, list[str]]) -> None:
    for partition, names in groups.items():
        log = "; ".join(f"plain @{offset}-{offset}" for offset in range(len(names)))
        committed = {offset: (name, "in-0", 1) for offset, name in enumerate(names)}
        forge_offsets(folder, log, committed, partition=partition)


def test_groups_where_their_names_lead(tmp_path: Path) -> None:
    write(tmp_path, groups_by_partition(3))
    assert codes_in(cluster_under(tmp_path)) == codes_in(cluster_under(tmp_path, offsets_partition_count=3)) == {}


@pytest.mark.parametrize(("reported", "exactness"), [(None, "approximate"), (3, "exact")])
def test_a_group_in_a_partition_that_is_not_its_own(reported: int | None, exactness: str, tmp_path: Path) -> None:
    groups = groups_by_partition(3)
    groups[1].append(groups[2].pop())
    write(tmp_path, groups)
    ((place, finding),) = found_in(cluster_under(tmp_path, offsets_partition_count=reported))
    assert (finding.code.name, str(finding.severity)) == ("group-wrong-partition", "critical")
    assert (place.partition, finding.first_offset, finding.evidence["wanted_partition"]) == (1, 3, 2)
    assert finding.exactness == exactness


def test_only_the_first_findings_are_reported(tmp_path: Path) -> None:
    forge_offsets(tmp_path, turns(*[1] * 1_011), in_group(*range(1_011, 0, -1)))
    findings = found_in(cluster_under(tmp_path))
    assert len(findings) == 1_000
    assert findings[-1].finding.evidence["left_out"] == 10
