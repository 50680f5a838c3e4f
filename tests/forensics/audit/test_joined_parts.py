"""The transactions of a cluster, joined in several parts: everything is as if they had been joined at once."""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from benchmarks.joined_part import input_logs, input_rows
from kforensics.forensics.audit.audit_scope import AuditScope, evaluate_partition
from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.deferred_verdicts import (
    ClusterInput,
    in_parts,
    resolve_deferred,
    without_parts,
)
from kforensics.forensics.audit.joined_parts import JoinedPart, join_part
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.producer_parts import CHUNK, ProducerRows, ProducersOf, producer_part
from kforensics.forensics.audit.setting_evidence import rules_by_evidence, setting_evidence
from kforensics.forensics.core.rules import Rules
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON, at, forge_coordinator
from tests.forensics.coordinators.leaderless import forge_skipped
from tests.forensics.coordinators.living import forge_living
from tests.forensics.coordinators.random_clusters import story
from tests.forensics.coordinators.rejected import forge_rejected
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.thorough import some

SCENARIOS = sorted({path.parent.name for path in SAMPLES.glob("*/broker-*")})


def inputs_of(folder: Path, rules: Rules) -> dict[str, list[ClusterInput]]:
    """Return the inputs of the partitions under a folder, by cluster."""
    partitions = partitions_under(folder)
    scope = AuditScope(rules, clusters=Clusters.of(partitions))
    clusters: dict[str, list[ClusterInput]] = {}
    for partition in partitions:
        found = evaluate_partition(partition, scope, workers=0).cluster_input
        if found:
            clusters.setdefault(found.cluster, []).append(found)
    return clusters


def sent(inputs: Iterable[ClusterInput], parts: int) -> Iterator[list[ProducersOf | ProducerRows]]:
    """Yield what arrives at each part, as other processes get it."""
    arriving: list[list[ProducersOf | ProducerRows]] = [[] for _ in range(parts)]
    for one in inputs:
        for part, value in in_parts(one, parts):
            arriving[part].append(pickle.loads(pickle.dumps(value)))  # noqa: S301  # made here
    yield from arriving


def resolved_in_parts(inputs: list[ClusterInput], rules: Rules, parts: int) -> tuple[Counter[str], int]:
    """Return all rows of a cluster that is joined in parts, and how many transactions its evaluation had."""
    of_cluster, uncertain, contents = list[JoinedPart](), list[JoinedPart](), Counter[str]()
    for arriving in sent(inputs, parts):
        logs = [one for one in arriving if isinstance(one, ProducersOf)]
        rows = [one for one in arriving if isinstance(one, ProducerRows)]
        for part in join_part(logs, rows, rules):
            if part.rows is not None:
                contents.update(repr((part.rows.table.name, row)) for row in part.rows)
            (uncertain if part.totals is None else of_cluster).append(replace(part, rows=None))
    remaining = [without_parts(one) for one in inputs]
    contents += contents_of(resolve_deferred(remaining, rules, [*of_cluster, *uncertain]))
    return contents, sum(len(part.transactions) for part in of_cluster)


def contents_of(results: Iterable[PartitionResult]) -> Counter[str]:
    """Return all rows of results."""
    return Counter(repr((rows.table.name, row)) for result in results for rows in result.rows.values() for row in rows)


def known_rules(folder: Path, as_of_ms: int) -> Rules:
    """Return the limits that the files under a folder show, and which replicas are out of sync."""
    partitions = partitions_under(folder)
    evidence = [one for partition in partitions if (one := setting_evidence(partition, as_of_ms))]
    members = map(PartitionMembership.of, partitions)
    return rules_by_evidence(Rules(as_of_ms), (), evidence, members, Clusters.of(partitions))


@pytest.mark.parametrize("scenario", some(SCENARIOS, 2))
def test_real_clusters_in_any_number_of_parts(scenario: str) -> None:
    rules = known_rules(SAMPLES / scenario, 1_795_264_200_000)
    for inputs in inputs_of(SAMPLES / scenario, rules).values():
        expected = contents_of(resolve_deferred(inputs, rules))
        for parts in (1, 3, 40):
            assert resolved_in_parts(inputs, rules, parts)[0] == expected


@pytest.mark.parametrize("seed", range(12))
def test_random_clusters_that_lost_markers(seed: int, tmp_path: Path) -> None:
    dice = Random(seed)  # noqa: S311  # reproducible
    cluster = story(dice, version=2 * (seed % 2), length=60, sent_twice=0.1)
    for name, index in sorted(dice.sample(cluster.markers(), 3), reverse=True):
        del cluster.logs[name][index]
    cluster.forge(tmp_path)
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    assert resolved_in_parts(inputs, rules, 5)[0] == expected


