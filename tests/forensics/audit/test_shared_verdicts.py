"""The verdict of a partition includes what checks across partitions found."""

from __future__ import annotations

import shutil
from collections import defaultdict
from os import utime
from pathlib import Path
from typing import Any

import pytest

from kforensics.analyses.audit import STORED
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.shared_verdicts import shared_verdicts
from kforensics.forensics.checks.keys.keys_in_two_partitions import CODES
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.parsers.log.log_rows import Place
from kforensics.render.evidence_store import StoredTables
from tests.command import SAMPLES, run
from tests.forensics.replicas.replicas import forged

AS_OF = "2026-11-21T13:00"
NO_PLACE = Place(None, None, None, None)
BY_KEY = ("key-in-two-partitions", "tombstone-wrong-partition")


def rows_in(store: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table in an evidence store."""
    rows: list[dict[str, Any]] = dict(StoredTables(str(store), [*STORED]).items())[table].to_pylist()
    return rows


def partitions_in(store: Path) -> list[dict[str, Any]]:
    """Return the rows of the partitions in an evidence store."""
    return rows_in(store, "partitions")


@pytest.mark.parametrize("processes", [1, 2])
def test_both_replicas_of_a_divergence_are_critical(tmp_path: Path, processes: int) -> None:
    """One of them has findings of its own that say less: its unclean election, and a harmless trace."""
    store = tmp_path / "store"
    options = ("--as-of", AS_OF, "--processes", processes, "--output", store)
    ended = run("audit", *options, SAMPLES / "replication")
    assert ended.lines[1].startswith("partitions by worst finding: 2 critical, ")
    critical = [row for row in partitions_in(store) if row["verdict"] == "critical"]
    assert [(row["topic"], row["broker_id"], row["findings"]) for row in critical] == [
        ("unclean", 2, 1),
        ("unclean", 3, 3),
    ]


def test_header_and_cards_count_both_replicas_of_a_divergence(tmp_path: Path) -> None:
    """The replicas have no finding of their own that says critical."""
    page, store = tmp_path / "report.html", tmp_path / "store"
    run("audit", "--as-of", AS_OF, "--output", store, SAMPLES / "replication")
    assert run("report", store, "--output", page).code == 1
    assert "partitions by worst finding: 2 critical, " in page.read_text()
    cards = run("scan", "--as-of", AS_OF, SAMPLES / "replication").lines
    assert sum("critical in the comparison with other replicas" in line for line in cards) == 2


def of_replicated(store: Path) -> list[tuple[int, str, int]]:
    rows = [row for row in partitions_in(store) if (row["topic"], row["partition"]) == ("replicated", 0)]
    return sorted((row["broker_id"], row["verdict"], row["findings"]) for row in rows)


@pytest.mark.parametrize("is_older", [True, False])
def test_a_replica_of_real_brokers_that_was_copied_first_keeps_its_verdict(tmp_path: Path, *, is_older: bool) -> None:
    """Broker 2 lacks 12 committed records: it was running and was copied first, or it has lost them.

    The metadata of the cluster, which has it out of sync some seconds later, is not at hand.
    """
    logs, store = tmp_path / "logs", tmp_path / "store"
    shutil.copytree(SAMPLES / "replication", logs, ignore=shutil.ignore_patterns("__cluster_metadata-0"))
    log_dir = logs / "broker-2"
    for file in (log_dir / "replicated-0").glob(f"{39:020}.*"):
        file.unlink()
    (log_dir / "replicated-0" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 14\n2 27\n")
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    checkpoint = log_dir / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("replicated 0 51", "replicated 0 39"))
    for folder in logs.glob("broker-*/replicated-0"):
        for file in folder.iterdir():
            utime(file, (1, 1) if is_older and folder.parent == log_dir else (2, 2))
    run("audit", "--as-of", AS_OF, "--output", store, logs)
    warned = 0 if is_older else 1
    verdict = "clean" if is_older else "warning"
    assert of_replicated(store) == [(1, verdict, warned), (2, verdict, warned), (3, "clean", 0)]


def test_replicas_that_only_lag_are_clean(tmp_path: Path) -> None:
    forged(tmp_path, ("plain @0-4", {}), ("plain @0-4; plain @5-9", {"high_watermark": 5}))
    ended = run("audit", "--as-of", "2023-11-14T22:14", tmp_path)
    assert ended.lines[0].startswith("INFO, 1 incident: 2 partitions, ")
    assert ended.lines[1] == "partitions by worst finding: 2 clean"


@pytest.mark.parametrize("processes", [1, 2])
def test_findings_on_keys_are_counted_in_their_partition(tmp_path: Path, processes: int) -> None:
    """As the rows of the findings name it; most of these partitions have no finding of their own."""
    store = tmp_path / "store"
    options = ("--records", "--as-of", "2026-11-23T00:00", "--processes", processes, "--output", store)
    ended = run("audit", *options, SAMPLES / "partition-growth")
    found: dict[tuple[str, int], list[Severity]] = defaultdict(list)
    for row in rows_in(store, "findings"):
        found[row["topic"], row["partition"]].append(Severity[row["severity"].upper()])
    verdicts = {(row["topic"], row["partition"]): (row["verdict"], row["findings"]) for row in partitions_in(store)}
    assert verdicts == {
        place: (str(max(found[place])), len(found[place])) if place in found else ("clean", 0) for place in verdicts
    }
    of_keys = {(row["topic"], row["partition"]) for row in rows_in(store, "findings") if row["code"] in BY_KEY}
    assert len(of_keys) > 1
    clean = sum(verdict == "clean" for verdict, _ in verdicts.values())
    assert f"{clean} partitions: nothing found" in ended.lines
    assert ended.lines[1].endswith(f", {clean} clean")


def test_findings_of_several_results_are_counted_together() -> None:
    code = CODES["key-in-two-partitions"]
    results = [
        PartitionResult(NO_PLACE, folder, 0, findings=(Finding(code, "m", severity),), is_counted=is_counted)
        for folder, severity, is_counted in (
            ("t-0", Severity.WARNING, False),
            ("t-0", Severity.INFO, False),
            ("t-1", Severity.ERROR, True),
            ("", Severity.ERROR, False),
        )
    ]
    assert shared_verdicts(results) == {"t-0": (Severity.WARNING, 2)}
