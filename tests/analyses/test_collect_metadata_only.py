"""Copies without records have nothing of any record, and give the same verdicts as the originals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.errors import InputError, UsageError
from kforensics.parsers.files.log_names import parse_folder_name
from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batch_headers import HEADER
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.registry import INTERNAL_TOPICS
from tests.command import SAMPLES, run
from tests.parsers.builders import zstd

AS_OF = "2026-11-22"
NAMES = (
    "transactions-v0",
    "transactions-v1",
    "transactions-v2",
    "compaction",
    "replication",
    "crash-before-recovery",
    "crash-while-cleaning",
    "damaged/batches",
)
CODECS = "records"
LOG = "transactions-v2/broker-1/aborted-0/00000000000000000000.log"


def verdicts(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return what the commands say of a folder."""
    audit = kforensics.audit(folder, as_of=AS_OF)
    tables = {name: getattr(audit, name) for name in ("findings", "incidents", "partitions")}
    tables |= {name: getattr(kforensics, name)(folder, as_of=AS_OF) for name in ("lso", "transactions", "producers")}
    return {name: table.to_pylist() for name, table in tables.items()}


def data_logs(folder: Path) -> list[Path]:
    """Return the logs under a folder whose records are data."""
    logs = [(path, parse_folder_name(path.parent.name)) for path in sorted(folder.rglob("*.log"))]
    return [path for path, name in logs if name is None or name.topic not in INTERNAL_TOPICS]


def secrets(folder: Path) -> Iterator[bytes]:
    """Yield keys, values and header values of records, and the bytes that batches have after their headers."""
    for path in data_logs(folder):
        with LocalSource(str(path)) as source:
            for batch in walk(source):
                if not isinstance(batch, Batch) or batch.is_control:
                    continue
                yield batch_bytes(source, batch)[HEADER.size :]
                for record in read_records(source, batch):
                    if isinstance(record, Record):
                        yield from (
                            record.key or b"",
                            record.value or b"",
                            *(value or b"" for _, value in record.headers),
                        )


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_are_those_of_the_whole_copy(name: str, tmp_path: Path) -> None:
    """Checksums that fail, torn batches and bytes that are no batch are reported in the same words."""
    copy, results = tmp_path / "copy", []
    for metadata_only in (False, True):
        shutil.rmtree(copy, ignore_errors=True)
        assert not kforensics.collect(SAMPLES / name, copy, metadata_only=metadata_only).unreadable
        results.append(verdicts(copy))
    whole, without_records = results
    assert without_records == whole


@pytest.mark.parametrize("name", [*NAMES[:5], CODECS])
def test_nothing_of_a_record_is_in_the_archive(name: str, tmp_path: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (SAMPLES / name).rglob("*.log")}
    archives = tmp_path / "whole.tar.zst", tmp_path / "case.tar.zst"
    for metadata_only, archive in enumerate(archives):
        kforensics.collect(SAMPLES / name, archive, metadata_only=bool(metadata_only))
    whole, content = (zstd.decompress(archive.read_bytes()) for archive in archives)
    read = {secret for secret in secrets(SAMPLES / name) if len(secret.strip(b"\0")) > 6}
    others = [path for path in (SAMPLES / name).rglob("*") if path.is_file() and path not in data_logs(SAMPLES / name)]
    kept = b"".join(path.read_bytes() + bytes(path) for path in others)  # names and checkpoints may read like records
    hidden = {secret for secret in read if secret not in kept}
    assert len(hidden) > 5
    assert sum(secret in whole for secret in hidden) > 5  # those in compressed batches are there as stored
    assert [secret for secret in hidden if secret in content] == []
    assert archives[1].stat().st_size < archives[0].stat().st_size
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before


def test_a_copy_says_what_it_lacks(tmp_path: Path) -> None:
    """Files that are not Kafka's may have anything in them; of changed logs, the checksum of the original is there."""
    shutil.copytree(SAMPLES / "transactions-v2" / "broker-1", tmp_path / "data")
    (tmp_path / "data" / "aborted-0" / "heap.hprof").write_bytes(b"secret")
    kforensics.collect(tmp_path / "data", tmp_path / "copy", metadata_only=True)
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_bytes())
    assert manifest["left_out"] == {
        "records": "data partitions",
        "files": [str(tmp_path / "data" / "aborted-0" / "heap.hprof")],
    }
    changed = {file["name"] for file in manifest["files"] if file["original_sha256"] is not None}
    assert changed == {str(path.relative_to(tmp_path)) for path in data_logs(tmp_path / "data")}
    whole = kforensics.collect(tmp_path / "data", tmp_path / "whole")
    originals = {file.name: file.sha256 for file in whole.files}
    for file in manifest["files"]:
        assert originals[file["name"]] == (file["original_sha256"] or file["sha256"])
        assert (tmp_path / "copy" / file["name"]).stat().st_size == file["size"]