@pytest.mark.parametrize("outcome", ["Commit", "Abort"])
def test_data_that_a_later_commit_absorbed_on_two_replicas(tmp_path: Path, outcome: str) -> None:
    """Whether it was to be committed follows from a transaction that has no marker in the partition."""
    first = (
        f"a Ongoing 7 0 tv 2 {{t-0}} t 10; a Prepare{outcome} 7 1 tv 2 {{t-0}} t 20; a Complete{outcome} 7 1 tv 2 t 30"
    )
    later = "a Ongoing 7 1 tv 2 {t-0} t 40; a PrepareCommit 7 2 tv 2 {t-0} t 50; a CompleteCommit 7 2 tv 2 t 60"
    log = f"D 7 0 0-0 @0-0 T {at(11)}; D 7 1 0-0 @1-1 T {at(41)}; M 7 2 C 0 @2 {at(51)}; M 8 0 C 0 @3 {at(50_000)}"
    forge_coordinator(tmp_path / "broker-1", f"a Empty 7 0 tv 2 t 1; {first}; {later}")
    for broker in (1, 2):
        forge(tmp_path / f"broker-{broker}", log, node_id=broker)
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    absorbed = [row for row in expected if "txn-foreign-data-absorbed" in row]
    assert len(absorbed) == (1 if outcome == "Commit" else 2)
    for parts in (1, 5):
        assert resolved_in_parts(inputs, rules, parts)[0] == expected


def test_partitions_whose_best_replica_is_not_the_first_one(tmp_path: Path) -> None:
    """Seen on 4.0.0 with three brokers: findings were on other partitions, or their segments did not exist."""
    decided = "a Ongoing 7 0 {t-0,u-0} t 10; a PrepareCommit 7 0 {t-0,u-0} t 20; a CompleteCommit 7 0 t 30"
    forge_coordinator(tmp_path / "broker-1", f"a Empty 7 0 t 1; {decided}", node_id=1)
    log = f"D 7 0 0-0 @0-0 T {at(11)}; M 7 0 {{}} 0 @1 {at(25)}"
    forge(tmp_path / "broker-1", f"D 7 0 0-0 @0-0 T {at(11)}", topic="t", node_id=1)
    forge(tmp_path / "broker-2", {0: f"{log.format('A')}; plain @2-2", 3: "plain @3-3"}, topic="t", node_id=2)
    forge(tmp_path / "broker-1", log.format("C"), topic="u", node_id=1)
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    assert [row for row in expected if "'t', 0, 'atomicity-split-outcome'" in row]
    for parts in (1, 5):
        assert resolved_in_parts(inputs, rules, parts)[0] == expected


def test_a_replica_of_a_deleted_topic_without_id_dates_nothing_in_any_part(tmp_path: Path) -> None:
    decided = "a Ongoing 7 0 {t-0} t 10; a PrepareCommit 7 0 {t-0} t 20; a CompleteCommit 7 0 t 30"
    forge_coordinator(tmp_path / "broker-1", f"a Empty 7 0 t 1; {decided}", node_id=1)
    new, old = f"plain @0-1 {at(8_000)}; M 9 0 C 0 @2 {at(9_000)}", f"plain @0-1 {at(-8_000)}"
    rules, found = Rules(SOON), []
    for log in (old, new):
        forge(tmp_path / "broker-1", new, node_id=1)
        forge(tmp_path / "broker-2", log, node_id=2)
        if log == new:
            patch(file_of(tmp_path / "broker-2" / "t-0"), 0, base_timestamp=NOW, max_timestamp=NOW)
        for file in tmp_path.glob("*/t-0/partition.metadata"):
            file.unlink()
        (inputs,) = inputs_of(tmp_path, rules).values()
        expected = contents_of(resolve_deferred(inputs, rules))
        found.append(any("'atomicity-marker-missing'" in row for row in expected))
        for parts in (1, 5):
            assert resolved_in_parts(inputs, rules, parts)[0] == expected
    assert found == [False, True]


def test_partitions_that_reject_a_marker(tmp_path: Path) -> None:
    """Their markers with a higher epoch are of transactions that the coordinator no longer knows."""
    forge_rejected(tmp_path)
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    assert [row for row in expected if "txnlog-prepare-stuck" in row and '"rejected_by": ["t-0", "u-0"]' in row]
    for parts in (1, 5):
        assert resolved_in_parts(inputs, rules, parts)[0] == expected


def test_operators_aborts_of_living_transactions(tmp_path: Path) -> None:
    """Whether the data is of the transaction before depends on when that was decided."""
    forge_living(tmp_path, {producer: 15_000 if producer % 3 else 20 for producer in range(1, 13)})
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    assert sum("'atomicity-split-outcome', 'critical'" in row for row in expected) == 4
    for parts in (1, 5):
        assert resolved_in_parts(inputs, rules, parts)[0] == expected


