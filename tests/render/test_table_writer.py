"""Pages of aligned text, compared line by line."""

import io

from kforensics.parsers.tables.schemas import TABLES, Column, Table
from kforensics.render.table_writer import TableWriter

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
