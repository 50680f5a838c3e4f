"""Copies of log directories are complete, true, and made without touching them."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

import kforensics
from kforensics.analyses.collect import collect_files
from kforensics.errors import InputError, UsageError
from kforensics.parsers.files.log_capture import find_log_files
from tests.command import SAMPLES, run

BROKER = SAMPLES / "groups" / "broker-1"
NAME = "0" * 20


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return bytes and times of the files in a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns // 10**6) for path in files}


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack an archive with the command that everybody has."""
    folder.mkdir()
    subprocess.run(["/usr/bin/env", "tar", "--extract", "--file", archive, "--directory", folder], check=True)
    return folder


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Return a log directory with a preallocated index."""
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    (folder.parent / "meta.properties").write_text("version=1\nnode.id=1\n")
    (folder / f"{NAME}.log").write_bytes(b"first")
    (folder / f"{NAME}.index").write_bytes(b"\0\0\0\1\0\0\0\2" + bytes(1 << 20))
    return folder.parent


@pytest.mark.parametrize("name", ["case.tar.zst", "case.tar.gz", "case.tar", "folder"])
def test_a_copy_has_the_bytes_and_times_of_the_original(name: str, tmp_path: Path) -> None:
    ended = run("collect", BROKER, "-o", tmp_path / name)
    assert (ended.code, ended.out) == (0, b"")
    assert ended.err.startswith("collected ")
    copy = tmp_path / name if name == "folder" else unpacked(tmp_path / name, tmp_path / "unpacked")
    manifest = json.loads((copy / "manifest.json").read_bytes())
    assert contents(copy / "broker-1") == contents(BROKER)
    assert sorted(path.name for path in copy.iterdir()) == ["broker-1", "manifest.json"]
    for file in manifest["files"]:
        data = (copy / file["name"]).read_bytes()
        assert (file["size"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert Path(file["path"]).read_bytes() == data
    assert len(manifest["files"]) == len(contents(BROKER))


def test_an_audit_of_a_copy_finds_what_that_of_the_original_finds(tmp_path: Path) -> None:
    collection = kforensics.collect(SAMPLES / "transactions-v2", tmp_path / "case.tar.zst")
    assert not collection.unreadable
    expected = kforensics.audit(SAMPLES / "transactions-v2", as_of="2026-11-21").findings
    found = kforensics.audit(tmp_path / "case.tar.zst", as_of="2026-11-21").findings
    assert found.num_rows
    assert found["message"].to_pylist() == expected["message"].to_pylist()


def test_what_is_written_after_the_opening_is_not_in_the_copy(log_dir: Path, tmp_path: Path) -> None:
    """What is deleted is, and an index has the entries that it had."""
    partition = log_dir / "orders-0"
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    found = find_log_files([str(log_dir)])
    with (partition / f"{NAME}.log").open("ab") as log, (partition / f"{NAME}.index").open("r+b") as index:
        log.write(b"second")
        index.seek(8)
        index.write(b"\0\0\0\3\0\0\0\4")
    (partition / f"{NAME}.log").rename(partition / f"{NAME}.log.deleted")
    (partition / f"{NAME}.log.deleted").unlink()
    collection = collect_files(found, str(tmp_path / "copy"), lambda _: None)
    assert not collection.unreadable
    assert {path.name: path.read_bytes() for path in (tmp_path / "copy" / "data" / "orders-0").iterdir()} == before
    assert (tmp_path / "copy" / "data" / "orders-0" / f"{NAME}.index").stat().st_blocks < 256


def test_logs_and_indexes_fit_each_other_while_they_are_written(log_dir: Path, tmp_path: Path) -> None:
    """A writer appends to the log before it appends to the index, as brokers do, and pauses now and then."""
    (log, index), stop = (log_dir / "orders-0" / f"{NAME}.{kind}" for kind in ("log", "txnindex")), threading.Event()
    log.write_bytes(b"")
    index.touch()
    for number in range(100):  # it takes a while to open what is between the two
        (log_dir / "orders-0" / f"{NAME}.m{number}").touch()

    def write() -> None:
        with log.open("ab", buffering=0) as logged, index.open("ab", buffering=0) as indexed:
            while not stop.wait(0.3):
                for _ in range(50):
                    logged.write(b"x")
                    indexed.write(b"y")
                    time.sleep(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not index.stat().st_size:
            time.sleep(0.01)
        for _ in range(30):
            sizes = {Path(file.path).suffix: file.size for file in find_log_files([str(log_dir)]).files}
            assert 0 <= sizes[".log"] - sizes[".txnindex"] <= 1
    finally:
        stop.set()
        writer.join()
    assert log.stat().st_size > 1


def test_data_come_before_what_is_known_of_them(log_dir: Path) -> None:
    for name in ("__transaction_state-0", "__cluster_metadata-0", "__consumer_offsets-3", "zebra-1"):
        (log_dir / name).mkdir()
        (log_dir / name / f"{NAME}.log").touch()
    names = [Path(file.name).parent.name for file in find_log_files([str(log_dir)]).files]
    assert list(dict.fromkeys(names)) == [
        "orders-0",
        "zebra-1",
        "__consumer_offsets-3",
        "__transaction_state-0",
        "__cluster_metadata-0",
        "data",
    ]


def test_a_file_that_shrinks_is_reported(log_dir: Path, tmp_path: Path) -> None:
    found = find_log_files([str(log_dir)])
    os.truncate(log_dir / "orders-0" / f"{NAME}.log", 2)
    (unreadable,) = collect_files(found, str(tmp_path / "case.tar"), lambda _: None).unreadable
    assert unreadable.path == str(log_dir / "orders-0" / f"{NAME}.log")
    assert "shrank while it was copied, to 2 bytes; the rest is zeros" in unreadable.why
    with tarfile.open(tmp_path / "case.tar") as tar:
        assert json.loads(tar.extractfile("manifest.json").read())["unreadable"]  # type: ignore[union-attr]  # it is a file


def test_more_files_than_a_process_may_open_are_opened_in_turn(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    for number in range(300):
        (folder / f"{number:020}.log").write_bytes(b"%d" % number)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200));"
        "from kforensics.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "collect", str(folder.parent), "-o", str(tmp_path / "copy")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[-1][:19]) == (0, "collected 300 files")
    assert contents(tmp_path / "copy" / "data") == contents(folder.parent)


def test_a_folder_is_completed(log_dir: Path, tmp_path: Path) -> None:
    """What has the same size and time stays, and what was cut is written again; a complete copy is refused."""
    copy = tmp_path / "copy"
    kforensics.collect(log_dir, copy)
    whole = contents(copy / "data")
    (copy / "manifest.json").unlink()
    (copy / "collect.part").touch()
    (copy / "data" / "orders-0" / f"{NAME}.index").write_bytes(b"cut")
    kept = (copy / "data" / "meta.properties").stat().st_ctime_ns
    kforensics.collect(log_dir, copy)
    assert contents(copy / "data") == whole
    assert (copy / "data" / "meta.properties").stat().st_ctime_ns == kept
    with pytest.raises(UsageError, match="has files; name a new folder"):
        kforensics.collect(log_dir, copy)


def test_log_directories_of_one_name_have_their_paths(tmp_path: Path) -> None:
    for disk in "12":
        (tmp_path / disk / "kafka" / "orders-0").mkdir(parents=True)
        (tmp_path / disk / "kafka" / "orders-0" / f"{NAME}.log").write_text(disk)
    files = kforensics.collect(str(tmp_path / "?" / "kafka"), tmp_path / "case.tar").files
    assert [file.name for file in files] == [f"{tmp_path}/{disk}/kafka/orders-0/{NAME}.log"[1:] for disk in "12"]


def test_usage_errors(log_dir: Path, tmp_path: Path) -> None:
    for words, why in (
        ((log_dir,), "the copy needs a place"),
        (("-o", tmp_path / "a.tar"), "there is no input"),
        ((log_dir, "-o", tmp_path / "a.zip"), "name one that ends in .tar.zst, .tar.gz or .tar"),
        ((log_dir, "-o", log_dir / "a.tar"), "would be among the evidence"),
        ((log_dir / "meta.properties", "-o", tmp_path / "a.tar"), "is no folder of this machine"),
        (("s3://bucket/logs", "-o", tmp_path / "a.tar"), "is no folder of this machine"),
    ):
        ended = run("collect", *words)
        assert (ended.code, why in ended.err) == (2, True), ended.err
    with pytest.raises(InputError):
        kforensics.collect(tmp_path / "missing", tmp_path / "a.tar")
    assert not (tmp_path / "a.tar").exists()
