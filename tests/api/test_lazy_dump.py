"""``kforensics.dump``: tables with the documented schemas, which are read when they are first used."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kforensics
from kforensics.errors import InputError, InputMissingError, UsageError
from kforensics.parsers.tables.schemas import TABLES, arrow_schema
from tests.command import CLASSIC, DAMAGED, SAMPLES, dump, run

pytestmark = pytest.mark.slow

BROKER = SAMPLES / "transactions-v2" / "broker-1"
NAMES = [name for name in TABLES if name != "files"]


@pytest.fixture(scope="module")
def every() -> kforensics.Dump:
    """Return a dump of all samples."""
    return kforensics.dump(SAMPLES)


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_the_stated_schemas_and_rows(every: kforensics.Dump, name: str) -> None:
    table = every.table(name)
    assert table.schema == arrow_schema(name)
    assert table.num_rows > 0
    table.validate(full=True)


@pytest.mark.parametrize("name", TABLES)
def test_a_dump_of_nothing_has_tables_too(name: str, tmp_path: Path) -> None:
    table = kforensics.dump(tmp_path).table(name)
    assert (table.schema, table.num_rows) == (arrow_schema(name), 0)


def test_the_command_and_the_function_have_the_same_rows(every: kforensics.Dump) -> None:
    tables = json.loads(dump("--quiet", "--format", "json", SAMPLES).text)["tables"]
    for name, rows in tables.items():
        if name != "damage":
            columns = every.table(name).column_names
            expected = [{column: row[column] for column in columns} for row in rows]
            assert [_plain(row) for row in every.table(name).to_pylist()] == expected
    damage = dump("--quiet", "--format", "ndjson", "--damage", SAMPLES).objects
    found = {json.dumps(row, sort_keys=True) for row in every.damage.to_pylist()}
    assert found == {json.dumps({**row, "table": 0}, sort_keys=True).replace(', "table": 0', "") for row in damage}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in row.items()}


def test_short_names_are_tables(every: kforensics.Dump) -> None:
    assert every.batches is every.table("batches")
    assert every.records is every.table("records")
    assert every.damage is every.table("damage")


def test_files_have_their_place() -> None:
    (found,) = kforensics.dump(CLASSIC).files
    assert (found.kind, found.topic, found.partition, found.broker_id) == ("log", "classic", 0, 1)
    assert kforensics.dump(CLASSIC).table("files").to_pylist()[0]["size"] == CLASSIC.stat().st_size


@pytest.mark.parametrize(
    "paths",
    [CLASSIC, str(CLASSIC), [CLASSIC], (str(CLASSIC),), f"{CLASSIC.parent}/*.log", CLASSIC.as_uri()],
    ids=["path", "text", "list", "tuple", "glob", "uri"],
)
def test_paths_come_in_every_form(paths: Any) -> None:
    assert kforensics.dump(paths).batches["base_offset"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("filters", "offsets"),
    [
        ({"offset": "0:1"}, [0]),
        ({"offset": "1"}, [1]),
        ({"control": True}, [1]),
        ({"control": False}, [0]),
        ({"transactional": False}, []),
        ({"producer_epoch": 1}, [1]),
        ({"producer_id": 0}, [0, 1]),
        ({"leader_epoch": 5}, []),
        ({"key": "^key$"}, [0]),
        ({"time": ":2000"}, []),
    ],
    ids=str,
)
def test_filters_are_those_of_the_command(filters: dict[str, Any], offsets: list[int]) -> None:
    assert kforensics.dump(CLASSIC, **filters).records["offset"].to_pylist() == offsets


@pytest.mark.parametrize(
    ("places", "folders"),
    [
        ({"topic": "hanging"}, ["hanging-0"]),
        ({"topic": ["hang*", "!*-resolved"]}, ["hanging-0"]),
        ({"topic": ["open", "epochs"], "partition": ["0-2", 4]}, ["epochs-0", "open-0"]),
        ({"topic": ["open", "epochs"], "partition": 0}, ["epochs-0", "open-0"]),
    ],
    ids=str,
)
def test_only_the_files_of_wanted_partitions_are_dumped(places: dict[str, Any], folders: list[str]) -> None:
    dump = kforensics.dump(BROKER, **places)
    assert sorted({Path(file.path).parent.name for file in dump.files}) == folders
    given = {name: each if isinstance(each, list) else [each] for name, each in places.items()}
    words = [f"--{name}={each}" for name in given for each in given[name]]
    rows = run("dump", "--format", "ndjson", "--batches", *words, BROKER).objects
    assert [row["path"] for row in rows] == dump.batches["path"].to_pylist()
    assert {Path(row["path"]).parent.name for row in rows} <= {*folders}


@pytest.mark.parametrize(
    ("places", "why"),
    [
        ({"topic": "hangin"}, "no topic 'hangin'; did you mean hanging?"),
        ({"topic": "hanging", "partition": 7}, "no partition is left by "),
        ({"partition": "7-"}, "partition '7-' is not a number or a range"),
    ],
    ids=str,
)
def test_a_partition_that_is_not_there_is_an_error(places: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        kforensics.dump(BROKER, **places)
    words = [f"--{name}={given}" for name, given in places.items()]
    ended = run("dump", *words, BROKER)
    assert (ended.code, ended.out) == (2, b"")
    assert why.removeprefix("partition ") in ended.err


def test_a_dump_lists_its_files() -> None:
    dump = kforensics.dump(BROKER, topic="hanging")
    title, *kinds, tables = repr(dump).splitlines()
    assert title.startswith(f"{len(dump.files)} files of 1 partition, ")
    assert ["log", "1"] in [line.split()[:2] for line in kinds]
    assert tables.startswith("tables: files, batches, ")
    assert f"<b>{title}</b>" in dump._repr_html_()


def test_damage_inside_records_is_in_the_table() -> None:
    found = kforensics.dump(DAMAGED / "records" / "record-length-long-0")
    assert found.batches.num_rows == 5
    assert [row["reason"] for row in found.damage.to_pylist()] == ["record-size"]


def test_the_decompressed_size_of_a_batch_is_limited() -> None:
    bomb = kforensics.dump(DAMAGED / "codecs" / "gzip-two-members-0", max_decompressed_bytes=10)
    assert "limit" in bomb.damage["reason"].to_pylist()


def test_a_log_with_an_unknown_name_is_read_as_a_log(tmp_path: Path) -> None:
    (tmp_path / "evidence.bin").write_bytes(CLASSIC.read_bytes())
    assert kforensics.dump(tmp_path).records.num_rows == 2


def test_an_unreadable_input_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.log: there is no such file") as raised:
        kforensics.dump([CLASSIC, tmp_path / "missing.log"])
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)  # noqa: S301  # our own
    gone = tmp_path / "gone.log"
    gone.write_bytes(b"")
    found = kforensics.dump(gone)
    gone.unlink()
    with pytest.raises(InputMissingError):
        _ = found.batches


@pytest.mark.parametrize("filters", [{"offset": "x"}, {"time": "x:"}, {"key": "("}], ids=str)
def test_an_invalid_filter_is_an_error(filters: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        kforensics.dump(CLASSIC, **filters)


def test_an_unknown_table_is_an_error() -> None:
    dump = kforensics.dump(CLASSIC)
    for read in (dump.table, lambda name: dump.first(name, 1), lambda name: [*dump.stream(name)]):
        with pytest.raises(KeyError, match=r"^there is no table 'xyz'; there are files, batches, records, "):
            read("xyz")


def test_the_public_names() -> None:
    assert kforensics.__all__ == sorted(kforensics.__all__)
    assert all(hasattr(kforensics, name) for name in kforensics.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'undump'"):
        _ = kforensics.undump
    assert isinstance(kforensics.dump(CLASSIC).batches, pa.Table)


@pytest.mark.parametrize(
    "code", ["import kforensics", "import kforensics; kforensics.__version__", "import kforensics.cli"], ids=str
)
def test_import_loads_nothing_heavy(code: str) -> None:
    script = (
        f"{code}; import sys; print(*sorted({{'pyarrow', 'numpy', 'pandas', 'numba', 'pyspark'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


def test_a_dump_of_a_small_file_loads_no_pyarrow() -> None:
    """On a broker host, text, JSON and CSV must not need the time that the import of Arrow takes."""
    script = (
        "import sys; sys.argv = ['kforensics', 'dump', '--format', 'csv', '--records', sys.argv[1]]\n"
        "from kforensics.cli import main\n"
        "heavy = {'pyarrow', 'numpy', 'pandas'}\n"
        "try:\n    main()\nfinally:\n    print(*sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, str(CLASSIC)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("scenario", ["damaged", "transactions-v2", "every-record", "legacy-2.7"])
def test_kernels_and_pure_python_return_the_same_tables(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reports the same damage, too."""
    tables, messages = [], []
    for choice in ("always", "never"):
        monkeypatch.setenv("KFORENSICS_KERNELS", choice)
        found = kforensics.dump(SAMPLES / scenario)
        tables.append([found.batches, found.records, found.damage])
        ended = dump("--records", "--format", "arrow", SAMPLES / scenario)
        tables[-1].append(pa.ipc.open_stream(ended.out).read_all())
        messages.append((ended.code, ended.err))
    assert messages[0] == messages[1]
    assert all(one.equals(other) for one, other in zip(*tables, strict=True))
    assert tables[0][1].equals(tables[0][3])
