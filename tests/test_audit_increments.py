"""An audit that reads only what is new since an earlier one: equal to a full audit, whatever changed in between."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.analyses.audit import STORED, AuditRequest, Stages, run_audit
from kforensics.analyses.partitions import ignore
from kforensics.api.partition_questions import investigation_of
from kforensics.errors import UsageError
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import TIME_INDEX_ENTRY
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from kforensics.render.evidence_store import StoredTables
from tests.command import run, sentence
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import CLUSTER_ID, SnapshotEntry, file_of, patch, snapshot_bytes
from tests.forensics.growing_logs import ROUNDS, GrowingCluster, bytes_kept, contents
from tests.thorough import share

AS_OF = NOW + 40 * 3_600_000
Rows = dict[str, Counter[str]]


def rows_of(store: Path) -> Rows:
    """Return the rows of all tables of a store, order aside."""
    return {name: Counter(map(repr, table.to_pylist())) for name, table in StoredTables(str(store), [*STORED]).items()}


def manifest_of(store: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((store / "manifest.json").read_text("utf-8"))
    return manifest


def batches_in(log: Path) -> list[Batch]:
    with open_source(log) as source:
        return [row for row in walk(source) if isinstance(row, Batch)]


def audited(paths: Path, store: Path, **options: Any) -> Rows:
    """Audit into a store, and return its rows."""
    kforensics.audit(paths, output=store, **{"as_of": AS_OF, **options})
    return rows_of(store)


def audited_in_splits(paths: Path, store: Path, previous: Path) -> Rows:
    """Audit in two processes that share each log, split by split."""
    request = AuditRequest(store, 2, copies=True, split_size=4096, previous=str(previous))
    investigation = investigation_of(paths, {"as_of": AS_OF})
    for _ in run_audit(investigation, request, ignore, Stages()):
        pass
    return rows_of(store)


def test_ten_rounds_equal_full_audits_and_read_what_is_new(tmp_path: Path) -> None:
    cluster = GrowingCluster(tmp_path / "data")
    previous = tmp_path / "0"
    audited(cluster.folder, previous)
    for number in range(1, share(ROUNDS, 2) + 1):
        before, store = contents(cluster.folder), tmp_path / str(number)
        cluster.change(number)
        after = contents(cluster.folder)
        audit = audited_in_splits if number % 2 else audited
        rows = audit(cluster.folder, store, previous=previous)
        assert rows == audited(cluster.folder, tmp_path / "full"), number
        shutil.rmtree(tmp_path / "full")
        kept = bytes_kept(before, after)
        old = sum(map(len, before.values()))
        new = sum(map(len, after.values())) - kept
        assert manifest_of(store)["previous"] == str(previous)
        assert kept > 0.8 * old
        assert manifest_of(store)["read_bytes"] - new <= 0.05 * old, number
        previous = store


def grown(tmp_path: Path) -> tuple[GrowingCluster, Path]:
    """Return a cluster, and the store of an audit of its first day; the second day has passed since."""
    cluster, store = GrowingCluster(tmp_path / "data"), tmp_path / "old"
    audited(cluster.folder, store)
    cluster.change(1)
    return cluster, store


def check_increment(cluster: GrowingCluster, previous: Path, tmp_path: Path, **options: Any) -> tuple[int, Rows]:
    """Check that an increment equals a full audit; return how many bytes it has read, and its rows."""
    rows = audited(cluster.folder, tmp_path / "new", previous=previous, **options)
    assert rows == audited(cluster.folder, tmp_path / "full", **options)
    pattern = f"{options.get('topic', '*')}-0"
    size = sum(len(data) for path, data in contents(cluster.folder).items() if path.parent.match(pattern))
    assert manifest_of(tmp_path / "full")["read_bytes"] == size
    return manifest_of(tmp_path / "new")["read_bytes"], rows


def test_damaged_logs_are_read_from_the_damage_on(tmp_path: Path) -> None:
    """What was torn is written in full later, or stays torn."""
    cluster = GrowingCluster(tmp_path / "data")
    first, *_, last = sorted((cluster.folder / "orders-0").glob("*.log"))
    whole = last.read_bytes()
    last.write_bytes(whole[:-100])
    damaged = bytearray(first.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    first.write_bytes(damaged)
    audited(cluster.folder, tmp_path / "old")
    last.write_bytes(whole)
    read, rows = check_increment(cluster, tmp_path / "old", tmp_path)
    assert len(rows["damage"]) == 1
    assert len(whole) < read < len(whole) + len(damaged) + 5000
    last.write_bytes(whole[:-50])
    check_increment(cluster, tmp_path / "new", tmp_path / "torn")


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_batch_that_was_replaced_is_read(tmp_path: Path, where: str) -> None:
    """By one of the same size, in a segment whose size and indexes are the same."""
    cluster = GrowingCluster(tmp_path / "data")
    log = sorted((cluster.folder / "orders-0").glob("*.log"))[3]
    audited(cluster.folder, tmp_path / "old")
    offsets = [row.base_offset for row in batches_in(log) if row.base_offset is not None]
    patch(log, offsets[0] if where == "first" else offsets[-1], partition_leader_epoch=7, producer_epoch=5)
    read, _ = check_increment(cluster, tmp_path / "old", tmp_path)
    assert read > log.stat().st_size


def test_changes_between_samples_are_not_seen_and_a_full_audit_finds_them(tmp_path: Path) -> None:
    cluster = GrowingCluster(tmp_path / "data")
    log = sorted((cluster.folder / "orders-0").glob("*.log"))[3]
    before = audited(cluster.folder, tmp_path / "old")
    data = bytearray(log.read_bytes())
    data[len(data) // 2 + 1000] ^= 1
    log.write_bytes(data)
    assert audited(cluster.folder, tmp_path / "new", previous=tmp_path / "old")["findings"] == before["findings"]
    assert len(audited(cluster.folder, tmp_path / "full")["damage"]) == 1


def test_a_snapshot_inside_a_log_that_was_read_before(tmp_path: Path) -> None:
    """The log has to be cut there, so its chunk is of no use."""
    cluster = GrowingCluster(tmp_path / "data")
    before = audited(cluster.folder, tmp_path / "old")
    log = sorted((cluster.folder / "orders-0").glob("*.log"))[3]
    inside = batches_in(log)[12].base_offset
    assert inside is not None
    file_of(log.parent, inside, "snapshot").write_bytes(snapshot_bytes([SnapshotEntry(1, last_offset=2)]))
    read, rows = check_increment(cluster, tmp_path / "old", tmp_path)
    assert rows["findings"] > before["findings"]
    assert read > log.stat().st_size


@pytest.mark.parametrize(("kind", "byte"), [("index", -1), ("timeindex", -5)], ids=["position", "timestamp"])
def test_indexes_that_have_changed_are_compared_with_the_log(tmp_path: Path, kind: str, byte: int) -> None:
    cluster, previous = grown(tmp_path)
    index = sorted((cluster.folder / "payments-0").glob(f"*.{kind}"))[2]
    data = bytearray(index.read_bytes())
    data[byte] ^= 1
    index.write_bytes(data)
    _, rows = check_increment(cluster, previous, tmp_path)
    assert any(f"{index.name}" in row and "index-" in row for row in rows["findings"])


def test_a_new_index_entry_about_an_old_batch_is_compared_with_it(tmp_path: Path) -> None:
    cluster, previous = grown(tmp_path)
    index = sorted((cluster.folder / "payments-0").glob("*.timeindex"))[2]
    last = batches_in(index.with_suffix(".log"))[-1].last_offset
    entry = TIME_INDEX_ENTRY.build({"timestamp": AS_OF, "relative_offset": last - int(index.stem)})
    index.write_bytes(index.read_bytes() + entry)
    _, rows = check_increment(cluster, previous, tmp_path)
    assert any(f"{index.name}" in row and "timeindex-" in row for row in rows["findings"])


EXPIRY = {"settings": {"producer.id.expiration.ms": "3600000"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"as_of": NOW + 3_000}),
        ({}, EXPIRY),
        (EXPIRY, {}),
        (EXPIRY, {**EXPIRY, "as_of": NOW - 40 * 3_600_000}),
        ({}, {"topic": "orders"}),
        ({}, {"records": True}),
    ],
)
def test_the_evaluation_may_differ(tmp_path: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Timestamps may be in the future of another time, and limits may decide what was observed."""
    cluster, previous = GrowingCluster(tmp_path / "data"), tmp_path / "old"
    first = audited(cluster.folder, previous, **before)
    code = "producer-expired-by-timestamp"
    assert any(code in row for row in first["findings"]) == bool(before)
    cluster.change(1)
    _, rows = check_increment(cluster, previous, tmp_path, **after)
    assert any(code in row for row in rows["findings"]) == (after == EXPIRY)


