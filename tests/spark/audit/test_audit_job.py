"""The audit on Spark says what the audit in process says, row for row, however the work is shared."""

from __future__ import annotations

import random
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kforensics.analyses.settings import given_settings
from kforensics.forensics.core.record_types import PRODUCER, TRANSACTION
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES
from kforensics.render.evidence_store import StoredTables
from kforensics.spark.audit.run import SparkRequest
from tests.command import SAMPLES, run
from tests.forensics.batch_notation import rows_of
from tests.forensics.coordinators.leaderless import forge_skipped
from tests.forensics.coordinators.living import forge_living
from tests.forensics.coordinators.rejected import forge_rejected
from tests.forensics.duplicate_logs import Log
from tests.forensics.sample_partitions import PARTITIONS, all_batches
from tests.reference.fold import fold
from tests.spark.audits import (
    AS_OF_MS,
    Stored,
    audit_elsewhere,
    audit_here,
    audit_in_process,
    cluster_of_samples,
    dense_indexes,
    read_bytes,
    stored,
)
from tests.spark.class_archive import local_conf
from tests.spark.clusters import standalone_cluster
from tests.spark.object_store import object_store
from tests.thorough import of_each_kind, some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OF_TRANSACTIONS = ("producer_id", "first_offset", "last_offset", "marker_offset", "batches", "records", "bytes")
OF_PRODUCERS = ("producer_id", "producer_epoch", "last_sequence", "last_offset", "last_timestamp")
SOME = ("transactions-v2", "compaction", "ghosts", "duplicates")
PARTS = of_each_kind(sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden"))


@pytest.fixture(scope="module")
def of_parts(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Return what an audit of a sample of each kind in this process says."""
    paths = [str(SAMPLES / name) for name in PARTS]
    return audit_in_process(paths, tmp_path_factory.mktemp("parts") / "store")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Return what an audit of all samples in this process says."""
    return audit_in_process([str(SAMPLES)], tmp_path_factory.mktemp("everything") / "store")


def _request(store: object, *paths: object, **options: Any) -> SparkRequest:
    return SparkRequest(tuple(map(str, paths)), output=str(store), as_of_ms=AS_OF_MS, **options)


def _assert_same(found: Stored, expected: Stored, request: pytest.FixtureRequest, least: int = 100) -> None:
    for name, rows in expected.items():
        assert found[name] == rows, name
    counts = {name: sum(rows.values()) for name, rows in expected.items()}
    assert sum(counts.values()) > least
    request.node.user_properties.append(("same on Spark", counts))


def test_what_the_next_start_will_do_is_found(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Faults of the log directory, of the metadata, and at the end of a log."""
    broker = tmp_path / "broker-1"
    shutil.copytree(SAMPLES / "transactions-v2" / "broker-1", broker)
    (broker / "backup").mkdir()
    (broker / "hanging-0" / "partition.metadata").write_text("version: 0\ntopic_id: zGp8lTqfQ8uLk1Xw3xTq0A\n")
    with next((broker / "hanging-resolved-0").glob("*.log")).open("ab") as log:
        log.write(bytes(range(1, 9)))
    expected = audit_in_process([str(broker)], tmp_path / "store")
    found = audit_here(spark, _request(tmp_path / "spark", broker))
    _assert_same(found, expected, request)
    codes = ("start-refused", "start-stray", "start-torn-tail")
    said = {code for code in codes for row in expected["findings"] if code in row}
    assert said == {*codes}


@pytest.mark.parametrize(
    ("name", "critical"),
    [("replication", {("unclean", 2), ("unclean", 3)}), ("unclean-election", {("lossy", 2), ("lossy-unread", 2)})],
)
def test_the_verdict_of_a_replica_includes_what_others_show(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, name: str, critical: set[tuple[str, int]]
) -> None:
    """Replicas that diverged, and what an unclean election lost before all agreed again."""
    found = audit_here(spark, _request(tmp_path / "spark", SAMPLES / name))
    _assert_same(found, audit_in_process([str(SAMPLES / name)], tmp_path / "process"), request)
    (rows,) = (table for table in StoredTables(str(tmp_path / "spark"), ["partitions"]).values())
    worst = {(row["topic"], row["broker_id"]) for row in rows.to_pylist() if row["verdict"] == "critical"}
    assert worst == critical


def test_a_partition_in_two_log_directories_counts_twice(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    broker = shutil.copytree(SAMPLES / "log-dirs" / "broker-1", tmp_path / "broker-1")
    shutil.copytree(broker / "disk-1" / "moved-0", broker / "disk-2" / "moved-0")
    expected = audit_in_process([str(broker)], tmp_path / "process")
    _assert_same(audit_here(spark, _request(tmp_path / "spark", broker)), expected, request)
    assert sum("'topic': 'moved'" in row and "'verdict': 'clean'" not in row for row in expected["partitions"]) == 2


@pytest.mark.thorough
def test_all_samples(spark: SparkSession, tmp_path: Path, everything: Stored, request: pytest.FixtureRequest) -> None:
    _assert_same(audit_here(spark, _request(tmp_path / "store", SAMPLES)), everything, request)


@pytest.mark.parametrize(
    ("options", "folder"),
    some(
        [
            ({}, "transactions-v1"),
            ({}, "consume-transform-produce"),
            ({"split_size": 1, "whole": 0, "few": 0}, "consume-transform-produce"),
            ({}, "rolling-restart"),
            ({"split_size": 1, "whole": 0, "few": 0}, "rolling-restart"),
            ({"split_size": 1, "whole": 0, "few": 0}, "transactions-v1"),
        ],
        2,
    ),
)
def test_transactions_of_clusters_are_joined_in_parts(
    spark: SparkSession, tmp_path: Path, options: dict[str, int], folder: str, request: pytest.FixtureRequest
) -> None:
    """Whether one task reads a partition or several, with the coordinators around a selection and without."""
    found = audit_here(spark, _request(tmp_path / "spark", SAMPLES / folder, joins=3, **options))
    _assert_same(found, audit_in_process([str(SAMPLES / folder)], tmp_path / "process"), request, 20)
    assert len(list((tmp_path / "spark" / "distributed_transactions").glob("*joined-*"))) > 1


def test_markers_that_were_skipped_for_want_of_a_leader(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The metadata log shows it to all parts of the join."""
    forge_skipped(logs := tmp_path / "logs")
    found = audit_here(spark, _request(tmp_path / "spark", logs, joins=3))
    _assert_same(found, audit_in_process([str(logs)], tmp_path / "process"), request, 20)
    assert sum(count for row, count in found["findings"].items() if "'code': 'atomicity-marker-missing'" in row) == 9


def test_partitions_that_reject_a_marker(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The first marker with a higher epoch is in the same part of the join as the transaction."""
    forge_rejected(logs := tmp_path / "logs" / "broker-1")
    found = audit_here(spark, _request(tmp_path / "spark", logs, joins=3))
    _assert_same(found, audit_in_process([str(logs)], tmp_path / "process"), request, 20)
    assert any("INVALID_PRODUCER_EPOCH" in row for row in found["findings"])


def test_operators_aborts_of_living_transactions(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The transaction before is in the same part of the join."""
    forge_living(logs := tmp_path / "logs" / "broker-1", {one: 15_000 if one % 3 else 20 for one in range(1, 13)})
    found = audit_here(spark, _request(tmp_path / "spark", logs, joins=3))
    _assert_same(found, audit_in_process([str(logs)], tmp_path / "process"), request, 20)
    assert sum(count for row, count in found["findings"].items() if "'code': 'atomicity-split-outcome'" in row) == 4


@pytest.mark.exhaustive
def test_samples_in_the_smallest_splits(
    spark: SparkSession, tmp_path: Path, of_parts: Stored, request: pytest.FixtureRequest
) -> None:
    """Wherever an index allows it, in as many rounds as there can be, and as the sequential fold has it."""
    store = tmp_path / "store"
    paths = [SAMPLES / name for name in PARTS]
    _assert_same(audit_here(spark, _request(store, *paths, split_size=1, whole=0, few=0)), of_parts, request)
    counts = _compare_with_fold(store)
    assert min(counts.values()) > 100
    request.node.user_properties.append(("same on Spark", {f"{name} of the fold": n for name, n in counts.items()}))


def _compare_with_fold(store: Path) -> dict[str, int]:
    tables = StoredTables(str(store), ["transactions", "producers", "lso"])
    by_folder: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, table in tables.items():
        for row in table.to_pylist():
            folder = f"{row['log_dir']}/{row['topic']}-{row['partition']}"
            by_folder.setdefault(folder, {}).setdefault(name, []).append(row)
    counts = {"partitions": 0, "transactions": 0, "producers": 0}
    for partition in PARTITIONS:
        if partition.folder.relative_to(SAMPLES).parts[0] not in PARTS:
            continue
        found = by_folder[str(partition.folder)]
        replay = fold(all_batches(partition), partition.boundary)
        expected = rows_of(replay)
        closed_and_open = [*expected["transactions"], *expected["open_transactions"]]
        assert _picked(found.get("transactions", []), OF_TRANSACTIONS) == _named(
            TRANSACTION, closed_and_open, OF_TRANSACTIONS
        )
        assert _picked(found.get("producers", []), OF_PRODUCERS) == _named(
            PRODUCER, expected["producers"], OF_PRODUCERS
        )
        (lso,) = found["lso"]
        assert lso["last_stable_offset"] == max(replay.last_stable_offset().last_stable_offset, lso["log_start_offset"])
        counts["partitions"] += 1
        counts["transactions"] += len(closed_and_open)
        counts["producers"] += len(expected["producers"])
    return counts


def _picked(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[tuple[int, ...]]:
    return sorted(tuple(-1 if row[name] is None else row[name] for name in names) for row in rows)


def _named(dtype: Any, rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> list[tuple[int, ...]]:
    at = [dtype.names.index(name) for name in names]
    return sorted(tuple(row[index] for index in at) for row in rows)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", some(range(2)))
def test_splits_of_any_size_down_to_one_batch(
    spark: SparkSession, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    """With index entries for every batch; partitions up to some size are audited whole."""
    dice = random.Random(seed)  # noqa: S311  # dice for sizes
    for name in SOME:
        shutil.copytree(SAMPLES / name, tmp_path / "logs" / name)
    dense_indexes(tmp_path / "logs")
    size, whole = dice.choice([1, dice.randrange(1, 5_000)]), dice.choice([0, dice.randrange(10_000)])
    expected = audit_in_process([str(tmp_path / "logs")], tmp_path / "expected")
    found = audit_here(spark, _request(tmp_path / "store", tmp_path / "logs", split_size=size, whole=whole))
    _assert_same(found, expected, request)
    assert read_bytes(tmp_path / "store") == sum(log.stat().st_size for log in (tmp_path / "logs").rglob("*.log"))


@pytest.mark.parametrize("whole", some([0, 1 << 20], 2))
def test_replicas_report_the_same_duplicates(spark: SparkSession, tmp_path: Path, whole: int) -> None:
    """One replica reports its duplicates, another one what only that one still has."""
    shutil.copytree(SAMPLES / "replication", tmp_path / "logs")
    for broker, base_offset in (1, 0), (2, 39), (3, 39):
        for file in (tmp_path / "logs" / f"broker-{broker}" / "replicated-0").glob(f"{base_offset:020}.*"):
            file.unlink()
    expected = audit_in_process([str(tmp_path / "logs")], tmp_path / "expected", records=True)
    request = _request(tmp_path / "store", tmp_path / "logs", split_size=1, whole=whole, records=True)
    found = audit_here(spark, request)
    assert {name: found[name] for name in ("duplicates", "findings")} == {
        name: expected[name] for name in ("duplicates", "findings")
    }
    text = " ".join(expected["duplicates"])
    assert "'broker_id': 1," in text
    assert "'broker_id': 2," in text
    assert "'broker_id': 3," not in text


def test_what_is_usual_in_a_partition_is_counted_over_its_segments(spark: SparkSession, tmp_path: Path) -> None:
    """Each segment alone has too few repeats to show that the meter repeats its values; the retries stay retries."""
    for topic, unique, values in ("meter", 0, range(24)), ("retried", 60, [1, 2, 2, 1]):
        folder, log, cut = tmp_path / "logs" / f"{topic}-0", Log(), 0
        folder.mkdir(parents=True)
        contents = [b"unique %d" % number for number in range(unique)] + [b"%d" % (value // 2) for value in values]
        for number, content in enumerate(contents):
            cut = len(log.data) if number == 14 else cut
            log.write([(b"k", content)], timestamp=1001 + number, has_create_time=False)
        log.save(folder, [cut])
        (folder / f"{1:020}.log").rename(folder / f"{14:020}.log")
    expected = audit_in_process([str(tmp_path / "logs")], tmp_path / "expected", records=True)
    request = _request(tmp_path / "store", tmp_path / "logs", split_size=1, whole=0, records=True)
    assert audit_here(spark, request) == expected
    rows = list(expected["duplicates"].elements())
    assert sum("'topic': 'meter'" in row and "'content'" in row for row in rows) == 12
    assert sum("'topic': 'retried'" in row and "'content-retry'" in row for row in rows) == len(rows) - 12 == 2


@pytest.mark.thorough
@pytest.mark.exhaustive
def test_records_of_all_samples_in_the_smallest_splits(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Damage and duplicates are found segment by segment."""
    expected = audit_in_process([str(SAMPLES)], tmp_path / "expected", records=True)
    assert sum(expected["duplicates"].values()) > 10
    wanted = _request(tmp_path / "store", SAMPLES, split_size=1, whole=0, records=True)
    _assert_same(audit_here(spark, wanted), expected, request)


@pytest.mark.thorough
@pytest.mark.exhaustive
def test_a_cluster_of_all_samples_on_a_cluster_that_loses_an_executor(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """All brokers together, on two workers in random splits; one of them dies once something was written."""
    (tmp_path / "brokers").mkdir()
    (tmp_path / "spark").mkdir()
    paths = cluster_of_samples(tmp_path / "brokers")
    expected = audit_in_process(paths, tmp_path / "expected")
    size = random.Random(7).randrange(1, 2_000)  # noqa: S311  # a size, no secret
    wanted = _request(tmp_path / "store", *paths, split_size=size, whole=size)
    with standalone_cluster(tmp_path / "spark") as cluster:
        driver = audit_elsewhere(cluster.conf, wanted)
        until = time.monotonic() + 120
        while not list(tmp_path.glob(".store.*/*/*")) and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        cluster.kill_executor()
        output, _ = driver.communicate(timeout=300)
    assert driver.returncode == 0, output
    found = stored(tmp_path / "store")
    _assert_same(found, expected, request)
    names = [*found, CHUNK_SUMMARIES.name, "manifest.json"]
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == sorted(names)


@pytest.mark.exhaustive
@pytest.mark.parametrize("on_cluster", some([False, True], 2))
def test_a_bucket_is_audited_into_a_bucket(tmp_path: Path, *, on_cluster: bool) -> None:
    """The credentials are in the environment of driver and workers, and nowhere in the store."""
    (tmp_path / "s3").mkdir()
    (tmp_path / "spark").mkdir()
    with object_store(tmp_path / "s3") as bucket, ExitStack() as cluster:
        uri = bucket.put(SAMPLES / "transactions-v2", "logs")
        local = bucket.folder / uri.removeprefix("s3://")
        expected = audit_in_process([str(local)], tmp_path / "expected")
        wanted = _request("s3://logs/evidence", uri, whole=0, split_size=1)
        conf = local_conf()
        if on_cluster:
            running = standalone_cluster(tmp_path / "spark", environment=bucket.environment)
            conf = cluster.enter_context(running).conf
        output, _ = (driver := audit_elsewhere(conf, wanted, bucket.environment)).communicate(timeout=300)
        cluster.close()
        assert driver.returncode == 0, output
        store = bucket.folder / "logs" / "evidence"
        found = stored(store)
        manifest = (store / "manifest.json").read_text("utf-8")
    as_local = {
        name: {row.replace(uri, str(local)): count for row, count in rows.items()}
        for name, rows in found.items()
        if name != "files"  # the server's times of modification are its own
    }
    assert as_local == {name: dict(rows) for name, rows in expected.items() if name != "files"}
    assert sum(found["files"].values()) == sum(expected["files"].values())
    assert not any(secret in manifest for secret in bucket.environment.values() if len(secret) > 10)


@pytest.mark.parametrize("path", ["", "broker-1/gap-0"])
def test_settings_are_those_of_the_audit_in_process(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, path: str
) -> None:
    """Given ones, those of the metadata log, and what snapshots prove, among the paths or around them."""
    sample, words = SAMPLES / "producer-expiry" / path, ["--set", "transaction.max.timeout.ms=3600000"]
    ended = run("audit", sample, "--as-of", AS_OF_MS, "--output", tmp_path / "here", "--fail-on", "never", *words)
    assert ended.code == 0, ended.err
    job = _request(tmp_path / "spark", sample, settings=given_settings(words[1:], None))
    _assert_same(audit_here(spark, job), stored(tmp_path / "here"), request, least=30)


@pytest.mark.parametrize(
    "selected",
    some(
        [
            ("transactions-v0", ("open", "hanging")),
            ("transactions-v0/broker-1/hanging-0", ()),
            ("transactions-v0/broker-1/hanging-0/00000000000000000000.log", ()),
            ("groups", ("__consumer_offsets",)),
            ("unclean-election", ("lossy",)),
            ("replication", ("unclean",)),
            ("unclean-election/broker-3/lossy-0", ()),
            ("replication/broker-3", ()),
            ("consume-transform-produce/broker-2", ()),
            ("producer-expiry", ("gap",)),
            ("remote-retention", ("kept",)),
        ],
        4,
    ),
)
@pytest.mark.parametrize("alone", [False, True])
def test_what_is_around_a_selection_counts_as_in_process(
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    selected: tuple[str, tuple[str, ...]],
    *,
    alone: bool,
) -> None:
    """The logs of coordinators and of the cluster's metadata, of other topics or around a path; without, if alone."""
    path, topics = selected
    sample, words = SAMPLES / path, [f"--topic={topic}" for topic in topics] + ["--alone"] * alone
    ended = run("audit", sample, "--as-of", AS_OF_MS, "--output", tmp_path / "here", "--fail-on", "never", *words)
    assert ended.code == 0, ended.err
    job = _request(tmp_path / "spark", sample, topics=topics, alone=alone)
    _assert_same(audit_here(spark, job), stored(tmp_path / "here"), request, least=10)


def test_remote_storage_is_known_as_in_process(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Without checkpoints of the log start offsets, the metadata of remote storage shows them to all tasks."""
    sample = Path(shutil.copytree(SAMPLES / "remote-retention", tmp_path / "sample"))
    for name in ("log-start-offset-checkpoint", *(f"{topic}-0/leader-epoch-checkpoint" for topic in ("kept", "cut"))):
        (sample / "broker-1" / name).unlink()
    ended = run("audit", sample, "--as-of", AS_OF_MS, "--output", tmp_path / "here", "--fail-on", "never")
    assert ended.code == 0, ended.err
    known = stored(tmp_path / "here")["lso"]
    assert any("'topic': 'kept'" in row and "'log_start_offset': 0," in row for row in known)
    _assert_same(audit_here(spark, _request(tmp_path / "spark", sample)), stored(tmp_path / "here"), request)


def test_a_metadata_log_is_enough_for_checks_of_the_cluster(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The losses of unclean elections are found without the logs of coordinators."""
    sample = Path(shutil.copytree(SAMPLES / "unclean-election", tmp_path / "sample"))
    for partition in sample.glob("broker-*/__consumer_offsets-*"):
        shutil.rmtree(partition)
    ended = run("audit", sample, "--as-of", AS_OF_MS, "--output", tmp_path / "here", "--fail-on", "never")
    assert ended.code == 0, ended.err
    assert any("unclean-election-loss" in row for row in stored(tmp_path / "here")["findings"])
    _assert_same(audit_here(spark, _request(tmp_path / "spark", sample)), stored(tmp_path / "here"), request)