def test_batches_that_differed_still_differ(tmp_path: Path) -> None:
    """Two logs whose batches differ in a value only have different checksums without it, too."""
    logs = []
    for name, value in (("a", b"value-1"), ("b", b"value-2")):
        folder = tmp_path / name / "orders-0"
        folder.mkdir(parents=True)
        log = (SAMPLES / LOG).read_bytes()
        with LocalSource(str(SAMPLES / LOG)) as source:
            first = next(iter(walk(source)))
        assert isinstance(first, Batch)
        changed = bytearray(log[: first.size])
        changed[-len(value) :] = value
        _write_checksum(changed)
        (folder / "00000000000000000000.log").write_bytes(changed)
        kforensics.collect(folder, tmp_path / f"copy-{name}", metadata_only=True)
        logs.append((tmp_path / f"copy-{name}" / "orders-0" / "00000000000000000000.log").read_bytes())
    assert logs[0] != logs[1]
    assert b"value" not in b"".join(logs)


def _write_checksum(batch: bytearray) -> None:
    from kforensics.parsers.format.checksums import crc32c

    HEADER.reader("crc").pack_into(batch, HEADER.offsets["crc"], crc32c(bytes(batch[HEADER.end_of("crc") :])))


def test_commands_that_need_records_refuse_the_copy(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    ended = run("collect", SAMPLES / "transactions-v2", "--metadata-only", "-o", copy)
    assert ended.code == 0
    why = "the records were left out of this copy by 'kforensics collect --metadata-only'"
    for words in (("keys",), ("duplicates",), ("audit", "--records")):
        ended = run(*words, copy, "--as-of", AS_OF)
        assert (ended.code, ended.err.count(why)) == (2, 1), ended.err
    with pytest.raises(UsageError, match="left out"):
        kforensics.keys(copy)
    with pytest.raises(InputError, match="left out"):
        kforensics.explain((copy / LOG).parent, offset=0, as_of=AS_OF)
    ended = run("dump", "--records", "--format", "ndjson", copy / LOG)
    assert (ended.code, ended.err.count(why)) == (0, 1), ended.err
    assert {row["reason"] for row in ended.rows("damage")} == {"left-out"}
    assert all(row["control_type"] for row in ended.rows("records"))


def test_messages_of_old_formats_are_zeros_and_reported(tmp_path: Path) -> None:
    """A message of format 0 or 1 has no header of its own."""
    collection = kforensics.collect(SAMPLES / "legacy-magic-1", tmp_path / "copy", metadata_only=True)
    why = {path.path: path.why for path in collection.unreadable}
    logs = [path for path in data_logs(SAMPLES / "legacy-magic-1") if has_old_formats(path)]
    assert logs
    assert set(why) == {str(path) for path in logs}
    assert all("message format 0 or 1" in each for each in why.values())
    assert not any(map(has_old_formats, data_logs(tmp_path / "copy")))


def has_old_formats(log: Path) -> bool:
    """Return whether a log has messages of format 0 or 1."""
    with LocalSource(str(log)) as source:
        return any(isinstance(row, Batch) and row.is_legacy for row in walk(source))


def test_a_copy_goes_on_only_as_it_began(tmp_path: Path) -> None:
    """Files of an interrupted copy stay as they are, so they must not have records if the rest has none."""
    copy, source = tmp_path / "copy", SAMPLES / "transactions-v2"
    kforensics.collect(source, copy, metadata_only=True)
    whole = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "manifest.json"}
    (copy / "manifest.json").unlink()
    (copy / "collect.part").write_bytes(b"metadata-only\n")
    cut = copy / LOG
    cut.write_bytes(b"cut")
    with pytest.raises(UsageError, match="part of a copy without records"):
        kforensics.collect(source, copy)
    kforensics.collect(source, copy, metadata_only=True)
    assert {path: path.read_bytes() for path in whole} == whole
    (copy / "manifest.json").unlink()
    (copy / "collect.part").touch()
    with pytest.raises(UsageError, match="part of a copy with records"):
        kforensics.collect(source, copy, metadata_only=True)
