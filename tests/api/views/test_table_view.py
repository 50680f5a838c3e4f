"""Views of tables, which are read on access."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kforensics.api.views.table_view import MAX_COUNTED_BYTES, TableSource, TableView, view_of
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
    with pytest.raises(ValueError, match="no negative number of rows"):
        view.head(-1)
    assert view.select(["offset"]).head(2)["offset"].to_pylist() == [0, 1]


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


def test_an_integer_of_numpy_is_an_index() -> None:
    view = Counted(["a", "b"]).view()
    first: Any = np.int64(0)
    assert (view[first], view[first - 1]) == (view[0], view[1])
    assert view.head(first + 1) == view.head(1)


def test_a_slice_is_refused() -> None:
    with pytest.raises(TypeError, match="head"):
        Counted(["a"]).view()[:1]  # type: ignore[index]  # the test


def test_text_has_columns_without_empty_ones() -> None:
    shown = repr(Counted(["a", "long"]).view())
    assert shown.split("\n") == ["things: 2 rows, one per thing", "  offset  name", "  0       a", "  1       long"]
    shown = repr(Counted([None]).view())
    assert shown.split("\n") == ["things: 1 row, one per thing", "  offset", "  0", "null in all of these rows: name"]
    assert repr(Counted([]).view()) == "things: 0 rows, one per thing"
    assert not Counted([]).view()


def test_text_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What all rows share is stated once, and columns that do not fit are named."""
    view = Counted(["a" * 60] * 11).view()
    monkeypatch.setenv("COLUMNS", "50")
    assert repr(view).split("\n") == [
        "things: 11 rows, one per thing; showing the first",
        "  10",
        "  in all of these rows: name",
        f"    {'a' * 60}",
        "  offset",
        *(f"  {offset}" for offset in range(10)),
    ]
    names: list[str | None] = [letter * 60 for letter in "abc"]
    assert repr(Counted(names).view()).split("\n")[1:] == [
        *["  offset", "  0", "  1", "  2"],
        "not shown for lack of width: name",
    ]
    monkeypatch.setenv("COLUMNS", "80")
    assert f"  2       {'c' * 60}" in repr(Counted(names).view())


LSO = Table("lso", "partition", parse_columns("topic string t\nlast_stable_offset int64 l\nhigh_watermark int64 h"))


def test_a_table_with_many_columns_shows_the_important_ones() -> None:
    view = view_of(LSO, pa.table({"topic": ["a", "b"], "last_stable_offset": [3, 4], "high_watermark": [5, 6]}))
    assert repr(view).split("\n")[1:] == [
        *["  topic  last_stable_offset", "  a      3", "  b      4"],
        "1 more column: .columns explains all, .select([…]) shows others",
    ]
    assert "high_watermark" not in assert_harmless(view._repr_html_()).texts
    selected = view.select(["high_watermark", "topic"])
    assert repr(selected).split("\n")[1:] == ["  high_watermark  topic", "  5               a", "  6               b"]
    assert {"high_watermark", "6"} <= set(assert_harmless(selected._repr_html_()).texts)
    assert selected.to_pylist() == [{"high_watermark": 5, "topic": "a"}, {"high_watermark": 6, "topic": "b"}]
    assert view.select("topic").column_names == view.select({"topic"}).column_names == ["topic"]
    with pytest.raises(KeyError, match=r"^there is no column 'watermark'; did you mean high_watermark\?$"):
        view.select(["watermark"])
    with pytest.raises(KeyError, match=r"^there is no column 'x'; there are topic, last_stable_offset, "):
        view.select("x")


STUCK = Table("lso", "partition", parse_columns("topic string t\nhidden_records int64 h"))
FINDINGS = Table("findings", "finding", parse_columns("code string c\nseverity string s"))


def test_what_is_stuck_or_worst_is_shown_first() -> None:
    """The order of the rows stays as it is."""
    hidden = [0] * 400 + [None, 3, 7]
    stuck = view_of(STUCK, pa.table({"topic": [f"t{index}" for index in range(403)], "hidden_records": hidden}))
    lines = repr(stuck).splitlines()
    assert lines[0] == "lso: 403 rows, one per partition; showing 10, stuck first"
    assert [line.split() for line in lines[2:5]] == [["t402", "7"], ["t401", "3"], ["t0", "0"]]
    assert (stuck[0]["topic"], len(lines)) == ("t0", 12)
    assert "t402" in assert_harmless(stuck._repr_html_()).texts
    severities = ["info"] * 10 + ["warning", "critical"]
    worst = view_of(FINDINGS, pa.table({"code": [*"abcdefghijkl"], "severity": severities}))
    assert [line.split()[0] for line in repr(worst).splitlines()[2:6]] == ["l", "k", "a", "b"]
    few = view_of(FINDINGS, pa.table({"code": ["a", "b"], "severity": ["info", "critical"]}))
    assert [line.split()[0] for line in repr(few).splitlines()[2:]] == ["a", "b"]


def test_a_view_does_what_an_arrow_table_does() -> None:
    view = Counted(["a", "b"]).view()
    table = view.to_arrow()
    assert (view["name"].to_pylist(), view.num_rows, view.schema.names) == (["a", "b"], 2, ["offset", "name"])
    assert view.filter(pc.field("offset") == 1).to_pylist() == [{"offset": 1, "name": "b"}]
    assert (view == table, table == view, view == Counted(["a"]).view(), view == 1) == (True, True, False, False)
    assert pickle.loads(pickle.dumps(view)) == table  # noqa: S301  # our own
    with pytest.raises(AttributeError, match="has no attribute 'rows'"):
        _ = view.rows
    with pytest.raises(KeyError):
        view["rows"]


TIMES = Table("times", "time", parse_columns("since int64 s\ntimestamp int64 t\nage_ms int64 a"))


def test_pandas_has_timestamps() -> None:
    """Milliseconds stay what they are in Arrow; what is no time, or none that pandas can print, is none."""
    table = pa.table({"since": [None, 0, 2**62], "timestamp": [1_795_263_300_123, -1, -(2**63)], "age_ms": [1, 2, 3]})
    view = view_of(TIMES, table)
    frame = view.to_pandas()
    assert [str(kind) for kind in frame.dtypes] == ["datetime64[ms, UTC]", "datetime64[ms, UTC]", "int64"]
    assert frame["timestamp"][0].isoformat() == "2026-11-21T12:15:00.123000+00:00"
    assert frame["since"][1].isoformat() == "1970-01-01T00:00:00+00:00"
    assert frame[["since", "timestamp"]].isna().values.tolist() == [[True, False], [False, True], [True, True]]
    assert repr(frame)
    assert view.to_arrow() == table


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
