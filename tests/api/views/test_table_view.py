"""Tables that are read when they are looked at."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from kforensics.api.views.table_view import CHEAP, TableSource, TableView
from kforensics.parsers.tables.schemas import Table, columns
from tests.api.views.page import HOSTILE, assert_harmless

STATEMENT = Table("things", "thing", columns("offset int64 where it is\nname string how it is called"))


class Counted:
    """Rows that note how often, and how many of them, somebody has asked for."""

    def __init__(self, names: list[str | None]) -> None:
        self.table = pa.table({"offset": range(len(names)), "name": pa.array(names, pa.string())})
        self.asked: list[int | None] = []

    def first(self, count: int) -> pa.Table:
        """Give the first rows."""
        self.asked.append(count)
        return self.table.slice(0, count)

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Give all rows."""
        self.asked.append(None)
        return iter(self.table.to_batches(max_chunksize=2))

    def view(self, size: int = 0) -> TableView:
        """Return a view of the rows, which stand for so many bytes."""
        return TableView(STATEMENT, TableSource(self.first, self.stream, size))


def test_nothing_is_read_before_it_is_looked_at() -> None:
    rows = Counted(["a"])
    rows.view()
    assert rows.asked == []


def test_the_first_rows_need_no_others() -> None:
    rows = Counted(["a"] * 30)
    view = rows.view(CHEAP + 1)
    assert (view.head(3).num_rows, view[4]["offset"], bool(view)) == (3, 4, True)
    assert repr(view).startswith("things: 10 rows or more, a row per thing; the first 10, and len() counts them all\n")
    assert None not in rows.asked


def test_rows_are_counted_where_that_costs_little() -> None:
    assert repr(Counted(["a"] * 30).view(CHEAP)).startswith("things: 30 rows, a row per thing; the first 10\n")
    counted = Counted(["a"] * 30)
    view = counted.view(CHEAP + 1)
    assert [len(view), len(view)] == [30, 30]
    assert counted.asked == [None]
    assert repr(view).startswith("things: 30 rows")


def test_all_of_it_comes_in_every_form() -> None:
    rows = Counted(["a", None, "c"])
    view = rows.view()
    assert view.to_arrow().equals(rows.table)
    assert view.to_pandas()["name"].tolist() == ["a", None, "c"]
    assert pa.table(view).equals(rows.table)
    assert [*view] == rows.table.to_pylist()
    assert len(view) == 3
    assert view.columns == {"offset": "where it is", "name": "how it is called"}
    assert rows.asked == [None, 0]  # all of it once, and its schema


@pytest.mark.parametrize(("index", "offset"), [(0, 0), (29, 29), (-1, 29), (-30, 0)])
def test_a_row_has_a_number(index: int, offset: int) -> None:
    assert Counted(["a"] * 30).view()[index]["offset"] == offset


def test_a_row_far_behind_is_found_too() -> None:
    assert Counted(["a"] * 1500).view()[1200]["offset"] == 1200


@pytest.mark.parametrize("index", [30, -31])
def test_a_row_that_is_not_there_is_an_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"no row {index}"):
        Counted(["a"] * 30).view()[index]


def test_a_slice_is_no_row() -> None:
    with pytest.raises(TypeError, match="head"):
        Counted(["a"]).view()[:1]  # type: ignore[index]  # that is what is tried


def test_plain_text_is_in_columns_and_leaves_empty_ones_out() -> None:
    shown = repr(Counted(["a", "long"]).view())
    assert shown.split("\n") == ["things: 2 rows, a row per thing", "offset  name", "0       a", "1       long"]
    shown = repr(Counted([None]).view())
    assert shown.split("\n") == ["things: 1 row, a row per thing", "offset", "0", "null in all of these rows: name"]
    assert repr(Counted([]).view()) == "things: 0 rows, a row per thing"
    assert not Counted([]).view()


def test_html_says_what_columns_mean() -> None:
    found = assert_harmless(Counted(["a"] * 11).view()._repr_html_())
    assert found.elements.count("tr") == 11
    assert ("th", "title", "how it is called") in found.attributes
    assert "11 rows" in found.text
    assert assert_harmless(Counted([]).view()._repr_html_()).elements == ["div", "p", "b"]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_values_stay_text(text: str) -> None:
    view = Counted([text]).view()
    calm = assert_harmless(Counted(["x"]).view()._repr_html_())
    assert assert_harmless(view._repr_html_()).elements == calm.elements
    assert all(line.isprintable() for line in repr(view).split("\n"))
