"""``audit``, ``scan`` and ``verify``: reports, stores, process pools and failures."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import kforensics
from kforensics.analyses.audit import AUDITED, POOL_PARTITIONS, AuditRequest, Stages, audit_size, run_audit
from kforensics.analyses.partitions import Investigation
from kforensics.analyses.pool import partition_results
from kforensics.analyses.settings import rules_for
from kforensics.forensics.audit.audit_scope import AuditScope
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.forensics.partition.splits import splits_of
from kforensics.parsers.files.discover import FoundFile, discover
from tests.command import SAMPLES, run, sentence
from tests.forensics.forge import forge, patch

AS_OF = "2026-11-21T12:30"
AS_OF_MS = 1_795_264_200_000
CLUSTER = (SAMPLES / "transactions-v2", SAMPLES / "compaction", SAMPLES / "deletion")
STORED = {"files", "damage", *AUDITED}


def _tables(folder: Path) -> dict[str, pa.Table]:
    return {name: ds.dataset(folder / name).to_table() for name in STORED}


def _incident_parts(lines: list[str]) -> list[list[str]]:
    """Return the lines of each incident of a report: the parts between empty lines that begin with a severity."""
    parts = [list(part) for is_empty, part in groupby(lines, key=lambda line: not line) if not is_empty]
    return [part for part in parts[1:] if part[0].split()[0] in ("CRITICAL", "ERROR", "WARNING", "INFO")]


def _height(lines: list[str], width: int = 100) -> int:
    """Return how many lines of a terminal some lines take: it breaks those that are longer itself."""
    return sum(max(1, -(-len(line) // width)) for line in lines)


@pytest.mark.parametrize("sample", ["consume-transform-produce", "damaged", "duplicates", "unclean-election"])
def test_an_incident_takes_at_most_eight_lines_of_a_terminal(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long commands take two lines each; then the sentence repeats neither the time nor who is involved."""
    monkeypatch.setenv("COLUMNS", "100")
    lines = run("audit", "--quiet", "--all", "--as-of", AS_OF, SAMPLES / sample).lines
    incidents = _incident_parts(lines)
    assert incidents
    assert [part for part in incidents if _height(part) > 8] == []
    stuck = [part for part in incidents if " stuck-transaction " in part[0]]
    assert all("producer " in " ".join(part[1:]) for part in stuck)
    assert all("  do      $ " in "\n".join(part) for part in stuck)


