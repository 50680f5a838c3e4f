"""The rounds in which records of several partitions find each other: without Spark one after the other, then on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kforensics
from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.cross_partition_duplicates import evaluate_topic_duplicates
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import Partition
from kforensics.spark.audit import segment_contents, topic_contents
from kforensics.spark.audit.cross_partition import member_of
from kforensics.spark.audit.run import SparkRequest
from kforensics.spark.audit.serialization import (
    IN_BUCKET,
    IN_PARTITION,
    SCHEMA,
    Row,
    batches_of,
    rows_of,
    to_frames,
    values,
)
from kforensics.spark.audit.splitting import AddressedValue
from kforensics.spark.audit.topic_contents import (
    HASHING,
    entries_in,
    evaluate_pairs,
    hashed_in,
    have_topics,
    members_of,
    paired_in,
    shared_in,
)
from tests.forensics.batch_notation import NOW
from tests.forensics.duplicate_logs import random_log
from tests.forensics.duplicates.topics import save_topic
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.spark.audits import AS_OF_MS, audit_here, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = Rules(NOW)
# Numbers of the plan are larger than slots can be.
FIRST = 1 << 33
SCENARIOS = ("consume-transform-produce", "partition-growth", "replication", "transactions-v2")


def _sorted(values_sent: Iterable[AddressedValue], names: tuple[str, ...]) -> Iterator[AddressedValue]:
    """Send values from one round to the next as Spark does, to one task."""
    at = [SCHEMA.names.index(name) for name in names]

    def place(row: Row) -> tuple[Any, ...]:
        return tuple(row[index] for index in at)

    rows = (row for address, value in values_sent for row in to_frames(address, value))
    return values(sorted(rows_of(batches_of(SCHEMA, rows)), key=place))


def _rounds(partitions: Sequence[Partition]) -> Iterator[PartitionResult]:
    clusters = Clusters.of(partitions)
    sent = (one for number, partition in enumerate(partitions, FIRST) for one in member_of(number, partition, 7))
    members = list(members_of(_sorted(sent, IN_PARTITION), clusters))
    hashing = [one for one in members if one[0].ordinal == HASHING]
    hashed = hashed_in(_sorted(hashing, IN_PARTITION))
    shared = list(shared_in(_sorted(hashed, IN_BUCKET)))
    again = [one for one in members if one[0].ordinal != HASHING]
    found = entries_in(_sorted([*again, *shared], IN_PARTITION), RULES)
    pairs = paired_in(_sorted(found, IN_BUCKET))
    return evaluate_pairs(_sorted(pairs, IN_PARTITION), clusters, RULES)


def _rows(results: Iterable[PartitionResult]) -> Counter[str]:
    return Counter(f"{name} {row}" for one in results for name, rows in one.rows.items() for row in rows)


def _in_process(partitions: Sequence[Partition]) -> Counter[str]:
    return _rows(evaluate_topic_duplicates(partitions, Clusters.of(partitions), RULES, workers=0))


@pytest.fixture(params=[False, True], ids=["one bucket", "many buckets"])
def _buckets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all hashes in one bucket and all pairs in one piece, or each in many."""
    if request.param:
        monkeypatch.setattr(segment_contents, "LOG_BYTES_PER_BUCKET", 64)
        monkeypatch.setattr(topic_contents, "BATCH_GROUP_BITS", 0)


@pytest.mark.usefixtures("_buckets")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rounds_find_what_the_search_in_process_finds(scenario: str) -> None:
    partitions = partitions_under(SAMPLES / scenario)
    assert _rows(_rounds(partitions)) == _in_process(partitions)


@pytest.mark.usefixtures("_buckets")
@pytest.mark.parametrize("seed", range(6))
def test_rounds_find_the_same_in_random_topics(tmp_path: Path, seed: int) -> None:
    """Two topics at once, with transactions that are open."""
    for name, numbers in (("one", (0, 1, 2)), ("two", (1, 4))):
        save_topic(tmp_path, {number: random_log(100 * seed + 10 * len(name) + number) for number in numbers}, name)
    partitions = partitions_under(tmp_path)
    expected = _in_process(partitions)
    assert expected.total() > 10
    assert _rows(_rounds(partitions)) == expected


def test_topics_with_one_partition_need_no_rounds() -> None:
    members = [
        PartitionMembership(None, "logs", 1, topic, number, None)
        for topic, number in (("one", 0), ("two", 0), ("one", 0))
    ]
    assert not have_topics(members)
    assert have_topics([*members, members[0]._replace(partition=1)])


@pytest.mark.slow
def test_an_audit_in_process_has_what_the_command_has(tmp_path: Path) -> None:
    """In this process alone and with a pool."""
    save_topic(tmp_path, {number: random_log(number) for number in range(3)})
    paths = [tmp_path, SAMPLES / "transactions-v2"]
    duplicates = kforensics.duplicates(paths, as_of=AS_OF_MS).to_pylist()
    assert any(row["first_partition"] is not None for row in duplicates)
    for processes in (None, 1, 2):
        found = kforensics.audit(paths, as_of=AS_OF_MS, records=True, processes=processes)
        assert found.tables["duplicates"].to_pylist() == duplicates
        assert "content-duplicate-cross-partition" in found.findings["code"].to_pylist()


@pytest.mark.spark
def test_an_audit_on_spark_has_what_one_in_process_has(spark: SparkSession, tmp_path: Path) -> None:
    """Topics of several partitions, on one broker and on three."""
    logs = tmp_path / "logs"
    save_topic(logs, {number: random_log(number) for number in range(3)})
    paths = [str(logs), *(str(SAMPLES / name) for name in SCENARIOS[1:3])]
    kforensics.audit(paths, output=tmp_path / "expected", as_of=AS_OF_MS, records=True)
    wanted = SparkRequest(tuple(paths), output=str(tmp_path / "store"), as_of_ms=AS_OF_MS, records=True)
    found, expected = audit_here(spark, wanted), stored(tmp_path / "expected")
    for name, rows in expected.items():
        assert found[name] == rows, name
    assert sum("'first_partition': None" not in row for row in expected["duplicates"]) > 10
