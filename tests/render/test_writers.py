import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.errors import UsageError
from kforensics.parsers.tables.schemas import TABLES, Table, arrow_schema
from kforensics.render.formats import ONE_TABLE, Format
from kforensics.render.writers import open_writer
from tests.render.rows import as_text, rows_of

ROWS_FORMATS = [each for each in Format if each is not Format.TEXT]
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
every_format = pytest.mark.parametrize("wanted", ROWS_FORMATS, ids=str)


def written(wanted: Format, *tables: tuple[Table, list[tuple[Any, ...]]]) -> bytes:
    """Return what a writer makes of tables."""
    out = io.BytesIO()
    writer = open_writer(wanted, out)
    for table, rows in tables:
        writer.write(table, rows)
    writer.close()
    return out.getvalue()


def objects(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON has them."""
    return [dict(zip(table.names, map(as_text, row), strict=True)) for row in rows_of(table)]


@every_table
def test_csv_read_again_has_the_header_and_every_value(table: Table) -> None:
    text = written(Format.CSV, (table, rows_of(table))).decode()
    header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert tuple(header) == table.names
    assert rows == [[csv_text(as_text(value)) for value in row] for row in rows_of(table)]


def csv_text(value: Any) -> str:
    """Return the text of a field as the csv module reads it."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(
                {0x9B: "\\u009b", 0x202E: "\\u202e"}
            )
        case _:
            return str(value)


def test_csv_tells_null_from_empty() -> None:
    table = TABLES["properties"]
    row = (None, None, None, None, "path", "name", "")
    assert written(Format.CSV, (table, [row])).splitlines()[1] == b',,,,path,name,""'


@every_table
def test_json_read_again_is_what_was_written(table: Table) -> None:
    read = json.loads(written(Format.JSON, (table, rows_of(table))))
    assert read == {"schema": "kforensics/1", "tables": {table.name: objects(table)}}


@every_table
def test_ndjson_read_again_is_what_was_written(table: Table) -> None:
    lines = written(Format.NDJSON, (table, rows_of(table))).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [{"table": table.name, **row} for row in objects(table)]


@every_table
def test_parquet_and_arrow_read_again_are_what_was_written(table: Table) -> None:
    from_parquet = pq.read_table(io.BytesIO(written(Format.PARQUET, (table, rows_of(table)))))
    from_arrow = pa.ipc.open_stream(written(Format.ARROW, (table, rows_of(table)))).read_all()
    assert from_parquet.schema.remove_metadata() == from_arrow.schema == arrow_schema(table.name)
    assert from_parquet.equals(from_arrow)
    assert [tuple(row.values()) for row in from_arrow.to_pylist()] == rows_of(table)


@every_table
def test_table_shows_every_column_and_nothing_a_terminal_acts_on(table: Table) -> None:
    page = written(Format.TABLE, (table, rows_of(table))).decode()
    assert all(character.isprintable() for line in page.split("\n") for character in line)
    assert page.startswith(f"{table.name} ")
    heading = page.splitlines()[1].split()
    assert heading == [name for name in table.names if name != "log_dir"]


@every_format
@every_table
def test_a_table_without_rows_is_whole_too(wanted: Format, table: Table) -> None:
    content = written(wanted, (table, []))
    match wanted:
        case Format.TABLE:
            assert content == f"{table.name}: no rows\n".encode()
        case Format.JSON:
            assert json.loads(content)["tables"] == {table.name: []}
        case Format.NDJSON:
            assert content == b""
        case Format.CSV:
            assert content.decode() == ",".join(table.names) + "\r\n"
        case Format.PARQUET:
            assert pq.read_table(io.BytesIO(content)).schema.remove_metadata() == arrow_schema(table.name)
        case _:
            assert pa.ipc.open_stream(content).read_all().schema == arrow_schema(table.name)


@pytest.mark.parametrize("wanted", ONE_TABLE, ids=str)
def test_a_second_table_does_not_fit_and_the_sentence_says_what_to_do(wanted: Format) -> None:
    tables = [TABLES["batches"], TABLES["properties"]]
    with pytest.raises(UsageError, match=r"rows of batches and properties do not fit .* --format json or ndjson"):
        written(wanted, *((table, rows_of(table)) for table in tables))


@pytest.mark.parametrize("wanted", ONE_TABLE, ids=str)
def test_an_empty_second_table_is_nothing_to_complain_about(wanted: Format) -> None:
    first = (TABLES["batches"], rows_of(TABLES["batches"]))
    assert written(wanted, first, (TABLES["damage"], [])) == written(wanted, first)


def test_several_tables_in_one_document() -> None:
    pairs = [(table, rows_of(table)) for table in TABLES.values()]
    read = json.loads(written(Format.JSON, *pairs))["tables"]
    assert list(read) == list(TABLES)
    assert all(read[table.name] == objects(table) for table in TABLES.values())


def test_json_stays_json_around_what_no_utf8_can_hold() -> None:
    """File names that are no UTF-8 come from the system with lone surrogates."""
    name = b"t-0/\xff.log".decode(errors="surrogateescape")
    row = (None, None, None, None, name, "", "")
    for wanted in (Format.JSON, Format.NDJSON):
        content = written(wanted, (TABLES["properties"], [row]))
        assert json.loads(f"[{content.decode()}]")
        assert b"\\udcff" in content


@pytest.mark.parametrize("wanted", [Format.CSV, Format.TABLE, Format.PARQUET, Format.ARROW], ids=str)
def test_names_that_are_no_utf8_do_not_end_the_run(wanted: Format) -> None:
    name = b"t-0/\xff.log".decode(errors="surrogateescape")
    row = (None, None, None, None, name, "a", "b")
    assert b"dcff" in written(wanted, (TABLES["properties"], [row]))


def test_rows_are_streamed() -> None:
    """A writer takes rows as they come, so that a dump of any size fits into memory."""
    taken = 0
    table = TABLES["batches"]
    row = rows_of(table)[0]

    def rows() -> Any:
        nonlocal taken
        for _ in range(20_000):
            taken += 1
            yield row

    class Watcher(io.BytesIO):
        first = 0

        def write(self, data: Any) -> int:
            self.first = self.first or taken
            return super().write(data)

    for wanted in ROWS_FORMATS:
        if wanted is Format.PARQUET:
            continue  # a row group is one chunk; pyarrow writes behind it
        taken, out = 0, Watcher()
        open_writer(wanted, out).write(table, rows())
        assert taken == 20_000
        assert out.first < 10_000


def test_text_is_no_format_of_rows() -> None:
    with pytest.raises(UsageError, match="choose one of table, json, ndjson, csv, parquet, arrow"):
        open_writer(Format.TEXT, io.BytesIO())