def test_the_marker_of_another_producer_shows_since_when_a_transaction_hangs(tmp_path: Path) -> None:
    """That marker is in order, and in another part than the transaction."""
    other = "b Ongoing 8 0 {t-0} t 29980; b PrepareCommit 8 0 {t-0} t 29990; b CompleteCommit 8 0 t 30010"
    kept = f"b Empty 8 0 t 20000; {other}; a Empty 7 2 t 40000; b Empty 8 1 t 60000"
    forge_coordinator(tmp_path, {0: "c Empty 9 0 t 1", 20: kept}, clean_shutdown=False, first_dirty=20)
    log = f"D 8 0 0-0 @0-0 T {at(29_985)}; M 8 0 C 0 @1 {at(30_000)}; D 7 0 1-1 @2-2 T {at(31_000)}"
    forge(tmp_path, f"{log}; M 9 0 C 0 @3 {at(32_000)}", clean_shutdown=False)
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    assert [row for row in expected if "'txn-hanging'" in row and "'exact'" in row]
    for parts in (1, 5):
        assert resolved_in_parts(inputs, rules, parts)[0] == expected


@pytest.mark.parametrize(
    ("lost", "epochs"), [(50_000, {0: 0}), (57_000, {0: 0, 8: 2})], ids=["before the decision", "copied later"]
)
def test_markers_that_were_skipped_for_want_of_a_leader(lost: int, epochs: dict[int, int], tmp_path: Path) -> None:
    """Whether a marker can be in a copy follows from the metadata log, which no part has."""
    forge_skipped(tmp_path, lost=lost, epochs=epochs)
    rules = known_rules(tmp_path, SOON + 86_400_000)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    missing = [row for row in expected if "'p', 1, 'atomicity-marker-missing', 'critical'" in row]
    assert (len(missing), any("The outcome of 3 transactions in p-1 is unknown" in row for row in expected)) == (
        9,
        True,
    )
    for parts in (1, 3, 5):
        assert resolved_in_parts(inputs, rules, parts)[0] == expected


def test_contradicting_markers_are_those_of_two_transactions_in_order(tmp_path: Path) -> None:
    """The finding has the offset of the second marker; the first one and its transaction are consulted too.

    A third transaction lacks its marker, so which marker is of which transaction is likely, not certain.
    """
    first = "a Ongoing 7 0 {t-0} t 10; a PrepareCommit 7 0 {t-0} t 20; a CompleteCommit 7 0 t 30"
    second = "a Ongoing 7 0 {t-0} t 40; a PrepareAbort 7 0 {t-0} t 1000; a CompleteAbort 7 0 t 1100"
    third = "a Ongoing 7 0 {t-0} t 2000; a PrepareCommit 7 0 {t-0} t 2010; a CompleteCommit 7 0 t 2020"
    forge_coordinator(tmp_path, f"a Empty 7 0 t 1; {first}; {second}; {third}", leader_epochs={0: 3, 5: 4})
    forge(tmp_path, f"D 7 0 0-0 @0-0 T {at(11)}; M 7 0 C 3 @1 {at(25)}; M 7 0 A 4 @2 {at(1050)}")
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    expected = contents_of(resolve_deferred(inputs, rules))
    assert not [row for row in expected if "'marker-conflict'" in row]
    assert [row for row in expected if "'marker-empty'" in row]
    for parts in (1, 5):
        assert resolved_in_parts(inputs, rules, parts)[0] == expected


def test_transactions_in_order_are_not_sent_on(tmp_path: Path) -> None:
    """Of a healthy cluster only those remain that a number of transactions refers to."""
    story(Random(1), version=2, length=400).forge(tmp_path)  # noqa: S311  # reproducible
    rules = Rules(SOON)
    (inputs,) = inputs_of(tmp_path, rules).values()
    total = sum(len(one.history.transactions) for one in inputs if one.history)
    contents, remaining = resolved_in_parts(inputs, rules, 4)
    assert contents == contents_of(resolve_deferred(inputs, rules))
    assert (total > 100, remaining < total / 5) == (True, True)


def test_consecutive_producer_ids_are_spread_over_all_parts() -> None:
    counts = np.bincount(producer_part(np.arange(4000, 8000), 16), minlength=16)
    assert counts.min() > 200


def test_the_join_of_one_producer_takes_little_memory() -> None:
    """Before version 2 it may have any number of transactions; unpacked, they took twice as much."""
    peaks = [_peak_of_join(count) for count in (150_000, 300_000)]
    assert (peaks[1] - peaks[0]) / 150_000 < 170


def _peak_of_join(count: int) -> int:
    tracemalloc.start()
    for part in join_part(input_logs(count, 1), input_rows(count, 1), Rules(SOON)):
        for batch in part.rows.record_batches() if part.rows else ():
            assert len(batch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_no_value_is_larger_than_others_if_one_producer_has_all_rows() -> None:
    count = 200_000
    rows = np.concatenate([value.rows for value in input_rows(count, 1) if len(value.numbers)])
    sent = [value for _, value in ProducerRows.of((False, "a", "", 0, "a"), rows, 40, is_numbered=True)]
    assert max(len(value.rows) for value in sent) <= CHUNK
    assert np.concatenate([value.numbers for value in sent]).tolist() == list(range(count))
