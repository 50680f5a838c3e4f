"""The Parquet files of an evidence store have the rows of many small additions in their order."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from kforensics.errors import UsageError
from kforensics.forensics.core.record_types import RECENT_BATCH
from kforensics.forensics.core.result_rows import Lists, Rows, Words, nullable
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.parsers.tables.schemas import Table
from kforensics.render.evidence_store import MIN_ARROW_ROWS, EvidenceStore, TableFile, TableFiles, locate_store
from kforensics.render.output import part_path
from kforensics.render.staged_store import StagedStore, StorePart, TaskWriter
from kforensics.render.store_claim import create_folder
from tests.spark.object_store import object_store

PRODUCERS, FINDINGS = RESULTS["producers"], RESULTS["findings"]


def _producers(first: int, count: int) -> Rows:
    """Return rows with all kinds of columns: numbers, nulls, lists and constants."""
    numbers = np.arange(first, first + count)
    recent = np.zeros((count, 2), RECENT_BATCH)
    recent["last_offset"] = numbers[:, None]
    columns: dict[str, Any] = dict.fromkeys(PRODUCERS.names, 0)
    columns |= {"broker_id": None, "log_dir": "kept", "topic": "caf\udce9", "exact": True, "in_snapshot": None}
    columns |= {"expired": numbers % 2 == 0, "producer_id": numbers, "last_offset": nullable(numbers, numbers % 3 == 0)}
    return Rows(PRODUCERS, count, {**columns, "recent_batches": Lists(recent, numbers % 3)})


def _findings(count: int) -> Rows:
    columns: dict[str, Any] = dict.fromkeys(FINDINGS.names)
    return Rows(FINDINGS, count, {**columns, "code": Words(np.arange(count) % 3 - 1, ("one", "caf\udce9"))})


def _written(path: Path, *parts: Rows) -> pa.Table:
    files = TableFiles(lambda table: _file(path, table))
    for part in parts:
        files.add(part)
    (rows,) = files.close().values()
    table = pq.read_table(path)
    assert len(table) == rows
    return table


def _file(path: Path, table: Table) -> TableFile:
    return TableFile(path, arrow_schema_of(table))


@pytest.mark.parametrize(
    "rows", [_producers(0, MIN_ARROW_ROWS + 44), _findings(MIN_ARROW_ROWS + 44)], ids=["producers", "findings"]
)
def test_small_and_large_additions_give_the_same_file(tmp_path: Path, rows: Rows) -> None:
    """Small additions are converted as Python values, large ones as columns."""
    pieces = [rows.taken(np.arange(start, min(start + 7, len(rows)))) for start in range(0, len(rows), 7)]
    assert _written(tmp_path / "few", *pieces).equals(_written(tmp_path / "many", rows))


def test_small_and_large_additions_keep_the_order(tmp_path: Path) -> None:
    sizes = [1, MIN_ARROW_ROWS + 1, 3, 0, MIN_ARROW_ROWS, 2 * MIN_ARROW_ROWS, 5]
    starts = np.cumsum([0, *sizes])
    table = _written(tmp_path / "part", *(_producers(at, size) for at, size in zip(starts, sizes, strict=False)))
    assert table["producer_id"].to_pylist() == list(range(sum(sizes)))


def test_values_and_rows_of_a_table_keep_their_order(tmp_path: Path) -> None:
    files = TableFiles(lambda table: _file(tmp_path / "part", table))
    files.add(_producers(0, 2))
    files.add_values(PRODUCERS, _producers(2, 20_000))
    files.add(_producers(20_002, MIN_ARROW_ROWS + 1))
    assert files.close() == {"producers": 20_003 + MIN_ARROW_ROWS}
    assert pq.read_table(tmp_path / "part")["producer_id"].to_pylist() == list(range(20_003 + MIN_ARROW_ROWS))


@pytest.mark.parametrize("create", [lambda name: EvidenceStore(Path(name)), StagedStore], ids=["one process", "Spark"])
@pytest.mark.parametrize("name", [".", "/", "", "./", "empty/../empty", "empty/x/..", "full", "full/file", "link/.."])
def test_a_folder_that_cannot_become_a_store_stays(
    create: Callable[[str], object], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, and nothing changes: no empty folder is removed, and no hidden one is left."""
    work = tmp_path / "work"
    (work / "empty" / "x").mkdir(parents=True)
    (work / "full").mkdir()
    (work / "full" / "file").touch()
    (work / "link").symlink_to("empty/x")
    monkeypatch.chdir(work)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=r"^(cannot write|.* exists already)"):
        create(name)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_abandoned_folder_is_removed_by_the_next_store(tmp_path: Path) -> None:
    """That of a store that is still being written, and those of other stores and hosts, stay."""
    start, _, number = part_path(tmp_path / "store").name.partition("-")
    assert number.startswith(f"{os.getpid()}-")
    abandoned, other = tmp_path / f"{start}-1-0123abcd.part", tmp_path / ".store.00000000-1-0123abcd.part"
    (abandoned / "files").mkdir(parents=True)
    other.mkdir()
    creates: list[Callable[[Path], Any]] = [EvidenceStore, lambda folder: StagedStore(str(folder))]
    for create in creates:
        with create(tmp_path / "store"):
            assert not abandoned.exists()
            (part,) = (path for path in tmp_path.glob("*.part") if path != other)
            for another in creates:
                with pytest.raises(UsageError, match=r"^another process is writing .*/store; wait until it has ended"):
                    another(tmp_path / "store")
            assert part.is_dir()
    assert list(tmp_path.iterdir()) == [other]


