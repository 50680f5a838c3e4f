"""Views of tables, which are read on access."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from kforensics.api.views.table_view import MAX_COUNTED_BYTES, TableSource, TableView
from kforensics.parsers.tables.schemas import Table, parse_columns
from tests.api.views.page import HOSTILE, assert_harmless

STATEMENT = Table("things", "thing", parse_columns("offset int64 where it is\nname string how it is called"))


class Counted:
    """Rows that log how many of them were requested."""

    def __init__(self, names: list[str | None]) -> None:
        self.table = pa.table({"offset": range(len(names)), "name": pa.array(names, pa.string())})
        self.asked: list[int | None] = []

    def first(self, count: int) -> pa.Table:
        """Return the first rows."""
        self.asked.append(count)
        return self.table.slice(0, count)

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        self.asked.append(None)
        return iter(self.table.to_batches(max_chunksize=2))

    def view(self, size: int = 0) -> TableView:
        """Return a view of the rows with a size in bytes."""
        return TableView(STATEMENT, TableSource(self.first, self.stream, size))


def test_nothing_is_read_before_access() -> None:
    rows = Counted(["a"])
    rows.view()
    assert rows.asked == []


def test_first_rows_are_read_alone() -> None:
    rows = Counted(["a"] * 30)
    view = rows.view(MAX_COUNTED_BYTES + 1)
    assert (view.head(3).num_rows, view[4]["offset"], bool(view)) == (3, 4, True)
    assert repr(view).startswith("things: 10 rows or more, one per thing; showing the first 10, len() counts all\n")
    assert None not in rows.asked


def test_rows_are_counted_only_if_it_is_cheap() -> None:
    assert repr(Counted(["a"] * 30).view(MAX_COUNTED_BYTES)).startswith(
        "things: 30 rows, one per thing; showing the first 10\n"
    )
    counted = Counted(["a"] * 30)
    view = counted.view(MAX_COUNTED_BYTES + 1)
    assert [len(view), len(view)] == [30, 30]
    assert counted.asked == [None]
    assert repr(view).startswith("things: 30 rows")


def test_all_rows_in_every_form() -> None:
    rows = Counted(["a", None, "c"])
    view = rows.view()
    assert view.to_arrow().equals(rows.table)
    assert view.to_pandas()["name"].tolist() == ["a", None, "c"]
    assert pa.table(view).equals(rows.table)
    assert [*view] == rows.table.to_pylist()
    assert len(view) == 3
    assert view.columns == {"offset": "where it is", "name": "how it is called"}
    assert rows.asked == [None, 0]  # all rows once, and the schema


@pytest.mark.parametrize(("index", "offset"), [(0, 0), (29, 29), (-1, 29), (-30, 0)])
def test_rows_have_indexes(index: int, offset: int) -> None:
    assert Counted(["a"] * 30).view()[index]["offset"] == offset


def test_a_row_far_from_the_start() -> None:
    assert Counted(["a"] * 1500).view()[1200]["offset"] == 1200


@pytest.mark.parametrize("index", [30, -31])
def test_a_missing_row_is_an_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"no row {index}"):
        Counted(["a"] * 30).view()[index]


def test_a_slice_is_refused() -> None:
    with pytest.raises(TypeError, match="head"):
        Counted(["a"]).view()[:1]  # type: ignore[index]  # the test


def test_text_has_columns_without_empty_ones() -> None:
    shown = repr(Counted(["a", "long"]).view())
    assert shown.split("\n") == ["things: 2 rows, one per thing", "offset  name", "0       a", "1       long"]
    shown = repr(Counted([None]).view())
    assert shown.split("\n") == ["things: 1 row, one per thing", "offset", "0", "null in all of these rows: name"]
    assert repr(Counted([]).view()) == "things: 0 rows, one per thing"
    assert not Counted([]).view()


def test_html_has_column_descriptions() -> None:
    html = assert_harmless(Counted(["a"] * 11).view()._repr_html_())
    assert html.elements.count("tr") == 11
    assert ("th", "title", "how it is called") in html.attributes
    assert "11 rows" in html.text
    assert assert_harmless(Counted([]).view()._repr_html_()).elements == ["div", "p", "b"]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_values_stay_text(text: str) -> None:
    view = Counted([text]).view()
    calm = assert_harmless(Counted(["x"]).view()._repr_html_())
    assert assert_harmless(view._repr_html_()).elements == calm.elements
    assert all(line.isprintable() for line in repr(view).split("\n"))