def test_an_incident_fits_with_commands_of_many_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out has an ellipsis, and the command that shows it is below."""
    monkeypatch.setenv("COLUMNS", "100")
    folder = tmp_path / "/".join(["long" * 30] * 5)
    forge(folder, "D 1 0 0-4 @0-4", log_append_time=True)
    patch(next(folder.rglob("*.log")), 0, crc=1)
    lines = run("audit", "--quiet", "--as-of", AS_OF, folder).lines
    incidents = _incident_parts(lines)
    assert max(map(_height, incidents)) <= 8
    assert any(line == "  check   …" for part in incidents for line in part)
    assert any(line.startswith("  $ kforensics audit --verbose ") for line in lines)


def test_a_report_has_the_incidents_worst_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ended = run("audit", "--as-of", AS_OF, SAMPLES / "transactions-v2")
    assert ended.code == 1
    assert ended.lines[0].startswith("CRITICAL, 4 incidents: 18 partitions, ")
    assert "evaluated as of 2026-11-21 12:30:00 UTC" in ended.lines[0]
    incidents = _incident_parts(ended.lines)
    ranks = [["CRITICAL", "ERROR", "WARNING", "INFO"].index(part[0].split()[0]) for part in incidents]
    assert len(ranks) == 4
    assert ranks == sorted(ranks)
    assert max(map(_height, incidents)) <= 8
    hanging = next(part for part in incidents if "'hanging'" in part[1])
    assert "producer 12, epoch 1" in " ".join(hanging)
    assert any(line.startswith("  check   $ kafka-transactions.sh ") for line in hanging)
    assert any(line.startswith("  do      $ ") and line.endswith("--start-offset 3") for line in hanging)
    assert ended.lines[-1] == "14 partitions: nothing found"


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("options", [(), ("--verbose",)])
def test_lines_fit_and_commands_stay_whole(
    width: int, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ended = run("audit", "--as-of", AS_OF, *options, SAMPLES / "transactions-v2", SAMPLES / "unclean-election")
    long = [line for line in ended.lines[2:] if len(line) > width]
    assert all("$ " in line or "`" in line or " " not in line.strip() for line in long)
    commands = [
        line.partition("$ ")[2] for line in ended.lines if "  $ " in line or line.startswith(("  check", "  do"))
    ]
    assert commands
    rest = (
        f"  $ kforensics audit --verbose --as-of {AS_OF} {SAMPLES / 'transactions-v2'} {SAMPLES / 'unclean-election'}"
    )
    assert (rest in ended.lines) == any(line.endswith("…") for line in ended.lines)


def test_verbose_has_the_findings_of_each_incident_and_all_the_partitions_without_any() -> None:
    plain = run("audit", "--as-of", AS_OF, SAMPLES / "transactions-v2")
    ended = run("audit", "--as-of", AS_OF, "-v", "--all", SAMPLES / "transactions-v2")
    findings = kforensics.audit(SAMPLES / "transactions-v2", as_of=AS_OF_MS).findings.to_pylist()
    assert sum(line.startswith("  - ") for line in ended.lines) == len(findings)
    assert not any(line.startswith("  - ") for line in plain.lines)
    at = ended.lines.index("14 partitions: nothing found:")
    assert len(ended.lines[at + 1 :]) == 14
    assert "  committed-0 on broker 1" in ended.lines[at + 1 :]


@pytest.mark.parametrize(
    ("options", "code", "first", "last"),
    [
        (
            "--code atomicity-split-outcome",
            0,
            "NOTHING WITH --code atomicity-split-outcome: 18 partitions",
            "18 partitions: no finding with --code atomicity-split-outcome",
        ),
        # The transaction whose finding is selected hangs, which is worse than this finding.
        (
            "--code txn-late",
            1,
            "CRITICAL, 3 incidents with --code txn-late",
            "16 partitions: no finding with --code txn-late",
        ),
        (
            "--severity critical",
            1,
            "CRITICAL, 2 incidents with --severity critical",
            "16 partitions: no finding with --severity critical",
        ),
    ],
)
def test_a_selection_of_findings_is_never_taken_for_all(options: str, code: int, first: str, last: str) -> None:
    ended = run("audit", "--quiet", "--as-of", AS_OF, *options.split(), SAMPLES / "transactions-v2")
    assert (ended.code, ended.lines[0].partition(": 18")[0], ended.lines[-1]) == (
        code,
        first.partition(": 18")[0],
        last,
    )
    assert "CLEAN" not in ended.out.decode().upper()


def test_a_healthy_broker_is_clean(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5")
    ended = run("audit", "--quiet", "--as-of", "2023-11-14T22:14", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0].startswith("CLEAN: 1 partition, ")
    assert ended.lines[2:] == ["", "1 partition: nothing found"]


def test_a_store_has_every_table_and_a_manifest(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ended = run("audit", "--as-of", AS_OF, "--checksums", "--output", store, *CLUSTER)
    assert ended.code == 1
    assert f"the evidence of 40 partitions is in {store}" in ended.err
    tables = _tables(store)
    manifest = json.loads((store / "manifest.json").read_text("utf-8"))
    summaries = manifest["rows"].pop("chunk_summaries")
    assert summaries == ds.dataset(store / "chunk_summaries").count_rows() > 0
    assert {name: table.num_rows for name, table in tables.items()} == manifest["rows"]
    assert manifest["as_of_ms"] == AS_OF_MS
    assert {row["path"] for row in manifest["inputs"]} == set(tables["files"]["path"].to_pylist())
    assert all(len(row["sha256"]) == 64 for row in manifest["inputs"])
    assert manifest["seconds"].keys() == {"examine", "write", "checksums"}
    assert not list(tmp_path.glob(".*"))
    from_python = kforensics.audit(CLUSTER, as_of=AS_OF_MS)
    python_with_store = kforensics.audit(CLUSTER, output=tmp_path / "python", as_of=AS_OF_MS)
    assert from_python.tables.keys() == python_with_store.tables.keys()
    for name, table in from_python.tables.items():
        assert table.to_pylist() == tables[name].to_pylist(), name
        assert table == python_with_store.tables[name], name
    assert from_python.findings.num_rows > 0
    assert from_python.partitions.num_rows == 40


@pytest.fixture(scope="module")
def tables_of_cluster() -> Mapping[str, pa.Table]:
    """Return the tables of an audit of the cluster."""
    return kforensics.audit(CLUSTER, as_of=AS_OF_MS).tables


@pytest.mark.parametrize("processes", [None, 1, 2])
@pytest.mark.parametrize("split_size", [200, 1 << 30])
def test_processes_and_splits_change_nothing(
    processes: int | None, split_size: int, tables_of_cluster: Mapping[str, pa.Table]
) -> None:
    files = [row for row in discover(map(str, CLUSTER)) if isinstance(row, FoundFile)]
    partitions = partitions_of(files)
    rules = rules_for(Rules(AS_OF_MS), (), partitions)
    investigation, done = Investigation(tuple(files), tuple(partitions), rules), list[int]()
    request = AuditRequest(None, processes, copies=True, split_size=split_size)
    found = list(run_audit(investigation, request, done.append, Stages()))
    counted = [one.folder for one in found if one.is_counted]
    assert sorted(counted) == sorted(partition.folder for partition in partitions)
    assert sum(done) == audit_size(investigation, request)
    for name, table in tables_of_cluster.items():
        rows = [list(row) for one in found if name in one.rows for row in one.rows[name]]
        assert rows == [list(row.values()) for row in table.to_pylist()], name


@pytest.mark.slow
def test_very_many_partitions_are_shared_between_processes(tmp_path: Path) -> None:
    made = forge(tmp_path / "logs", "plain @0", topic="many")
    for number in range(1, POOL_PARTITIONS):
        shutil.copytree(made, tmp_path / "logs" / f"many-{number}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    audited = kforensics.audit(tmp_path / "logs").tables["partitions"]
    assert audited.num_rows == POOL_PARTITIONS
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > before


@pytest.mark.slow
def test_a_large_partition_is_shared_between_processes() -> None:
    """The result of a partition that is split at index entries is the same, including its indexes and snapshots."""
    folder = SAMPLES / "transactions-v2" / "broker-1" / "segments-0"
    (partition,) = partitions_of(row for row in discover([str(folder)]) if isinstance(row, FoundFile))
    assert len(splits_of(partition, 200)) > len(partition.segments)
    scope, done = AuditScope(Rules(AS_OF_MS)), list[int]()
    (whole,) = partition_results([partition], scope, done.append)
    (split,) = partition_results([partition], scope, done.append, processes=2, split_size=200)
    assert done == [partition.size, *done[1:]]
    assert sum(done[1:]) == partition.size
    for name, rows in whole.rows.items():
        assert [*rows] == [*split.rows[name]], name


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mine").touch()
    says = sentence(run("audit", "--quiet", "--output", tmp_path / "store", CLUSTER[0]))
    assert f"{tmp_path / 'store'} exists already" in says
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["mine"]


def test_a_store_among_the_evidence_is_refused(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T")
    assert "would be among the evidence" in sentence(run("audit", "--output", folder / "store", tmp_path))


def test_an_interrupted_audit_leaves_no_store(tmp_path: Path) -> None:
    """Ctrl-C during an audit interrupts the process pool, too."""
    logs = tmp_path / "logs"
    for number in range(40):
        forge(logs, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", topic=f"t{number}")
    store = tmp_path / "out" / "store"
    store.parent.mkdir()
    words = [sys.executable, "-m", "kforensics", "audit", "--processes", "2", "--output", str(store), str(logs)]
    audit = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 60
    while not list(store.parent.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(store.parent.iterdir())
    os.killpg(audit.pid, signal.SIGINT)
    _, errors = audit.communicate(timeout=60)
    # The audit may have been complete already, or so near its end that the signal ended it. Then there is a store.
    if audit.returncode == 130:
        assert list(store.parent.iterdir()) == []
    else:
        assert audit.returncode in {0, -signal.SIGINT}, errors
        assert (store / "manifest.json").exists()


def test_a_partition_that_cannot_be_read_has_a_row(tmp_path: Path) -> None:
    """A segment may be removed before it is read. The other partitions are evaluated anyway."""
    forge(tmp_path, "D 1 0 0-4 @0-4 T", topic="good")
    gone = forge(tmp_path, "D 1 0 0-4 @0-4 T", topic="gone") / "00000000000000000000.log"
    files = [row for row in discover([str(tmp_path)]) if isinstance(row, FoundFile)]
    gone.unlink()
    for processes in (1, 2):
        bad, good = partition_results(
            partitions_of(files), AuditScope(Rules(AS_OF_MS)), ignore_progress, processes=processes
        )
        assert (good.why, good.worst is not None) == (None, True)
        assert bad.why is not None
        assert "there is no such file" in bad.why
        (row,) = bad.rows["partitions"]
        assert row[-1] == bad.why


def ignore_progress(_size: int) -> None:
    """Ignore progress."""


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 0), ("error", 1), ("warning", 1), ("never", 0)])
def test_fail_on_sets_the_exit_code(fail_on: str, code: int, tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 9 0 0-4 @0-4 N; D 9 0 7-7 @5-5 N")
    for command in ("audit", "scan"):
        assert run(command, "--quiet", "--as-of", "2023-11-14T22:14", "--fail-on", fail_on, folder).code == code


def test_scan_shows_the_worst_partition_first(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-4 @0-4 N", topic="a-well")
    forge(tmp_path, "D 9 0 0-4 @0-4 N; D 9 0 7-7 @5-5 N", topic="z-gap")
    ended = run("scan", "--quiet", "--as-of", "2023-11-14T22:14", tmp_path)
    heads = [line for line in ended.lines if not line.startswith(" ")]
    assert heads == ["ERROR     z-gap-0 on broker 1", "1 partition: no findings"]
    assert "seq-gap" in ended.text
    rows = run("scan", "--quiet", "--as-of", "2023-11-14T22:14", "--format", "ndjson", tmp_path).rows("partitions")
    assert [(row["topic"], row["verdict"], row["records"]) for row in rows] == [
        ("a-well", "clean", 5),
        ("z-gap", "error", 6),
    ]


def test_scan_does_not_take_a_compressed_message_for_one_record(tmp_path: Path) -> None:
    """Forty records in four messages of format 1 each: the headers of compressed ones do not count theirs."""
    sample = SAMPLES / "legacy-magic-1" / "broker-0"
    options = ("scan", "--quiet", "--as-of", AS_OF)
    for codec, said, average in (("none", "40 records in 40 batches", 1.0), ("gzip", "at least 4 records", None)):
        assert f" {said}" in run(*options, sample / f"codec-{codec}-0").text
        (row,) = run(*options, "--format", "ndjson", sample / f"codec-{codec}-0").rows("partitions")
        assert (row["records_per_batch"], row["control_records_share"]) == (average, 0.0)
    upgraded = forge(tmp_path, {40: "D 1 0 0-1 @40-41 T; M 1 0 C 0 @42"})
    shutil.copy(sample / "codec-gzip-0" / f"{0:020}.log", upgraded)
    text = " ".join(run(*options, upgraded).text.split())
    assert "at least 6 records in 6 batches" in text
    assert re.search(r"markers are [0-9.]+ % of bytes", text)


def test_verify_reports_what_disagrees_with_the_log(tmp_path: Path) -> None:
    good = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 A 3 @5", topic="good")
    ended = run("verify", "--quiet", "--as-of", "2023-11-14T22:14", good)
    assert (ended.code, ended.text) == (
        0,
        "good-0 on broker 1: indexes, snapshots and checkpoints agree with the log\n",
    )
    bad = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 A 3 @5", topic="bad", txnindex={0: None})
    ended = run("verify", "--quiet", "--as-of", "2023-11-14T22:14", "--format", "ndjson", bad)
    assert ended.code == 1
    assert {row["code"] for row in ended.objects} == {"txnindex-missing-entry", "visibility-mismatch"}
    # verify does not check transactions; audit does.
    late = forge(tmp_path, "D 1 0 0-4 @0-4 T", topic="late")
    assert run("verify", "--quiet", "--as-of", "2024-11-14", late).code == 0


def test_the_flipped_bit_is_found(tmp_path: Path) -> None:
    log = forge(tmp_path, "D 1 0 0-4 @0-4 N; D 1 0 5-5 @5-5 N") / "00000000000000000000.log"
    patch(log, 0, fix_crc=False, base_timestamp=1)
    rows: list[dict[str, Any]] = run("audit", "--quiet", "--format", "ndjson", tmp_path).rows("findings")
    assert "batch-crc-mismatch" in {row["code"] for row in rows}


def test_records_are_decoded_on_request(tmp_path: Path) -> None:
    """Duplicates are in the store, the same with one process and several."""
    samples = SAMPLES / "duplicates"
    plain = kforensics.audit(samples, as_of=AS_OF_MS)
    assert "content-duplicate-retry" not in plain.findings["code"].to_pylist()
    found = [kforensics.audit(samples, as_of=AS_OF_MS, records=True, processes=number) for number in (None, 2)]
    assert found[0].findings.to_pylist() == found[1].findings.to_pylist()
    assert "content-duplicate-retry" in found[0].findings["code"].to_pylist()
    duplicates = kforensics.duplicates(samples, as_of=AS_OF_MS)
    assert found[0].tables["duplicates"].to_pylist() == duplicates.to_pylist()
    ended = run("audit", "--quiet", "--records", "--as-of", AS_OF, "--output", tmp_path / "store", samples)
    assert ended.code == 1
    assert _tables(tmp_path / "store")["duplicates"].num_rows == duplicates.num_rows > 0
