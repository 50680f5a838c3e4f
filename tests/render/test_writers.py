import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kforensics.errors import UsageError
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.tables.arrow import table_of_parts
from kforensics.parsers.tables.schemas import TABLES, Column, Table, arrow_schema
from kforensics.render.formats import ONE_TABLE, Format, time_names
from kforensics.render.table_writer import TableWriter
from kforensics.render.writers import ColumnWriter, open_writer
from tests.render.rows import as_text, rows_of

ROWS_FORMATS = [each for each in Format if each is not Format.TEXT]
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
every_format = pytest.mark.parametrize("output_format", ROWS_FORMATS, ids=str)


def written(output_format: Format, *tables: tuple[Table, list[tuple[Any, ...]]]) -> bytes:
    """Return tables in a format."""
    out = io.BytesIO()
    writer = open_writer(output_format, out)
    for table, rows in tables:
        writer.write(table, rows)
    writer.close()
    return out.getvalue()


def objects(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as JSON objects."""
    return [dict(zip(table.names, map(as_text, row), strict=True)) for row in rows_of(table)]


@every_table
def test_csv_round_trip(table: Table) -> None:
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


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    '"=1',
    "\uff1d1",
    "\u2003-0",
    "\xa0=1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_safe_csv_has_no_cell_that_a_spreadsheet_runs(text: str) -> None:
    """Text keeps its characters after an apostrophe; other text and numbers are as in plain CSV."""
    table = TABLES["properties"]
    row = (-1, None, None, None, "path", text, text.encode())
    (plain,), (safe,) = (
        list(csv.reader(io.StringIO(written(format_, (table, [row])).decode(), newline=""), strict=True))[1:]
        for format_ in (Format.CSV, Format.CSV_SAFE)
    )
    assert plain == ["-1", "", "", "", "path", text, text]
    assert safe == ["-1", "", "", "", "path", f"'{text}", f"'{text}"]


def test_csv_distinguishes_null_from_empty() -> None:
    table = TABLES["properties"]
    row = (None, None, None, None, "path", "name", "")
    assert written(Format.CSV, (table, [row])).splitlines()[1] == b',,,,path,name,""'


@every_table
def test_json_round_trip(table: Table) -> None:
    read = json.loads(written(Format.JSON, (table, rows_of(table))))
    times = {time: row.pop(time) for row in read["tables"][table.name] for time in time_names(table).values()}
    assert read == {"schema": "kforensics/1", "tables": {table.name: objects(table)}}
    assert {*times} == {*time_names(table).values()}


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_262_724_007, "2026-11-21T12:05:24.007Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, None),
        (-1, None),
        (None, None),
    ],
)
def test_times_in_a_document_are_text_too(milliseconds: int | None, text: str | None) -> None:
    table = TABLES["files"]
    row = tuple(milliseconds if name == "mtime_ms" else None for name in table.names)
    (read,) = json.loads(written(Format.JSON, (table, [row])))["tables"]["files"]
    assert (read["mtime_ms"], read["mtime"]) == (milliseconds, text)


def test_a_batch_without_rows_is_no_group_of_parquet() -> None:
    table = TABLES["files"]
    out = io.BytesIO()
    writer = open_writer(Format.PARQUET, out)
    assert isinstance(writer, ColumnWriter)
    empty = table_of_parts(table, [rows_of(table)]).to_batches()[0].slice(0, 0)
    writer.write_parts(table, [empty])
    writer.close()
    assert pq.read_table(io.BytesIO(out.getvalue())).num_rows == 0


@every_table
def test_ndjson_round_trip(table: Table) -> None:
    lines = written(Format.NDJSON, (table, rows_of(table))).decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [{"table": table.name, **row} for row in objects(table)]


@every_table
def test_parquet_and_arrow_round_trip(table: Table) -> None:
    from_parquet = pq.read_table(io.BytesIO(written(Format.PARQUET, (table, rows_of(table)))))
    from_arrow = pa.ipc.open_stream(written(Format.ARROW, (table, rows_of(table)))).read_all()
    assert from_parquet.schema.remove_metadata() == from_arrow.schema == arrow_schema(table.name)
    assert from_parquet.equals(from_arrow)
    assert [tuple(row.values()) for row in from_arrow.to_pylist()] == rows_of(table)


@every_table
def test_table_format_shows_every_column_and_is_printable(table: Table) -> None:
    page = written(Format.TABLE, (table, rows_of(table))).decode()
    assert all(character.isprintable() for line in page.split("\n") for character in line)
    assert page.startswith(f"{table.name} ")
    heading = page.splitlines()[1].split()
    assert heading == [name for name in table.names if name != "log_dir"]


@every_format
@every_table
def test_a_table_without_rows_is_valid(output_format: Format, table: Table) -> None:
    content = written(output_format, (table, []))
    match output_format:
        case Format.TABLE:
            assert content.decode().startswith(f"{table.name}: no rows")
        case Format.JSON:
            assert json.loads(content)["tables"] == {table.name: []}
        case Format.NDJSON:
            assert content == b""
        case Format.CSV | Format.CSV_SAFE:
            assert content.decode() == ",".join(table.names) + "\r\n"
        case Format.PARQUET:
            assert pq.read_table(io.BytesIO(content)).schema.remove_metadata() == arrow_schema(table.name)
        case _:
            assert pa.ipc.open_stream(content).read_all().schema == arrow_schema(table.name)


@pytest.mark.parametrize("output_format", ONE_TABLE, ids=str)
def test_a_second_table_is_refused_with_advice(output_format: Format) -> None:
    tables = [TABLES["batches"], TABLES["properties"]]
    with pytest.raises(UsageError, match=r"rows of batches and properties do not fit .* --format json or ndjson"):
        written(output_format, *((table, rows_of(table)) for table in tables))


@pytest.mark.parametrize("output_format", ONE_TABLE, ids=str)
def test_an_empty_second_table_is_ignored(output_format: Format) -> None:
    first = (TABLES["batches"], rows_of(TABLES["batches"]))
    assert written(output_format, first, (TABLES["damage"], [])) == written(output_format, first)


def test_several_tables_in_one_document() -> None:
    pairs = [(table, rows_of(table)) for table in TABLES.values()]
    read = json.loads(written(Format.JSON, *pairs))["tables"]
    assert list(read) == list(TABLES)
    for table in TABLES.values():
        rows = [{name: row[name] for name in table.names} for row in read[table.name]]
        assert rows == objects(table)


def test_json_is_valid_with_names_that_are_not_utf8() -> None:
    """Python represents file names that are not UTF-8 with lone surrogates."""
    name = b"t-0/\xff.log".decode(errors="surrogateescape")
    row = (None, None, None, None, name, "", "")
    for output_format in (Format.JSON, Format.NDJSON):
        content = written(output_format, (TABLES["properties"], [row]))
        assert json.loads(f"[{content.decode()}]")
        assert b"\\udcff" in content


@pytest.mark.parametrize("output_format", [Format.CSV, Format.TABLE, Format.PARQUET, Format.ARROW], ids=str)
def test_names_that_are_not_utf8_can_be_written(output_format: Format) -> None:
    name = b"t-0/\xff.log".decode(errors="surrogateescape")
    row = (None, None, None, None, name, "a", "b")
    assert b"dcff" in written(output_format, (TABLES["properties"], [row]))


def test_rows_are_streamed() -> None:
    """A writer consumes rows as it writes, so that a dump of any size fits into memory."""
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

    for output_format in ROWS_FORMATS:
        if output_format is Format.PARQUET:
            continue  # pyarrow writes a row group when it is complete
        taken, out = 0, Watcher()
        open_writer(output_format, out).write(table, rows())
        assert taken == 20_000
        assert out.first < 10_000


def test_text_is_not_a_format_for_rows() -> None:
    with pytest.raises(UsageError, match="choose one of table, json, ndjson, csv, csv-safe, parquet, arrow"):
        open_writer(Format.TEXT, io.BytesIO())


PLACES = (Column("broker_id", "int32", ""), Column("log_dir", "string", ""), Column("topic", "string", ""))
TABLE = Table(
    "things",
    "thing",
    (
        *PLACES,
        *(Column(*each, "") for each in (("path", "string"), ("size", "int32"), ("key", "binary"), ("note", "string"))),
    ),
)


def page(*rows: tuple[object, ...], table: Table = TABLE) -> list[str]:
    """Return the lines of a page."""
    out = io.BytesIO()
    TableWriter(out).write(table, rows)
    return out.getvalue().decode().splitlines()


def test_shared_values_are_above_the_rows() -> None:
    lines = page((1, "logs", "t", "logs/t-0/0.log", 5, b"a", None), (1, "logs", "t", "logs/t-0/0.log", 50, b"bc", None))
    assert lines == [
        "things of logs/t-0/0.log",
        "in all rows: broker_id 1, topic t",
        "size  key",
        "   5  a",
        "  50  bc",
    ]


def test_a_single_row_keeps_its_columns() -> None:
    assert page((1, "logs", "t", "logs/t-0/0.log", 5, b"a", "x")) == [
        "things of logs/t-0/0.log",
        "broker_id 1, topic t",
        "size  key  note",
        "   5  a    x",
    ]


def test_the_shared_folder_of_paths_is_in_the_heading() -> None:
    lines = page(
        (None, "s3://b", "t", "s3://b/t-0/0.log", 1, None, None),
        (None, "s3://b", "u", "s3://b/t-01/0.log", 1, None, None),
    )
    assert lines == [
        "things under s3://b/",
        "in all rows: size 1",
        "topic  path",
        "t      t-0/0.log",
        "u      t-01/0.log",
    ]


def test_a_column_that_is_null_in_some_rows_stays() -> None:
    lines = page((None, "l", "t", "p", 1, b"a", None), (None, "l", "t", "p", 2, b"a", "x"))
    assert lines[2:] == ["size  note", "   1", "   2  x"]


def test_long_cells_are_truncated() -> None:
    lines = page((None, "l", None, "p", 1, b"k" * 500, None), (None, "l", None, "p", 2, b"", None))
    assert lines[2].split() == ["1", "k" * 79 + "…"]


def test_many_shared_values_are_wrapped() -> None:
    table = TABLES["batches"]
    row = tuple("p" if name == "path" else 0 for name in table.names)
    lines = page(row, (*row[:4], "q", *row[5:]), table=table)
    assert max(map(len, lines)) <= 118
    assert " ".join(lines).count(" 0") == len(table.names) - 2


def test_an_empty_line_separates_pages() -> None:
    out = io.BytesIO()
    writer = TableWriter(out)
    writer.write(TABLE, [(None, "l", None, "p", 1, None, None)])
    writer.write(TABLE, [])
    assert out.getvalue().decode().splitlines() == ["things of p", "size", "   1", "", "things: no rows"]


def test_a_long_table_has_a_heading_on_every_page() -> None:
    lines = page(*((None, "l", "t", "p", size, None, None) for size in range(1001)))
    assert [line for line in lines if line.startswith("things")] == ["things of p"] * 3


def test_a_table_of_lost_records_without_rows_does_not_say_that_nothing_was_lost() -> None:
    """A replica that has followed the new leader has truncated them; in the sample unclean-election it lost 16."""
    content = written(Format.TABLE, (RESULTS["lost_records"], [])).decode()
    assert "unclean-election-loss names their offsets" in " ".join(content.split())