STARTS = 100


@pytest.mark.parametrize("create", [lambda name: EvidenceStore(Path(name)), StagedStore], ids=["one process", "Spark"])
def test_of_many_simultaneous_starts_one_wins(create: Callable[[str], object], tmp_path: Path) -> None:
    """The others are told while it writes, and it does not notice."""
    winner, sentences = _one_of_many(create, str(tmp_path / "store"))
    assert len(sentences) == STARTS - 1
    told = f"another process is writing {tmp_path / 'store'}; wait until"
    assert not [text for text in sentences if not text.startswith(told)]
    with winner:
        winner.finish(*([[]] if isinstance(winner, StagedStore) else []), {"producers": PRODUCERS}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    with pytest.raises(UsageError, match="exists already"):
        create(str(tmp_path / "store"))


def _one_of_many(create: Callable[[str], Any], name: str) -> tuple[Any, list[str]]:
    """Return the store that one of many threads has begun, and what the others are told."""
    ready = Barrier(STARTS)

    def start() -> Any:
        ready.wait()
        try:
            return create(name)
        except UsageError as error:
            return str(error)

    with ThreadPoolExecutor(STARTS) as threads:
        results = [future.result() for future in [threads.submit(start) for _ in range(STARTS)]]
    (winner,) = (result for result in results if not isinstance(result, str))
    return winner, [result for result in results if isinstance(result, str)]


@pytest.mark.slow
def test_of_many_simultaneous_starts_in_a_bucket_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the winner's own files is deleted when it ends."""
    with object_store(tmp_path) as bucket:
        bucket.use(monkeypatch)
        winner, sentences = _one_of_many(StagedStore, "s3://logs/evidence")
        assert len(sentences) == STARTS - 1
        assert not [
            text for text in sentences if not text.startswith("another process is writing s3://logs/evidence (")
        ]
        with winner:
            parts = TaskWriter(winner.staging, "small-00000")
            parts.add_values(PRODUCERS, _producers(0, 2))
            bucket.put(Path(__file__), "evidence/notes.txt")
            table = RESULTS["producers"]
            winner.finish(parts.finish(), {"producers": table}, {})
        files = sorted(path.name for path in (bucket.folder / "logs" / "evidence").rglob("*") if path.is_file())
        assert files == ["manifest.json", "notes.txt", "part-small-00000.parquet"]
        with pytest.raises(UsageError, match="exists already"):
            StagedStore("s3://logs/evidence")


def _audit_that_ends_early(output: str, plan: str) -> None:
    """Leave what a task of an audit of a plan has written and returned."""
    with StagedStore(output) as store:
        store.adopt(plan)
        system, root = locate_store(store.staging)
        parts = TaskWriter(store.staging, "small-00000")
        parts.add_values(PRODUCERS, _producers(0, 2))
        parts.finish()
        create_folder(system, f"{root}/_finished/{plan}-4")
        with system.open_output_stream(f"{root}/_finished/{plan}-4/read-000000") as stream:
            stream.write(plan.encode())


def _check_that_audits_go_on(output: str) -> None:
    """An audit of the same plan finds what was left; one of another plan deletes it; a store has nothing of it."""
    _audit_that_ends_early(output, "first")
    _audit_that_ends_early(output, "second")
    with StagedStore(output) as store:
        assert store.adopt("second") == "second-4"
        part = StorePart("producers", "producers/part-small-00000.parquet", 2)
        store.finish([part], {"producers": PRODUCERS}, {})
    system, root = locate_store(output)
    files = system.get_file_info(fs.FileSelector(root, recursive=True))
    names = sorted(info.path.removeprefix(f"{root}/") for info in files if info.type == fs.FileType.File)
    assert names == ["manifest.json", "producers/part-small-00000.parquet"]
    with pytest.raises(UsageError, match="exists already"):
        StagedStore(output)


def test_an_audit_goes_on_in_a_folder(tmp_path: Path) -> None:
    _check_that_audits_go_on(str(tmp_path / "store"))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.slow
def test_an_audit_goes_on_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with object_store(tmp_path) as bucket:
        bucket.use(monkeypatch)
        _check_that_audits_go_on("s3://logs/evidence")


def test_what_is_discarded_is_not_kept(tmp_path: Path) -> None:
    _audit_that_ends_early(str(tmp_path / "store"), "plan")
    assert list(tmp_path.iterdir())
    with StagedStore(str(tmp_path / "store")) as store:
        assert store.adopt("plan") == "plan-4"
        store.discard()
    assert not list(tmp_path.iterdir())


def test_a_task_that_still_runs_when_an_audit_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    """It returns its result between Ctrl-C and the end, and begins a table when the folder is gone."""
    with StagedStore(str(tmp_path / "store")) as store:
        parts = TaskWriter(store.staging, "small-00000")
        store.discard()
        create_folder(fs.LocalFileSystem(), f"{store.staging}/_finished/plan-4")
    with pytest.raises(UsageError, match="name a folder for --output that all machines share"):
        parts.add(_producers(0, 2 * MIN_ARROW_ROWS))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_while_rows_are_added_is_one_sentence(tmp_path: Path) -> None:
    """The limit of the size of a file stands for a full disk. Nothing is left."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    try:
        with pytest.raises(UsageError, match=r"cannot write .*store: .*; choose another folder"):  # noqa: SIM117
            with EvidenceStore(tmp_path / "store") as store:
                store.add(_producers(0, 2 * MIN_ARROW_ROWS))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []
