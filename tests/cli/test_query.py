"""SQL over stores and over logs: the rows, the formats, and what SQL may not do."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kforensics
from kforensics.errors import InputError, MissingExtraError, UsageError
from kforensics.parsers.files.source import open_source
from tests.command import DAMAGED, ROOT, SAMPLES, Ended, run, sentence
from tests.forensics.forge import forge

BROKER = SAMPLES / "transactions-v2" / "broker-1"
AS_OF = ("--as-of", "2026-11-21T13:00")
HOUR_MS = 3_600_000
PER_HOUR = """
    SELECT producer_id, max_timestamp // 3600000 AS hour, sum(size) AS bytes FROM batches GROUP BY ALL ORDER BY ALL
"""
EVERY_TYPE = """
    SELECT 1 AS number, 1.5::DOUBLE AS "real", 'a,"=1' AS text, true AS flag, 'x'::BLOB AS bytes, NULL AS nothing,
        sum("offset") AS total, TIMESTAMP '2026-11-21 12:00:00' AS moment, DATE '2026-11-21' AS day,
        INTERVAL 90 seconds AS lasted, [1, 2] AS list, {'a': 1} AS struct, 'nan'::DOUBLE AS nan
    FROM records
"""
# As values of JSON; the total is that of all offsets.
EVERY_VALUE: dict[str, Any] = {
    "number": 1,
    "real": 1.5,
    "text": 'a,"=1',
    "flag": True,
    "bytes": "x",
    "nothing": None,
    "moment": "2026-11-21T12:00:00",
    "day": "2026-11-21",
    "lasted": "P0M0DT90S",
    "list": [1, 2],
    "struct": {"a": 1},
    "nan": "nan",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the evidence store of a broker."""
    folder = tmp_path_factory.mktemp("stores") / "evidence"
    assert run("audit", "-q", *AS_OF, "--output", folder, BROKER).code == 1
    return folder


def _asked(*words: object, output_format: str = "ndjson") -> list[dict[str, Any]]:
    """Return the rows of a query."""
    ended = run("query", "--format", output_format, *words)
    assert (ended.code, ended.err) == (0, "")
    return [{name: value for name, value in row.items() if name != "table"} for row in ended.objects]


def test_bytes_per_producer_and_hour_are_those_of_the_dumped_batches() -> None:
    dumped = run("dump", "-q", "--batches", "--format", "ndjson", BROKER).objects
    expected: Counter[tuple[int, int]] = Counter()
    for row in dumped:
        expected[row["producer_id"], row["max_timestamp"] // HOUR_MS] += row["size"]
    rows = _asked("--logs", BROKER, PER_HOUR)
    assert {(row["producer_id"], row["hour"]): row["bytes"] for row in rows} == dict(expected)
    assert len(rows) == len(expected) > 10


@pytest.mark.parametrize("table", ["lso", "transactions", "producers", "files"])
def test_a_store_and_the_logs_give_the_same_rows(table: str, store: Path) -> None:
    sql = f"SELECT * FROM {table} ORDER BY ALL"  # noqa: S608  # the names above
    rows = _asked(store, sql)
    assert rows
    assert _asked(*AS_OF, "--logs", BROKER, sql) == rows


@pytest.mark.parametrize("table", ["batches", "records", "index_entries", "producer_snapshots", "checkpoints"])
def test_tables_of_logs_are_those_of_the_library(table: str) -> None:
    view = kforensics.open(BROKER).table(table)
    assert kforensics.query(f"FROM {table}", logs=BROKER).to_arrow().to_pylist() == view.to_arrow().to_pylist()


def test_every_table_of_a_store_has_its_name(store: Path) -> None:
    manifest = json.loads((store / "manifest.json").read_text("utf-8"))
    counts = {name: _asked(store, f'SELECT count(*) AS n FROM "{name}"')[0]["n"] for name in manifest["rows"]}  # noqa: S608
    assert counts == manifest["rows"]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("topic = 'open'", lambda row: row["topic"] == "open"),
        ("topic IN ('open', 'hanging') AND partition = 0", lambda row: row["topic"] in ("open", "hanging")),
        ("topic <> 'open' AND producer_id > 5", lambda row: row["topic"] != "open" and row["producer_id"] > 5),
        ("base_offset >= 3 OR topic = 'open'", lambda row: row["base_offset"] >= 3 or row["topic"] == "open"),
        ("control_type IS NULL", lambda row: row["control_type"] is None),
        ("compression_type = 'gzip'", lambda row: row["compression_type"] == "gzip"),
        ("topic LIKE 'o%'", lambda row: row["topic"].startswith("o")),
        ("topic = 'nowhere'", lambda _: False),
    ],
    ids=["equal", "in", "unequal", "or", "null", "text", "like", "nowhere"],
)
def test_filters_select_what_they_say(where: str, kept: Any) -> None:
    every = _asked("--logs", BROKER, "SELECT * FROM batches")
    selected = _asked("--logs", BROKER, f"SELECT * FROM batches WHERE {where}")  # noqa: S608  # as above
    assert selected == [row for row in every if kept(row)]
    (counted,) = _asked("--logs", BROKER, f"SELECT count(*) AS n FROM batches WHERE {where}")  # noqa: S608
    assert counted["n"] == len(selected)