def test_a_log_directory_may_be_somewhere_else(tmp_path: Path) -> None:
    cluster, previous = grown(tmp_path)
    cluster.folder = cluster.folder.rename(tmp_path / "moved")
    read, _ = check_increment(cluster, previous, tmp_path)
    assert read < 0.15 * sum(map(len, contents(cluster.folder).values()))


def _files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_interrupted_increment_leaves_the_old_store_as_it_was(tmp_path: Path) -> None:
    cluster, previous = grown(tmp_path)
    files = _files_in(previous)
    request = AuditRequest(tmp_path / "new", 1, copies=True, previous=str(previous))
    results = run_audit(investigation_of(cluster.folder, {"as_of": AS_OF}), request, ignore, Stages())
    next(results)
    results.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "old"]
    assert _files_in(previous) == files
    with pytest.raises(UsageError, match="exists already"):
        audited(cluster.folder, previous, previous=previous)
    assert _files_in(previous) == files


def _increment(cluster: GrowingCluster, previous: Path, tmp_path: Path) -> Any:
    times = ("--as-of", str(AS_OF), "--fail-on", "never")
    return run("audit", *times, "--previous", previous, "--output", tmp_path / "new", cluster.folder)


def test_a_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    cluster, previous = grown(tmp_path)
    manifest = manifest_of(previous)
    assert manifest["clusters"] == [CLUSTER_ID]
    (previous / "manifest.json").write_text(json.dumps({**manifest, "clusters": ["another"]}), "utf-8")
    ended = _increment(cluster, previous, tmp_path)
    assert ended.code == 2
    assert f"{previous} is an audit of cluster another, and these are files of {CLUSTER_ID}" in sentence(ended)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", [None, "[]", "{"])
def test_a_folder_that_is_no_store_is_refused(tmp_path: Path, content: str | None) -> None:
    cluster, previous = GrowingCluster(tmp_path / "data"), tmp_path / "old"
    previous.mkdir()
    if content is not None:
        (previous / "manifest.json").write_text(content, "utf-8")
    ended = _increment(cluster, previous, tmp_path)
    assert ended.code == 2
    assert "leave out --previous" in sentence(ended)


@pytest.mark.parametrize("change", ["older", "without", "unreadable"])
def test_without_summaries_that_it_can_read_an_audit_reads_everything_and_says_so(tmp_path: Path, change: str) -> None:
    cluster, previous = grown(tmp_path)
    manifest = manifest_of(previous)
    if change == "unreadable":
        next((previous / "chunk_summaries").iterdir()).write_bytes(b"PAR1")
    else:
        manifest["summaries"] = "0.0.9/0123456789abcdef" if change == "older" else None
    (previous / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    ended = _increment(cluster, previous, tmp_path)
    assert ended.code == 0
    assert "the whole log is read" in ended.err
    assert rows_of(tmp_path / "new") == audited(cluster.folder, tmp_path / "full")
    assert manifest_of(tmp_path / "new")["previous"] is None
    assert manifest_of(tmp_path / "new")["read_bytes"] == manifest_of(tmp_path / "full")["read_bytes"]


def test_a_store_that_becomes_unreadable_leaves_partitions_unread(tmp_path: Path) -> None:
    """Other splits of the same segment may have relied on it."""
    cluster, previous = grown(tmp_path)
    (file,) = (previous / "chunk_summaries").iterdir()
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    file.write_bytes(data)
    ended = _increment(cluster, previous, tmp_path)
    assert ended.code == 3
    assert "chunk_summaries: " in ended.err
    assert "leave out --previous" in ended.err


def test_summaries_that_were_damaged_are_not_used(tmp_path: Path) -> None:
    """The file is intact, as Parquet sees it, and the bytes of a summary are not."""
    cluster, previous = grown(tmp_path)
    (file,) = (previous / "chunk_summaries").iterdir()
    table = pq.read_table(file)
    changed = [bytes([data[0] ^ 1]) + data[1:] for data in table["summary"].to_pylist()]
    column = table.column_names.index("summary")
    pq.write_table(table.set_column(column, "summary", pa.array(changed, pa.binary())), file)
    read, _ = check_increment(cluster, previous, tmp_path)
    assert read >= sum(map(len, contents(cluster.folder).values()))
