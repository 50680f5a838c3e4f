"""``kforensics report``: exit codes, messages, and an output file that is complete or absent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.errors import InputError, InputMissingError
from kforensics.report_html import store_reader
from tests.command import SAMPLES, run, sentence
from tests.forensics.forge import forge

AS_OF = ("--as-of", "2026-11-21T13:00")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the store of an audit with critical findings."""
    folder = tmp_path_factory.mktemp("cli") / "store"
    run("audit", "--quiet", *AS_OF, "--output", folder, SAMPLES / "transactions-v2" / "broker-1" / "hanging-0")
    return folder


def test_the_command_reports_the_verdict_and_the_file(store: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    ended = run("report", store, "--output", output)
    assert (ended.code, ended.out) == (1, b"")
    assert ended.err.startswith("CRITICAL, 1 incident: 1 partition, ")
    assert ended.err.endswith(f"; the report is in {output}\n")
    assert output.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_python_function_writes_the_same_bytes(store: Path, tmp_path: Path) -> None:
    run("report", "--quiet", store, "--output", tmp_path / "one.html")
    other = kforensics.report(store, tmp_path / "other.html")
    assert other.read_bytes() == (tmp_path / "one.html").read_bytes()


@pytest.mark.parametrize(("fail_on", "code"), [("critical", 1), ("never", 0)])
def test_the_exit_code_is_that_of_the_audit(fail_on: str, code: int, store: Path, tmp_path: Path) -> None:
    ended = run("report", "--quiet", "--fail-on", fail_on, store, "--output", tmp_path / "report.html")
    assert (ended.code, ended.err) == (code, "")


def test_the_exit_code_is_0_for_a_clean_store_and_3_for_an_incomplete_one(tmp_path: Path) -> None:
    forge(tmp_path / "logs", "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5")
    clean, part = tmp_path / "clean", tmp_path / "part"
    words = ("audit", "--quiet", "--as-of", "2023-11-14T22:14")
    assert run(*words, "--output", clean, tmp_path / "logs").code == 0
    assert run(*words, "--output", part, tmp_path / "logs", tmp_path / "nothing").code == 3
    assert run("report", clean, "--output", tmp_path / "clean.html").code == 0
    ended = run("report", part, "--output", tmp_path / "part.html")
    assert ended.code == 3
    assert ended.err.startswith("CLEAN, AND NOT ALL COULD BE READ: ")


def test_a_usage_error_of_report_is_one_sentence(store: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    assert "name the folder that kforensics audit --output has written" in sentence(run("report", "--output", output))
    assert "name one with --output, such as report.html" in sentence(run("report", store))
    assert "is not one of info, warning" in sentence(run("report", "--fail-on", "bad", store, "--output", output))
    no_store = sentence(run("report", SAMPLES / "deletion", "--output", output))
    assert "has no manifest.json, so it is not an evidence store; create one with kforensics audit --output" in no_store
    assert "would be among the evidence" in sentence(run("report", store, "--output", store / "report.html"))
    assert "cannot write" in sentence(run("report", store, "--output", tmp_path / "no" / "folder" / "report.html"))
    assert list(tmp_path.iterdir()) == []


def damaged_copy(store: Path, folder: Path) -> Path:
    """Return a copy of a store, to be damaged."""
    return Path(shutil.copytree(store, folder / "damaged"))


def complaint(store: Path) -> str:
    """Return the one sentence in which a damaged store is refused, with exit code 3 and without a page."""
    page = store.with_name("report.html")
    ended = run("report", "--quiet", store, "--output", page)
    (line,) = ended.err.splitlines()
    assert (ended.code, ended.out, page.exists()) == (3, b"", False)
    return line


@pytest.mark.parametrize("manifest", ["no json", "[]", "{}", '"text"', '{"schema": 7, "rows": {}}', "[" * 99_999])
def test_an_invalid_manifest_is_reported(manifest: str, store: Path, tmp_path: Path) -> None:
    damaged = damaged_copy(store, tmp_path)
    (damaged / "manifest.json").write_text(manifest, encoding="utf-8")
    assert complaint(damaged).startswith(f"kforensics: cannot read {damaged}/manifest.json: ")


@pytest.mark.parametrize("field", ["version", "command", "as_of_ms", "partitions", "inputs", "rows"])
def test_a_missing_field_is_named(field: str, store: Path, tmp_path: Path) -> None:
    damaged = damaged_copy(store, tmp_path)
    manifest = json.loads((damaged / "manifest.json").read_text("utf-8"))
    del manifest[field]
    (damaged / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert f"manifest.json: the field '{field}' is missing; run the audit again" in complaint(damaged)


@pytest.mark.parametrize(
    "value", [None, True, "text", -1, [1], [{}], {"a": "b"}, {"a": None}, {"tables": 1}, 1e999], ids=repr
)
@pytest.mark.parametrize("field", [*store_reader.FIELDS, "schema"])
def test_a_field_of_another_type_is_named(field: str, value: object, store: Path, tmp_path: Path) -> None:
    """Where the value is one that an audit could write, there is a page."""
    damaged = damaged_copy(store, tmp_path)
    manifest = json.loads((damaged / "manifest.json").read_text("utf-8"))
    (damaged / "manifest.json").write_text(json.dumps({**manifest, field: value}), encoding="utf-8")
    allowed: dict[str, list[object]] = {
        "version": ["text"],
        "as_of_ms": [-1],
        "options": [{"a": "b"}, {"a": None}, {"tables": 1}],
    }
    allowed |= {"seconds": [{"tables": 1}]}
    if field == "rows" and value == {"tables": 1}:
        return  # numbers of a table that a later version may have
    if value in allowed.get(field, ()) and value is not True:
        assert run("report", "--quiet", damaged, "--output", tmp_path / "report.html").code in {0, 1}
    else:
        assert f"manifest.json: the field '{field}' is " in complaint(damaged)


def test_a_store_of_another_version_is_refused_by_name(store: Path, tmp_path: Path) -> None:
    damaged = damaged_copy(store, tmp_path)
    text = (damaged / "manifest.json").read_text("utf-8").replace("kforensics-store/1", "kforensics-store/9")
    (damaged / "manifest.json").write_text(text, encoding="utf-8")
    assert "'schema' is 'kforensics-store/9', but this version reads 'kforensics-store/1' only" in complaint(damaged)


@pytest.mark.parametrize("name", ["manifest.json", "findings/part-0.parquet"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_in_a_store_does_not_hang(name: str, kind: str, store: Path, tmp_path: Path) -> None:
    damaged = damaged_copy(store, tmp_path)
    (damaged / name).unlink()
    (os.mkfifo if kind == "pipe" else os.mkdir)(damaged / name)
    assert complaint(damaged) == f"kforensics: cannot read {damaged}/{name}: it is not a file"


@pytest.mark.parametrize("table", ["findings", "partitions", "files", "transactions"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "of text"])
def test_a_damaged_table_is_named(table: str, damage: str, store: Path, tmp_path: Path) -> None:
    damaged = damaged_copy(store, tmp_path)
    path = damaged / table / "part-0.parquet"
    if damage == "missing":
        path.unlink()
    elif damage == "of text":
        rows = pq.read_table(path)
        pq.write_table(pa.table({name: ["text"] * len(rows) for name in rows.column_names}), path)
    else:
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else 100])
    assert f"cannot read {damaged}/{table}" in complaint(damaged)


def test_the_exit_code_of_an_unreadable_store_is_3(store: Path, tmp_path: Path) -> None:
    ended = run("report", tmp_path / "nothing", "--output", tmp_path / "report.html")
    assert (ended.code, ended.out) == (3, b"")
    assert "no such folder" in ended.err
    with pytest.raises(InputMissingError):
        kforensics.report(tmp_path / "nothing", tmp_path / "report.html")
    broken = tmp_path / "broken"
    (broken / "findings").mkdir(parents=True)
    (broken / "manifest.json").write_bytes((store / "manifest.json").read_bytes())
    (broken / "findings" / "part-0.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"cannot read .*part-0.parquet: "):
        kforensics.report(broken, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