def test_partitions_that_a_filter_excludes_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for topic in ("read", "unread"):
        forge(tmp_path, "plain @0-4", topic=topic)
    opened: list[str] = []

    def recording(path: str) -> Any:
        opened.append(path)
        return open_source(path)

    monkeypatch.setattr("kforensics.analyses.read_files.open_source", recording)
    assert _asked("--logs", tmp_path, "SELECT sum(count) AS n FROM batches WHERE topic = 'read'") == [{"n": 5}]
    assert [Path(path).parent.name for path in opened] == ["read-0"]


@pytest.mark.parametrize("name", ["text", "table", "json", "ndjson", "csv", "csv-safe", "parquet", "arrow"])
def test_every_format_has_every_type(name: str) -> None:
    (total,) = (row["n"] for row in _asked("--logs", BROKER, 'SELECT sum("offset") AS n FROM records'))
    ended = run("query", "--format", name, "--logs", BROKER, EVERY_TYPE)
    assert (ended.code, ended.err) == (0, "")
    if name in ("text", "table"):
        assert all(word in ended.text for word in ('a,"=1', "2026-11-21T12:00:00", str(total), "[1,2]"))
        return
    (row,) = _rows(ended, name)
    if name in ("json", "ndjson"):
        row.pop("table", None)
        assert row == {**EVERY_VALUE, "total": total}
    elif name in ("csv", "csv-safe"):
        assert [*row] == [*[*EVERY_VALUE][:6], "total", *[*EVERY_VALUE][6:]]
        assert (row["text"], row["total"], row["list"]) == ('a,"=1', str(total), "[1,2]")
    else:
        assert (row["number"], int(row["total"]), row["moment"].hour, row["list"]) == (1, total, 12, [1, 2])


def _rows(ended: Ended, name: str) -> list[dict[str, Any]]:
    if name == "json":
        return json.loads(ended.text)["tables"]["result"]  # type: ignore[no-any-return]  # it is JSON
    if name == "ndjson":
        return ended.objects
    if name in ("csv", "csv-safe"):
        return [*csv.DictReader(io.StringIO(ended.text), strict=True)]
    reader = pa.BufferReader(ended.out)
    table = pq.read_table(reader) if name == "parquet" else pa.ipc.open_stream(reader).read_all()
    return table.to_pylist()  # type: ignore[no-any-return]  # pyarrow ships no types


@pytest.mark.parametrize("name", ["text", "table", "json", "ndjson", "csv", "csv-safe", "parquet", "arrow"])
def test_a_result_without_rows_has_its_columns(name: str) -> None:
    ended = run("query", "--format", name, "--logs", BROKER, 'SELECT path, size AS "a,b" FROM batches WHERE false')
    assert (ended.code, ended.err) == (0, "")
    if name in ("parquet", "arrow"):
        reader = pa.BufferReader(ended.out)
        table = pq.read_table(reader) if name == "parquet" else pa.ipc.open_stream(reader).read_all()
        assert (table.column_names, table.num_rows) == (["path", "a,b"], 0)
    elif name.startswith("csv"):
        assert ended.text == 'path,"a,b"\r\n'
    else:
        assert ended.out or name == "ndjson"


def test_columns_of_the_same_name_are_told_apart() -> None:
    assert _asked("--logs", BROKER, "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a") == [
        {"a": 1, "a_2": 2, "a_2_2": 3, "a_3": 4}
    ]


def test_a_path_alone_and_a_timestamp_that_is_text_can_be_shown() -> None:
    assert run("query", "--format", "table", "--logs", BROKER, "SELECT path FROM files LIMIT 2").code == 0
    ended = run("query", "--format", "json", "--logs", BROKER, "SELECT 'now' AS timestamp")
    assert json.loads(ended.text)["tables"] == {"result": [{"timestamp": "now"}]}


def test_the_output_is_a_file(tmp_path: Path) -> None:
    ended = run("query", "-o", tmp_path / "n.csv", "--format", "csv", "--logs", BROKER, "SELECT 1 AS n")
    assert (ended.code, ended.out) == (0, b"")
    assert (tmp_path / "n.csv").read_bytes() == b"n\r\n1\r\n"


def test_a_limit_ends_the_rows_and_the_reading() -> None:
    assert _asked("--limit", 2, "--logs", BROKER, 'SELECT "offset" FROM records') == [{"offset": 0}, {"offset": 1}]
    assert _asked("--limit", 0, "--logs", BROKER, "FROM batches") == []
    began = time.monotonic()
    assert len(_asked("--limit", 1, "--logs", BROKER, "SELECT * FROM range(1000000000000)")) == 1
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT * FROM bathces", "there is no table bathces; did you mean batches?"),
        ("SELECT * FROM xyz", "there is no table xyz; the tables are batches, checkpoints, damage,"),
        ("SELECT * FROM findings", "run kforensics audit --output STORE, and query the store"),
        ("SELECT sise FROM batches", "there is no column sise; did you mean"),
        ("SELECT 1 FROM records JOIN batches USING (offset)", 'write the column in double quotes: "offset"'),
        ("SELEC 1", "the SQL has a syntax error near 'SELEC'; correct it there"),
        ("SELECT 'x'::INT", "the SQL cannot be evaluated: Could not convert"),
        ("", "there is no SQL with a result"),
        ("/* nothing */", "there is no SQL with a result"),
    ],
)
def test_a_mistake_is_one_sentence(sql: str, hint: str) -> None:
    for output_format in ("text", "json"):
        assert hint in sentence(run("query", "--format", output_format, "--logs", BROKER, sql))


@pytest.mark.parametrize(
    "sql",
    [
        "COPY batches TO '{}/x.csv'",
        "COPY (SELECT 1) TO '{}/x.parquet'",
        "ATTACH '{}/x.db'",
        "EXPORT DATABASE '{}/x'",
        "SELECT * FROM read_csv('/etc/hosts')",
        "SELECT * FROM read_text('{}/*')",
        "SELECT * FROM glob('{}/*')",
        "SET enable_external_access=true",
        "SET temp_directory='{}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM '/etc/hosts'",
        "SELECT * FROM session",
    ],
)
def test_sql_writes_no_file_and_reads_no_other(sql: str, tmp_path: Path) -> None:
    sentence(run("query", "--logs", BROKER, sql.format(tmp_path)))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((), "name the folder that audit --output has written, or --logs PATH"),
        (("a", "SELECT", "1"), "what is '1'? Put all of the SQL in quotes"),
        (("--logs", BROKER, "SELECT", "1"), "what is '1'?"),
        ((BROKER, "SELECT 1"), "is not an evidence store"),
        (("--logs", BROKER, "--topic", "opn", "SELECT 1"), "did you mean open?"),
        (("--logs", BROKER, "--format", "xml", "SELECT 1"), "--format 'xml' is not one of"),
        (("--logs", BROKER, "-o", BROKER / "open-0" / "x.csv", "SELECT 1"), "--output"),
    ],
    ids=str,
)
def test_what_cannot_be_asked(words: tuple[object, ...], hint: str) -> None:
    assert hint in sentence(run("query", *words))


@pytest.mark.parametrize(
    "option", [("--topic", "open"), ("--partition", "0"), AS_OF, ("--alone",), ("--set", "a=b")], ids=str
)
def test_a_store_is_evaluated_already(option: tuple[str, ...], store: Path) -> None:
    assert f"{option[0]} is for --logs" in sentence(run("query", *option, store, "SELECT 1"))


def test_logs_that_are_not_there_are_reported_and_the_others_count() -> None:
    ended = run("query", "--logs", "/no/such/folder", "--logs", BROKER, "SELECT count(*) > 0 AS some FROM batches")
    assert (ended.code, ended.lines) == (3, ["some", "true"])
    assert ended.err == "cannot read /no/such/folder: there is no such file\n"


def test_topics_and_partitions_select_files() -> None:
    words = ("--topic", "open", "--partition", "0", "--logs", BROKER)
    assert _asked(*words, "SELECT DISTINCT topic FROM batches") == [{"topic": "open"}]
    assert _asked(*words, "SELECT DISTINCT topic FROM transactions") == [{"topic": "open"}]


@pytest.mark.parametrize("sample", sorted(DAMAGED.iterdir()), ids=lambda path: path.name)
def test_damage_ends_no_query(sample: Path) -> None:
    sql = "SELECT (SELECT count(*) FROM records) AS records, (SELECT count(*) FROM damage) AS damage"
    ended = run("query", "--format", "ndjson", "--logs", sample, sql)
    assert ended.code in (0, 3)
    assert "Traceback" not in ended.err
    opened = kforensics.open(sample)
    assert ended.objects[0]["records"] == len(opened.records.to_arrow())
    assert ended.objects[0]["damage"] == len(opened.damage.to_arrow())


def test_a_damaged_store_is_an_input_that_cannot_be_read(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    (copy / "findings" / "part-0.parquet").write_bytes(b"PAR1 damaged PAR1")
    assert run("query", copy, "SELECT count(*) FROM transactions").code == 0
    ended = run("query", copy, "SELECT code FROM findings")
    assert (ended.code, ended.out) == (3, b"")
    assert ended.err.startswith("kforensics: cannot read ")
    assert len(ended.err.splitlines()) == 1


def _process(*words: object, stdin: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "kforensics", "query", *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60, cwd=ROOT, **options)


def test_sql_comes_from_standard_input_and_a_process_says_nothing_else(store: Path) -> None:
    done = _process(store, stdin=b"CREATE TABLE t AS SELECT 4 AS a; SELECT a + 1 AS b FROM t;\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"b\n5\n", b"")
    done = _process("--logs", BROKER, stdin=b"SELECT nothing FROM batches")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, b"", 1)


def test_no_other_command_imports_duckdb() -> None:
    script = "import sys; from kforensics.cli import main\ntry: main()\nfinally: print('duckdb' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, "lso", "-q", str(BROKER / "open-0")],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == b"False"


def test_the_function_says_what_it_needs(store: Path) -> None:
    assert kforensics.query("SELECT 1 AS a", store=store).to_pylist() == [{"a": 1}]
    with pytest.raises(UsageError, match="give one of them"):
        kforensics.query("SELECT 1")
    with pytest.raises(UsageError, match="leave out topic"):
        kforensics.query("SELECT 1", store=store, topic="open")
    with pytest.raises(UsageError, match="no result"):
        kforensics.query("", store=store)
    with pytest.raises(InputError, match="no such file"):
        kforensics.query("SELECT 1", logs="/no/such/folder")


def test_without_duckdb_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("kforensics.sql")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    ended = run("query", "--logs", BROKER, "SELECT 1")
    assert (ended.code, ended.out) == (1, b"")
    assert ended.err.startswith("kforensics: duckdb is not installed. Install it with: ")
    assert issubclass(MissingExtraError, ImportError)
